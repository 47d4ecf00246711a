"""Which runs of the graph benchmark are compared, and how scores are shown."""

from collections.abc import Callable, Iterable

import pandas as pd

from benchmarks.engine.records import Record, frame
from benchmarks.engine.statistics import best_cells, most_frequent
from benchmarks.engine.tables import mean_and_deviation
from benchmarks.experiments.graphs.controls import NAMES
from benchmarks.experiments.graphs.data import FOLDS, METRICS, TU, score_sign
from benchmarks.experiments.graphs.run import Run
from benchmarks.readouts import by_readout

METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}
AXES = ["dataset", "readout", "seed"]
#: What makes it another task. Of all other settings the values are taken that are best
#: on validation parts, for each data set and readout.
TASK = ["evaluate", "with_size", "elements", "attributes", "splits", "log_degrees"]
CHOSEN = [name for name in Run.__dataclass_fields__ if name not in (*AXES, *TASK)]
MEASURED = ("test", "valid", "good", "train_loss", "epoch_seconds", "epoch_ratio")


def comparable(records: list[Record], with_size: bool) -> pd.DataFrame:
    """A run for each data set, readout and seed, where all readouts of the data set
    have that seed; those with less than half of the seeds are left out. ``cell`` is
    what validation chose for the readout on the data set. Controls come last."""
    table = frame(records, Run, "test")
    table = table[table["with_size"] == with_size]
    if table.empty:
        return table
    table = table.assign(epoch_ratio=_epoch_ratios(table))
    table = by_readout(table).sort_values(
        "dataset", key=lambda names: names.map(list(METRICS).index), kind="stable"
    )
    # The task that most runs of a data set have.
    task = pd.Series(map(str, table[TASK].to_numpy().tolist()), table.index)
    usual = task.groupby(table["dataset"]).transform(most_frequent)
    table = table[task == usual]
    table = table.assign(good=table["valid"] * table["dataset"].map(score_sign))
    table = best_cells(table, ["dataset", "readout"], CHOSEN, "good")
    is_control = table["readout"].isin(NAMES)
    rivals = _by_fold(_complete(table[~is_control]))
    keys = ["dataset", "seed"]
    controls = _by_fold(table[is_control])
    beside = controls.merge(rivals[keys].drop_duplicates(), on=keys)
    return pd.concat([rivals, beside], ignore_index=True)


def _complete(table: pd.DataFrame) -> pd.DataFrame:
    counts = table.groupby(["dataset", "readout"])["seed"].transform("nunique")
    table = table[2 * counts >= counts.groupby(table["dataset"]).transform("max")]
    names = table.groupby("dataset")["readout"].transform("nunique")
    complete = table.groupby(["dataset", "seed"])["readout"].transform("nunique")
    return table[(complete == names) & (names > 1)]


def _by_fold(table: pd.DataFrame) -> pd.DataFrame:
    """Networks that were trained on the same fold are one result: their mean."""
    is_fold = (table["splits"] == "public") & table["dataset"].isin(TU)
    seed = table["seed"].where(~is_fold, table["seed"] % FOLDS)
    how = {name: "mean" if name in MEASURED else "first" for name in table}
    groups = table.assign(seed=seed).groupby(AXES, sort=False, as_index=False)
    return groups.agg({name: how[name] for name in how if name not in AXES})


def _epoch_ratios(table: pd.DataFrame) -> pd.Series:
    """The time of an epoch in multiples of that with mean pooling, where both were run
    at the same commit: on other days, the machine may have been another one."""
    keys = ["dataset", "commit", "elements", "batch_size", "hidden", "layers"]
    keys += ["dropout"]
    table = table.reindex(columns=[*keys, "readout", "epoch_seconds"])
    means = table[table["readout"] == "mean"].groupby(keys, dropna=False)
    mean = means["epoch_seconds"].median()
    beside = mean.reindex(pd.MultiIndex.from_frame(table[keys]))
    return table["epoch_seconds"] / beside.to_numpy()


def overlap(dataset: str) -> float:
    """Folds are to speak of other graphs. Seeds of a fixed split share their training
    part as a matter of course: what they say is about this split."""
    return 1 / (FOLDS - 1) if dataset in TU else 0.0


def unit(dataset: str) -> tuple[int, int]:
    """The scale of a score in tables, and its digits."""
    return (1, 3) if METRICS[dataset] == "rmse" else (100, 2)


def score(dataset: str, values: Iterable[float]) -> str:
    return mean_and_deviation(values, *unit(dataset))


def title(dataset: str) -> str:
    return f"{dataset} ({METRIC_LABELS[METRICS[dataset]]})"


def wide(
    table: pd.DataFrame, metric: str, how: Callable[[str, pd.Series], object]
) -> pd.DataFrame:
    """``how(dataset, values)``, a row per data set and a column per readout."""
    found = {
        (dataset, readout): how(dataset, runs[metric])
        for (dataset, readout), runs in table.groupby(["dataset", "readout"])
    }
    columns = by_readout(table[["readout"]].drop_duplicates())["readout"]
    return pd.Series(found).unstack().loc[table["dataset"].unique(), columns]
