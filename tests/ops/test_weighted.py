"""Means over windows, from their definition, and gradients of masses where the ends of
windows meet those of elements: equal and whole masses, and masses of zero. Random
masses never get there."""

import threading
import time

import numpy as np
import pytest
import torch
from torch_geometric.nn import global_mean_pool

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import segment_quantile, segment_quantile_at, threads
from tests.backends import available, backend


def window_means(x, mass, num_points, interpolation):
    """By the definition, column by column, and the shares that they are made of."""
    total = mass.sum()
    begin = np.arange(num_points) / num_points * total
    width = np.full(num_points, total / num_points)
    if interpolation == "linear":
        width[:] = (mass**2).sum() / total
        begin = (begin + total / num_points / 2 - width / 2).clip(0, total - width)
    order = np.argsort(x, axis=0, kind="stable")
    ends = np.cumsum(mass[order], axis=0)[:, None]
    first, last = begin[:, None], (begin + width)[:, None]
    shares = ends.clip(first, last) - (ends - mass[order][:, None]).clip(first, last)
    shares /= width[:, None]
    values = np.take_along_axis(x, order, axis=0)
    return np.einsum("jl,jml->lm", values, shares), shares, order


@pytest.mark.parametrize(
    ("size", "num_points", "interpolation"),
    [
        (1, 4, "linear"),
        (5, 3, "barycentric"),
        (25, 32, "linear"),
        (150, 16, "barycentric"),
        (1500, 40, "linear"),
        (40, 5000, "barycentric"),
        (4000, 6, "linear"),
        (5000, 4, "linear"),
    ],
)
@pytest.mark.parametrize("skew", [1, 12])
@pytest.mark.parametrize("name", available())
def test_means_over_windows(size, num_points, interpolation, skew, name):
    rng = np.random.default_rng(size)
    x = rng.normal(size=(size, 17)).astype(np.float32)
    mass = (rng.uniform(0.1, 1.1, size) ** skew).astype(np.float32)
    expected, shares, order = window_means(
        x.astype(float), mass.astype(float), num_points, interpolation
    )
    factors = rng.normal(size=expected.shape).astype(np.float32)
    src = torch.from_numpy(x).requires_grad_()
    ptr, weight = torch.tensor([0, size]), torch.from_numpy(mass)
    with backend(name):
        points = segment_quantile(src, ptr, num_points, interpolation, weight)
        with torch.no_grad():
            alone = segment_quantile(src, ptr, num_points, interpolation, weight)
    np.testing.assert_allclose(alone[0], expected, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(points[0].detach(), expected, rtol=1e-6, atol=2e-6)
    (grad,) = torch.autograd.grad(points, src, torch.from_numpy(factors)[None])
    of_values = np.empty_like(x, float)
    np.put_along_axis(of_values, order, np.einsum("lm,jml->jl", factors, shares), 0)
    np.testing.assert_allclose(grad, of_values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("interpolation", ["linear", "barycentric"])
@pytest.mark.parametrize("name", available())
def test_infinity_beside_a_window_does_not_count(interpolation, name):
    # The window of the second of three points ends where infinity begins.
    src = torch.tensor([[-torch.inf], [1.0], [2.0], [3.0], [torch.nan]])
    weight = torch.tensor([7.0, 3.0, 1.0, 3.0, 7.0]) / 7
    with backend(name):
        points = segment_quantile(
            src, torch.tensor([0, 5]), 3, interpolation, weight, extremes=True
        )
    np.testing.assert_array_equal(points[0, 0, [0, 2, 3]], [-np.inf, np.nan, -np.inf])
    torch.testing.assert_close(points[0, 0, 1], torch.tensor(2.0))


def differences(function, weight, step=1e-6):
    """Central ones, and those to one side for masses of zero, which cannot fall."""
    slopes = []
    for j in range(len(weight)):
        shift = torch.zeros_like(weight)
        shift[j] = step
        below, width = (weight, step) if weight[j] == 0 else (weight - shift, 2 * step)
        slopes.append((function(weight + shift) - function(below)) / width)
    return torch.stack(slopes)


def assert_gradient_of_masses(x, weight, num_points, interpolation, factors):
    x, ptr = x[:, None], torch.tensor([0, len(x)])

    def value(weight, x=x):
        points = segment_quantile(x, ptr, num_points, interpolation, weight)
        return (points[0, 0] * factors).sum()

    expected = differences(value, weight)
    weight = weight.clone().requires_grad_()
    for name in available():
        dtype = torch.float64 if name == "torch" else torch.float32
        with backend(name):
            (grad,) = torch.autograd.grad(value(weight, x.to(dtype)), weight)
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4, 7, 8, 12, 16, 24])
def test_equal_masses(size):
    x = torch.arange(size).double()
    ones = torch.ones(size).double()
    assert_gradient_of_masses(x, ones, 8, "barycentric", torch.ones(8).double())


@pytest.mark.parametrize("seed", range(40))
def test_whole_masses_and_masses_of_zero(seed):
    generator = torch.Generator().manual_seed(seed)
    size, num_points = torch.randint(1, 9, (2,), generator=generator).tolist()
    weight = torch.randint(0, 4, (size,), generator=generator).double()
    weight[0] += 1
    x = torch.randperm(20, generator=generator)[:size].double()
    factors = torch.randn(num_points, generator=generator).double()
    assert_gradient_of_masses(x, weight, num_points, "barycentric", factors)


@pytest.mark.parametrize("num_others", [1, 2, 3])
def test_a_mass_of_zero_before_a_window(num_others):
    x = 10 * torch.arange(num_others + 1).double()
    weight = torch.ones(num_others + 1).double()
    weight[0] = 0
    first = torch.zeros(num_others).double()
    first[0] = 1
    assert_gradient_of_masses(x, weight, num_others, "linear", first)


@pytest.mark.parametrize("size", [2, 8, 12])
def test_one_head_has_the_gradient_of_the_weighted_mean(size):
    x = torch.randn(size, 3, generator=torch.Generator().manual_seed(0)).double()
    weight = torch.ones(size).double().requires_grad_()
    readout = GSWEAggregation(3, heads=1).double()
    readout.reset_parameters()
    (grad,) = torch.autograd.grad(readout(x, weight=weight).sum(), weight)
    index = torch.zeros(size, dtype=torch.long)
    mean = global_mean_pool(x * weight[:, None], index) / weight.mean()
    torch.testing.assert_close(grad, torch.autograd.grad(mean.sum(), weight)[0])


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("size", [3, 10, 12, 30])
def test_the_last_digits_of_equal_masses_do_not_count(size, name):
    x, ptr = torch.arange(float(size))[:, None], torch.tensor([0, size])
    for num_points in (1, 2, 3, 5, 6, 8):
        with backend(name):
            expected = segment_quantile(x, ptr, num_points, "step")
            for mass in (1 / size, 0.1):
                weight = torch.full((size,), mass, dtype=torch.float64)
                out = segment_quantile(x, ptr, num_points, "step", weight)
                assert out.equal(expected)


def test_work_without_a_future_is_waited_for(monkeypatch):
    # As where a thread is queued, and the call fails afterwards.
    begun, done = threading.Event(), []

    def submit(drain, num_workers):
        threading.Thread(target=drain).start()
        begun.wait(10)
        return []

    def work(item):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            released.wait(10)
        done.append(item)
        if len(done) == 3:
            released.set()

    released = threading.Event()
    monkeypatch.setattr(threads, "_submit", submit)
    threads.for_each(work, range(4), num_threads=2)
    assert sorted(done) == [0, 1, 2, 3]


@pytest.mark.parametrize("failing", ["this thread", "another"])
def test_an_error_waits_for_all_threads(failing, monkeypatch):
    # They write to memory by its address, which the caller drops with the error.
    both, failed, done = threading.Barrier(2), threading.Event(), []

    def work(item):
        is_here = threading.current_thread() is threading.main_thread()
        both.wait(60)
        if is_here == (failing == "this thread"):
            failed.set()
            raise KeyboardInterrupt
        failed.wait(60)
        time.sleep(0.2)
        done.append(item)

    monkeypatch.setattr(threads, "_executor", None)
    with pytest.raises(KeyboardInterrupt):
        threads.for_each(work, range(2), num_threads=2)
    assert len(done) == 1


def test_a_bound_does_not_spare_the_cpu_its_checks():
    src, ptr = torch.randn(3, 2), torch.tensor([0, 3])
    with pytest.raises(ValueError, match="'weight' must be finite and not negative"):
        segment_quantile(
            src, ptr, 2, weight=torch.tensor([1.0, -1.0, 1.0]), max_num_elements=3
        )


@pytest.mark.parametrize(
    ("values", "weight", "num_points", "expected"),
    [
        ([0, 1, -np.inf, 2], [1, 1, 1e-10, 1], 2, [-np.inf, 5 / 3]),
        ([0, 1, np.nan, 2], [1, 1, 1e-9, 1], 2, [1 / 3, np.nan]),
        ([0, 1, 2, 1e9], [1, 1, 1, 1e-9], 1, [4 / 3]),
    ],
)
@pytest.mark.parametrize("name", available())
def test_elements_of_little_mass_count(values, weight, num_points, expected, name):
    src = torch.tensor(values, dtype=torch.float)[:, None]
    arguments = (torch.tensor([0, 4]), num_points, "barycentric", torch.tensor(weight))
    with backend(name):
        found = segment_quantile(src, *arguments)
        with_order = segment_quantile(src.clone().requires_grad_(), *arguments)
    expected = torch.tensor(expected).view(1, 1, -1)
    torch.testing.assert_close(found, expected, equal_nan=True)
    torch.testing.assert_close(with_order.detach(), expected, equal_nan=True)


@pytest.mark.parametrize("name", available())
def test_gradients_of_elements_of_little_mass(name):
    """Each has its share as its gradient, to the last digits of its own."""
    rng = np.random.default_rng(0)
    src = torch.from_numpy(rng.normal(size=(50, 17))).float().requires_grad_()
    weight = torch.from_numpy(rng.normal(size=50) * 8).softmax(0).float()
    with backend(name):
        out = segment_quantile(src, torch.tensor([0, 50]), 1, "barycentric", weight)
    (grad,) = torch.autograd.grad(out.sum(), src)
    expected = (weight.double() / weight.double().sum())[:, None].expand(-1, 17)
    # What is left over of sums in double precision.
    torch.testing.assert_close(grad.double(), expected, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize("name", available())
def test_a_count_that_vanishes_beside_masses(name):
    """Then a window is minute, and so may be its product with a value."""
    src = torch.tensor([[1e-30], [2e-30]], dtype=torch.float32, requires_grad=True)
    weight = torch.tensor([1e300, 1e300], dtype=torch.float64)
    arguments = (torch.tensor([0, 2]), [0.0, 1.0])
    with backend(name):
        out = segment_quantile_at(src, *arguments, weight=weight)
        found = segment_quantile_at(src.detach(), *arguments, weight=weight)
    torch.testing.assert_close(out.flatten(), src.flatten(), rtol=1e-6, atol=0)
    assert torch.equal(found, out)
    (grad,) = torch.autograd.grad(out.sum(), src)
    torch.testing.assert_close(grad, torch.ones_like(grad))


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("levels", [None, [0.0, 1.0]], ids=["mean", "levels"])
def test_gradients_of_masses_of_zero_at_the_ends(name, levels):
    """What an order of the sum loses of the total must not put them elsewhere."""
    rng = np.random.default_rng(0)
    src = torch.from_numpy(rng.normal(size=(70, 31)).astype(np.float32))
    weight = torch.from_numpy(1 + 5 * rng.random(70))
    weight[torch.from_numpy(rng.random(70) < 0.4)] = 0.0
    ptr = torch.tensor([0, 12, 70])

    def read(weight, src=src):
        if levels is None:
            return segment_quantile(src, ptr, 1, "barycentric", weight)
        return segment_quantile_at(src, ptr, levels, "linear", weight)

    leaf = weight.clone().requires_grad_()
    grad_points = torch.from_numpy(rng.normal(size=read(weight).shape)).float()
    with backend(name):
        (grad,) = torch.autograd.grad(read(leaf), leaf, grad_points)
    step, expected = 1e-6, torch.zeros_like(weight)
    for j in (weight == 0).nonzero().flatten():
        more = weight.clone()
        more[j] = step
        change = read(more, src.double()) - read(weight, src.double())
        expected[j] = (change * grad_points).sum() / step
    is_zero = weight == 0
    torch.testing.assert_close(grad[is_zero], expected[is_zero], rtol=1e-3, atol=1e-3)
