import math
from itertools import product

import pytest
import torch

from gswe_pyg.slicers import (
    IdentitySlicer,
    LinearSlicer,
    MLPSlicer,
    PolynomialSlicer,
    make_slicer,
)
from gswe_pyg.testing import assert_slicer

SLICERS = [
    LinearSlicer(4, 6),
    LinearSlicer(4, 1),
    PolynomialSlicer(4, 6),
    PolynomialSlicer(4, 6, degree=1),
    MLPSlicer(4, 6),
    MLPSlicer(4, 6, hidden_channels=5, num_layers=3, act="tanh"),
    MLPSlicer(4, 6, num_layers=1),
    IdentitySlicer(4),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("slicer", SLICERS, ids=str)
def test_slicer(slicer, dtype):
    assert_slicer(slicer, 4, slicer.num_slices, dtype)


def test_linear_slicer():
    slicer = LinearSlicer(4, 6)
    assert str(slicer) == "LinearSlicer(4, 6)"
    x = torch.randn(10, 4)
    directions = slicer.weight / slicer.weight.norm(dim=1, keepdim=True)
    torch.testing.assert_close(slicer(x), x @ directions.t())
    # The length of a direction does not matter.
    before = slicer(x)
    slicer.weight.data *= torch.tensor([[2.0], [0.5], [7.0], [1.0], [1e-3], [1e3]])
    torch.testing.assert_close(slicer(x), before)


def test_linear_slicer_starts_from_orthogonal_directions():
    slicer = LinearSlicer(4, 10)
    for block in slicer.weight.split(4):
        torch.testing.assert_close(block @ block.t(), torch.eye(len(block)))
    before = slicer.weight.clone()
    slicer.reset_parameters()
    assert not slicer.weight.equal(before)


def test_linear_slicer_writes_the_slices_of_an_element_side_by_side():
    # The kernel sorts rows; a copy would cost as much as the product.
    assert LinearSlicer(4, 6)(torch.randn(10, 4)).is_contiguous()


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_polynomial_slicer(degree):
    slicer = PolynomialSlicer(3, 2, degree=degree)
    assert str(slicer) == f"PolynomialSlicer(3, 2, degree={degree})"
    assert slicer.weight.shape == (2, math.comb(3 + degree - 1, degree))
    x = torch.randn(7, 3)
    theta = slicer.weight / slicer.weight.norm(dim=1, keepdim=True)
    exponents = [
        powers
        for powers in product(range(degree, -1, -1), repeat=3)
        if sum(powers) == degree
    ]
    monomials = torch.stack(
        [(x ** torch.tensor(powers)).prod(dim=1) for powers in exponents], dim=1
    )
    torch.testing.assert_close(slicer(x), monomials @ theta.t(), rtol=1e-4, atol=1e-5)
    # Homogeneous and odd.
    torch.testing.assert_close(
        slicer(-2 * x), -(2**degree) * slicer(x), rtol=1e-4, atol=1e-5
    )
    before = slicer.weight.clone()
    slicer.reset_parameters()
    assert not slicer.weight.equal(before)


def test_polynomial_slicer_of_degree_one_is_linear():
    polynomial, linear = PolynomialSlicer(4, 6, degree=1), LinearSlicer(4, 6)
    linear.load_state_dict(polynomial.state_dict())
    x = torch.randn(10, 4)
    torch.testing.assert_close(polynomial(x), linear(x))


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("name", ["linear", "polynomial", "mlp"])
def test_slicers_can_be_loaded_onto_the_meta_device(name, assign):
    slicer = make_slicer(name, 3, 4)
    with torch.device("meta"):
        other = make_slicer(name, 3, 4)
    if not assign:
        # Memory that was not initialised, as a test can count on it.
        other = other._apply(lambda t: torch.full_like(t, 7, device="cpu"))
    other.load_state_dict(slicer.state_dict(), assign=assign)
    x = torch.randn(5, 3)
    torch.testing.assert_close(other(x), slicer(x), rtol=0, atol=0)


def test_mlp_slicer():
    slicer = MLPSlicer(4, 6, hidden_channels=5, num_layers=3)
    assert str(slicer) == "MLPSlicer(4, 6, hidden_channels=5, num_layers=3)"
    x = torch.randn(10, 4)
    h = x
    for layer in slicer.hidden:
        h = torch.clamp(h @ layer.weight.t() + layer.bias, min=0)
    torch.testing.assert_close(slicer(x), h @ slicer.weight.t())
    before = [p.clone() for p in slicer.parameters()]
    slicer.reset_parameters()
    for old, new in zip(before, slicer.parameters(), strict=True):
        assert not old.equal(new)


def test_mlp_slicer_defaults():
    slicer = MLPSlicer(4, 6)
    assert str(slicer) == "MLPSlicer(4, 6, hidden_channels=6, num_layers=2)"
    assert len(MLPSlicer(4, 6, num_layers=1).hidden) == 0
    # GraphGym initialises every `torch.nn.Linear` anew, which is not for slicers.
    assert not any(isinstance(m, torch.nn.Linear) for m in slicer.modules())


def test_identity_slicer():
    slicer = IdentitySlicer(4)
    assert str(slicer) == "IdentitySlicer(4)"
    x = torch.randn(10, 4)
    assert slicer(x).equal(x)


def test_make_slicer():
    assert str(make_slicer("linear", 4, 6)) == "LinearSlicer(4, 6)"
    assert str(make_slicer("polynomial", 4, 6)) == "PolynomialSlicer(4, 6, degree=3)"
    assert isinstance(make_slicer("mlp", 4, 6), MLPSlicer)
    assert isinstance(make_slicer("identity", 4, 4), IdentitySlicer)
    module = torch.nn.Linear(4, 6)
    assert make_slicer(module, 4, 6) is module
    with pytest.raises(ValueError, match=r"'slicer' must be one of .*got None"):
        make_slicer(None, 4, 6)
    with pytest.raises(
        ValueError, match=r"or a module .*'linar'\): did you mean 'linear'"
    ):
        make_slicer("linar", 4, 6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: LinearSlicer(0, 6),
            r"'in_channels' must be a positive integer \(got 0\)",
        ),
        (
            lambda: LinearSlicer(4, 0),
            r"'num_slices' must be a positive integer \(got 0\)",
        ),
        (lambda: PolynomialSlicer(4, 6, 2), r"'degree' must be odd \(got 2\)"),
        (lambda: PolynomialSlicer(4, 6, -1), r"'degree' must be .*\(got -1\)"),
        (lambda: PolynomialSlicer(300, 6), r"4545100 coefficients: lower the degree"),
        (lambda: MLPSlicer(4, 6, 0), r"'hidden_channels' must be .*\(got 0\)"),
        (lambda: MLPSlicer(4, 6, num_layers=0), r"'num_layers' must be .*\(got 0\)"),
        (
            lambda: IdentitySlicer(0),
            r"'in_channels' must be a positive integer \(got 0\)",
        ),
    ],
)
def test_bad_options(build, message):
    with pytest.raises(ValueError, match=message):
        build()
