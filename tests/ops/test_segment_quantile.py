import math
from fractions import Fraction
from functools import partial
from itertools import product

import backends
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gswe_pyg.ops import backend, segment_quantile
from gswe_pyg.ops.interpolation import INTERPOLATIONS

WEIGHTED = ("linear", "step", "barycentric")

SIZES = [0, 5, 1, 8, 0, 0, 8, 3, 40, 2, 0]

ragged = partial(
    backends.ragged, channels=3, sizes=SIZES, dtype=torch.float64, boundaries=True
)


def quantile_by_definition(values, weights, num_points, interpolation):
    """One set in exact rational arithmetic, straight from the definition."""
    pairs = sorted(zip(values, weights, strict=True))
    pairs = [(Fraction(v), Fraction(w)) for v, w in pairs if w > 0]
    n, total = len(pairs), sum(w for _, w in pairs)
    ends = [sum(w for _, w in pairs[: j + 1]) / total for j in range(n)]
    starts = [0, *ends[:-1]]
    s = [v for v, _ in pairs]
    if interpolation == "step":
        ranks = [Fraction(2 * m + 1, 2 * num_points) for m in range(num_points)]
        return [next(v for v, end in zip(s, ends) if end >= q) for q in ranks]  # noqa: B905
    if interpolation == "barycentric":
        out = []
        for m in range(num_points):
            left, right = Fraction(m, num_points), Fraction(m + 1, num_points)
            pieces = zip(s, starts, ends, strict=True)
            out.append(
                num_points
                * sum(v * max(0, min(b, right) - max(a, left)) for v, a, b in pieces)
            )
        return out
    if interpolation == "linear":
        # The mean over a window as wide as an element is on average.
        width = sum(w * w for _, w in pairs) / total**2
        out = []
        for m in range(num_points):
            center = Fraction(2 * m + 1, 2 * num_points)
            left = min(max(center - width / 2, 0), 1 - width)
            pieces = zip(s, starts, ends, strict=True)
            parts = (
                v * max(0, min(b, left + width) - max(a, left)) for v, a, b in pieces
            )
            out.append(sum(parts) / width)
        return out
    knots = [end * n / (n + 1) for end in ends]
    ranks = [Fraction(m + 1, num_points + 1) for m in range(num_points)]
    out = []
    for q in ranks:
        j = max((j for j in range(n) if knots[j] <= q), default=0)
        j = max(min(j, n - 2), 0)
        if n == 1:
            out.append(s[0])
            continue
        fraction = (q - knots[j]) / (knots[j + 1] - knots[j])
        out.append(s[j] + fraction * (s[j + 1] - s[j]))
    return out


def by_definition(src, ptr, num_points, interpolation, weight=None):
    out = torch.zeros(len(ptr) - 1, src.shape[1], num_points, dtype=torch.float64)
    weight = torch.ones(len(src)) if weight is None else weight
    for i, (a, b) in enumerate(zip(ptr.tolist(), ptr[1:].tolist(), strict=False)):
        for k in range(src.shape[1] if b > a else 0):
            points = quantile_by_definition(
                src[a:b, k].tolist(), weight[a:b].tolist(), num_points, interpolation
            )
            out[i, k] = torch.tensor([float(point) for point in points])
    return out


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_points", [1, 2, 8, 13])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_segment_quantile(dtype, num_points, interpolation):
    src, ptr = ragged(dtype=dtype)
    out = segment_quantile(src, ptr, num_points, interpolation)
    assert out.shape == (len(SIZES), 3, num_points)
    assert out.dtype == dtype
    expected = by_definition(src, ptr, num_points, interpolation).to(dtype)
    torch.testing.assert_close(out, expected)
    assert int(out[[0, 4, 5, -1]].count_nonzero()) == 0
    # With a gradient, another path is taken, to the same bits.
    assert segment_quantile(src.requires_grad_(), ptr, num_points, interpolation).equal(
        out
    )


@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("num_points", [1, 4, 13])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_weighted_segment_quantile(dtype, num_points, interpolation):
    src, ptr = ragged(dtype=dtype)
    weight = torch.rand(len(src), generator=torch.Generator().manual_seed(1)).to(dtype)
    weight[::5] = 0
    weight[5] = 1  # alone in its graph
    out = segment_quantile(src, ptr, num_points, interpolation, weight)
    assert out.dtype == dtype
    expected = by_definition(src, ptr, num_points, interpolation, weight).to(dtype)
    torch.testing.assert_close(out, expected)


@given(
    values=st.lists(st.integers(-4, 4), min_size=1, max_size=9),
    num_points=st.integers(1, 9),
    interpolation=st.sampled_from(INTERPOLATIONS),
    weighted=st.booleans(),
    data=st.data(),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_segment_quantile_of_ties_and_whole_weights(
    values, num_points, interpolation, weighted, data
):
    weight = None
    if weighted and interpolation != "pswe":
        size = len(values)
        counts = st.lists(st.integers(0, 3), min_size=size, max_size=size).filter(any)
        weight = torch.tensor(data.draw(counts), dtype=torch.float64)
    src = torch.tensor(values, dtype=torch.float64)[:, None]
    ptr = torch.tensor([0, len(values)])
    out = segment_quantile(src, ptr, num_points, interpolation, weight)
    expected = by_definition(src, ptr, num_points, interpolation, weight)
    if interpolation == "step":
        assert out.equal(expected)
    else:
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("num_points", [1, 3, 16, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_is_numpys_hazen(dtype, num_points):
    rng = np.random.default_rng(0)
    q = (np.arange(num_points) + 0.5) / num_points
    for n in [1, 2, 7, 16, 33, 200]:
        x = rng.standard_normal((n, 4)).astype(dtype)
        out = segment_quantile(torch.from_numpy(x), torch.tensor([0, n]), num_points)
        expected = np.quantile(x.astype(np.float64), q, axis=0, method="hazen").T
        tolerance = 1e-12 if dtype is np.float64 else 1e-6
        np.testing.assert_allclose(out[0], expected, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_step_is_numpys_inverted_cdf(dtype):
    rng = np.random.default_rng(0)
    for n, num_points in product([1, 2, 7, 16, 33, 200], [1, 3, 8, 16, 50]):
        x = rng.standard_normal((n, 4)).astype(dtype)
        out = segment_quantile(
            torch.from_numpy(x), torch.tensor([0, n]), num_points, "step"
        )
        q = (np.arange(num_points) + 0.5) / num_points
        expected = np.quantile(x, q, axis=0, method="inverted_cdf").T
        # Where n q is a whole number, numpy's rounding of q decides on the neighbour.
        exact = [Fraction(n * (2 * m + 1), 2 * num_points) for m in range(num_points)]
        is_tie = np.array([fraction.denominator == 1 for fraction in exact])
        assert (out[0].numpy()[:, ~is_tie] == expected[:, ~is_tie]).all()
        rank = [math.ceil(fraction) - 1 for fraction in exact]
        assert (out[0].numpy() == np.sort(x, axis=0)[rank].T).all()


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_equal_sizes_return_the_sorted_values(dtype, interpolation, name):
    src, ptr = ragged(sizes=[6, 6, 6], dtype=dtype)
    with backend(name):
        out = segment_quantile(src, ptr, 6, interpolation)
    assert out.dtype == dtype
    assert out.equal(src.view(3, 6, 3).mT.sort(dim=-1).values)


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_half_precision_is_rounded_once(interpolation, dtype, name):
    src, ptr = ragged(dtype=dtype)
    with backend(name):
        out = segment_quantile(src, ptr, 7, interpolation)
        expected = segment_quantile(src.float(), ptr, 7, interpolation).to(dtype)
    assert out.equal(expected)
    # The mean of many small values would stall if it were summed in half precision.
    many = torch.full((5000, 1), 0.1, dtype=dtype)
    with backend(name):
        mean = segment_quantile(many, torch.tensor([0, 5000]), 1, "barycentric")
    assert mean.item() == many[0].item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_half_precision_gradients(weighted, dtype):
    src, ptr = ragged(dtype=dtype)
    weight = (torch.rand(len(src)) + 0.5).to(dtype) if weighted else None
    src.requires_grad_()
    out = segment_quantile(src, ptr, 7, "linear", weight)
    (grad,) = torch.autograd.grad(out.square().sum(), src)
    assert grad.dtype == dtype
    src32 = src.detach().float().requires_grad_()
    weight32 = None if weight is None else weight.float()
    out = segment_quantile(src32, ptr, 7, "linear", weight32)
    (expected,) = torch.autograd.grad(out.square().sum(), src32)
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(grad.float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_whole_weights_are_repetitions(dtype, interpolation):
    src, ptr = ragged(dtype=dtype)
    weight = torch.randint(
        1, 5, (len(src),), generator=torch.Generator().manual_seed(1)
    )
    repeated = src.repeat_interleave(weight, dim=0)
    repeated_ptr = torch.cat([weight.new_zeros(1), weight.cumsum(0)])[ptr]
    for num_points in [1, 4, 7, 16]:
        out = segment_quantile(src, ptr, num_points, interpolation, weight.to(dtype))
        with backend("torch"):
            expected = segment_quantile(
                repeated, repeated_ptr, num_points, interpolation
            )
        if interpolation == "step":
            assert out.equal(expected)
        else:  # the same sum, in another order
            torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_zero_weights_are_absent(interpolation):
    src, ptr = ragged()
    generator = torch.Generator().manual_seed(1)
    weight = torch.rand(len(src), generator=generator, dtype=torch.float64)
    weight[torch.randperm(len(src), generator=generator)[:20]] = 0
    weight[ptr[:-1][ptr.diff() > 0]] = 0.5  # at least one element in each graph
    src[weight == 0] = torch.nan  # not even looked at
    present = weight > 0
    present_ptr = torch.cat([ptr.new_zeros(1), present.cumsum(0)])[ptr]
    src.requires_grad_()
    weight.requires_grad_()
    out = segment_quantile(src, ptr, 7, interpolation, weight)
    expected = segment_quantile(
        src[present], present_ptr, 7, interpolation, weight[present]
    )
    torch.testing.assert_close(out, expected)
    grads = torch.autograd.grad(out.square().sum(), [src, weight])
    for grad in grads:
        assert bool(grad.isfinite().all())
        assert int(grad[~present].count_nonzero()) == 0  # NaN: not even as a limit


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_equal_weights_are_no_weights(interpolation):
    src, ptr = ragged()
    for value in (1.0, 0.25, 1e-30, 1e30):
        weight = torch.full((len(src),), value, dtype=torch.float64)
        out = segment_quantile(src, ptr, 7, interpolation, weight)
        torch.testing.assert_close(out, segment_quantile(src, ptr, 7, interpolation))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_points", [1, 3, 5])
def test_gradcheck(num_points, interpolation):
    src, ptr = ragged(sizes=[0, 5, 1, 3, 0, 2], channels=2)
    src.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda src: segment_quantile(src, ptr, num_points, interpolation), src
    )
    assert torch.autograd.gradgradcheck(
        lambda src: segment_quantile(src, ptr, num_points, interpolation).square(), src
    )


@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("num_points", [1, 3, 5])
def test_weighted_gradcheck(num_points, interpolation):
    src, ptr = ragged(sizes=[0, 4, 1, 2], channels=2)
    generator = torch.Generator().manual_seed(1)
    weight = torch.rand(len(src), generator=generator, dtype=torch.float64) + 0.2
    inputs = (src.requires_grad_(), weight.requires_grad_())

    def function(src, weight):
        return segment_quantile(src, ptr, num_points, interpolation, weight)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(
        lambda *inputs: function(*inputs).square(), inputs, fast_mode=True
    )


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_of_ties_shares_the_same_sum(weighted, interpolation):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    # Moving all tied values together moves the points as any of them alone would.
    src = torch.tensor([[1.0], [1.0], [1.0], [2.0], [2.0]], requires_grad=True)
    weight = torch.ones(5, requires_grad=True) if weighted else None
    out = segment_quantile(src, torch.tensor([0, 5]), 4, interpolation, weight)
    (grad,) = torch.autograd.grad(out.sum(), src, retain_graph=True)
    assert bool(grad.isfinite().all())
    torch.testing.assert_close(grad.sum(), torch.tensor(4.0))
    if weighted:
        (grad,) = torch.autograd.grad(out.sum(), weight)
        assert bool(grad.isfinite().all())


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_gradient_of_weights_between_ties_is_zero(interpolation):
    src = torch.full((4, 2), 3.0)
    weight = torch.rand(4, requires_grad=True)
    out = segment_quantile(src, torch.tensor([0, 4]), 5, interpolation, weight)
    torch.testing.assert_close(out, torch.full_like(out, 3.0))
    (grad,) = torch.autograd.grad(out.sum(), weight)
    torch.testing.assert_close(grad, torch.zeros(4), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_no_values_or_no_graphs(interpolation, weighted, name):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    with backend(name):
        for num_elements, num_slices, ptr in [
            (0, 3, [0]),
            (0, 3, [0, 0, 0]),
            (2, 0, [0, 2]),
        ]:
            src = torch.randn(num_elements, num_slices, requires_grad=True)
            weight = torch.ones(num_elements) if weighted else None
            out = segment_quantile(src, torch.tensor(ptr), 4, interpolation, weight)
            assert out.shape == (len(ptr) - 1, num_slices, 4)
            assert int(out.count_nonzero()) == 0
            (grad,) = torch.autograd.grad(out.sum(), src)
            assert grad.equal(torch.zeros_like(src))


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_special_values_stay_in_their_graph(
    interpolation, weighted, requires_grad, name
):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    clean, ptr = ragged(sizes=[4, 4, 4, 4, 4], channels=2, dtype=torch.float32)
    src = clean.clone()
    src[5], src[10], src[14] = torch.nan, torch.inf, -torch.inf
    src.requires_grad_(requires_grad)
    weight = torch.ones(20) if weighted else None
    with backend(name):
        out = segment_quantile(src, ptr, 4, interpolation, weight)
        expected = segment_quantile(clean, ptr, 4, interpolation, weight)
    assert out[[0, 4]].equal(expected[[0, 4]])
    # No sentinel: all come out where they belong, and finite values are not harmed.
    for i, rank, test in [
        (1, 3, torch.isnan),
        (2, 3, torch.isposinf),
        (3, 0, torch.isneginf),
    ]:
        values = src.detach()[4 * i : 4 * i + 4].sort(dim=0).values.t()
        assert bool(test(out[i, :, rank]).all())
        others = [r for r in range(4) if r != rank]
        assert out[i][:, others].equal(values[:, others])


def test_input_is_left_alone():
    src, ptr = ragged(dtype=torch.float32)
    before = src.clone(), ptr.clone()
    for name in backends.available():
        with backend(name):
            segment_quantile(src, ptr, 4)
            segment_quantile(src.t().contiguous().t(), ptr, 4)
            segment_quantile(src, ptr, 4, weight=torch.ones(len(src)))
    assert src.equal(before[0])
    assert ptr.equal(before[1])


def test_segment_quantile_accepts_any_strides_and_index_width():
    src, ptr = ragged(dtype=torch.float32)
    out = segment_quantile(src, ptr, 4)
    assert segment_quantile(src.t().contiguous().t(), ptr, 4).equal(out)
    wide = torch.stack([src, -src], dim=-1).flatten(1)
    assert segment_quantile(wide[:, ::2], ptr.int(), 4).equal(out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_opcheck(weighted, dtype):
    src, ptr = ragged(sizes=[0, 3, 1, 4], channels=2, dtype=dtype)
    src.requires_grad_()
    name = backends.available(dtype)[0]
    ops = torch.ops.gswe_pyg
    if weighted:
        weight = torch.rand(len(src)).to(dtype).add(0.1).requires_grad_()
        reads = (3, "linear", True, [], None)
        args = (src, ptr, weight, *reads, True, name)
        torch.library.opcheck(ops.weighted_segment_quantile.default, args)
        order = ops.weighted_segment_quantile(*args)[1]
        grad = torch.randn(4, 2, 5, dtype=dtype)
        args = (grad, src.detach(), order, ptr, weight.detach(), *reads, True, name)
        torch.library.opcheck(ops.weighted_segment_quantile_adjoint.default, args)
        return
    args = (src, ptr, 3, "linear", True, [], None, True, name)
    torch.library.opcheck(ops.segment_quantile.default, args)
    order = ops.segment_quantile(*args)[1]
    args = (src, order, ptr, 3, "linear", True, [], None, name)
    torch.library.opcheck(ops.segment_quantile_apply.default, args)
    grad = torch.randn(4, 2, 5, dtype=dtype, requires_grad=True)
    args = (grad, order, ptr, 3, "linear", True, [], None, name)
    torch.library.opcheck(ops.segment_quantile_adjoint.default, args)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": torch.randn(4)}, r"'src' must be .*\[4\]"),
        ({"src": torch.arange(8).view(4, 2)}, r"'src' must be .*torch.int64"),
        ({"ptr": torch.tensor([0.0, 4.0])}, r"'ptr' must be .*torch.float32"),
        ({"ptr": torch.tensor([[0, 4]])}, r"'ptr' must be .*\[1, 2\]"),
        ({"ptr": torch.tensor([], dtype=torch.long)}, r"'ptr' must be .*\[0\]"),
        ({"ptr": torch.tensor([0, 3, 2, 4])}, r"'ptr' must increase .*not sorted"),
        ({"ptr": torch.tensor([1, 4])}, r"'ptr' must increase from 0 .*got 1 to 4"),
        ({"ptr": torch.tensor([0, 5])}, r"'ptr' must increase .*4 \(got 0 to 5"),
        ({"num_points": 0}, r"'num_points' must be a positive integer \(got 0\)"),
        ({"interpolation": "cubic"}, r"'interpolation' must be one of .*'cubic'"),
        ({"weight": torch.ones(3)}, r"'weight' must have .* 4 elements .*\[3\]"),
        ({"weight": torch.ones(4, 1)}, r"'weight' must have .*\[4, 1\]"),
        ({"weight": torch.ones(4).long()}, r"'weight' must be .*'weight.float\(\)'"),
        ({"weight": torch.tensor([1.0, -2.0, 1.0, 1.0])}, r"not negative \(got -2.0\)"),
        ({"weight": torch.tensor([1.0, torch.nan, 1.0, 1.0])}, r"finite .*got nan"),
        ({"weight": torch.tensor([1.0, torch.inf, 1.0, 1.0])}, r"finite .*got inf"),
        (
            {"weight": torch.ones(4), "interpolation": "pswe"},
            r"'weight' must be None .*'pswe'.*: use 'linear'",
        ),
        (
            {"weight": torch.tensor([1.0, 1, 0, 0]), "ptr": torch.tensor([0, 2, 2, 4])},
            r"'weight' must be positive .*graph 2\): remove its elements",
        ),
    ],
)
def test_bad_input(changes, message):
    arguments = {
        "src": torch.randn(4, 2),
        "ptr": torch.tensor([0, 4]),
        "num_points": 3,
        "interpolation": "linear",
        "weight": None,
    }
    segment_quantile(**arguments)
    with pytest.raises(ValueError, match=message):
        segment_quantile(**{**arguments, **changes})
