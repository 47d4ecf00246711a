import math
from fractions import Fraction

import numpy as np
import pytest

from gswe_pyg.ops.interpolation import INTERPOLATIONS, neighbours, overlaps

# A batch of so many nodes is far beyond what float32 can count.
HUGE = (40_000_000, 40_000_001, 2**31 + 11)


def exact_neighbours(n: int, m: int, num_points: int, interpolation: str):
    """Rational arithmetic, straight from the definition."""
    if interpolation == "step":
        # The smallest j whose distribution function (j + 1) / n reaches q.
        return math.ceil(n * Fraction(2 * m + 1, 2 * num_points)) - 1, Fraction(0)
    if interpolation == "linear":
        place = n * Fraction(2 * m + 1, 2 * num_points) - Fraction(1, 2)
        place = min(max(place, Fraction(0)), Fraction(n - 1))
        return math.floor(place), place - math.floor(place)
    place = Fraction((n + 1) * (m + 1), num_points + 1) - 1
    lower = min(max(math.floor(place), 0), max(n - 2, 0))
    return lower, place - lower if n > 1 else Fraction(0)


@pytest.mark.parametrize("interpolation", ["linear", "step", "pswe"])
@pytest.mark.parametrize("num_points", [1, 2, 3, 7, 8, 100])
def test_neighbours(num_points, interpolation):
    sizes = np.array([1, 2, 3, 5, 7, 8, 16, 99, *HUGE])
    near = neighbours(sizes, num_points, interpolation)
    for i, n in enumerate(sizes.tolist()):
        for m in range(num_points):
            lower, fraction = exact_neighbours(n, m, num_points, interpolation)
            assert near.lower[i, m] == lower
            assert near.upper_weight[i, m] == float(fraction)
            assert near.lower_weight[i, m] == float(1 - fraction)
            if fraction != 0:
                assert near.upper[i, m] == lower + 1
    assert (near.lower >= 0).all()
    assert (near.upper < sizes[:, None]).all()


def test_neighbours_of_barycentric_do_not_exist():
    with pytest.raises(NotImplementedError, match="barycentric"):
        neighbours(np.array([3]), 2, "barycentric")


@pytest.mark.parametrize("num_points", [1, 2, 3, 7, 8, 30])
def test_overlaps(num_points):
    sizes = np.array([1, 2, 3, 5, 8, 31])
    graph, value, point, weight = overlaps(sizes, num_points)
    actual = {
        key: w
        for *key_, w in zip(graph, value, point, weight, strict=True)
        for key in [tuple(map(int, key_))]
    }
    expected = {}
    for i, n in enumerate(sizes.tolist()):
        for j in range(n):
            for m in range(num_points):
                left = max(Fraction(j, n), Fraction(m, num_points))
                right = min(Fraction(j + 1, n), Fraction(m + 1, num_points))
                if left < right:
                    expected[i, j, m] = float((right - left) * num_points)
    assert actual == expected


def test_overlaps_of_a_large_set():
    n, num_points = 1_000_003, 7
    _, value, point, weight = overlaps(np.array([n]), num_points)
    assert len(weight) <= n + num_points - 1
    for k in [0, 1, 142_857, 500_000, len(weight) - 1]:
        j, m = int(value[k]), int(point[k])
        left = max(Fraction(j, n), Fraction(m, num_points))
        right = min(Fraction(j + 1, n), Fraction(m + 1, num_points))
        assert weight[k] == float((right - left) * num_points)


@pytest.mark.parametrize("n", [1, 2, 5, 64])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_every_interpolation_of_an_equal_size_is_the_identity(interpolation, n):
    matrix = np.zeros((n, n))
    if interpolation == "barycentric":
        _, value, point, weight = overlaps(np.array([n]), n)
        matrix[point, value] = weight
    else:
        near = neighbours(np.array([n]), n, interpolation)
        np.add.at(matrix, (np.arange(n), near.lower[0]), near.lower_weight[0])
        np.add.at(matrix, (np.arange(n), near.upper[0]), near.upper_weight[0])
    assert (matrix == np.eye(n)).all()
