"""Records of the graph benchmark as a frame, and how scores are compared and shown."""

from collections.abc import Callable, Iterable
from statistics import mean, stdev

import pandas as pd

from benchmarks.engine.config import fill_added
from benchmarks.engine.pages import protocols
from benchmarks.engine.records import Record, frame
from benchmarks.experiments.graphs.data import METRICS
from benchmarks.experiments.graphs.run import Run
from benchmarks.readouts import in_order

METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}
AXES = ("dataset", "readout", "seed")
#: If a grid has several values, the one that is best on the validation part is taken,
#: for each readout and seed.
HYPER_PARAMETERS = ("learning_rate", "dropout", "points")


def largest_protocols(records: list[Record], more_axes: Iterable[str]) -> pd.DataFrame:
    """The most records of each data set that differ in nothing but some settings."""
    chosen: list[Record] = []
    for dataset in METRICS:
        own = [r for r in records if r["config"]["dataset"] == dataset]
        if own:
            chosen += protocols(own, (*AXES, *more_axes))[0][1]
    table = fill_added(frame(chosen), Run)
    table["id"] = [record["id"] for record in chosen]
    return table


def tested(records: list[Record]) -> list[Record]:
    return [r for r in records if r["config"]["evaluate"] == "test"]


def comparable(records: list[Record]) -> tuple[pd.DataFrame, int]:
    """A run for each data set, readout and seed, where all readouts have that seed;
    and how many records follow another protocol.

    Readouts tried on few data sets are left out: they would keep all others out.
    """
    table = largest_protocols(records, HYPER_PARAMETERS)
    left_out = len(records) - len(table)
    if table.empty:
        return table, left_out
    signs = table["dataset"].map(sign)
    table = table.assign(valid_sign=-signs * table["valid"])
    table = table.sort_values(["valid_sign", "id"], kind="stable")
    table = table.drop_duplicates(list(AXES))
    counts = table.groupby("readout")["dataset"].nunique()
    names = set(counts.index[2 * counts >= counts.max()])
    table = table[table["readout"].isin(names)]
    complete = table.groupby(["dataset", "seed"])["readout"].transform("nunique")
    return table[complete == len(names)], left_out


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
    datasets = [name for name in METRICS if name in set(table["dataset"])]
    return pd.Series(found).unstack().loc[datasets, in_order(set(table["readout"]))]


def goodness(dataset: str, values: Iterable[float]) -> float:
    """The mean score, as it is printed, so that what looks equal shares a rank."""
    if METRICS[dataset] == "rmse":
        return -round(mean(values), 3)
    return round(mean(values), 4)


def score(dataset: str, values: Iterable[float]) -> str:
    values = list(values)
    scale, digits = (1, 3) if METRICS[dataset] == "rmse" else (100, 2)
    text = f"{scale * mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {scale * stdev(values):.{digits}f}"
    return text


def title(dataset: str) -> str:
    return f"{dataset} ({METRIC_LABELS[METRICS[dataset]]})"


def average_ranks(scores: pd.DataFrame) -> pd.Series:
    """Of the columns, over the rows: 1 for the largest; a diverged one comes last."""
    return scores.rank(axis=1, ascending=False, na_option="bottom").mean()
