"""Tables and figures."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def markdown(table: "pd.DataFrame") -> str:
    """A Markdown table that is aligned in plain text, too: the columns as they are (the
    index is left out), the first to the left, all others to the right."""
    alignment = ("left", *["right"] * (len(table.columns) - 1))
    return (
        table.astype(object)
        .fillna("")
        .to_markdown(index=False, disable_numparse=True, colalign=alignment)
    )


def mean_and_deviation(values: Sequence[float], scale: float = 100.0) -> str:
    """``97.3 ± 1.2``, by default in per cent; the deviation is that of a sample."""
    values = list(values)
    middle = f"{scale * mean(values):.1f}"
    if len(values) == 1 or not all(map(isfinite, values)):  # some have diverged
        return middle
    return f"{middle} ± {scale * stdev(values):.1f}"


def save(figure: "Figure", path: Path, **options: object) -> None:
    """Draws into a file that does not differ from run to run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None}, **options)
