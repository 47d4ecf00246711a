import math

import numpy as np
import ot
import pytest
import torch
from torch.nn import Module

from gswe_pyg import GSWEAggregation, gsw_distance, max_gsw_distance
from gswe_pyg.distance import power_mean
from gswe_pyg.slicers import (
    IdentitySlicer,
    LinearSlicer,
    MLPSlicer,
    PolynomialSlicer,
)


def sliced(x, y, p, x_weight=None, y_weight=None):
    """The mean over slices by POT, in float64."""
    x, y = x.detach().double().numpy(), y.detach().double().numpy()
    weights = [
        None if w is None else (w / w.sum()).double().numpy()[:, None].repeat(n, 1)
        for w, n in ((x_weight, x.shape[1]), (y_weight, y.shape[1]))
    ]
    return np.mean(ot.wasserstein_1d(x, y, *weights, p=p)) ** (1 / p)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slicer", [LinearSlicer, MLPSlicer, PolynomialSlicer])
def test_gsw_distance_equals_pot(slicer, weighted, p):
    slicer = slicer(3, 5).double()
    x, y = torch.randn(7, 3).double(), torch.randn(12, 3).double() + 1
    weights = [torch.rand(n).double() if weighted else None for n in (7, 12)]
    out = gsw_distance(x, y, slicer, p, x_weight=weights[0], y_weight=weights[1])
    expected = sliced(slicer(x), slicer(y), p, *weights)
    assert out.shape == ()
    assert out.item() == pytest.approx(expected, rel=1e-9)


def test_only_one_side_weighted():
    slicer = LinearSlicer(2, 4).double()
    x, y = torch.randn(5, 2).double(), torch.randn(3, 2).double()
    weight = torch.rand(5).double()
    out = gsw_distance(x, y, slicer, x_weight=weight)
    expected = sliced(slicer(x), slicer(y), 2, weight)
    assert out.item() == pytest.approx(expected, rel=1e-9)


def test_many_pairs_equal_one_at_a_time():
    slicer = LinearSlicer(3, 6)
    x, y = torch.randn(40, 3), torch.randn(30, 3)
    x_index = torch.randint(0, 4, (40,))
    y_index = torch.randint(0, 4, (30,))
    x_index[x_index == 2] = 3  # pair 2 is empty on both sides
    y_index[y_index == 2] = 3
    weight = torch.rand(40)
    out = gsw_distance(x, y, slicer, 2, x_index, y_index, weight)
    assert out.shape == (4,)
    assert out[2] == 0
    for i in (0, 1, 3):
        in_x, in_y = x_index == i, y_index == i
        one = gsw_distance(x[in_x], y[in_y], slicer, 2, x_weight=weight[in_x])
        assert out[i].item() == pytest.approx(one.item(), rel=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
def test_equals_the_distance_of_embeddings(interpolation, p):
    readout = GSWEAggregation(3, 4, num_points=12, interpolation=interpolation)
    sizes = [3, 12, 4, 6]
    x = torch.randn(sum(sizes), 3)
    index = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    out = readout(x, index)
    for i, j in [(0, 1), (1, 2), (2, 3)]:
        expected = gsw_distance(x[index == i], x[index == j], readout.slicer, p)
        actual = readout.distance(out[i], out[j], p)
        assert actual.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_is_a_metric(p):
    slicer = LinearSlicer(2, 8).double()
    x, y, z = (torch.randn(n, 2).double() for n in (5, 8, 3))
    assert gsw_distance(x, x[torch.randperm(5)], slicer, p) == 0
    xy, yx = gsw_distance(x, y, slicer, p), gsw_distance(y, x, slicer, p)
    assert xy.item() == pytest.approx(yx.item())
    triangle = gsw_distance(x, z, slicer, p) + gsw_distance(z, y, slicer, p)
    assert xy <= triangle + 1e-12


@pytest.mark.parametrize("p", [1, 2, 3])
def test_gradients(p):
    slicer = LinearSlicer(2, 3).double()
    x = torch.randn(4, 2).double().requires_grad_()
    y = torch.randn(7, 2).double().requires_grad_()
    weights = [(torch.rand(n).double() + 0.1).requires_grad_() for n in (4, 7)]

    def distance(x, y, *weights):
        return gsw_distance(x, y, slicer, p, x_weight=weights[0], y_weight=weights[1])

    assert torch.autograd.gradcheck(distance, (x, y, *weights))
    assert torch.autograd.gradcheck(lambda x, y: gsw_distance(x, y, slicer, p), (x, y))


def test_gradient_of_equal_sets_is_zero():
    x = torch.randn(5, 2, requires_grad=True)
    gsw_distance(x, x.detach(), LinearSlicer(2, 3)).backward()
    assert torch.equal(x.grad, torch.zeros(5, 2))


def test_not_a_number_stays_in_its_pair():
    x, y = torch.randn(6, 2, requires_grad=True), torch.randn(6, 2)
    index = torch.tensor([0, 0, 1, 1, 2, 2])
    bad = x.detach().clone()
    bad[2] = torch.nan
    bad.requires_grad_()
    out = gsw_distance(bad, y, LinearSlicer(2, 3), 2, index, index)
    assert out.isnan().tolist() == [False, True, False]
    out[[0, 2]].sum().backward()
    assert bad.grad[[0, 1, 4, 5]].isfinite().all()


def test_max_gsw_distance_of_a_shift():
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    shift = torch.tensor([1.0, 2.0, 2.0])
    for p in (1, 2):
        out = max_gsw_distance(x, x + shift, p=p)
        assert out.item() == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("slicer", [LinearSlicer, MLPSlicer, PolynomialSlicer])
def test_max_gsw_distance_exceeds_all_initial_slices(slicer):
    slicer = slicer(2, 4)
    before = {k: v.clone() for k, v in slicer.state_dict().items()}
    x, y = torch.randn(20, 2), torch.randn(15, 2) + 1
    values = [sliced(slicer(x)[:, [i]], slicer(y)[:, [i]], 2) for i in range(4)]
    start = max_gsw_distance(x, y, slicer, num_steps=0)
    assert start.item() == pytest.approx(max(values), rel=1e-5)
    assert max_gsw_distance(x, y, slicer, num_steps=30) > start
    for key, value in slicer.state_dict().items():
        assert torch.equal(value, before[key])


def test_max_gsw_distance_of_many_pairs():
    slicer = LinearSlicer(2, 3)
    x, y = torch.randn(9, 2), torch.randn(8, 2)
    x_index = torch.tensor([0, 1, 1, 0, 2, 2, 2, 1, 0])
    y_index = torch.tensor([2, 1, 0, 0, 1, 2, 0, 1])
    weight = torch.rand(9)
    out = max_gsw_distance(x, y, slicer, 2, x_index, y_index, weight, num_steps=5)
    for i in range(3):
        in_x, in_y = x_index == i, y_index == i
        one = max_gsw_distance(
            x[in_x], y[in_y], slicer, 2, x_weight=weight[in_x], num_steps=5
        )
        assert out[i].item() == pytest.approx(one.item(), rel=1e-5)
    nothing = torch.empty(0, dtype=torch.long)
    assert max_gsw_distance(x[:0], y[:0], None, 2, nothing, nothing).shape == (0,)


def test_slicer_without_parameters():
    x, y = torch.zeros(3, 2), torch.tensor([[3.0, 4.0]])
    assert max_gsw_distance(x, y, IdentitySlicer(2)).item() == 4
    assert gsw_distance(x, y, IdentitySlicer(2), 1).item() == 3.5


@pytest.mark.parametrize(
    "name", ["x", "y", "x_index", "y_index", "x_weight", "y_weight"]
)
@pytest.mark.parametrize("function", [gsw_distance, max_gsw_distance])
def test_arrays_are_no_tensors(function, name):
    arguments = {
        **{key: torch.randn(3, 2) for key in ("x", "y")},
        **{key: torch.zeros(3).long() for key in ("x_index", "y_index")},
        **{key: torch.ones(3) for key in ("x_weight", "y_weight")},
    }
    arguments[name] = arguments[name].numpy()
    message = rf"'{name}' must be a tensor .*ndarray\).*'torch.as_tensor\({name}\)'"
    with pytest.raises(TypeError, match=message):
        function(**arguments)


class Frozen(Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"p": 0.5}, "'p' must be at least 1"),
        ({"p": math.nan}, r"'p' must be at least 1 \(got nan\)"),
        ({"x": torch.randn(3)}, "'x' must be a floating point tensor"),
        ({"y": torch.ones(3, 2).long()}, "'y' must be a floating point tensor"),
        ({"y": torch.randn(4, 3)}, "same number of features"),
        ({"y": torch.randn(4, 2).double()}, r"dtype \(got torch.float32 and .*64\)"),
        ({"x_index": torch.zeros(3).long()}, "must be given together"),
        (
            {"x_index": torch.zeros(3), "y_index": torch.zeros(4).long()},
            "'x_index' must be of type torch.long",
        ),
        (
            {"x_index": torch.zeros(3).long(), "y_index": torch.zeros(2).long()},
            "'y_index' must be of type torch.long, with one entry",
        ),
        (
            {"x_index": -torch.ones(3).long(), "y_index": torch.zeros(4).long()},
            "'x_index' must not be negative",
        ),
        (
            {"x_index": torch.zeros(3).long(), "y_index": torch.ones(4).long()},
            "both be empty or neither",
        ),
        ({"x_weight": torch.ones(2)}, "'x_weight' must have one entry"),
        ({"y_weight": -torch.ones(4)}, "'y_weight' must be finite and not"),
        ({"y_weight": torch.zeros(4)}, "'y_weight' must be positive for some"),
    ],
)
def test_bad_input(arguments, match):
    defaults = {"x": torch.randn(3, 2), "y": torch.randn(4, 2), "slicer": Frozen()}
    for function in (gsw_distance, max_gsw_distance):
        with pytest.raises(ValueError, match=match):
            function(**{**defaults, **arguments})


def test_negative_number_of_steps():
    with pytest.raises(ValueError, match="'num_steps' must not be negative"):
        max_gsw_distance(torch.randn(3, 2), torch.randn(3, 2), num_steps=-1)


def test_masses_stay_in_their_pair():
    x, y = torch.tensor([[0.0], [1], [2], [5]]), torch.tensor([[0.0], [7]])
    weight = torch.tensor([1e17, 1e17, 1, 3], dtype=torch.double)
    x_index, y_index = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])
    slicer = IdentitySlicer(1)
    out = gsw_distance(x, y, slicer, 1, x_index, y_index, weight)
    assert out.tolist() == [0.5, 2.75]
    mixed = torch.tensor([2, 0, 3, 1])
    args = (x[mixed], y, slicer, 1, x_index[mixed], y_index, weight[mixed])
    assert gsw_distance(*args).tolist() == [0.5, 2.75]


@pytest.mark.parametrize("scale", [1e-320, 1e-100, 1e307])
def test_masses_of_any_magnitude(scale):
    x, y = torch.tensor([[0.0], [1], [2]]), torch.tensor([[3.0]])
    weight = torch.tensor([8.0, 0, 8], dtype=torch.double) * scale
    out = gsw_distance(x, y, IdentitySlicer(1), 1, x_weight=weight)
    assert out.item() == pytest.approx(2)


def test_no_pairs_and_no_masses():
    x, index = torch.empty(0, 2), torch.empty(0, dtype=torch.long)
    args = (None, 2, index, index, torch.empty(0), torch.empty(0))
    assert gsw_distance(x, x, *args).shape == (0,)


def test_an_element_without_mass_does_not_count():
    x = torch.tensor([[0.0], [torch.nan], [1e30], [2]], requires_grad=True)
    weight = torch.tensor([1.0, 0, 0, 1])
    out = gsw_distance(x, torch.zeros(1, 1), IdentitySlicer(1), 1, x_weight=weight)
    assert out == 1
    out.backward()
    assert x.grad[[0, 2, 3], 0].tolist() == [0, 0, 0.5]


@pytest.mark.parametrize("p", [1, 2, 3, 1000, math.inf])
@pytest.mark.parametrize("scale", [1e-30, 1, 1e30])
def test_magnitudes_and_orders(scale, p):
    x, y = torch.tensor([[0.0, 0], [1, 0]]), torch.tensor([[4.0, 0], [5, 0]])
    x = (x * scale).requires_grad_()
    out = gsw_distance(x, y * scale, IdentitySlicer(2), p)
    assert out.item() == pytest.approx(4 * scale * 0.5 ** (1 / p), rel=1e-5)
    out.backward()
    assert x.grad.sum().item() == pytest.approx(-(0.5 ** (1 / p)), rel=1e-5)
    shift = torch.tensor([3.0, 4]) * scale
    slicer = LinearSlicer(2, 8)
    out = max_gsw_distance(x, x + shift, slicer, p)
    assert out.item() == pytest.approx(5 * scale, rel=1e-3)


def test_an_infinite_order_is_the_limit():
    x, y = torch.randn(6, 2).double(), torch.randn(9, 2).double()
    index, other = torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([0, 1] * 4 + [1])
    slicer = LinearSlicer(2, 5).double()
    weight = torch.rand(6)
    args = (index, other, weight)
    out = gsw_distance(x, y, slicer, math.inf, *args)
    near = gsw_distance(x, y, slicer, 1e6, *args)
    torch.testing.assert_close(out, near, rtol=1e-4, atol=0)
    assert (out > gsw_distance(x, y, slicer, 8, *args)).all()
    bad = x.index_fill(0, torch.tensor([0]), torch.nan)
    out = gsw_distance(bad, y, slicer, math.inf, *args)
    assert out.isnan().tolist() == [True, False]


def test_infinite_elements():
    x, y = torch.tensor([[0.0], [torch.inf]]), torch.zeros(2, 1)
    for p in (1, 2, math.inf):
        assert gsw_distance(x, y, IdentitySlicer(1), p) == torch.inf


@pytest.mark.parametrize("p", [1, 1.5, 2, 1000, math.inf])
def test_power_mean(p):
    x = torch.tensor([[1.0, -1, 1], [0, 0, 0], [-2e30, 0, 0]]).requires_grad_()
    out = power_mean(x, p)
    assert out.tolist() == pytest.approx([1, 0, 2e30 * 3 ** (-1 / p)])
    out.sum().backward()
    assert x.grad[0].tolist() == pytest.approx([1 / 3, -1 / 3, 1 / 3])
    assert x.grad[1].tolist() == [0, 0, 0]
    assert power_mean(x.t(), p, dim=0).equal(out)
    bad = torch.tensor([[torch.inf, 1], [torch.nan, 1]])
    assert power_mean(bad, p).isnan().tolist() == [False, True]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("slicer", [None, "linear", "mlp", "polynomial", "own"])
def test_max_gsw_distance_climbs_without_gradients(slicer, mode):
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    slicer = LinearSlicer(2, 4) if slicer == "own" else slicer
    index = torch.zeros(30, dtype=torch.long)
    with mode():
        y = x + torch.tensor([3.0, 4])
        own = slicer if isinstance(slicer, Module) else LinearSlicer(2, 4)
        start = max_gsw_distance(x, y, own, num_steps=0)
        out = max_gsw_distance(x, y, own, 2, index, index, torch.ones(30))
        assert out.item() == pytest.approx(5, rel=1e-3)
        assert out > start
        out = max_gsw_distance(x, y, slicer)
        assert out.isfinite()
    if slicer in (None, "linear"):
        assert out.item() == pytest.approx(5, rel=1e-3)


@pytest.mark.parametrize("slicer", [None, "linear", "mlp", "polynomial", "identity"])
def test_slicers_by_name(slicer):
    x, y = torch.randn(6, 2).double(), torch.randn(4, 2).double()
    for function in (gsw_distance, max_gsw_distance):
        out = function(x, y, slicer)
        assert out.shape == ()
        assert out.dtype == torch.double
        assert not out.requires_grad
        assert out > 0
        assert function(x, x, slicer) == 0


def test_default_slices_are_many_directions():
    x = torch.zeros(1, 2)
    y = torch.tensor([[3.0, 4]])
    # The mean of cos^2 is 1/2, over orthogonal pairs of directions exactly.
    assert gsw_distance(x, y).item() == pytest.approx(5 * 0.5**0.5)
    with pytest.raises(ValueError, match=r"'slicer' must be one of .*'cubic'"):
        gsw_distance(x, y, "cubic")
