"""Costs.

One thread embeds sets in batches, alone and beside a second process that does the same;
one step of training; and the exchange of the gradients of a model between two processes
on gloo. [docs/scaling.md](../../docs/scaling.md) extrapolates from these.
"""

import time
from collections.abc import Callable
from statistics import mean, median

import pytest
import torch
import torch.distributed as dist
from fresh import call, call_together

from gswe_pyg import GSWEAggregation

pytestmark = pytest.mark.stress

FULL = {"sizes": [10, 100, 1000], "channels": 64, "slices": 64, "points": 8}
FULL |= {"elements": 20_000, "seconds": 3.0, "parameters": [10_000, 1_000_000]}
SMALL = FULL | {"sizes": [10], "elements": 500, "seconds": 0.05, "parameters": [100]}

#: As long as the one does not wait for the other. Two cores share caches and memory.
MAX_CROWDING = 1.3

MODES = {"embed": "forward", "train": "forward and backward"}


def test_a_set(sizes, seed, measure):
    alone = call(set_seconds, sizes, seed)
    both = call_together(set_seconds, sizes, seed)
    for (size, mode), seconds in alone.items():
        cost = 1e9 * seconds / (size * sizes["slices"])
        details = {"size": size, "mode": mode, "seconds_per_set": seconds}
        measure(f"sets of {size}, {MODES[mode]}", cost, None, "ns a value", **details)
    for size in sizes["sizes"]:
        key = (size, "embed")
        crowding = mean(found[key] for found in both) / alone[key]
        name = f"sets of {size}, two processes against one"
        measure(name, crowding, MAX_CROWDING, "x", size=size, mode="both")


def set_seconds(sizes: dict, seed: int) -> dict[tuple[int, str], float]:
    """The time that one set of each size takes in a batch, on one thread."""
    torch.manual_seed(seed)
    channels = sizes["channels"]
    readout = GSWEAggregation(channels, sizes["slices"], sizes["points"])
    found: dict[tuple[int, str], float] = {}
    for size in sizes["sizes"]:
        num_sets = max(1, sizes["elements"] // size)
        x = torch.randn(num_sets * size, channels)
        ptr = torch.arange(num_sets + 1) * size

        @torch.no_grad()
        def embed(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x, ptr=ptr)

        def train(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x.requires_grad_(), ptr=ptr).sum().backward()

        for mode, step in (("embed", embed), ("train", train)):
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
