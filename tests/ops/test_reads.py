"""What can be read besides the points of a grid: extremes, levels, heads."""

import math
from fractions import Fraction
from functools import partial

import backends
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import QuantileAggregation

from gswe_pyg.ops import (
    backend,
    buckets,
    plan,
    segment_heads,
    segment_quantile,
    segment_quantile_at,
)
from gswe_pyg.ops.interpolation import (
    INTERPOLATIONS,
    LEVEL_INTERPOLATIONS,
    level_as_fraction,
    neighbours_at,
)
from gswe_pyg.ops.plan import Plan, Reads, make_terms

BACKENDS = backends.available()
WEIGHTED = ("linear", "step", "barycentric")
SIZES = [0, 5, 1, 8, 0, 40, 2, 17, 0]

ragged = partial(backends.ragged, channels=19, sizes=SIZES, boundaries=True)


def index_of(ptr):
    return torch.repeat_interleave(ptr.diff())


def counts_for(ptr, seed=1):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 4, (int(ptr[-1]),), generator=generator)
    counts[ptr[:-1][ptr.diff() > 0]] = 2
    return counts


def repeat(src, ptr, counts):
    repeated = src.repeat_interleave(counts, dim=0)
    return repeated, torch.cat([counts.new_zeros(1), counts.cumsum(0)])[ptr]


# Extremes #############################################################################


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_extremes_are_appended(weighted, interpolation, name):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    src, ptr = ragged()
    weight = counts_for(ptr).float() if weighted else None
    with backend(name):
        out = segment_quantile(src, ptr, 5, interpolation, weight, extremes=True)
        inner = segment_quantile(src, ptr, 5, interpolation, weight)
    assert out.shape == (len(SIZES), 19, 7)
    assert out[..., :5].equal(inner)
    for i, (a, b) in enumerate(zip(ptr.tolist(), ptr[1:].tolist(), strict=False)):
        part = src[a:b] if weight is None else src[a:b][weight[a:b] > 0]
        if a == b:
            assert not out[i].any()
        else:
            assert out[i, :, 5].equal(part.amin(0))
            assert out[i, :, 6].equal(part.amax(0))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_of_extremes_goes_to_one_row(weighted, name):
    src = torch.tensor([1.0, 3.0, 1.0, 3.0, 2.0, 0.0])[:, None].requires_grad_()
    weight = torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0, 0.0]) if weighted else None
    x = src if weighted else src[:5]
    ptr = torch.tensor([0, len(x)])
    with backend(name):
        out = segment_quantile(x, ptr, 1, "step", weight, extremes=True)
        assert out[0, 0, 1:].tolist() == [1.0, 3.0]
        (low,) = torch.autograd.grad(out[..., 1].sum(), src, retain_graph=True)
        (high,) = torch.autograd.grad(out[..., 2].sum(), src)
    assert low[:, 0].tolist() == [1, 0, 0, 0, 0, 0]  # the first of equal ones
    assert high[:, 0].tolist() == [0, 0, 0, 1, 0, 0]  # the last


def assert_all_close(results, **tolerances):
    if len(results) == 1:
        pytest.skip("there is one backend only")
    for result in results[1:]:
        for a, b in zip(results[0], result, strict=True):
            torch.testing.assert_close(a, b, **tolerances)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_backends_agree_on_extremes(weighted, interpolation):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    src, ptr = ragged()
    src = src.mul(2).round().div(2)  # ties
    weight = counts_for(ptr).float() if weighted else None
    results = []
    for name in BACKENDS:
        with backend(name):
            x = src.clone().requires_grad_()
            out = segment_quantile(x, ptr, 6, interpolation, weight, extremes=True)
            grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
            results.append([out, *torch.autograd.grad(out, x, grad)])
    assert_all_close(results)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_of_extremes_and_levels(weighted):
    src, ptr = ragged(sizes=[0, 5, 1, 3], channels=2, dtype=torch.float64)
    src.requires_grad_()
    inputs = [src]
    if weighted:
        weight = torch.rand(len(src), generator=torch.Generator().manual_seed(1))
        inputs.append(weight.double().add(0.7).requires_grad_())

    def grid(src, weight=None):
        return segment_quantile(src, ptr, 3, "linear", weight, extremes=True)

    def levels(src, weight=None):
        return segment_quantile_at(src, ptr, (0.9, 0.3), "linear", weight)

    for function in (grid, levels):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(
            lambda *x, function=function: function(*x).square(), inputs
        )


# Levels ###############################################################################

LEVELS = (0.0, 0.1, 0.25, 0.5, 0.29, 0.7, 1 / 3, 0.95, 1.0)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint"])
def test_levels_are_those_of_pyg(interpolation, name):
    src, ptr = ragged(sizes=[5, 1, 8, 0, 101, 2, 31, 4, 0], channels=3)
    expected = QuantileAggregation(list(LEVELS), interpolation)(
        src, index_of(ptr), dim_size=len(ptr) - 1
    )
    with backend(name):
        out = segment_quantile_at(src, ptr, LEVELS, interpolation)
    torch.testing.assert_close(
        out, expected.view(len(ptr) - 1, len(LEVELS), 3).mT, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_nearest_is_that_of_pyg_on_a_set_of_its_own(name):
    # In a batch, PyG rounds from half to even as counted from its first row.
    for size in range(1, 40):
        src = torch.randn(size, 2, generator=torch.Generator().manual_seed(size))
        index = torch.zeros(size, dtype=torch.long)
        expected = QuantileAggregation(list(LEVELS), "nearest")(src, index)
        with backend(name):
            out = segment_quantile_at(src, torch.tensor([0, size]), LEVELS, "nearest")
        assert out[0].equal(expected.view(len(LEVELS), 2).t())


@pytest.mark.parametrize("interpolation", LEVEL_INTERPOLATIONS)
def test_places_of_levels_are_exact(interpolation):
    sizes = np.array([1, 2, 3, 5, 101, 1001, 40_000_001, 2**31 + 11])
    levels = (*LEVELS, 0.123456789012345, 1e-12)
    near = neighbours_at(sizes, levels, interpolation)
    for i, n in enumerate(sizes.tolist()):
        for k, level in enumerate(levels):
            place = level_as_fraction(level) * (n - 1)
            low, high = math.floor(place), math.ceil(place)
            if interpolation == "nearest":
                low = high = round(place)  # from half to even
            low = high if interpolation == "higher" else low
            high = low if interpolation == "lower" else high
            assert (near.lower[i, k], near.upper[i, k]) == (low, high)
            fraction = Fraction(1, 2) if high > low else Fraction(0)
            if interpolation == "linear":
                fraction = place - low
            assert near.upper_weight[i, k] == float(fraction)
            assert near.lower_weight[i, k] == float(1 - fraction)


def test_levels_mean_what_was_written():
    assert level_as_fraction(0.29) == Fraction(29, 100)
    assert level_as_fraction(1 / 3) == Fraction(1, 3)
    assert float(level_as_fraction(0.123456789012345)) == 0.123456789012345


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("interpolation", LEVEL_INTERPOLATIONS)
def test_integer_weights_of_levels_are_repetitions(interpolation, name):
    src, ptr = ragged()
    counts = counts_for(ptr)
    with backend(name):
        out = segment_quantile_at(src, ptr, LEVELS, interpolation, counts.float())
        expected = segment_quantile_at(*repeat(src, ptr, counts), LEVELS, interpolation)
    if interpolation == "linear":
        torch.testing.assert_close(out, expected)
    else:
        assert out.equal(expected)


@pytest.mark.parametrize("interpolation", LEVEL_INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_backends_agree_on_levels(weighted, interpolation):
    src, ptr = ragged()
    src = src.mul(2).round().div(2)
    weight = None
    if weighted:
        weight = torch.rand(len(src), generator=torch.Generator().manual_seed(1)) + 0.6
    results = []
    for name in BACKENDS:
        with backend(name):
            x = src.clone().requires_grad_()
            w = weight.clone().requires_grad_() if weighted else None
            out = segment_quantile_at(x, ptr, LEVELS, interpolation, w)
            grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
            inputs = [x, w] if weighted else [x]
            results.append([out, *torch.autograd.grad(out, inputs, grad)])
    assert_all_close(results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("q", [0.5, (0.5,), [0.5]])
def test_one_level(q):
    src, ptr = ragged()
    out = segment_quantile_at(src, ptr, q)
    assert out.shape == (len(SIZES), 19, 1)
    for i, part in enumerate(src.split(SIZES)):
        expected = part.quantile(0.5, dim=0) if len(part) else torch.zeros(19)
        torch.testing.assert_close(out[i, :, 0], expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": ()}, r"'q' must be .*from 0 to 1 \(got \(\)\)"),
        ({"q": 1.5}, r"'q' must be .*from 0 to 1 \(got 1.5\)"),
        ({"q": (0.5, float("nan"))}, r"'q' must be .*from 0 to 1"),
        ({"interpolation": "step"}, r"'interpolation' must be one of .*'step'"),
        (
            {"weight": torch.tensor([0.5, 0.25, 0.25, 0.0])},
            r"'weight' must count .*a total of 1 for .*graph 0.*multiply",
        ),
    ],
)
@pytest.mark.parametrize("name", BACKENDS)
def test_bad_levels(name, changes, message):
    arguments = {"src": torch.randn(4, 2), "ptr": torch.tensor([0, 4]), "q": 0.5}
    with backend(name):
        segment_quantile_at(**arguments)
        with pytest.raises(ValueError, match=message):
            segment_quantile_at(**{**arguments, **changes})


def test_a_single_element_may_have_any_weight():
    src, ptr = torch.tensor([[3.0], [4.0]]), torch.tensor([0, 1, 2])
    out = segment_quantile_at(src, ptr, (0.0, 0.7), weight=torch.tensor([0.25, 1.0]))
    assert out.tolist() == [[[3, 3]], [[4, 4]]]


# Masses ###############################################################################


def fading(name, interpolation, mass, level=False, num_points=5):
    values = torch.tensor([0.0, 100.0, 10.0, 7.0])[:, None]
    weight = torch.tensor([1.0, mass, 2.0, 1.5])
    ptr = torch.tensor([0, 4])
    with backend(name):
        if level:
            q = (0.0, 0.2, 0.5, 0.9, 1.0)
            return segment_quantile_at(values, ptr, q, "linear", weight)
        return segment_quantile(values, ptr, num_points, interpolation, weight)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("interpolation", "level"),
    [("linear", False), ("barycentric", False), ("linear", True)],
)
def test_a_mass_that_goes_to_zero_fades_out(interpolation, level, name):
    expected = fading(name, interpolation, 0.0, level)
    for mass in (1e-3, 1e-6, 1e-9, 1e-20, 1e-38):
        out = fading(name, interpolation, mass, level)
        assert float((out - expected).abs().max()) <= 1e3 * mass + 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_what_weights_of_one_and_two_give(name):
    # As documented: neither those of repetition, 0, 10, 10, nor without weights.
    src, ptr = torch.tensor([[0.0], [10.0]]), torch.tensor([0, 2])
    weight = torch.tensor([1.0, 2.0])
    with backend(name):
        out = segment_quantile(src, ptr, 3, "linear", weight)
        torch.testing.assert_close(out, torch.tensor([[[4.0, 8.0, 10.0]]]))
        # Only the shares count.
        assert segment_quantile(src, ptr, 3, "linear", 4 * weight).equal(out)


@pytest.mark.parametrize("name", BACKENDS)
def test_gradient_of_a_zero_weight(name):
    # The element's value against the mean, wherever it is among the others.
    for value in (-5.0, 0.0, 4.0, 9.0, 30.0):
        src = torch.tensor([0.0, value, 9.0])[:, None]
        weight = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
        with backend(name):
            out = segment_quantile(src, torch.tensor([0, 3]), 1, "barycentric", weight)
        (grad,) = torch.autograd.grad(out.sum(), weight)
        assert grad[1].item() == pytest.approx((value - 6) / 3)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("interpolation", ["linear", "barycentric"])
@pytest.mark.parametrize("num_points", [1, 2, 3, 7])
def test_gradient_of_zero_weights_is_that_of_a_small_step(
    num_points, interpolation, name
):
    generator = torch.Generator().manual_seed(0)
    src = torch.randn(9, 4, generator=generator)
    weight = torch.rand(9, generator=generator) + 0.3
    weight[[0, 4, 7]] = 0
    src[0], src[4] = -10, 10  # below and above all others
    ptr = torch.tensor([0, 9])
    grad = torch.randn(1, 4, num_points, generator=generator)

    def loss(src, weight):
        out = segment_quantile(src, ptr, num_points, interpolation, weight)
        return (grad.to(out.dtype) * out).sum()

    with backend(name):
        weight.requires_grad_()
        (actual,) = torch.autograd.grad(loss(src, weight), weight)
    weight = weight.detach().double()
    for j in (0, 4, 7):
        step = 1e-6 * torch.eye(9, dtype=torch.float64)[j]
        with backend("torch"):
            ends = [loss(src.double(), w) for w in (weight, weight + step)]
        expected = float(ends[1] - ends[0]) / 1e-6
        assert actual[j].item() == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("scale", [1e307, 1e-307, 1e-320])
def test_large_and_small_weights(scale, interpolation, name):
    src, ptr = ragged(sizes=[4, 3, 6], channels=3)
    weight = torch.rand(13, generator=torch.Generator().manual_seed(0)).double() + 0.5
    other = weight.clone()
    other[4:7] *= scale  # one set's do not matter for another
    with backend(name):
        expected = segment_quantile(src, ptr, 5, interpolation, weight, extremes=True)
        out = segment_quantile(src, ptr, 5, interpolation, other, extremes=True)
    assert out[[0, 2]].equal(expected[[0, 2]])
    tolerance = 1e-2 if scale == 1e-320 else 1e-6  # of which few digits are left
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)


# Heads ################################################################################


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_heads_are_sums_of_points(weighted, extremes, name):
    src, ptr = ragged()
    weight = counts_for(ptr).float() if weighted else None
    head_weight = torch.randn(
        3, 19, 6 + 2 * extremes, generator=torch.Generator().manual_seed(1)
    )
    with backend(name):
        points = segment_quantile(src, ptr, 6, "barycentric", weight, extremes)
        out = segment_heads(
            src, ptr, head_weight, 6, "barycentric", weight, extremes=extremes
        )
    expected = (points[:, None] * head_weight).sum(-1)
    assert out.shape == (len(SIZES), 3, 19)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BACKENDS)
def test_values_with_a_sign_that_is_not_in_memory(name):
    src = torch.tensor([[1 + 2j]]).conj().imag
    assert src.is_neg()
    ptr, ones = torch.tensor([0, 1]), torch.ones(1, 1, 1)
    with backend(name):
        assert segment_quantile(src, ptr, 1).tolist() == [[[-2.0]]]
        assert segment_heads(src, ptr, ones, 1).tolist() == [[[-2.0]]]
        weighted = segment_quantile(src, ptr, 1, weight=torch.ones(1))
        assert weighted.tolist() == [[[-2.0]]]


def test_bad_heads():
    src, ptr = ragged()
    message = (
        r"'head_weight' must be of shape \[num_heads, 19, 7\] with one head or more "
        r"\(got \[2, 19, 5\]"
    )
    with pytest.raises(ValueError, match=message):
        segment_heads(src, ptr, torch.randn(2, 19, 5), 5, extremes=True)
    for wrong, got in (
        (torch.ones(2, 19, 7, dtype=torch.int64), "torch.int64 on 'cpu'"),
        (torch.ones(2, 19, 7, device="meta"), "torch.float32 on 'meta'"),
    ):
        message = rf"'head_weight' must be a floating point tensor on 'cpu'.*{got}"
        with pytest.raises(ValueError, match=message):
            segment_heads(src, ptr, wrong, 5, extremes=True)


# The plan #############################################################################


@pytest.mark.parametrize(
    "reads",
    [
        *(Reads(5, i, extremes=e) for i in INTERPOLATIONS for e in (False, True)),
        *(Reads(0, i, levels=(0.3, 0.9)) for i in LEVEL_INTERPOLATIONS),
    ],
    ids=str,
)
def test_terms_are_averages_of_used_values(reads):
    sizes = np.array([1, 2, 3, 5, 8, 31])
    terms = make_terms(sizes, reads)
    assert len(terms.first) == len(sizes) * reads.num_reads + 1
    totals = np.add.reduceat(terms.weight, terms.first[:-1])
    np.testing.assert_allclose(totals, 1)
    for row, size in enumerate(sizes):
        used = terms.used[terms.first_used[row] : terms.first_used[row + 1]]
        assert (np.diff(used) > 0).all()
        assert used[0] >= 0
        assert used[-1] < size
        first = terms.first[row * reads.num_reads :]
        positions = terms.position[first[0] : first[reads.num_reads]]
        assert sorted(set(positions)) == list(range(len(used)))
        assert len(positions) <= reads.max_terms(int(size))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_kept_terms_are_bounded_by_bytes(interpolation, monkeypatch):
    monkeypatch.setattr(plan, "_kept", plan._Kept())
    monkeypatch.setattr(plan, "_KEPT_BYTES", 1 << 20)
    for num_points in (5, 50, 2000, 10_000):
        for largest in (20, 300, 700):
            ptr = np.concatenate([[0], np.cumsum(np.arange(1, largest + 1))])
            reads = Reads(num_points, interpolation)
            terms = Plan(ptr, reads).terms
            assert plan._kept.num_bytes <= 1 << 20
            kept = [plan._num_bytes(found) for found in plan._kept._entries.values()]
            assert sum(kept) == plan._kept.num_bytes
            if sum(array.nbytes for array in terms) < 1 << 18:
                with monkeypatch.context() as patch:  # the backward pass finds them
                    patch.setattr(plan, "make_terms", None)
                    again = Plan(ptr, reads).terms
                assert all(map(np.array_equal, again, terms))


def test_terms_of_a_batch_are_those_of_its_sizes(monkeypatch):
    monkeypatch.setattr(plan, "_kept", plan._Kept())
    reads = Reads(5, "barycentric", extremes=True)
    Plan(np.array([0, 256]), reads)  # a table, of a size that occurs below
    for sizes in ([300, 0, 256], [256, 300, 700, 1], [700, 300]):
        found = Plan(np.cumsum([0, *sizes]), reads)
        for row, size in zip(found.rows, sizes, strict=True):
            own = make_terms(np.array([max(size, 1)]), reads)
            first = found.terms.first[row * 7 : row * 7 + 8]
            assert (np.diff(first) == np.diff(own.first)).all()
            inside = slice(first[0], first[-1])
            assert (found.terms.weight[inside] == own.weight).all()
            assert (found.terms.position[inside] == own.position).all()
            used = slice(*found.terms.first_used[row : row + 2])
            assert (found.terms.used[used] == own.used).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_memory_of_torch_is_bounded_with_many_points(
    interpolation, weighted, monkeypatch
):
    """Whatever is made on the way is not larger than the budget says."""
    monkeypatch.setattr(buckets, "_BUDGET", 1 << 22)
    src, ptr = ragged(sizes=[60] * 40, channels=8)
    weight = torch.ones(len(src)) if weighted else None

    class Largest(TorchDispatchMode):
        num_bytes = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.shape != expected:
                self.num_bytes = max(self.num_bytes, out.nbytes)
            return out

    expected = (40, 8, 2000)  # the result itself
    with backend("torch"), Largest() as largest:
        segment_quantile(src, ptr, 2000, interpolation, weight)
    assert 0 < largest.num_bytes <= 1 << 22
