"""Threads and processes.

Results of the kernel in several Python threads at once, in workers of a `DataLoader`,
in processes that were forked (after the kernel had started threads) or spawned, beside
those of one thread; all results of whoever hangs count as wrong. PyTorch's own threads
do not survive a fork: a forked process has to call `torch.set_num_threads(1)`, as the
`DataLoader` does, or a plain sum of a large tensor hangs. Then two processes with two
threads each on two cores, as a multiple of the time with one thread each: as PyTorch's
threads wait by spinning, ours may not be worse than its layers by more than the margin.
"""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pytest
import torch
import torch.distributed as dist
from backends import available, ragged, random_sizes, run
from fresh import call, call_together, median_seconds
from torch.utils.data import DataLoader
from torch_geometric.nn import MeanAggregation

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import segment_quantile

FULL = {"calls": 200, "threads": 4, "nodes": 20_000, "slices": 128}
FULL |= {"seconds": 2.0, "rounds": 2}
SMALL = {"calls": 8, "threads": 2, "nodes": 300, "slices": 4}
SMALL |= {"seconds": 0.1, "rounds": 1}

#: A process that takes longer has come to a halt.
MAX_SECONDS = 300

#: The same where it is to be expected, not to wait for long.
HANGING_SECONDS = 20

NUM_BATCHES = 8

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
    found = {}
    for way, description in WAYS.items():
        error = ""
        try:
            # Two threads, so that the kernel has threads of its own before a fork.
            options = {"threads": 2, "timeout": MAX_SECONDS}
            found[way] = call(count_wrong, way, sizes, seed, **options)
        # A crash, or a deadlock of a process or of its child.
        except (RuntimeError, TimeoutError, multiprocessing.TimeoutError) as caught:
            found[way], error = NUM_BATCHES, repr(caught)
        # Where PyTorch's own sums hang, so may we.
        limit = {"fork peer": None, "fork 2": found.get("fork peer")}.get(way, 0)
        measure(f"wrong results in {description}", found[way], limit, error=error)


def count_wrong(way, sizes, seed):
    """How many calls in threads or processes give other bits than here."""
    how, _, method = way.partition(" ")
    outcome = _sum if method == "peer" else _outcome
    batches = [_batch(i, sizes, seed) for i in range(NUM_BATCHES)]
    expected = [outcome(batch) for batch in batches]
    calls = [batches[i % NUM_BATCHES] for i in range(sizes["calls"])]
    if how == "threads":
        with ThreadPoolExecutor(sizes["threads"]) as executor:
            found = list(executor.map(outcome, calls))
    elif how == "loader":
        options = {"num_workers": 2, "multiprocessing_context": method}
        options |= {"collate_fn": _outcome, "batch_size": None, "timeout": MAX_SECONDS}
        found = DataLoader(calls, **options)
    else:
        may_hang = how == "fork" and method != "1"
        seconds = HANGING_SECONDS if may_hang else MAX_SECONDS / 2
        context = multiprocessing.get_context(how)
        threads = 1 if method == "1" else 2
        with context.Pool(1, torch.set_num_threads, [threads]) as pool:
            arrays = pool.apply_async(_outcomes, (outcome, batches)).get(seconds)
        found = [map(torch.from_numpy, some) for some in arrays]
    return sum(
        not all(map(torch.equal, tensors, expected[i % NUM_BATCHES]))
        for i, tensors in enumerate(found)
    )


def _outcomes(outcome, batches):
    return [[x.numpy() for x in outcome(batch)] for batch in batches]


def _batch(i, sizes, seed):
    """The first is worth threads."""
    number = max(4, sizes["nodes"] // (5000 if i else 100))
    numbers = random_sizes(number, 200, seed + i)
    return ragged(sizes["slices"], numbers, seed=seed + i, boundaries=True)


def _outcome(batch):
    # The choice of a backend holds for all threads, so it is not made here.
    src, ptr = batch
    src = src.detach().clone().requires_grad_()
    out = segment_quantile(src, ptr, 8)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), src)]


def _sum(batch):
    """What PyTorch does with threads of its own, without us."""
    return [batch[0].mul(2).sum(0)]


# The crowd ############################################################################

NAMES = {"peer": "PyTorch's linear layer with mean pooling"}
NAMES |= {"readout": "GSWEAggregation, linear slicer"}
NAMES |= {name: f"kernel {name}" for name in available()}


@pytest.mark.xfail(
    reason="more threads than cores may cost us more than they cost PyTorch",
    strict=False,
)
def test_crowd(sizes, seed, measure):
    found = {1: [], 2: []}
    for _ in range(sizes["rounds"]):
        for threads, times in found.items():
            times += call_together(time_steps, sizes, seed, threads=threads)
    limit = None
    for name, description in NAMES.items():
        ms = {str(n): 1e3 * median(t[name] for t in found[n]) for n in found}
        slowdown = ms["2"] / ms["1"]
        label = f"2 processes x 2 threads against 2 x 1: {description}"
        measure(label, slowdown, limit, "x", milliseconds=ms)
        if name == "peer":
            limit = max(1.0, slowdown) * MARGIN


def time_steps(sizes, seed):
    """The median time of a forward and backward pass, one after the other: threads
    that spin after one call would disturb the next one, if they took turns."""
    torch.manual_seed(seed)
    slices = sizes["slices"]
    x, ptr = _batch(0, sizes, seed)
    readout = GSWEAggregation(slices, slices, 16)
    linear, pool = torch.nn.Linear(slices, slices), MeanAggregation()
    steps = {name: lambda n=name: run(x, ptr, 16, "linear", n) for name in available()}
    leaf = x.clone().requires_grad_()
    steps["readout"] = lambda: readout(leaf, ptr=ptr).sum().backward()
    steps["peer"] = lambda: pool(linear(leaf), ptr=ptr).sum().backward()
    found = {}
    for name in NAMES:
        steps[name]()
        dist.barrier()
        found[name] = median_seconds(steps[name], sizes["seconds"])
    return found
