"""Where a reference rank falls among the sorted values of a set of another size.

Every interpolation is a linear map from ``n`` sorted values to ``num_points`` points
that depends on the two sizes alone. The positions are computed in integers: a fraction
is rounded once, at the end, however large the set is.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

INTERPOLATIONS = ("linear", "step", "barycentric", "pswe")

# Those of PyG's QuantileAggregation, for levels that are given.
LEVEL_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


class Neighbours(NamedTuple):
    """Point ``m`` is ``lower_weight * s[lower] + upper_weight * s[upper]``."""

    lower: np.ndarray
    upper: np.ndarray
    lower_weight: np.ndarray
    upper_weight: np.ndarray


def neighbours(n: np.ndarray, num_points: int, interpolation: str) -> Neighbours:
    r"""The two sorted values that each point lies between, and their weights.

    Args:
        n (numpy.ndarray): The sizes of the sets, all positive, shape :math:`(B)`.
        num_points (int): The number of points :math:`M`.
        interpolation (str): ``"linear"``, ``"step"`` or ``"pswe"``.

    Shapes:
        - **output:** four arrays :math:`(B, M)`
    """
    n = np.asarray(n, dtype=np.int64)[..., None]
    m = np.arange(num_points, dtype=np.int64)
    if interpolation == "step":
        # Smallest j with (j + 1) / n >= (2 m + 1) / (2 M).
        numerator, denominator = n * (2 * m + 1) - 1, 2 * num_points
    elif interpolation == "linear":
        # (j + 1/2) / n = (m + 1/2) / M, solved for a fractional j.
        numerator, denominator = n * (2 * m + 1) - num_points, 2 * num_points
    elif interpolation == "pswe":
        # (j + 1) / (n + 1) = (m + 1) / (M + 1), solved for a fractional j.
        numerator = (n + 1) * (m + 1) - (num_points + 1)
        denominator = num_points + 1
    else:
        raise NotImplementedError(interpolation)

    lower = numerator // denominator
    if interpolation == "step":
        upper, remainder = lower, np.zeros_like(lower)
    elif interpolation == "linear":
        # Constant outside of the first and the last midpoint.
        remainder = numerator - lower * denominator
        remainder = np.where((lower < 0) | (lower >= n - 1), 0, remainder)
        lower = np.clip(lower, 0, n - 1)
        upper = np.minimum(lower + 1, n - 1)
    else:
        # Extrapolated along the first and the last pair of values.
        lower = np.clip(lower, 0, np.maximum(n - 2, 0))
        upper = np.minimum(lower + 1, n - 1)
        remainder = np.where(n == 1, 0, numerator - lower * denominator)
    # Not one minus the other, which would lose digits where the other is nearly one.
    lower_weight = (denominator - remainder) / denominator
    return Neighbours(lower, upper, lower_weight, remainder / denominator)


def overlaps(n: np.ndarray, num_points: int) -> tuple[np.ndarray, ...]:
    r"""How much of each point comes from each sorted value, for ``"barycentric"``.

    Value :math:`j` fills :math:`(j/n, (j+1)/n)` and point :math:`m` averages over
    :math:`(m/M, (m+1)/M)`.

    Args:
        n (numpy.ndarray): The sizes of the sets, all positive, shape :math:`(B)`.
        num_points (int): The number of points :math:`M`.

    Returns:
        Four arrays with an entry for each overlap, at most :math:`n + M - 1` a set: the
        set, the value, the point and the weight.
    """
    n = np.asarray(n, dtype=np.int64)
    num_values = int(n.sum())
    graph = np.repeat(np.arange(len(n)), n)
    value = np.arange(num_values) - np.repeat(np.cumsum(n) - n, n)
    # In units of 1 / (n M), all the bounds are integers.
    first = value * num_points // n[graph]
    last = -(-(value + 1) * num_points // n[graph])
    count = last - first
    point = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    graph, value = np.repeat(graph, count), np.repeat(value, count)
    size = n[graph]
    right = np.minimum((value + 1) * num_points, (point + 1) * size)
    left = np.maximum(value * num_points, point * size)
    return graph, value, point, (right - left) / size


def neighbours_at(
    n: np.ndarray, levels: tuple[float, ...], interpolation: str
) -> Neighbours:
    r"""As :func:`neighbours`, at levels :math:`q` by the rules of PyG: the place among
    the sorted values is :math:`q (n - 1)`, and ``"nearest"`` rounds half to even.

    Args:
        n (numpy.ndarray): The sizes of the sets, all positive, shape :math:`(B)`.
        levels (tuple): The levels, from zero to one.
        interpolation (str): One of :obj:`LEVEL_INTERPOLATIONS`.

    Shapes:
        - **output:** four arrays :math:`(B, Q)`
    """
    n = np.asarray(n, dtype=np.int64)
    columns = [_neighbours_at(n, level, interpolation) for level in levels]
    return Neighbours(*(np.stack(column, axis=-1) for column in zip(*columns)))  # noqa: B905


def _neighbours_at(n: np.ndarray, level: float, interpolation: str) -> tuple:
    numerator, denominator = level_as_fraction(level).as_integer_ratio()
    largest = int(n.max(initial=1))
    fits = max(numerator * largest, denominator) < 1 << 61
    exact = n if fits else n.astype(object)
    place = (exact - 1) * numerator
    lower = place // denominator
    remainder = place - lower * denominator
    upper = lower + (remainder > 0)
    if interpolation == "nearest":
        is_upper = 2 * remainder > denominator
        is_upper |= (2 * remainder == denominator) & (lower % 2 == 1)
        lower = upper = lower + is_upper
    elif interpolation == "lower":
        upper = lower
    elif interpolation == "higher":
        lower = upper
    if interpolation == "linear":
        weight = (remainder / denominator).astype(np.float64)
        other = ((denominator - remainder) / denominator).astype(np.float64)
    else:
        weight = np.where(upper > lower, 0.5, 0.0)
        other = 1 - weight
    return lower.astype(np.int64), upper.astype(np.int64), other, weight


def level_as_fraction(level: float) -> Fraction:
    """What was meant by a rounded number: 0.29 is 29/100 and not a little less, which
    would be another element of 101."""
    simple = Fraction(level).limit_denominator(10**6)
    return simple if float(simple) == level else Fraction(level)
