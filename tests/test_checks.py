import numpy as np
import pytest
import torch

from gswe_pyg import _checks
from gswe_pyg.aggr import PMA, RepSet
from gswe_pyg.datasets import SetCircles
from gswe_pyg.loader import BucketBatchSampler
from gswe_pyg.models import SharedSAB
from gswe_pyg.slicers import LinearSlicer, MLPSlicer, PolynomialSlicer
from gswe_pyg.transforms import ResampleElements


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_whole_numbers_of_any_library_are_taken(value):
    number = _checks.positive_int("size", value)
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize(
    "value", [0, -1, np.int64(0), True, np.True_, 2.0, np.float64(2), "3", None, [3]]
)
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match=r"'size' must be a positive integer \(got "):
        _checks.positive_int("size", value)


def test_errors_name_value_and_place():
    with pytest.raises(
        ValueError, match=r"^'a.b' must be .* \(got 2.5 in the config\)"
    ):
        _checks.positive_int("a.b", 2.5, "in the config")
    with pytest.raises(
        ValueError, match=r"^'k' must be .*'b'\] \(got 'c' in the file\)"
    ):
        _checks.one_of("k", "c", ["a", "b"], "in the file")


def test_the_nearest_choice_is_suggested():
    assert _checks.one_of("mode", "step", ("linear", "step")) == "step"
    with pytest.raises(ValueError, match=r"\(got 'linaer'\): did you mean 'linear'\?"):
        _checks.one_of("mode", "linaer", ("linear", "step"))
    with pytest.raises(ValueError, match="'mode' must be one of"):
        _checks.one_of("mode", ["step"], ("linear", "step"))


def test_not_a_number_is_no_size_and_no_order():
    assert _checks.norm_order(float("inf")) == float("inf")
    for check in (_checks.norm_order, lambda p: _checks.not_negative("p", p)):
        with pytest.raises(ValueError, match=r"'p' must .* \(got nan\)"):
            check(float("nan"))


@pytest.mark.parametrize(
    "build",
    [
        lambda n: LinearSlicer(n, n),
        lambda n: PolynomialSlicer(n, n, degree=n),
        lambda n: MLPSlicer(n, n, hidden_channels=n, num_layers=n),
        lambda n: PMA(n * 2, num_seeds=n, heads=2),
        lambda n: RepSet(n, n, n),
        lambda n: SharedSAB(n, n * 4, n, num_layers=n),
        lambda n: ResampleElements(n),
        lambda n: SetCircles(num_sets=n),
        lambda n: BucketBatchSampler(SetCircles(), n, pool_size=n),
    ],
)
def test_sizes_from_numpy_are_sizes(build):
    made = build(np.int64(3))
    assert repr(made) == repr(build(3)) or isinstance(made, BucketBatchSampler)
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="must be a positive integer"):
            build(bad)
