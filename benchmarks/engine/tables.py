"""Numbers over seeds or folds, and tables of them."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, NamedTuple

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


class Difference(NamedTuple):
    """The mean of paired differences, the half-width of its 95 % interval (Student's t,
    as there may be few), and how many pairs are better, equal and worse: a mean may
    come from a single one."""

    mean: float
    half: float | None
    better: int
    equal: int
    worse: int

    def __str__(self) -> str:
        width = "" if self.half is None else f" ± {self.half:.1f}"
        counts = f"({self.better}/{self.equal}/{self.worse})"
        return f"{self.mean:+.1f}{width} {counts}"

    def sign_test(self) -> float | None:
        """The p-value of as uneven a split among the pairs that differ, which is what
        counts where most do not; ``None`` for fewer than six."""
        from scipy.stats import binomtest

        pairs = self.better + self.worse
        return None if pairs < 6 else float(binomtest(self.better, pairs).pvalue)

    def verdict(self, margin: float = 0.0) -> str:
        """Whether the mean is above ``-margin``, as far as the interval tells, which
        two pairs do not."""
        if self.half is None or self.better + self.equal + self.worse < 3:
            return "open"
        if self.mean - self.half > -margin:
            return "holds"
        return "fails" if self.mean + self.half < -margin else "open"


def difference(
    ours: "pd.Series", theirs: "pd.Series", scale: float = 100.0
) -> Difference | None:
    """Seed by seed, or fold by fold (the index), in points; ``None`` without pairs."""
    from scipy.stats import sem, t

    found = (scale * (ours - theirs)).dropna()
    if found.empty:
        return None
    half = None
    if len(found) > 1:
        half = float(t.ppf(0.975, len(found) - 1) * sem(found))
    better, worse = int((found > 0).sum()), int((found < 0).sum())
    equal = len(found) - better - worse
    # Exact, where the mean of floats may fall to either side of a tie when rounded.
    return Difference(mean(found.tolist()), half, better, equal, worse)


def save(figure: "Figure", path: Path, **options: object) -> None:
    """Draws into a file that does not differ from run to run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None}, **options)
