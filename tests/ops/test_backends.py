import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import backends
import numpy as np
import pytest
import torch
from numba.core.dispatcher import Dispatcher

from gswe_pyg.ops import (
    backend,
    buckets,
    operators,
    plan,
    segment_quantile,
    threads,
    torch_backend,
)
from gswe_pyg.ops import numba as numba_backend
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.ops.numba import batch as limits
from gswe_pyg.ops.numba import compiling, job
from gswe_pyg.ops.plan import Reads

# The package shows the function of that name.
module = importlib.import_module("gswe_pyg.ops.segment_quantile")

BACKENDS = ("numba", "torch")
WEIGHTED = ("linear", "step", "barycentric")
SIZES = [0, 5, 1, 8, 0, 0, 8, 3, 40, 2, 64, 0]

ragged = partial(backends.ragged, channels=6, sizes=SIZES, boundaries=True)


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bits(value: int) -> float:
    return torch.tensor([value], dtype=torch.int64).int().view(torch.float32).item()


def run(src, ptr, num_points, interpolation, name="numba", weight=None, grad=None):
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
    a = run(src, ptr, num_points, interpolation)
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
    a = run(src, ptr, 7, interpolation)
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
    a = run(src, ptr, num_points, interpolation)
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
        a = run(src, ptr, num_points, "barycentric")
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
    src, ptr = ragged(sizes=[3] * 100 + [20_000] + [4] * 155, channels=4)
    for interpolation in INTERPOLATIONS:
        a = run(src, ptr, 16, interpolation)
        b = run(src.double(), ptr, 16, interpolation, "torch", grad=None)
        assert_same(a[:2], [x.float() for x in b[:2]], exact=False)


@pytest.mark.parametrize("sizes", [[3] * 100 + [20_000], [5, 6, 7, 8, 9], [1, 2, 0, 3]])
def test_padding_at_most_doubles_the_elements(sizes):
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    like = torch.empty(sum(sizes), 4)
    found = list(buckets.make_buckets(ptr, like, lambda width: width))
    seen = torch.cat([bucket.index[bucket.mask.flatten()] for bucket in found])
    assert seen.sort().values.tolist() == list(range(sum(sizes)))
    assert sum(bucket.mask.numel() for bucket in found) <= 2 * sum(sizes)


def test_padding_that_takes_long_is_left_out(monkeypatch):
    ptr = torch.tensor([0, 8, 5, 7, 0, 8]).cumsum(0)
    for worth, widths in ((0, [8, 7, 5]), (2, [8, 5]), (100, [8])):
        monkeypatch.setattr(buckets, "_WORTH_A_BATCH", worth)
        found = buckets.make_buckets(ptr, torch.empty(28, 1), lambda width: width)
        assert [bucket.mask.shape[1] for bucket in found] == widths


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_of_torch(weighted, interpolation, monkeypatch):
    src, ptr = ragged(channels=7)
    weight = None
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    if weighted:
        weight = torch.rand(len(src), generator=torch.Generator().manual_seed(3)) + 0.1
    expected = run(src, ptr, 5, interpolation, "torch", weight)
    for budget in (1, 10_000, 100_000):
        monkeypatch.setattr(buckets, "_BUDGET", budget)
        actual = run(src, ptr, 5, interpolation, "torch", weight)
        assert_same(actual, expected, exact=False)


@pytest.fixture
def many_threads(monkeypatch, restore_threads):
    """Work that is worth a thread, in few elements."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    torch.set_num_threads(2)
    # Whatever the limits are called, threads are at work now.
    used = []
    original = threads.run_in_team
    monkeypatch.setattr(
        compiling, "run_in_team", lambda *args: (used.append(args), original(*args))
    )
    run(*ragged(channels=11), 5, "linear")
    assert used


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_number_of_threads_does_not_matter(interpolation, many_threads):
    src, ptr = ragged(sizes=[*SIZES, 300, 5000], channels=37)
    torch.set_num_threads(1)
    expected = run(src, ptr, 5, interpolation)
    for num_threads in (2, 4):
        torch.set_num_threads(num_threads)
        for _ in range(5):
            assert_same(run(src, ptr, 5, interpolation), expected)
    assert torch.get_num_threads() == 4


def test_errors_in_threads_are_raised(many_threads, monkeypatch):
    def fail(*args):
        raise MemoryError("no room")

    monkeypatch.setattr(numba_backend.large, "sorted_keys", fail)
    src, ptr = ragged(sizes=[4, 5000, 3], channels=11)
    with pytest.raises(MemoryError, match="no room"), backend("numba"):
        segment_quantile(src, ptr, 5)


@pytest.mark.parametrize("cause", ["no OpenMP", "a fork"])
def test_threads_of_our_own(cause, many_threads, monkeypatch):
    """Where those of PyTorch cannot be asked."""
    src, ptr = ragged(sizes=[*SIZES, 300], channels=37)
    expected = run(src, ptr, 5, "linear")
    if cause == "a fork":
        monkeypatch.setattr(threads, "_is_forked", True)
    else:
        monkeypatch.setattr(threads, "_parallel", lambda: None)
    monkeypatch.setattr(threads, "_executor", None)
    assert_same(run(src, ptr, 5, "linear"), expected)
    assert threads._executor is not None


def test_many_callers_at_once(many_threads, monkeypatch):
    batches = [ragged(sizes=SIZES[i % 5 :], channels=5 + i, seed=i) for i in range(8)]
    expected = [run(*batch, 5, "linear") for batch in batches]
    # The choice of a backend is one for all threads.
    monkeypatch.setattr(module, "_forced", "numba")

    def work(i: int):
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
    src, ptr = ragged(channels=11)
    expected = run(src, ptr, 5, "linear")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue, src, ptr), daemon=True)
    child.start()
    child.join(timeout=300)
    hangs = child.is_alive()
    if hangs:
        child.kill()
    assert not hangs
    assert child.exitcode == 0
    assert_same([torch.from_numpy(x) for x in queue.get()], expected)


def test_backend(monkeypatch):
    src, ptr = ragged()
    used = []
    original = operators.backend_module

    def spy(name):
        used.append(name)
        return original(name)

    monkeypatch.setattr(operators, "backend_module", spy)
    segment_quantile(src, ptr, 3)  # numba by default
    segment_quantile(src.double(), ptr, 3)  # torch by default
    with backend("numba"):
        segment_quantile(src, ptr, 3)
        with backend("torch"):
            segment_quantile(src, ptr, 3)
        segment_quantile(src, ptr, 3)
    assert used == ["numba", "torch", "numba", "torch", "numba"]
    assert module._forced is None


def test_torch_takes_over_without_numba_and_says_so_once(monkeypatch):
    src, ptr = ragged()
    monkeypatch.setattr(module, "_HAS_NUMBA", False)
    module._warn_without_numba.cache_clear()
    with pytest.warns(UserWarning, match="'pip install numba'"):
        segment_quantile(src, ptr, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        segment_quantile(src, ptr, 3)
    module._warn_without_numba.cache_clear()


def test_backend_is_restored_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), backend("torch"):
        raise RuntimeError("inside")
    assert module._forced is None


def test_backend_that_cannot_run(monkeypatch):
    src, ptr = ragged()
    with pytest.raises(ValueError, match=r"one of .*'torch'.* \(got 'cuda'\)"):
        backend("cuda").__enter__()
    message = r"'numba' backend handles .*torch.float64 on 'cpu'.*convert 'src'"
    with backend("numba"), pytest.raises(ValueError, match=message):
        segment_quantile(src.double(), ptr, 3)
    monkeypatch.setattr(module, "_HAS_NUMBA", False)
    with pytest.raises(ValueError, match=r"'pip install numba'"):
        backend("numba").__enter__()


@pytest.mark.parametrize("interpolation", ["linear", "barycentric"])
def test_more_nodes_than_a_key_has_room_for(interpolation, monkeypatch):
    src, ptr = ragged()
    monkeypatch.setattr(limits, "MAX_NODES", 63)
    with backend("numba"):
        segment_quantile(src, ptr, 3, interpolation)
        message = r"at most 63 elements \(got 64\): use"
        with pytest.raises(ValueError, match=message):
            segment_quantile(src, ptr, 3, interpolation, torch.ones(len(src)))
        with pytest.raises(ValueError, match=message):
            segment_quantile(src.requires_grad_(), ptr, 3, interpolation)


SPECIAL_VALUES = [torch.nan, -torch.inf, torch.inf, -0.0, 0.0, 1.0, -1.0, 1e-45, -3e38]


@pytest.mark.parametrize("by_network", [True, False])
def test_numba_sorts_every_size(by_network, monkeypatch):
    """All sorted values, and all places: with as many points as elements."""
    if not by_network:
        monkeypatch.setattr(limits, "NETWORK_NODES", 0)
    generator = torch.Generator().manual_seed(0)
    for size in [*range(301), 511, 513, 1000, 2049]:
        src = torch.randn(size, 19, generator=generator)
        # Few values and many ties in one half, special values all over.
        src[:, ::2] = src[:, ::2].round()
        special = torch.tensor(SPECIAL_VALUES)
        chosen = torch.randint(len(special), src.shape, generator=generator)
        is_special = torch.rand(src.shape, generator=generator) < 0.2
        src = torch.where(is_special, special[chosen], src)
        ptr = torch.tensor([0, size])
        num_points = max(size, 1)
        out, _ = numba_backend.quantile(src, ptr, Reads(num_points, "step"), False)
        if size == 0:
            assert not out.any()
            continue
        expected = np.sort(src.numpy(), axis=0).T
        np.testing.assert_array_equal(out[0].numpy(), expected)
        again, order = numba_backend.quantile(src, ptr, Reads(num_points, "step"), True)
        np.testing.assert_array_equal(again[0].numpy(), expected)
        _, expected = torch_backend.quantile(src, ptr, Reads(num_points, "step"), True)
        assert order.equal(expected)


@pytest.mark.parametrize("num_slices", [1, 3, 15, 16, 17, 64])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_blocks_of_slices(interpolation, num_slices, monkeypatch):
    src, ptr = ragged(channels=num_slices)
    expected = run(src, ptr, 9, interpolation, "torch")
    actual = run(src, ptr, 9, interpolation, "numba")
    assert_same(actual, expected, exact=False)
    # A slice has the same bits whatever is beside it, and in whatever layout.
    alone = run(src[:, -1:], ptr, 9, interpolation, "numba")
    assert_same([alone[0], alone[1]], [actual[0][:, -1:], actual[1][:, -1:]])
    by_slices = run(src.t().contiguous().t(), ptr, 9, interpolation, "numba")
    assert_same(by_slices, actual)
    wide = src.repeat(1, 2)[:, :num_slices]
    assert_same(run(wide, ptr, 9, interpolation, "numba"), actual)
    # Graphs of all sizes by numpy's sort, some slices at a time.
    monkeypatch.setattr(limits, "NETWORK_NODES", 4)
    monkeypatch.setattr(limits, "BLOCK", 20)
    assert_same(run(src, ptr, 9, interpolation, "numba"), actual)
    # Terms of the sizes that occur, kept or not.
    monkeypatch.setattr(limits, "_REMEMBERED_SETS", 0)
    monkeypatch.setattr(plan, "_TABLE_ROWS", 0)
    assert_same(run(src, ptr, 9, interpolation, "numba"), actual)
    monkeypatch.setattr(plan, "_KEPT_BYTES", 0)
    monkeypatch.setattr(plan, "_kept", plan._Kept())
    assert_same(run(src, ptr, 9, interpolation, "numba"), actual)


def test_plans_of_large_sets_are_not_remembered():
    limits._remembered.cache_clear()
    for size, remembered in ((5, 1), ((1 << 18) + 1, 1), (6, 2)):
        with backend("numba"):
            segment_quantile(torch.ones(size, 1), torch.tensor([0, size]), 2)
        assert limits._remembered.cache_info().currsize == remembered


def test_graph_has_the_same_bits_in_every_batch():
    src, ptr = ragged(sizes=[*SIZES, 700], channels=21)
    for interpolation in INTERPOLATIONS:
        whole = run(src, ptr, 6, interpolation)[0]
        for i, (start, end) in enumerate(pairwise(ptr.tolist())):
            alone = torch.tensor([0, end - start])
            with backend("numba"):
                out = segment_quantile(src[start:end], alone, 6, interpolation)
            assert out[0].equal(whole[i])


def test_parts_cover_everything_once():
    for sizes in ([3] * 100, [1, 5000, 0, 7], [0, 9, 0], [40]):
        num_sets = len(sizes)
        for num_slices in (1, 16, 40, 300):
            for num_chunks in {1, num_sets, min(num_sets, 16)}:
                for num_cuts in {1, max(1, num_slices // 16)}:
                    seen = np.zeros((num_sets, num_slices), dtype=int)
                    for item in range(num_chunks * num_cuts):
                        first, last, start, end = job.part_of.py_func(
                            item, num_sets, num_chunks, num_slices, num_cuts
                        )
                        seen[first:last, start:end] += 1
                        assert end - start >= min(num_slices, 16)  # a full block
                    assert (seen == 1).all()


def test_as_many_threads_as_pytorch_may_use(monkeypatch):
    monkeypatch.setattr(threads, "_executor", None)
    for num_threads in (2, 5, 3):
        # Nobody goes on until all are there.
        barrier = threading.Barrier(num_threads)
        threads.for_each(
            lambda _, b=barrier: b.wait(60), range(num_threads), num_threads
        )


@pytest.mark.parametrize("num_started", [0, 1])
def test_threads_that_cannot_be_started(num_started, monkeypatch):
    started = []
    original = threading.Thread.start

    def start(thread):
        if len(started) == num_started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        original(thread)

    monkeypatch.setattr(threads, "_executor", None)
    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    threads.for_each(done.append, range(100), num_threads=4)
    threads.for_each(done.append, range(100), num_threads=4)
    assert sorted(done) == sorted([*range(100), *range(100)])
    assert len(started) == num_started


AT_EXIT = """
import atexit, threading
import torch
from gswe_pyg.ops import segment_quantile, threads
from gswe_pyg.ops.numba import batch as limits

limits.WORTH_THREADS = 1
threads._parallel = lambda: None
torch.set_num_threads(2)
src, ptr = torch.arange(8.0).view(4, 2), torch.tensor([0, 2, 4])
expected = segment_quantile(src, ptr, 2)
if {started_before}:
    assert threads._executor is not None
else:
    threads._executor = None

def late():
    print(segment_quantile(src, ptr, 2).equal(expected))

{register}(late)
"""


@pytest.mark.parametrize("started_before", [True, False])
@pytest.mark.parametrize("register", ["atexit.register", "threading._register_atexit"])
def test_use_while_python_shuts_down(register, started_before):
    script = AT_EXIT.format(register=register, started_before=started_before)
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600
    )
    assert process.stdout == "True\n", process.stderr


# With masses ##########################################################################


def masses(ptr, seed=3):
    """Of all sizes, some of them whole or equal, and a fifth of them zero."""
    generator = torch.Generator().manual_seed(seed)
    mass = torch.rand(int(ptr[-1]), generator=generator) + 0.1
    mass[::3] = mass[::3].mul(4).ceil()
    mass[torch.rand(mass.shape, generator=generator) < 0.2] = 0
    mass[ptr[:-1][ptr.diff() > 0]] = 0.5  # at least one element in each graph
    return mass


def run_weighted(src, ptr, num_points, interpolation, name, weight):
    """Points, and the gradients for values and masses."""
    with backend(name):
        src = src.detach().clone().requires_grad_()
        weight = weight.detach().clone().requires_grad_()
        out = segment_quantile(src, ptr, num_points, interpolation, weight)
        generator = torch.Generator().manual_seed(1)
        grad = torch.randn(out.shape, generator=generator).to(out.dtype)
        return out.detach(), *torch.autograd.grad(out, [src, weight], grad)


def assert_same_gradients(actual, expected):
    """Sums over slices may be far larger than their result."""
    for a, b in zip(actual, expected, strict=True):
        scale = b.abs().max().item() if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=2e-6, atol=2e-6 * scale)


@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("num_points", [1, 3, 8, 33])
@pytest.mark.parametrize("num_slices", [1, 6, 16, 35])
def test_backends_agree_on_masses(num_slices, num_points, interpolation, monkeypatch):
    src, ptr = ragged(channels=num_slices)
    src[:, ::2] = src[:, ::2].round()  # ties
    weight = masses(ptr)
    arguments = (src, ptr, num_points, interpolation)
    expected = run_weighted(*arguments, "torch", weight)
    actual = run_weighted(*arguments, "numba", weight)
    assert_same(actual[:1], expected[:1], exact=interpolation == "step")
    assert_same_gradients(actual[1:], expected[1:])
    # The larger graphs by numpy's sort, some slices at a time.
    monkeypatch.setattr(limits, "NETWORK_NODES", 8)
    monkeypatch.setattr(limits, "BLOCK", 20)
    assert_same(run_weighted(*arguments, "numba", weight), actual)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_backends_agree_on_masses_in_half_precision(interpolation, dtype):
    src, ptr = ragged(dtype=dtype)
    weight = masses(ptr).to(dtype)
    a = run_weighted(src, ptr, 7, interpolation, "numba", weight)
    b = run_weighted(src, ptr, 7, interpolation, "torch", weight)
    eps = torch.finfo(dtype).eps
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype == dtype
        torch.testing.assert_close(x, y, rtol=eps, atol=eps)


@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("num_points", [1, 4, 9])
def test_backends_agree_on_masses_of_special_values(num_points, interpolation, values):
    src = torch.tensor(values)[:, None].repeat(1, 2)
    src[:, 1] *= -1
    ptr = torch.tensor([0, 7])
    weight = torch.tensor([1.0, 2.0, 0.25, 1e-30, 3.0, 1.0, 0.0])
    arguments = (src, ptr, num_points, interpolation)
    a = run_weighted(*arguments, "numba", weight)
    b = run_weighted(*arguments, "torch", weight)
    assert_same(a, b, exact=False)


def test_second_derivatives_with_masses():
    src, ptr = ragged(sizes=[4, 3], channels=2)
    direction = torch.randn(src.shape, generator=torch.Generator().manual_seed(4))
    results = []
    for other in BACKENDS:
        x, mass = src.clone().requires_grad_(), masses(ptr).requires_grad_()
        with backend(other):
            out = segment_quantile(x, ptr, 5, "linear", mass)
            (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
            penalty = (grad * direction).sum()
            results.append(torch.autograd.grad(penalty, [x, mass]))
    assert results[0][0].any()
    assert_same(*results, exact=False)


@pytest.mark.parametrize("interpolation", WEIGHTED)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_gradients_that_are_no_numbers_stay_where_they_are(value, interpolation):
    src, ptr = torch.arange(4.0)[:, None], torch.tensor([0, 4])
    weight, grad = torch.tensor([1.0, 2.0, 1.0, 2.0]), torch.zeros(1, 1, 3)
    grad[0, 0, 0] = value
    reads = Reads(3, interpolation)
    _, order = torch_backend.weighted_quantile(src, ptr, weight, reads, True)
    _, own_order = numba_backend.weighted_quantile(src, ptr, weight, reads, True)
    assert own_order.equal(order)
    arguments = (grad, src, order, ptr, weight, reads, True)
    a = numba_backend.weighted_adjoint(*arguments)
    b = torch_backend.weighted_adjoint(*arguments)
    assert a[0].isfinite().equal(b[0].isfinite())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_makes_no_difference(dtype):
    src, ptr = ragged()
    expected = (
        run(src, ptr, 5, "linear"),
        run_weighted(src, ptr, 5, "linear", "numba", masses(ptr)),
    )
    grads = [torch.randn(12, 6, 5, generator=torch.Generator().manual_seed(1))]
    weight = masses(ptr)
    torch.set_default_dtype(dtype)
    try:
        with backend("numba"):
            x, mass = src.clone().requires_grad_(), weight.clone().requires_grad_()
            out = segment_quantile(x, ptr, 5, "linear")
            weighted = segment_quantile(x, ptr, 5, "linear", mass)
            actual = [out, *torch.autograd.grad(out, x, grads)]
            actual += [weighted, *torch.autograd.grad(weighted, [x, mass], grads)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(actual, [*expected[0][1:3], *expected[1]])


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_masses_give_the_same_bits_with_all_threads(
    interpolation, monkeypatch, restore_threads
):
    src, ptr = ragged(sizes=[*SIZES, 5000, 700, *SIZES], channels=37)
    weight = masses(ptr)
    results = []
    monkeypatch.setattr(limits, "WORTH_THREADS", 0)
    for num_threads in (1, 2, 5):
        torch.set_num_threads(num_threads)
        results.append(run_weighted(src, ptr, 9, interpolation, "numba", weight))
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


READ_ONLY = """
import sys
from numba.core import caching

# As if neither the package nor the home directory could be written to.
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(lambda cls, function, path: None)
import torch
from gswe_pyg.ops import segment_quantile
assert "numba" in sys.modules and "gswe_pyg.ops.numba" not in sys.modules
print(segment_quantile(torch.tensor([[2.0], [1.0]]), torch.tensor([0, 2]), 2).tolist())
assert "gswe_pyg.ops.numba" in sys.modules
"""


def test_no_place_to_keep_compiled_code():
    process = subprocess.run(
        [sys.executable, "-c", READ_ONLY],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "[[[1.0, 2.0]]]\n"


WITH_CACHE = """
import errno, sys
import torch
from numba.core import caching

def full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")

if sys.argv[1] == "full":
    caching.IndexDataCacheFile.save = full
from gswe_pyg.ops import segment_quantile
print(segment_quantile(torch.tensor([[2.0], [1.0]]), torch.tensor([0, 2]), 2).tolist())
from gswe_pyg.ops.numba.interpolate import quantile
print(quantile.compiled.cache_hits)
if sys.argv[1] == "fine":
    # What is on disk is loaded without numba's definitions, which others still find.
    assert quantile.compiled.cache_hits + ("numba.np.linalg" in sys.modules) == 1
    import numpy, numba
    inverse = numba.njit(lambda x: numpy.linalg.inv(x))
    assert (inverse(2 * numpy.eye(2)) == numpy.eye(2) / 2).all()
"""


def test_faults_of_the_cache(tmp_path):
    def run_with_cache(disk="fine"):
        process = subprocess.run(
            [sys.executable, "-c", WITH_CACHE, disk],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert process.returncode == 0, process.stderr
        values, hits = process.stdout.splitlines()
        assert values == "[[[1.0, 2.0]]]"
        return int(hits)

    assert run_with_cache("full") == 0
    assert run_with_cache() == 0
    assert run_with_cache() == 1
    # Each run compiles for seconds: a kind of damage for a kind of file.
    for pattern, damage in (
        ("*.nbi", lambda data: data[: len(data) // 2]),
        ("*.nbc", lambda data: b"damaged"),
    ):
        for path in tmp_path.rglob(pattern):
            path.write_bytes(damage(path.read_bytes()))
        assert run_with_cache() == 0
    assert run_with_cache() == 1  # and made whole again


WITHOUT_JIT = """
import warnings
import torch
from gswe_pyg.ops import segment_quantile
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    out = segment_quantile(torch.tensor([[2.0], [1.0]]), torch.tensor([0, 2]), 2)
print(out.tolist(), "NUMBA_DISABLE_JIT" in str(caught[0].message))
"""


def test_torch_takes_over_where_numba_does_not_compile():
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_JIT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.stdout == "[[[1.0, 2.0]]] True\n", process.stderr


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # as if it were not installed
import torch
from gswe_pyg.ops import backend, segment_quantile
print(segment_quantile(torch.tensor([[2.0], [1.0]]), torch.tensor([0, 2]), 2).tolist())
try:
    backend("numba").__enter__()
except ValueError as error:
    print(error)
"""


def test_numba_is_not_needed():
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("[[[1.0, 2.0]]]\nThe 'numba' backend needs")


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
        ("numba", "[[[1.0, 2.0]]]\nThe 'numba' backend handles"),
        ("", "[[[1.0, 2.0]]]\n"),
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


def test_every_part_of_a_kernel_divides_as_numpy_does():
    """A part is compiled once for all kernels: where it raised for one, it would for
    all, and kernels cannot raise."""
    names = [name for name in sys.modules if name.startswith("gswe_pyg.ops.numba.")]
    parts = {
        f"{name}.{key}": part
        for name in names
        for key, part in vars(sys.modules[name]).items()
        if isinstance(part, Dispatcher)
    }
    assert len(parts) > 50
    models = {key: part.targetoptions.get("error_model") for key, part in parts.items()}
    assert {key for key, model in models.items() if model != "numpy"} == set()
