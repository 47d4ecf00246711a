"""Costs.

One thread embeds sets in batches, alone and beside a second process that does the same;
one step of training; and the exchange of the gradients of a model between two processes
on gloo. [docs/scaling.md](../../docs/scaling.md) extrapolates from these.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pytest
import torch
import torch.distributed as dist
from fresh import call

from gswe_pyg import GSWEAggregation

pytestmark = pytest.mark.stress

FULL = {"sizes": [10, 100, 1000], "channels": 64, "slices": 64, "points": 8}
FULL |= {"elements": 20_000, "seconds": 3.0, "parameters": [10_000, 1_000_000]}
SMALL = FULL | {"sizes": [10], "elements": 500, "seconds": 0.05, "parameters": [100]}

#: As long as the one does not wait for the other. Two cores share caches and memory.
MAX_CROWDING = 1.3

MODES = {"embed": "forward", "train": "forward and backward"}


def test_a_set(sizes, seed, measure):
    settings = [value for name, value in sizes.items() if name != "parameters"]
    alone = call(set_seconds, *settings, seed)
    with ThreadPoolExecutor(2) as executor:
        jobs = [executor.submit(call, set_seconds, *settings, seed) for _ in range(2)]
    both = [job.result() for job in jobs]
    for (size, mode), seconds in alone.items():
        cost = 1e9 * seconds / (size * sizes["slices"])
        details = {"size": size, "mode": mode, "seconds_per_set": seconds}
        measure(f"sets of {size}, {MODES[mode]}", cost, None, "ns a value", **details)
    crowding = {
        size: sum(found[size, "embed"] for found in both) / 2 / alone[size, "embed"]
        for size in sizes["sizes"]
    }
    for size, value in crowding.items():
        name = f"sets of {size}, two processes against one"
        measure(name, value, MAX_CROWDING, "x", size=size, mode="both")


def test_exchange(sizes, measure, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        jobs = [
            executor.submit(
                call, exchange_seconds, rank, str(tmp_path), sizes["parameters"]
            )
            for rank in range(2)
        ]
    for number, seconds in jobs[0].result().items():
        details = {"parameters": number, "mode": "exchange"}
        name = f"exchange of {number:,} gradients"
        measure(name, 1e3 * seconds, None, "ms", **details)


def exchange_seconds(rank: int, folder: str, parameters: list[int]) -> dict[int, float]:
    """The median time of an all-reduce of so many float32."""
    meeting_point = f"file://{folder}/processes"
    dist.init_process_group("gloo", meeting_point, rank=rank, world_size=2)
    found = {}
    for number in parameters:
        gradients = torch.zeros(number)
        times = []
        for _ in range(30):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(gradients)
            times.append(time.perf_counter() - start)
        found[number] = median(times)
    dist.destroy_process_group()
    return found


def set_seconds(
    sizes: list[int],
    channels: int,
    slices: int,
    points: int,
    elements: int,
    seconds: float,
    seed: int,
) -> dict[tuple[int, str], float]:
    """The time that one set of each size takes in a batch, on one thread."""
    torch.manual_seed(seed)
    readout = GSWEAggregation(channels, slices, points)
    found: dict[tuple[int, str], float] = {}
    for size in sizes:
        num_sets = max(1, elements // size)
        x = torch.randn(num_sets * size, channels)
        ptr = torch.arange(num_sets + 1) * size

        @torch.no_grad()
        def embed(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x, ptr=ptr)

        def train(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x.requires_grad_(), ptr=ptr).sum().backward()

        found[size, "embed"] = _median_seconds(embed, seconds) / num_sets
        found[size, "train"] = _median_seconds(train, seconds) / num_sets
    return found


def _median_seconds(call: Callable[[], None], budget: float) -> float:
    call()
    times = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)
