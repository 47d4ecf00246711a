"""The operator on generated batches, on every backend that is at hand."""

import loops
import numpy as np
import torch
from backends import available, run
from batches import (
    DTYPES,
    KINDS,
    Batch,
    batches,
    interpolations,
    num_points,
    seeds,
    weighted_interpolations,
)
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gswe_pyg.ops import backend, segment_quantile
from gswe_pyg.ops.segment_quantile import BACKENDS

FINITE = tuple(kind for kind in KINDS if kind != "infinite")
FAST = (torch.float32, torch.float16, torch.bfloat16)


def assert_near(actual, exact, bound, name):
    """Up to a few roundings of the largest number that was added."""
    info = torch.finfo(actual.dtype)
    actual = actual.double().numpy()
    with np.errstate(invalid="ignore"):
        near = np.abs(actual - exact) <= 4 * info.eps * bound + info.tiny
    same = (actual == exact) | (np.isnan(actual) & np.isnan(exact))
    wrong = ~(near | same)
    assert not wrong.any(), (
        f"'{name}' gives {actual[wrong][:5]} instead of {exact[wrong][:5]}"
    )


def by_loops(batch: Batch, points: int, interpolation: str, counts=None):
    """Points ``[B, L, M]`` and their bounds, one slice of one set after the other."""
    found = []
    counts = [None] * len(batch.sizes) if counts is None else counts
    for values, mass in zip(batch.sets(), counts, strict=True):
        for column in values.T:
            if mass is None:
                found.append(loops.quantile(column, points, interpolation))
            else:
                found.append(
                    loops.weighted_quantile(column, mass, points, interpolation)
                )
    shape = (2, len(batch.sizes), batch.src.shape[1], points)
    return np.array(found).transpose(1, 0, 2).reshape(shape)


# The weight of the first value was one minus that of the other, and lost digits.
FAR_APART = torch.tensor([[-1.5e201], [-1.5e-215]], dtype=torch.float64)


@given(batches(), num_points, interpolations)
@example(Batch(FAR_APART, torch.tensor([0, 2])), 24, "linear")
def test_points_are_those_of_a_loop_in_double_precision(batch, points, interpolation):
    exact, bound = by_loops(batch, points, interpolation)
    for name in available(batch.src.dtype):
        with backend(name):
            out = segment_quantile(batch.src, batch.ptr, points, interpolation)
        assert_near(out, exact, bound, name)
        # The path that remembers the order for a gradient.
        out, _ = run(batch.src, batch.ptr, points, interpolation, name)
        assert_near(out, exact, bound, name)


@given(batches(kinds=FINITE, largest=600), num_points, weighted_interpolations, seeds)
def test_weighted_points_are_those_of_a_loop(batch, points, interpolation, seed):
    random = np.random.default_rng(seed)
    counts = [random.integers(0, 5, size) for size in batch.sizes]
    for mass in counts:
        mass[:1] += mass.sum() == 0  # a set has some mass
    exact, bound = by_loops(batch, points, interpolation, counts)
    scale = 2.0 ** random.integers(-20, 20)
    weight = torch.from_numpy(np.concatenate(counts) * scale).float()
    out = segment_quantile(batch.src, batch.ptr, points, interpolation, weight)
    assert_near(out, exact, bound, "weighted")


@given(batches(), num_points, interpolations, seeds)
def test_the_order_of_elements_does_not_matter(batch, points, interpolation, seed):
    generator = torch.Generator().manual_seed(seed)
    order = torch.cat(
        [
            start + torch.randperm(size, generator=generator)
            for start, size in zip(batch.ptr.tolist(), batch.sizes, strict=False)
        ]
    )
    for name in available(batch.src.dtype):
        with backend(name):
            out = segment_quantile(batch.src, batch.ptr, points, interpolation)
            other = segment_quantile(batch.src[order], batch.ptr, points, interpolation)
        # Bit by bit, but for the sign of zero.
        torch.testing.assert_close(other, out, rtol=0, atol=0, equal_nan=True)


@given(batches(dtypes=FAST), num_points, interpolations, seeds)
def test_backends_agree(batch, points, interpolation, seed):
    grad = batch.grad(points, seed)
    names = available(batch.src.dtype)
    results = {
        name: run(batch.src, batch.ptr, points, interpolation, name, grad=grad)
        for name in names
    }
    eps = torch.finfo(batch.src.dtype).eps
    _, bound = by_loops(batch, points, interpolation)
    expected, expected_grad = results["torch"]
    for name in names:
        out, grad_src = results[name]
        if interpolation == "step":  # nothing is rounded
            torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
        else:
            assert_near(out, expected.double().numpy(), bound, name)
        # Ties included: the gradient goes to the same one of several equal values.
        scale = float(expected_grad.abs().max()) if expected_grad.numel() else 0.0
        torch.testing.assert_close(
            grad_src, expected_grad, rtol=8 * eps, atol=8 * eps * max(scale, 1.0)
        )


@given(batches(), num_points, interpolations, st.data())
def test_sets_do_not_disturb_each_other(batch, points, interpolation, data):
    spoiled = data.draw(st.integers(0, len(batch.sizes) - 1), "spoiled set")
    value = data.draw(st.sampled_from([torch.nan, torch.inf, -torch.inf, 1e4]), "value")
    src = batch.src.clone()
    src[batch.ptr[spoiled] : batch.ptr[spoiled + 1]] = value
    others = [i for i in range(len(batch.sizes)) if i != spoiled]
    for name in available(batch.src.dtype):
        with backend(name):
            out = segment_quantile(batch.src, batch.ptr, points, interpolation)
            other = segment_quantile(src, batch.ptr, points, interpolation)
        torch.testing.assert_close(
            other[others], out[others], rtol=0, atol=0, equal_nan=True
        )


@given(batches(kinds=("normal", "ties", "equal")), num_points, interpolations)
def test_scaling_moving_and_sorting(batch, points, interpolation):
    for name in available(batch.src.dtype):
        with backend(name):
            out = segment_quantile(batch.src, batch.ptr, points, interpolation)
            scaled = segment_quantile(batch.src * 4, batch.ptr, points, interpolation)
            # As many points as elements, set by set: the sorted values.
            for i, size in enumerate(batch.sizes):
                if size:
                    part = batch.src[batch.ptr[i] : batch.ptr[i + 1]]
                    ptr = torch.tensor([0, size])
                    own = segment_quantile(part, ptr, size, interpolation)[0]
                    assert own.equal(part.sort(dim=0).values.t())
        # A power of two changes no digit.
        assert scaled.equal(out * 4)
        slack = 8 * torch.finfo(out.dtype).eps * (1 + out.abs().double())
        assert bool((out.diff(dim=-1) >= -slack[..., 1:]).all())


@st.composite
def separated(draw):
    """A batch in double precision whose values are at least one apart in a slice."""
    lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4))
    random = np.random.default_rng(draw(seeds))
    num_slices = draw(st.integers(1, 3))
    columns = [
        random.permutation(sum(lengths)) * 1.5 + random.uniform(0, 0.5, sum(lengths))
        for _ in range(num_slices)
    ]
    src = torch.from_numpy(np.stack(columns, axis=1))
    return Batch(src, torch.tensor([0, *lengths]).cumsum(0))


@given(separated(), num_points, interpolations, seeds)
def test_gradient_is_that_of_finite_differences(batch, points, interpolation, seed):
    generator = torch.Generator().manual_seed(seed)
    direction = torch.rand(batch.src.shape, generator=generator).double() - 0.5
    grad = batch.grad(points, seed)
    # As long as the order stays the same, points are linear: the step may be large.
    ends = [
        segment_quantile(
            batch.src + sign * 0.5 * direction, batch.ptr, points, interpolation
        )
        for sign in (1, -1)
    ]
    expected = (grad * (ends[0] - ends[1])).sum()
    _, grad_src = run(batch.src, batch.ptr, points, interpolation, "torch", grad=grad)
    actual = (grad_src * direction).sum()
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@given(batches(kinds=("normal", "ties", "offset", "equal")), num_points, interpolations)
def test_gradient_in_low_precision_is_that_in_double(batch, points, interpolation):
    # Ties included, where finite differences say nothing. As points are homogeneous,
    # values times gradient are points times incoming gradient (Euler).
    grad = batch.grad(points, seed=0)
    exact_src = batch.src.double()
    arguments = (batch.ptr, points, interpolation)
    out, exact = run(exact_src, *arguments, "torch", grad=grad.double())
    total = (grad.double() * out).sum()
    # Rounding grows with what is added up: 1e-9 of it is far from any wrong digit.
    bound = float((grad.double() * out).abs().sum() + (exact_src * exact).abs().sum())
    assert abs(float((exact_src * exact).sum() - total)) <= 1e-9 * bound
    eps = torch.finfo(batch.src.dtype).eps
    scale = max(1.0, float(exact.abs().max()) if exact.numel() else 0.0)
    for name in available(batch.src.dtype):
        _, actual = run(batch.src, *arguments, name, grad=grad)
        assert actual.dtype == batch.src.dtype
        torch.testing.assert_close(
            actual.double(), exact, rtol=8 * eps, atol=8 * eps * scale
        )


@given(separated(), num_points, weighted_interpolations, seeds)
def test_gradient_of_weights_is_that_of_finite_differences(
    batch, points, interpolation, seed
):
    generator = torch.Generator().manual_seed(seed)
    num_elements = len(batch.src)
    weight = torch.rand(num_elements, generator=generator).double() + 0.5
    moved = [
        torch.rand(like.shape, generator=generator).double() - 0.5
        for like in (batch.src, weight)
    ]
    grad = batch.grad(points, seed)

    def loss(step):
        out = segment_quantile(
            batch.src + step * moved[0],
            batch.ptr,
            points,
            interpolation,
            weight + step * moved[1],
        )
        return float((grad * out).sum())

    step = 1e-6
    middle = loss(0)
    forward, backward = (loss(step) - middle) / step, (middle - loss(-step)) / step
    # Where a rank passes a knot within the step, there is no derivative.
    assume(abs(forward - backward) <= 1e-4 * (1 + abs(forward)))
    inputs = [batch.src.clone().requires_grad_(), weight.clone().requires_grad_()]
    out = segment_quantile(inputs[0], batch.ptr, points, interpolation, inputs[1])
    grads = torch.autograd.grad((grad * out).sum(), inputs)
    actual = sum(
        float((g * direction).sum()) for g, direction in zip(grads, moved, strict=True)
    )
    scale = 1 + sum(
        float((g * d).abs().sum()) for g, d in zip(grads, moved, strict=True)
    )
    assert abs(actual - (forward + backward) / 2) <= 1e-4 * scale


def test_every_backend_is_covered():
    assert all("torch" in available(dtype) for dtype in DTYPES)
    assert set(available(torch.float32)) <= set(BACKENDS)
