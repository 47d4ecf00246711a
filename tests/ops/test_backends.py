import importlib
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from gswe_pyg.ops import backend, numpy_backend, segment_quantile, torch_backend
from gswe_pyg.ops.interpolation import INTERPOLATIONS

# The package shows the function of that name.
module = importlib.import_module("gswe_pyg.ops.segment_quantile")

BACKENDS = ("numpy", "torch")
SIZES = [0, 5, 1, 8, 0, 0, 8, 3, 40, 2, 64, 0]


def ragged(sizes=SIZES, num_slices=6, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    src = torch.randn(sum(sizes), num_slices, generator=generator).to(dtype)
    return src, torch.tensor([0, *sizes]).cumsum(0)


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bits(value: int) -> float:
    return torch.tensor([value], dtype=torch.int64).int().view(torch.float32).item()


def run(src, ptr, num_points, interpolation, name="numpy", weight=None, grad=None):
    """Points with and without gradient, the gradient, and the gradient's gradient."""
    with backend(name):
        values = segment_quantile(src.detach(), ptr, num_points, interpolation, weight)
        src = src.detach().clone().requires_grad_()
        out = segment_quantile(src, ptr, num_points, interpolation, weight)
        if grad is None:
            generator = torch.Generator().manual_seed(1)
            grad = torch.randn(out.shape, generator=generator).to(out.dtype)
        grad = grad.requires_grad_()
        if weight is not None:
            (grad_src,) = torch.autograd.grad(out, src, grad)
            return values, out.detach(), grad_src
        (grad_src,) = torch.autograd.grad(out, src, grad, create_graph=True)
        generator = torch.Generator().manual_seed(2)
        direction = torch.randn(src.shape, generator=generator).to(out.dtype)
        (grad_grad,) = torch.autograd.grad(grad_src, grad, direction)
    return values, out.detach(), grad_src.detach(), grad_grad


def assert_same(actual, expected, exact=True):
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 2e-6, "atol": 2e-6}
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_points", [1, 3, 8, 33])
def test_backends_agree(num_points, interpolation):
    src, ptr = ragged()
    a = run(src, ptr, num_points, interpolation, "numpy")
    b = run(src, ptr, num_points, interpolation, "torch")
    assert a[0].equal(a[1])
    assert b[0].equal(b[1])
    # Where many values are added up, they are so in another order.
    assert_same(a[:2], b[:2], exact=interpolation != "barycentric")
    assert_same(a[2:], b[2:], exact=interpolation == "step" and num_points <= 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_backends_agree_in_half_precision(interpolation, dtype):
    src, ptr = ragged(dtype=dtype)
    a = run(src, ptr, 7, interpolation, "numpy")
    b = run(src, ptr, 7, interpolation, "torch")
    eps = torch.finfo(dtype).eps
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype == dtype
        torch.testing.assert_close(x, y, rtol=eps, atol=eps)


SPECIAL = {
    "ties": [1.0, 1.0, -2.0, -2.0, 1.0, -2.0, -2.0],
    "negative ties": [-1.0, -1.0, -1.0, -3.0, -3.0, -1.0, -3.0],
    "zeros": [0.0, -0.0, -0.0, 0.0, -0.0, 0.0, 0.0],
    "zeros and values": [0.0, -0.0, -1.0, 0.0, -0.0, 1.0, 0.0],
    "nan": [1.0, torch.nan, -1.0, torch.nan, 2.0, 0.0, -3.0],
    "negative nan": [1.0, bits(0xFFC00000), -1.0, torch.nan, 2.0, 0.0, -3.0],
    "nan with payload": [1.0, bits(0x7FFFFFFF), bits(0xFFFFFFFF), torch.nan, 2.0, 0, 1],
    "signaling nan": [1.0, bits(0x7F800001), -1.0, torch.nan, 2.0, 0.0, -3.0],
    "infinities": [torch.inf, -torch.inf, 1.0, torch.inf, -torch.inf, 0.0, -1.0],
    "all of them": [torch.nan, -torch.inf, torch.inf, -0.0, 0.0, torch.inf, torch.nan],
    "denormal": [1e-45, -1e-45, 1e-40, -1e-40, 0.0, 1e-45, -1e-45],
    "huge": [3e38, -3e38, 3.4e38, -3.4e38, 3e38, -3e38, 3.4e38],
    "next to each other": [1.0, 1.0000001, 0.99999994, 1.0, 1.0000001, 1.0, -1.0],
    "a sentinel of others": [-1e30, 1e30, -99999.0, 1e9, -1e9, 1e30, -1e30],
}


@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("interpolation", ["linear", "step", "pswe"])
@pytest.mark.parametrize("num_points", [1, 4, 7, 9])
def test_backends_agree_on_special_values(num_points, interpolation, values):
    src = torch.tensor([*values, 5.0, -6.0, *values[::-1]])[:, None].repeat(1, 2)
    src[:, 1] *= -1
    ptr = torch.tensor([0, 7, 9, 16])
    a = run(src, ptr, num_points, interpolation, "numpy")
    b = run(src, ptr, num_points, interpolation, "torch")
    # Overflow of an extrapolation, or between infinities of both signs, is the same.
    assert_same(a[:2], b[:2])
    assert_same(a[2:3], b[2:3], exact=False)
    if num_points == 7:
        expected = torch.stack([*src[:7].t(), *src[9:].t()]).sort(dim=-1).values
        actual = torch.cat([a[1][0], a[1][2]])
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL.keys())
def test_backends_agree_on_means_of_special_values(values):
    src = torch.tensor(values)[:, None]
    ptr = torch.tensor([0, 7])
    for num_points in (1, 4, 7):
        a = run(src, ptr, num_points, "barycentric", "numpy")
        b = run(src.double(), ptr, num_points, "barycentric", "torch")
        assert_same(a[:2], [x.float() for x in b[:2]], exact=False)


def test_gradient_of_ties_goes_by_row():
    src = torch.tensor([-1.0, -1.0, -0.0, 0.0, 2.0, 2.0])[:, None]
    grad = torch.arange(1.0, 7.0).view(1, 1, 6)
    for name in BACKENDS:
        out = run(src, torch.tensor([0, 6]), 6, "step", name, grad=grad.clone())
        assert out[2][:, 0].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("num_points", [2, 5])
def test_backends_agree_with_denormals_flushed(num_points):
    src = torch.tensor([1e-45, -1e-40, 0.0, -1.0, 1e-39])[:, None].repeat(1, 2)
    ptr = torch.tensor([0, 5])
    assert torch.set_flush_denormal(True)
    try:
        results = [run(src, ptr, num_points, "step", name) for name in BACKENDS]
    finally:
        torch.set_flush_denormal(False)
    assert_same(*results)


def test_one_large_graph_among_small_ones():
    src, ptr = ragged([3] * 100 + [20_000] + [4] * 155, num_slices=4)
    for interpolation in INTERPOLATIONS:
        a = run(src, ptr, 16, interpolation, "numpy")
        b = run(src.double(), ptr, 16, interpolation, "torch", grad=None)
        assert_same(a[:2], [x.float() for x in b[:2]], exact=False)


@pytest.mark.parametrize("sizes", [[3] * 100 + [20_000], [5, 6, 7, 8, 9], [1, 2, 0, 3]])
def test_padding_at_most_doubles_the_elements(sizes):
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    buckets = list(torch_backend._buckets(ptr, num_slices=4))
    seen = torch.cat([bucket.index[bucket.mask] for bucket in buckets])
    assert seen.sort().values.tolist() == list(range(sum(sizes)))
    assert sum(bucket.mask.numel() for bucket in buckets) <= 2 * sum(sizes)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_chunks_of_numpy(num_threads, interpolation, monkeypatch, restore_threads):
    torch.set_num_threads(num_threads)
    src, ptr = ragged(num_slices=7)
    expected = run(src, ptr, 5, interpolation)
    for chunk in (1, 2 * len(src), 3 * len(src)):
        monkeypatch.setattr(numpy_backend, "_CHUNK", chunk)
        assert_same(run(src, ptr, 5, interpolation), expected)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_memory_of_numpy_is_reused_or_not(interpolation, monkeypatch):
    src, ptr = ragged(num_slices=7)
    expected = run(src, ptr, 5, interpolation)
    monkeypatch.setattr(numpy_backend, "_REMEMBERED_ELEMENTS", 0)
    monkeypatch.setattr(numpy_backend, "_TABLE_ENTRIES", 0)
    monkeypatch.setattr(numpy_backend, "_FREE_BYTES", 0)
    for kept in (0, 1 << 24):
        monkeypatch.setattr(numpy_backend, "_KEPT_BYTES", kept)
        monkeypatch.setattr(numpy_backend, "_local", numpy_backend._Local())
        for _ in range(2):
            assert_same(run(src, ptr, 5, interpolation), expected)
    # Smaller and larger than what is kept.
    for sizes in ([4, 3], [300, 100, 5]):
        other, other_ptr = ragged(sizes, num_slices=9)
        actual = run(other, other_ptr, 5, interpolation)
        assert_same(
            actual,
            run(other, other_ptr, 5, interpolation, "torch"),
            exact=False,
        )


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_of_torch(weighted, interpolation, monkeypatch):
    src, ptr = ragged(num_slices=7)
    weight = None
    if weighted:
        weight = torch.rand(len(src), generator=torch.Generator().manual_seed(3)) + 0.1
    expected = run(src, ptr, 5, interpolation, "torch", weight)
    for budget in (1, 100, 1000):
        monkeypatch.setattr(torch_backend, "_BUDGET", budget)
        actual = run(src, ptr, 5, interpolation, "torch", weight)
        assert_same(actual, expected, exact=False)


@pytest.fixture
def many_threads(monkeypatch, restore_threads):
    """Work that is worth a thread, in few elements."""
    monkeypatch.setattr(numpy_backend, "_WORTH_THREADS", 1)
    monkeypatch.setattr(numpy_backend, "_CHUNK", 256)
    torch.set_num_threads(2)
    # Whatever the limits are called, threads are at work now.
    run(*ragged(num_slices=11), 5, "linear")
    assert numpy_backend._executor is not None


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_number_of_threads_does_not_matter(interpolation, many_threads):
    src, ptr = ragged(num_slices=11)
    torch.set_num_threads(1)
    expected = run(src, ptr, 5, interpolation)
    for num_threads in (2, 4):
        torch.set_num_threads(num_threads)
        for _ in range(5):
            assert_same(run(src, ptr, 5, interpolation), expected)
    assert torch.get_num_threads() == 4


def test_errors_in_threads_are_raised(many_threads, monkeypatch):
    def fail(rows, layout):
        raise MemoryError("no room")

    monkeypatch.setattr(numpy_backend, "_sort", fail)
    src, ptr = ragged(num_slices=11)
    with pytest.raises(MemoryError, match="no room"), backend("numpy"):
        segment_quantile(src, ptr, 5)


def test_many_callers_at_once(many_threads):
    batches = [ragged(SIZES[i % 5 :], num_slices=5 + i, seed=i) for i in range(8)]
    expected = [run(*batch, 5, "linear", "numpy") for batch in batches]

    def work(i: int):
        # The choice of a backend is one for all threads; by default it is numpy here.
        src, ptr = batches[i % 8]
        src = src.clone().requires_grad_()
        out = segment_quantile(src, ptr, 5)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
        (grad,) = torch.autograd.grad(out, src, grad)
        return out.detach(), grad

    with ThreadPoolExecutor(4) as executor:
        for i, result in enumerate(executor.map(work, range(64))):
            assert_same(result, expected[i % 8][1:3])


def _in_child(queue, src, ptr):
    queue.put([x.numpy() for x in run(src, ptr, 5, "linear")])


def test_use_after_fork(many_threads):
    src, ptr = ragged(num_slices=11)
    expected = run(src, ptr, 5, "linear")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue, src, ptr), daemon=True)
    child.start()
    child.join(timeout=60)
    hangs = child.is_alive()
    if hangs:
        child.kill()
    assert not hangs
    assert child.exitcode == 0
    assert_same([torch.from_numpy(x) for x in queue.get()], expected)


def test_backend():
    src, ptr = ragged()
    used = []
    for name in BACKENDS:
        original = module.BACKENDS[name]

        class Spy:
            @staticmethod
            def quantile(*args, name=name, original=original):
                used.append(name)
                return original.quantile(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(module.BACKENDS, name, Spy)
            segment_quantile(src, ptr, 3)  # numpy by default
            segment_quantile(src.double(), ptr, 3)  # torch by default
            with backend(name):
                segment_quantile(src, ptr, 3)
                with backend("torch"):
                    segment_quantile(src, ptr, 3)
                segment_quantile(src, ptr, 3)
    assert used == ["numpy"] * 3 + ["torch"] * 4
    assert module._forced is None


def test_backend_is_restored_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), backend("torch"):
        raise RuntimeError("inside")
    assert module._forced is None


def test_backend_that_cannot_run(monkeypatch):
    src, ptr = ragged()
    with pytest.raises(ValueError, match=r"one of \['numpy', 'torch'\] \(got 'cuda'\)"):
        backend("cuda").__enter__()
    message = r"'numpy' backend handles .*torch.float64 on 'cpu'.*convert 'src'"
    with backend("numpy"), pytest.raises(ValueError, match=message):
        segment_quantile(src.double(), ptr, 3)
    monkeypatch.setattr(module, "_NUMPY_IS_FAST", False)
    message = rf"numpy 2.0 or later \(got {np.__version__}\): upgrade"
    with pytest.raises(ValueError, match=message):
        backend("numpy").__enter__()
    # Unless it is asked for, the other one takes its place.
    assert module._choose_backend(src) == "torch"


def test_more_elements_than_a_key_has_room_for(monkeypatch):
    src, ptr = ragged()
    monkeypatch.setattr(numpy_backend, "_MAX_ELEMENTS", len(src) - 1)
    with backend("numpy"):
        segment_quantile(src, ptr, 3)
        message = rf"at most {len(src) - 1} elements \(got {len(src)}\): use"
        with pytest.raises(ValueError, match=message):
            segment_quantile(src.requires_grad_(), ptr, 3)


SCRIPT = """
import torch
from gswe_pyg.ops import backend, segment_quantile
src, ptr = torch.tensor([[2.0], [1.0]]), torch.tensor([0, 2])
with backend("torch"):
    segment_quantile(src.double(), ptr, 2)
try:
    print(segment_quantile(src, ptr, 2).tolist())
    segment_quantile(src.double(), ptr, 2)
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numpy", "[[[1.0, 2.0]]]\nThe 'numpy' backend handles"),
        ("cuda", "The backend ('name', or GSWE_PYG_BACKEND in the environment) must"),
    ],
)
def test_backend_from_the_environment(name, expected):
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "GSWE_PYG_BACKEND": name},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.startswith(expected)
