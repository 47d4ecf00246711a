"""Records of learning with labels as a frame: a row per run, with its series."""

from collections.abc import Iterable

import pandas as pd

from benchmarks.engine.records import Record, frame
from benchmarks.experiments.documents import logistic
from benchmarks.experiments.documents.model import OWN_ARCHITECTURES
from benchmarks.experiments.documents.run import AUTHORS_SIZE, VARIANTS, Run
from benchmarks.readouts import READOUTS, in_order, label

SIZE = ["references", "points"]
AUTHORS = "as its authors train it"


def on_test_parts(records: Iterable[Record]) -> list[pd.DataFrame]:
    """What was trained alike: three folds or more first, then the most epochs.
    RepSet and ApproxRepSet as their authors train them stand beside all others."""
    tested = [r for r in records if r["config"]["evaluate"] == "test"]
    if not tested:
        return []
    table = cells(tested)
    is_beside = table["series"].str.endswith(AUTHORS)
    is_beside |= table["readout"] == logistic.NAME
    settings = ["epochs", "learning_rate", "batch_size"]
    alike = table[~is_beside] if not is_beside.all() else table
    beside = in_all_folds(table[is_beside]) if len(alike) < len(table) else table[:0]
    groups = [
        _sorted(pd.concat([in_all_folds(runs), beside]))
        for _, runs in alike.groupby(settings)
    ]
    return sorted(groups, key=lambda g: (g["fold"].nunique() < 3, -epochs(g)))


def epochs(table: pd.DataFrame) -> int:
    """Of what is trained alike."""
    is_beside = table["series"].str.endswith(AUTHORS)
    is_beside |= table["readout"] == logistic.NAME
    return table.loc[~is_beside, "epochs"].max() if not is_beside.all() else 0


def cells(records: Iterable[Record]) -> pd.DataFrame:
    """``series`` is a row of a table and a line of a figure: a readout in one of its
    variants."""
    table = frame(records, Run)
    table["series"] = [_series(run) for _, run in table.iterrows()]
    # Logistic regression, which is no readout, stands first.
    order = [logistic.NAME, *in_order(set(table["readout"]) - {logistic.NAME})]
    table["place"] = table["readout"].map(order.index)
    return _sorted(table)


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["place", "series", *SIZE], kind="stable")


def _series(run: pd.Series) -> str:
    name = run["readout"]
    words = [logistic.LABEL if name == logistic.NAME else label(name)]
    words += ["word counts"] if run["weighted"] else []
    words += [f"{v} {run[v]}" for v in VARIANTS if run[v] != getattr(Run, v)]
    if name in OWN_ARCHITECTURES and tuple(run[SIZE]) == AUTHORS_SIZE:
        words.append(AUTHORS)
    return ", ".join(words)


def in_all_folds(table: pd.DataFrame) -> pd.DataFrame:
    """The cells that have the most folds: a grid may be under way."""
    folds = table.groupby(["series", *SIZE])["fold"].transform("nunique")
    return table[folds == folds.max()]


def is_level(readout: str) -> bool:
    """Whether it has no size: a level in the figures, not a line."""
    return readout == logistic.NAME or (
        readout in READOUTS and not READOUTS[readout].has_points
    )


def by_fold(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracies, a row per fold and a column per size; the mean over seeds."""
    return runs.pivot_table(index="fold", columns=SIZE, values="accuracy")


def chosen(table: pd.DataFrame, series: str) -> tuple[pd.Series, tuple | None]:
    """The accuracy in each fold at the size that is best in the *other* folds, and the
    size that is taken most often."""
    wide = by_fold(table[table["series"] == series])
    if wide.empty:
        return pd.Series(dtype=float), None
    if wide.shape[1] == 1 or len(wide) == 1:
        size = wide.mean().idxmax()
        return wide[size], size
    sizes = {fold: wide.drop(index=fold).mean().idxmax() for fold in wide.index}
    values = {fold: wide.loc[fold, size] for fold, size in sizes.items()}
    return pd.Series(values), pd.Series(sizes).mode()[0]


def at_shared_sizes(table: pd.DataFrame, one: str, other: str) -> list[pd.Series]:
    """The accuracies of two series in each fold, averaged over the sizes of both."""
    both = [by_fold(table[table["series"] == series]) for series in (one, other)]
    shared = both[0].columns.intersection(both[1].columns)
    return [wide[shared].mean(axis=1, skipna=False) for wide in both]
