"""What an element costs, for the plan in ``docs/scaling.md``."""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.reliability.check import Check, answer, ask, check
from benchmarks.speed_timing import bar
from gswe_pyg import GSWEAggregation

TITLE = "Costs"
ABOUT = (
    "One thread embeds sets in batches, alone and beside a second process that does "
    "the same; one step of training; and the exchange of the gradients of a model "
    "between two processes on gloo. [docs/scaling.md](../docs/scaling.md) "
    "extrapolates from these."
)
FULL = {
    "sizes": [10, 100, 1000],
    "channels": 64,
    "slices": 64,
    "points": 8,
    "elements": 20_000,
    "seconds": 3.0,
    "parameters": [10_000, 1_000_000],
}
SMALL = FULL | {"sizes": [10], "elements": 500, "seconds": 0.05, "parameters": [100]}

MODULE = "benchmarks.reliability.costs"

#: As long as the one does not wait for the other. Two cores share caches and memory.
MAX_CROWDING = 1.3


def measure(config: dict, seed: int) -> Iterator[Check]:
    request = {key: value for key, value in config.items() if key != "parameters"}
    request["seed"] = seed
    answers = []
    for processes in bar((1, 2), "costs", "setting"):
        with ThreadPoolExecutor(processes) as executor:
            jobs = executor.map(lambda _: ask(MODULE, request, 900), range(processes))
            answers.append(list(jobs))
    (alone,), both = answers
    for size in map(str, config["sizes"]):
        for mode in ("embed", "train"):
            seconds = alone[mode][size]
            details = {"size": int(size), "mode": mode, "seconds_per_set": seconds}
            cost = 1e9 * seconds / (int(size) * config["slices"])
            what = "forward" if mode == "embed" else "forward and backward"
            yield check(f"sets of {size}, {what}", cost, None, "ns a value", **details)
        crowded = sum(answer["embed"][size] for answer in both) / 2
        yield check(
            f"sets of {size}, two processes against one",
            crowded / alone["embed"][size],
            MAX_CROWDING,
            "x",
            size=int(size),
            mode="both",
        )
    times = _exchange(config["parameters"])
    for number in config["parameters"]:
        yield check(
            f"exchange of {number:,} gradients",
            1e3 * times[str(number)],
            None,
            "ms",
            parameters=number,
            mode="exchange",
        )


def _exchange(parameters: list[int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
        jobs = [
            executor.submit(
                ask,
                MODULE,
                {"rank": rank, "folder": folder, "parameters": parameters},
                600,
            )
            for rank in range(2)
        ]
        return jobs[0].result()


def exchange_seconds(rank: int, folder: str, parameters: list[int]) -> dict[str, float]:
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
        found[str(number)] = median(times)
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
) -> dict[str, dict[str, float]]:
    """The time that one set of each size takes in a batch, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    readout = GSWEAggregation(channels, slices, points)
    found: dict[str, dict[str, float]] = {"embed": {}, "train": {}}
    for size in sizes:
        num_sets = max(1, elements // size)
        x = torch.randn(num_sets * size, channels)
        ptr = torch.arange(num_sets + 1) * size

        def embed(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            with torch.no_grad():
                readout(x, ptr=ptr)

        def train(x: torch.Tensor = x, ptr: torch.Tensor = ptr) -> None:
            readout(x.requires_grad_(), ptr=ptr).sum().backward()

        found["embed"][str(size)] = _median_seconds(embed, seconds) / num_sets
        found["train"][str(size)] = _median_seconds(train, seconds) / num_sets
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


def serve(**request: Any) -> Any:
    return exchange_seconds(**request) if "rank" in request else set_seconds(**request)


if __name__ == "__main__":
    answer(serve)
