"""The sets of ``python -m benchmarks quick``, and the distance between them."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from benchmarks import neighbours


@pytest.mark.parametrize(("corners", "inner"), [(3, 1), (4, 1), (10, 0.45), (60, 1)])
def test_all_outlines_have_the_same_mean_and_covariance(corners, inner):
    points = neighbours._polygon(corners, inner)
    assert np.allclose(points.mean(0), 0, atol=1e-3)
    assert np.allclose(np.cov(points.T), np.eye(2) / 2, atol=2e-3)


def test_transport_agrees_with_an_assignment():
    x, y = (x[:20] for x in neighbours.outlines(2, seed=0)[0])
    squares = np.square(x[:, None] - y).sum(-1)
    expected = squares[linear_sum_assignment(squares)].mean()
    assert neighbours.transport(x, y) == pytest.approx(expected)
