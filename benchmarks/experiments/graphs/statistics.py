"""Paired differences over folds or seeds, and ranks over data sets."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import studentized_range, t


class Effect(NamedTuple):
    """A mean of paired differences, the half-width of its 95 % interval, and the
    p-value of no difference."""

    mean: float
    half: float
    p: float


def paired(differences: Sequence[float], overlap: float = 0.0) -> Effect | None:
    """Student's t; ``None`` for less than three pairs.

    ``overlap`` is the size of a test part relative to what it was trained on, if the
    folds share training graphs: their differences then vary less than those of new
    data would (Nadeau and Bengio, "Inference for the generalization error", 2003).
    """
    count, middle = len(differences), float(np.mean(differences))
    if count < 3:
        return None
    error = _error(differences, overlap)
    p = 2 * t.sf(abs(middle) / error, count - 1) if error > 0 else float(middle == 0)
    return Effect(middle, float(t.ppf(0.975, count - 1)) * error, float(p))


def detectable(differences: Sequence[float], overlap: float = 0.0) -> float:
    """The difference that would be found, at the 5 % level, four times out of five."""
    quantiles = t.ppf([0.975, 0.8], len(differences) - 1)
    return float(quantiles.sum()) * _error(differences, overlap)


def _error(differences: Sequence[float], overlap: float) -> float:
    count = len(differences)
    return float(np.std(differences, ddof=1)) * math.sqrt(1 / count + overlap)


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm, 1979)."""
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    corrected = np.maximum.accumulate(np.asarray(values)[order] * factors)
    return np.minimum(corrected, 1.0)[np.argsort(order, kind="stable")].tolist()


def critical_difference(
    num_names: int, num_datasets: int, level: float = 0.05
) -> float:
    """Of average ranks, by Nemenyi's test (Demšar, "Statistical comparisons of
    classifiers over multiple data sets", 2006, section 3.2.2)."""
    quantile = studentized_range.ppf(1 - level, num_names, math.inf) / math.sqrt(2)
    spread = math.sqrt(num_names * (num_names + 1) / (6 * num_datasets))
    return float(quantile * spread)
