"""The quantiles straight from their definition: loops in double precision.

Each returns, beside the points, the sum of the magnitudes of what is added up: no
rounding error is larger than a few units in the last place of that.
"""

import numpy as np

Points = tuple[np.ndarray, np.ndarray]


def quantile(values: np.ndarray, num_points: int, interpolation: str) -> Points:
    """One slice ``[n]`` of one set, each element of the same mass."""
    n = len(values)
    if n == 0:
        return np.zeros(num_points), np.zeros(num_points)
    s = np.sort(values)
    return _sums(s, [_row(n, m, num_points, interpolation) for m in range(num_points)])


def weighted_quantile(
    values: np.ndarray, counts: np.ndarray, num_points: int, interpolation: str
) -> Points:
    """The same for elements of whole masses, so that ranks are compared exactly."""
    order = np.argsort(values, kind="stable")
    order = order[counts[order] > 0]
    s, mass = values[order], counts[order].astype(np.int64)
    if len(s) == 0:
        return np.zeros(num_points), np.zeros(num_points)
    ends = mass.cumsum()
    total, points = int(ends[-1]), num_points
    # In units of 1 / (2 M total) of a count, all bounds are integers.
    unit, squares = 2 * points * total, int((mass**2).sum())
    rows = []
    for m in range(points):
        if interpolation == "step":
            first = np.flatnonzero(2 * points * ends >= (2 * m + 1) * total)[0]
            rows.append({int(first): 1.0})
            continue
        if interpolation == "barycentric":
            left, width = 2 * m * total**2, 2 * total**2
        else:
            width = 2 * points * squares  # squares / total of a count
            left = (2 * m + 1) * total**2 - points * squares
            left = min(max(left, 0), unit * total - width)
        right = np.minimum(unit * ends, left + width)
        overlap = np.maximum(right - np.maximum(unit * (ends - mass), left), 0)
        rows.append({int(j): overlap[j] / width for j in overlap.nonzero()[0]})
    return _sums(s, rows)


def _row(n: int, m: int, num_points: int, interpolation: str) -> dict[int, float]:
    """The masses of the sorted values in point ``m``, from integers."""
    if interpolation == "step":
        # The first value whose rank (j + 1) / n reaches (2 m + 1) / (2 M).
        j = next(j for j in range(n) if 2 * num_points * (j + 1) >= n * (2 * m + 1))
        return {j: 1.0}
    if interpolation == "barycentric":
        j = np.arange(n, dtype=np.int64)
        right = np.minimum((j + 1) * num_points, (m + 1) * n)
        left = np.maximum(j * num_points, m * n)
        overlap = np.maximum(right - left, 0)
        return {int(j): overlap[j] / n for j in overlap.nonzero()[0]}
    j = np.arange(n, dtype=np.int64)
    if interpolation == "linear":
        knots, rank = num_points * (2 * j + 1), n * (2 * m + 1)
        rank = min(max(rank, int(knots[0])), int(knots[-1]))
    else:
        knots, rank = (num_points + 1) * (j + 1), (n + 1) * (m + 1)
    return _line(knots, rank)


def _line(knots: np.ndarray, rank: int) -> dict[int, float]:
    """The line through two neighbouring knots, at a rank between them or beyond."""
    n = len(knots)
    if n == 1:
        return {0: 1.0}
    j = int(np.searchsorted(knots, rank, side="right")) - 1
    j = min(max(j, 0), n - 2)
    gap, above = int(knots[j + 1] - knots[j]), int(rank - knots[j])
    weights = {j: (gap - above) / gap, j + 1: above / gap}
    return {j: weight for j, weight in weights.items() if weight != 0}


def _sums(s: np.ndarray, rows: list[dict[int, float]]) -> Points:
    with np.errstate(invalid="ignore", over="ignore"):
        points = [sum(w * s[j] for j, w in row.items()) for row in rows]
        bounds = [sum(abs(w * s[j]) for j, w in row.items()) for row in rows]
    return np.array(points, dtype=float), np.array(bounds, dtype=float)
