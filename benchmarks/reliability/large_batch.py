"""A batch that hardly fits into the memory."""

import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.reliability.check import Check, answer, ask, check
from gswe_pyg import GSWEAggregation

TITLE = "A large batch"
ABOUT = (
    "Forward and backward pass of `GSWEAggregation` on one batch with a tenth of the "
    "nodes in a single set: the peak of the memory of the whole process, with "
    "PyTorch, the batch and the gradients in it."
)
FULL = {"nodes": 10_000_000, "channels": 16, "slices": 64, "points": 16}
SMALL = {"nodes": 20_000, "channels": 4, "slices": 8, "points": 4}

MODULE = "benchmarks.reliability.large_batch"

MAX_GIB = 16


def measure(config: dict, seed: int) -> Iterator[Check]:
    found = ask(MODULE, config | {"seed": seed}, 1800, threads=2)
    slices = 4 * config["nodes"] * config["slices"] / 2**30
    yield check("peak memory", found["peak_gib"], MAX_GIB, "GiB")
    yield check("the slices alone", slices, None, "GiB")
    yield check("values that are not finite", found["not_finite"], 0)
    yield check("forward and backward", found["seconds"], None, "s")


def step(
    nodes: int, channels: int, slices: int, points: int, seed: int
) -> dict[str, Any]:
    torch.manual_seed(seed)
    sizes = torch.full((nodes // 100 * 9 // 10,), 100)
    sizes[::2] += 50
    sizes[1::2] -= 50
    sizes = torch.cat([sizes, torch.tensor([nodes - int(sizes.sum())])])
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    readout = GSWEAggregation(channels, slices, points)
    x = torch.randn(nodes, channels, requires_grad=True)
    start = time.perf_counter()
    out = readout(x, ptr=ptr)
    out.square().mean().backward()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In KiB, but on macOS.
    peak *= 1 if sys.platform == "darwin" else 1024
    not_finite = sum(
        int((~value.isfinite()).sum()) for value in (out, x.grad, readout.points.grad)
    )
    return {"peak_gib": peak / 2**30, "seconds": seconds, "not_finite": not_finite}


if __name__ == "__main__":
    answer(step)
