"""Costs.

One thread embeds sets in batches, alone and beside a second process that does the same;
one step of training; and the exchange of the gradients of a model between two processes
on gloo. Two cores share caches and memory: the second process costs PyTorch's linear
layer with mean pooling as well, which stands beside ours.
[docs/scaling.md](../../docs/scaling.md) extrapolates from these.
"""

import time
from collections.abc import Callable
from statistics import mean, median

import pytest
import torch
import torch.distributed as dist
from fresh import call, call_together
from torch_geometric.nn import MeanAggregation

from gswe_pyg import GSWEAggregation

pytestmark = pytest.mark.stress

FULL = {"sizes": [10, 100, 1000], "channels": 64, "slices": 64, "points": 8}
FULL |= {"elements": 20_000, "seconds": 3.0, "parameters": [10_000, 1_000_000]}
SMALL = FULL | {"sizes": [10], "elements": 500, "seconds": 0.05, "parameters": [100]}

#: As long as the one does not wait for the other.
MAX_CROWDING = 1.3

#: How many times the peer's crowding ours may be: two such ratios scatter.
MARGIN = 1.25

MODES = {
    "peer": "PyTorch's linear layer with mean pooling",
    "embed": "forward",
    "train": "forward and backward",
}


def test_a_set(sizes, seed, measure):
    alone = call(set_seconds, sizes, seed)
    both = call_together(set_seconds, sizes, seed)
    for (size, mode), seconds in alone.items():
        cost = 1e9 * seconds / (size * sizes["slices"])
        details = {"size": size, "mode": mode, "seconds_per_set": seconds}
        measure(f"sets of {size}, {MODES[mode]}", cost, None, "ns a value", **details)
    for size in sizes["sizes"]:
        peer, ours = (
            mean(found[size, mode] for found in both) / alone[size, mode]
            for mode in ("peer", "embed")
        )
        name = f"sets of {size}, two processes against one"
        measure(f"{name}: PyTorch's layer", peer, None, "x", size=size)
        measure(name, ours, MAX_CROWDING, "x", size=size, mode="both")
        measure(f"{name}: ours against it", ours / max(1.0, peer), MARGIN, "x")


def set_seconds(sizes: dict, seed: int) -> dict[tuple[int, str], float]:
    """The time that one set of each size takes in a batch, on one thread."""
    torch.manual_seed(seed)
    channels = sizes["channels"]
    readout = GSWEAggregation(channels, sizes["slices"], sizes["points"])
    linear, pool = torch.nn.Linear(channels, sizes["slices"]), MeanAggregation()
    found: dict[tuple[int, str], float] = {}
    for size in sizes["sizes"]:
        num_sets = max(1, sizes["elements"] // size)
        x = torch.randn(num_sets * size, channels)
        ptr = torch.arange(num_sets + 1) * size

        def train(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x.detach().requires_grad_(), ptr=ptr).sum().backward()

        modes = {
            "peer": torch.no_grad()(lambda x=x, ptr=ptr: pool(linear(x), ptr=ptr)),
            "embed": torch.no_grad()(lambda x=x, ptr=ptr: readout(x, ptr=ptr)),
            "train": train,
        }
        for mode, step in modes.items():
            found[size, mode] = median_seconds(step, sizes["seconds"]) / num_sets
    return found


def median_seconds(call: Callable[[], object], budget: float) -> float:
    call()
    times = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def test_exchange(sizes, measure):
    for number in sizes["parameters"]:
        seconds, _ = call_together(exchange_seconds, number)
        details = {"parameters": number, "mode": "exchange"}
        name = f"exchange of {number:,} gradients"
        measure(name, 1e3 * seconds, None, "ms", **details)


def exchange_seconds(parameters: int) -> float:
    """The median time of an all-reduce of so many float32."""
    gradients, times = torch.zeros(parameters), []
    for _ in range(30):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(gradients)
        times.append(time.perf_counter() - start)
    return median(times)
