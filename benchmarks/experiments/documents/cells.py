"""Records of learning with labels as a frame: a row per run, with its series."""

from collections.abc import Iterable

import pandas as pd

from benchmarks.engine.pages import protocols
from benchmarks.engine.records import Record, frame
from benchmarks.experiments.documents import logistic
from benchmarks.readouts import READOUTS, in_order, label

#: Settings that make a series, and those along it or averaged over.
VARIANTS = ("weighted", "start", "slicer", "scale")
AXES = ("readout", "points", "references", "fold", "seed", *VARIANTS)
FOLD = ["fold", "seed"]
SIZE = ["points", "references"]


def on_test_parts(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """By protocol, the largest first."""
    tested = [r for r in records if r["config"]["evaluate"] == "test"]
    return protocols(tested, AXES)


def cells(records: list[Record]) -> pd.DataFrame:
    """In the order of the readouts; ``series`` is what is a line of a figure: a readout
    in one of its variants, which are named where they differ."""
    table = frame(records)
    own = table[table["readout"].map(_is_gswe)]
    differing = [name for name in VARIANTS if own[name].nunique() > 1]
    variants = [_variant(row, differing) for _, row in table.iterrows()]
    names = [name_of(readout) for readout in table["readout"]]
    table["series"] = [
        ", ".join([name, *variant])
        for name, variant in zip(names, variants, strict=True)
    ]
    table["num_variants"] = [len(variant) for variant in variants]
    # Logistic regression, which is no readout, stands first.
    order = [logistic.NAME, *in_order(set(table["readout"]) - {logistic.NAME})]
    table["place"] = table["readout"].map(order.index)
    return table.sort_values(["place", "series"], kind="stable")


def name_of(readout: str) -> str:
    return logistic.LABEL if readout == logistic.NAME else label(readout)


def is_level(readout: str) -> bool:
    """Whether it has no size: a level in the figures, not a line."""
    return readout == logistic.NAME or (
        readout in READOUTS and not READOUTS[readout].has_points
    )


def _is_gswe(readout: str) -> bool:
    return readout in READOUTS and READOUTS[readout].has_slicer


def _variant(run: pd.Series, differing: list[str]) -> list[str]:
    if not _is_gswe(run["readout"]):
        return []
    words = []
    for name in differing:
        if name == "weighted":
            words += ["word counts"] if run[name] else []
        else:
            words.append(f"{name} {run[name]}")
    return words


def same_for_gswe(table: pd.DataFrame) -> str:
    """The settings of GSWE that are no variants, as they are in all its runs."""
    own = table[table["readout"].map(_is_gswe)]
    fixed = [f"{k}={own[k].iloc[0]}" for k in VARIANTS if own[k].nunique() == 1]
    return f"; GSWE {', '.join(fixed)}" if fixed else ""


def by_points(table: pd.DataFrame) -> pd.DataFrame:
    """One reference (head, hidden set), of a growing number of elements."""
    return table[table["references"] == 1]


def by_references(table: pd.DataFrame) -> pd.DataFrame:
    """A growing number of references, of the elements at which that was varied."""
    fixed = table.loc[table["references"] > 1, "points"].unique()
    return table[table["points"].isin(fixed)]


def best(table: pd.DataFrame, series: str) -> pd.DataFrame:
    """The runs of the size with the highest mean, among those with the most folds."""
    own = table[table["series"] == series]
    if own.empty:
        return own
    sizes = own.groupby(SIZE, sort=False)["accuracy"].agg(["size", "mean"])
    points, references = max(sizes.index, key=lambda size: tuple(sizes.loc[size]))
    return own[(own["points"] == points) & (own["references"] == references)]


def per_fold(runs: pd.DataFrame) -> pd.Series:
    """The accuracy in each fold, the mean over sizes if there are several: only for
    folds that have all of them."""
    wide = runs.pivot_table(index=FOLD, columns=SIZE, values="accuracy")
    return wide.mean(axis=1, skipna=False)
