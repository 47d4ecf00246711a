"""Paired differences with intervals, corrections, ranks, and choices by validation."""

import math
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest, studentized_range, t


class Difference(NamedTuple):
    """The mean of paired differences, the half-width of its 95 % interval (Student's t,
    as there may be few), and how many pairs are better, equal and worse: a mean may
    come from a single one."""

    mean: float
    half: float | None
    better: int
    equal: int
    worse: int
    p: float | None = None

    @property
    def pairs(self) -> int:
        return self.better + self.equal + self.worse

    def __str__(self) -> str:
        width = "" if self.half is None else f" ± {self.half:.1f}"
        counts = f"({self.better}/{self.equal}/{self.worse})"
        return f"{self.mean:+.1f}{width} {counts}"

    def sign_test(self) -> float | None:
        """The p-value of as uneven a split among the pairs that differ, which is what
        counts where most do not; ``None`` for fewer than six."""
        pairs = self.better + self.worse
        return None if pairs < 6 else float(binomtest(self.better, pairs).pvalue)

    def verdict(self, margin: float = 0.0) -> str:
        """Whether the mean is above ``-margin``, as far as the interval tells, which
        two pairs do not."""
        if self.half is None or self.pairs < 3:
            return "open"
        if self.mean - self.half > -margin:
            return "holds"
        return "fails" if self.mean + self.half < -margin else "open"

    def detectable(self) -> float:
        """What would be found, at the 5 % level, four times out of five."""
        level, power = t.ppf([0.975, 0.8], self.pairs - 1)
        return float(self.half * (1 + power / level))


def difference(
    ours: pd.Series, theirs: pd.Series, scale: float = 100.0, overlap: float = 0.0
) -> Difference | None:
    """Seed by seed, or fold by fold (the index), in points; ``None`` without pairs.

    ``overlap`` is the size of a test part relative to what it was trained on, if the
    folds share training data: their differences then vary less than those of new data
    would (Nadeau and Bengio, "Inference for the generalization error", 2003).
    """
    found = (scale * (ours - theirs)).dropna()
    count = len(found)
    if count == 0:
        return None
    # Exact, where the mean of floats may fall to either side of a tie when rounded.
    middle, half, p = mean(found.tolist()), None, None
    if count > 1:
        error = float(found.std()) * math.sqrt(1 / count + overlap)
        half = float(t.ppf(0.975, count - 1)) * error
        p = 2 * t.sf(abs(middle) / error, count - 1) if error > 0 else middle == 0
        p = float(p)
    better, worse = int((found > 0).sum()), int((found < 0).sum())
    return Difference(middle, half, better, count - better - worse, worse, p)


def holm(values: pd.Series) -> pd.Series:
    """P-values corrected for their number (Holm, 1979)."""
    in_order = values.sort_values(kind="stable")
    corrected = (in_order * np.arange(len(values), 0, -1)).cummax().clip(upper=1.0)
    return corrected.reindex(values.index)


def critical_difference(num_names: int, num_datasets: int) -> float:
    """Of average ranks at the 5 % level, by Nemenyi's test (Demšar, "Statistical
    comparisons of classifiers over multiple data sets", 2006, section 3.2.2)."""
    quantile = studentized_range.ppf(0.95, num_names, math.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(num_names * (num_names + 1) / (6 * num_datasets)))


def best_cells(
    table: pd.DataFrame, keys: list[str], settings: Sequence[str], score: str = "valid"
) -> pd.DataFrame:
    """Of each group of runs by ``keys``, those with the settings whose mean score is
    highest, over the seeds that were run with all of them; of equal ones, and without
    such seeds, those with the most runs. Settings with less than half of the seeds were
    tried, and do not count. ``cell`` says what was chosen, where there was a choice."""
    chosen = []
    for _, runs in table.groupby(keys, sort=False):
        varied = [name for name in settings if runs[name].nunique() > 1]
        texts = [name.replace("_", " ") + " " + runs[name].map(str) for name in varied]
        cell = pd.concat(texts, axis=1).agg(", ".join, axis=1) if texts else ""
        runs = runs.assign(cell=cell)
        scores = runs.pivot(index="seed", columns="cell", values=score)
        counts = scores.count().sort_values(ascending=False, kind="stable")
        most = counts.index[2 * counts >= counts.max()]
        means = scores[most].dropna().mean()
        best = most[0] if means.isna().all() else means.idxmax()
        chosen.append(runs[runs["cell"] == best])
    return pd.concat(chosen) if chosen else table.assign(cell="")


def most_frequent(values: pd.Series) -> object:
    """The first of equals."""
    return values.value_counts(sort=False).idxmax()
