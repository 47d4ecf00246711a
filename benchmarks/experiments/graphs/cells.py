"""Which runs of the graph benchmark are compared, and how scores are shown."""

from collections.abc import Callable, Iterable
from statistics import mean, stdev

import pandas as pd

from benchmarks.engine.config import fill_added
from benchmarks.engine.pages import protocols
from benchmarks.engine.records import Record, frame
from benchmarks.experiments.graphs.data import METRICS
from benchmarks.experiments.graphs.run import Run
from benchmarks.readouts import in_order, label

METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}
AXES = ("dataset", "readout", "seed", "extremes")
#: Of several values, the one that is best on validation parts is taken, for each data
#: set and readout.
HYPER_PARAMETERS = ("learning_rate", "dropout", "points")
PLAIN = " without extremes"


def of_tests(records: list[Record], **settings: object) -> list[Record]:
    """Those that were tested, and have the settings."""
    wanted = {"evaluate": "test", **settings}
    return [
        record
        for record in records
        if all(record["config"].get(k, False) == v for k, v in wanted.items())
    ]


def largest_protocols(records: list[Record], more_axes: Iterable[str]) -> pd.DataFrame:
    """The most records of each data set that differ in nothing but some settings."""
    chosen: list[Record] = []
    for dataset in METRICS:
        own = [r for r in records if r["config"]["dataset"] == dataset]
        if own:
            chosen += protocols(own, (*AXES, *more_axes))[0][1]
    table = fill_added(frame(chosen), Run)
    if not table.empty:
        plain = table["extremes"].eq(False).map({True: PLAIN, False: ""})
        table["contender"] = table["readout"] + plain
        table["good"] = table["valid"] * table["dataset"].map(sign)
    return table


def comparable(records: list[Record]) -> pd.DataFrame:
    """A run for each data set, contender and seed, where all contenders of the data set
    have that seed; those with less than half of the seeds are left out."""
    table = largest_protocols(records, HYPER_PARAMETERS)
    if table.empty:
        return table
    cells = table.groupby(["dataset", "contender"], sort=False)
    table = pd.concat([_best(runs) for _, runs in cells])
    counts = table.groupby(["dataset", "contender"])["seed"].transform("nunique")
    table = table[2 * counts >= counts.groupby(table["dataset"]).transform("max")]
    names = table.groupby("dataset")["contender"].transform("nunique")
    complete = table.groupby(["dataset", "seed"])["contender"].transform("nunique")
    return table[(complete == names) & (names > 1)]


def _best(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the settings whose mean validation score is best, over the seeds
    that were run with all of them."""
    keys = list(HYPER_PARAMETERS)
    scores = runs.pivot_table(index="seed", columns=keys, values="good")
    return runs[runs[keys].apply(tuple, axis=1) == scores.dropna().mean().idxmax()]


def sign(dataset: str) -> int:
    return -1 if METRICS[dataset] == "rmse" else 1


def name(contender: str) -> str:
    """In tables and figures."""
    readout = contender.removesuffix(PLAIN)
    return label(readout) + contender.removeprefix(readout)


def ordered(contenders: Iterable[str]) -> list[str]:
    order = in_order({c.removesuffix(PLAIN) for c in contenders})
    return sorted(contenders, key=lambda c: (order.index(c.removesuffix(PLAIN)), c))


def wide(
    table: pd.DataFrame, metric: str, how: Callable[[str, pd.Series], object]
) -> pd.DataFrame:
    """``how(dataset, values)``, a row per data set and a column per contender."""
    found = {
        (dataset, contender): how(dataset, runs[metric])
        for (dataset, contender), runs in table.groupby(["dataset", "contender"])
    }
    datasets = [dataset for dataset in METRICS if dataset in set(table["dataset"])]
    return pd.Series(found).unstack().loc[datasets, ordered(set(table["contender"]))]


def goodness(dataset: str, values: Iterable[float]) -> float:
    """The mean score, as it is printed, so that what looks equal shares a rank."""
    return sign(dataset) * round(mean(values), 3 if sign(dataset) < 0 else 4)


def score(dataset: str, values: Iterable[float]) -> str:
    values = list(values)
    scale, digits = (1, 3) if sign(dataset) < 0 else (100, 2)
    text = f"{scale * mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {scale * stdev(values):.{digits}f}"
    return text


def title(dataset: str) -> str:
    return f"{dataset} ({METRIC_LABELS[METRICS[dataset]]})"


def average_ranks(scores: pd.DataFrame) -> pd.Series:
    """Of the columns, over the rows: 1 for the largest; a diverged one comes last."""
    return scores.rank(axis=1, ascending=False, na_option="bottom").mean()
