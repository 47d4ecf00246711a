"""Tables and figures."""

from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def markdown(table: "pd.DataFrame", index: str | list[str] | None = None) -> str:
    """A Markdown table that is aligned in plain text, too: the first column to the
    left, all others to the right. The index goes in front, if it is given a name."""
    if index is not None:
        table = table.rename_axis(index=index, columns=None).reset_index()
    alignment = ("left", *["right"] * (len(table.columns) - 1))
    return (
        table.astype(object)
        .fillna("")
        .to_markdown(index=False, disable_numparse=True, colalign=alignment)
    )


def mean_and_deviation(
    values: Iterable[float], scale: float = 100.0, digits: int = 1
) -> str:
    """``97.3 ± 1.2``, by default in per cent; the deviation is that of a sample."""
    values = list(values)
    middle = f"{scale * mean(values):.{digits}f}"
    if len(values) == 1 or not all(map(isfinite, values)):  # some have diverged
        return middle
    return f"{middle} ± {scale * stdev(values):.{digits}f}"


def cells(
    table: "pd.DataFrame", index: str | list[str], columns: str, values: str
) -> "pd.DataFrame":
    """Mean and deviation of the runs of each cell, in the order of the runs."""
    return table.pivot_table(
        values, index, columns, aggfunc=mean_and_deviation, sort=False
    )


def bold_best(texts: "pd.DataFrame", values: "pd.DataFrame") -> "pd.DataFrame":
    """Of each row, the cells with the highest value are bold."""
    is_best = values.eq(values.max(axis=1), axis=0)
    return texts.where(~is_best, "**" + texts + "**")


def save(figure: "Figure", path: Path, **options: object) -> None:
    """Draws into a file that does not differ from run to run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None}, **options)
