"""A large batch.

Forward and backward pass on one batch with a tenth of the nodes in a single set: the
peak of the memory of the whole process, with PyTorch, the batch and the gradients.
"""

import resource
import sys
import time

import torch
from fresh import call

from gswe_pyg import GSWEAggregation

FULL = {"nodes": 10_000_000, "channels": 16, "slices": 64, "points": 16}
SMALL = {"nodes": 20_000, "channels": 4, "slices": 8, "points": 4}

MAX_GIB = 16


def test_a_step(sizes, seed, measure):
    peak, seconds, wrong = call(step, sizes, seed, threads=2, timeout=1800)
    slices = 4 * sizes["nodes"] * sizes["slices"] / 2**30
    measure("the slices alone", slices, unit="GiB")
    measure("forward and backward", seconds, unit="s")
    measure("peak memory", peak, MAX_GIB, "GiB")
    measure("values that are not finite", wrong, 0)


def step(sizes, seed):
    """The peak in GiB, the seconds, and how many values are not finite."""
    torch.manual_seed(seed)
    nodes, channels, slices, points = sizes.values()
    small = torch.tensor([150, 50]).repeat(nodes // 100 * 9 // 20)
    ptr = torch.cat([torch.tensor([0]), small.cumsum(0), torch.tensor([nodes])])
    readout = GSWEAggregation(channels, slices, points)
    x = torch.randn(nodes, channels, requires_grad=True)
    start = time.perf_counter()
    out = readout(x, ptr=ptr)
    out.square().mean().backward()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In KiB, but on macOS.
    peak *= 1 if sys.platform == "darwin" else 1024
    values = (out, x.grad, *(p.grad for p in readout.parameters()))
    return peak / 2**30, seconds, sum(int((~v.isfinite()).sum()) for v in values)
