"""Which runs of the graph benchmark are compared, and how scores are shown."""

from collections.abc import Callable, Iterable
from statistics import mean, stdev

import pandas as pd

from benchmarks.engine.pages import protocols
from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells
from benchmarks.experiments.graphs.data import METRICS
from benchmarks.experiments.graphs.run import Run
from benchmarks.readouts import in_order

METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}
AXES = ("dataset", "readout", "seed")
#: What makes it another task. Of all other settings the values are taken that are best
#: on validation parts, for each data set and readout.
TASK = (
    *("evaluate", "with_size", "elements", "train_graphs", "attributes", "splits"),
    "log_degrees",
)
CHOSEN = [name for name in Run.__dataclass_fields__ if name not in (*AXES, *TASK)]


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
    table = frame(chosen, Run)
    if not table.empty:
        table["good"] = table["valid"] * table["dataset"].map(sign)
    return table


def comparable(records: list[Record]) -> pd.DataFrame:
    """A run for each data set, readout and seed, where all readouts of the data set
    have that seed; those with less than half of the seeds are left out. ``cell`` is
    what validation chose for the readout on the data set."""
    table = largest_protocols(records, CHOSEN)
    if table.empty:
        return table
    table = best_cells(table, ["dataset", "readout"], CHOSEN, "good")
    counts = table.groupby(["dataset", "readout"])["seed"].transform("nunique")
    table = table[2 * counts >= counts.groupby(table["dataset"]).transform("max")]
    names = table.groupby("dataset")["readout"].transform("nunique")
    complete = table.groupby(["dataset", "seed"])["readout"].transform("nunique")
    return table[(complete == names) & (names > 1)]


def sign(dataset: str) -> int:
    return -1 if METRICS[dataset] == "rmse" else 1


def wide(
    table: pd.DataFrame, metric: str, how: Callable[[str, pd.Series], object]
) -> pd.DataFrame:
    """``how(dataset, values)``, a row per data set and a column per readout."""
    found = {
        (dataset, readout): how(dataset, runs[metric])
        for (dataset, readout), runs in table.groupby(["dataset", "readout"])
    }
    datasets = [dataset for dataset in METRICS if dataset in set(table["dataset"])]
    return pd.Series(found).unstack().loc[datasets, in_order(set(table["readout"]))]


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
