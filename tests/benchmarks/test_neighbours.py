"""The sets of ``python -m benchmarks quick``."""

import numpy as np
import pytest

from benchmarks.neighbours import _polygon


@pytest.mark.parametrize(("corners", "inner"), [(3, 1), (4, 1), (10, 0.45), (60, 1)])
def test_all_outlines_have_the_same_mean_and_covariance(corners, inner):
    points = _polygon(corners, inner)
    assert np.allclose(points.mean(0), 0, atol=1e-3)
    assert np.allclose(np.cov(points.T), np.eye(2) / 2, atol=2e-3)
