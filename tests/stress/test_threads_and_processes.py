"""Threads and processes.

Results of the kernel in several Python threads at once, in the workers of a
`DataLoader` and in processes that were forked (after the kernel had started threads) or
spawned, beside those of one thread; whoever hangs is killed and all its results count
as wrong. PyTorch's own threads do not survive a fork: a forked process has to call
`torch.set_num_threads(1)`, as the `DataLoader` does for its workers, or a plain sum of
a large tensor hangs. Then the crowd: two processes with two threads each on two cores,
as a multiple of the time with one thread each. PyTorch's threads wait for each other by
spinning, which costs its linear layer and mean pooling as well: ours may not be worse
than these by more than the margin.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from statistics import median
from typing import Any

import pytest
import torch
import torch.distributed as dist
from backends import available, ragged, random_sizes, run
from fresh import call, call_together
from test_costs import median_seconds
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch_geometric.nn import MeanAggregation

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import segment_quantile

pytestmark = pytest.mark.stress

FULL = {"calls": 200, "threads": 4, "nodes": 20_000, "slices": 128}
FULL |= {"seconds": 2.0, "rounds": 2}
SMALL = {"calls": 8, "threads": 2, "nodes": 300, "slices": 4}
SMALL |= {"seconds": 0.1, "rounds": 1}

#: A process that takes longer has come to a halt.
MAX_SECONDS = 300

#: The same where it is to be expected, not to wait for long.
HANGING_SECONDS = 20

NUM_BATCHES = 8
PTR = {"boundaries": True}

WAYS = {
    "threads": "Python threads",
    "loader fork": "DataLoader workers started by fork",
    "loader spawn": "DataLoader workers started by spawn",
    "spawn 2": "a spawned process with two threads",
    "fork 1": "a forked process with one thread",
    "fork peer": "sums by PyTorch in a forked process with two threads",
    "fork 2": "a forked process with two threads",
}

#: How many times the peer's slowdown ours may be: two such ratios scatter.
MARGIN = 1.25


def test_right_results(sizes, seed, measure):
    arguments = [sizes[key] for key in ("calls", "threads", "nodes", "slices")]
    found: dict[str, int] = {}
    for way, description in WAYS.items():
        error = ""
        try:
            # Two threads, so that the kernel has threads of its own before a fork.
            options = {"threads": 2, "timeout": MAX_SECONDS}
            found[way] = call(count_wrong, way, *arguments, seed, **options)
        except (RuntimeError, TimeoutError) as caught:  # a crash, or a deadlock
            found[way], error = NUM_BATCHES, repr(caught)
        # Where PyTorch's own sums hang, so may we.
        limit = {"fork peer": None, "fork 2": found.get("fork peer")}.get(way, 0)
        measure(f"wrong results in {description}", found[way], limit, error=error)


def count_wrong(
    way: str, calls: int, threads: int, nodes: int, slices: int, seed: int
) -> int:
    """How many calls in threads or processes give other bits than here."""
    how, _, method = way.partition(" ")
    outcome = _sum if method == "peer" else _outcome
    batches = _batches(nodes, slices, seed)
    expected = [outcome(*batch) for batch in batches]
    if how == "threads":
        chosen = [batches[i % NUM_BATCHES] for i in range(calls)]
        with ThreadPoolExecutor(threads) as executor:
            found = list(executor.map(lambda batch: _outcome(*batch), chosen))
    elif how == "loader":
        found = DataLoader(
            Embedded(nodes, slices, seed, calls),
            batch_size=None,
            num_workers=2,
            timeout=MAX_SECONDS,
            multiprocessing_context=method,
        )
    else:
        context = multiprocessing.get_context(how)
        receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, method, nodes, slices, seed)
        child = context.Process(target=_send_outcomes, args=arguments, daemon=True)
        child.start()
        sender.close()
        may_hang = how == "fork" and method != "1"
        if not receiver.poll(HANGING_SECONDS if may_hang else MAX_SECONDS / 2):
            child.kill()
            return NUM_BATCHES
        found = [[torch.from_numpy(x) for x in arrays] for arrays in receiver.recv()]
        child.join()
    return sum(
        not all(
            x.equal(y) for x, y in zip(tensors, expected[i % NUM_BATCHES], strict=True)
        )
        for i, tensors in enumerate(found)
    )


class Embedded(Dataset):
    """Calls the kernel where the items are loaded."""

    def __init__(self, nodes: int, slices: int, seed: int, length: int) -> None:
        self.arguments, self.length = (nodes, slices, seed), length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> list[Tensor]:
        return _outcome(*_batches(*self.arguments)[i % NUM_BATCHES])


@cache
def _batches(nodes: int, slices: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """The first is worth threads."""
    numbers = [max(4, nodes // (100 if i == 0 else 5000)) for i in range(NUM_BATCHES)]
    return [
        ragged(slices, random_sizes(number, 200, seed + i), seed=seed + i, **PTR)
        for i, number in enumerate(numbers)
    ]


def _outcome(src: Tensor, ptr: Tensor) -> list[Tensor]:
    # The choice of a backend holds for all threads, so it is not made here.
    src = src.detach().clone().requires_grad_()
    out = segment_quantile(src, ptr, 8)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), src)]


def _sum(src: Tensor, ptr: Tensor) -> list[Tensor]:
    """What PyTorch does with threads of its own, without us."""
    return [src.mul(2).sum(0)]


def _send_outcomes(pipe: Any, method: str, nodes: int, slices: int, seed: int) -> None:
    torch.set_num_threads(1 if method == "1" else 2)
    outcome = _sum if method == "peer" else _outcome
    batches = _batches(nodes, slices, seed)
    pipe.send([[x.numpy() for x in outcome(*batch)] for batch in batches])


# The crowd ############################################################################

NAMES = {"peer": "PyTorch's linear layer with mean pooling"}
NAMES |= {"readout": "GSWEAggregation, linear slicer"}
NAMES |= {name: f"kernel {name}" for name in available()}


@pytest.mark.xfail(
    reason="more threads than cores may cost us more than they cost PyTorch",
    strict=False,
)
def test_crowd(sizes, seed, measure):
    found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(sizes["rounds"]):
        for threads, times in found.items():
            times += call_together(time_steps, sizes, seed, threads=threads)
    peer = None
    for name, description in NAMES.items():
        ms = {str(n): 1e3 * median(t[name] for t in found[n]) for n in found}
        slowdown = ms["2"] / ms["1"]
        limit = None if peer is None else max(1.0, peer) * MARGIN
        peer = slowdown if peer is None else peer
        label = f"2 processes x 2 threads against 2 x 1: {description}"
        measure(label, slowdown, limit, "x", milliseconds=ms)


def time_steps(sizes: dict, seed: int) -> dict[str, float]:
    """The median time of a forward and backward pass, one after the other: threads
    that spin after one call would disturb the next one, if they took turns."""
    found = {}
    for name in NAMES:
        step = _step(name, sizes["nodes"], sizes["slices"], seed)
        step()
        dist.barrier()
        found[name] = median_seconds(step, sizes["seconds"])
    return found


def _step(name: str, nodes: int, slices: int, seed: int) -> Callable[[], Any]:
    numbers = random_sizes(max(4, nodes // 100), 200, seed)
    x, ptr = ragged(slices, numbers, seed=seed, **PTR)
    if name in available():
        return lambda: run(x, ptr, 16, "linear", name)
    torch.manual_seed(seed)
    x.requires_grad_()
    if name == "readout":
        readout = GSWEAggregation(slices, slices, 16)
        return lambda: readout(x, ptr=ptr).sum().backward()
    linear, pool = torch.nn.Linear(slices, slices), MeanAggregation()
    return lambda: pool(linear(x), ptr=ptr).sum().backward()
