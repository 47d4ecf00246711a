"""Endurance.

Training on ragged batches that are all different, by each backend and with weights: the
slope of the memory in use after the first fifth of the steps, times their number.
"""

import numpy as np
import psutil
import pytest
import torch
from backends import available, random_sizes
from fresh import call

from benchmarks.engine.training import step
from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import backend

FULL = {"steps": 10_000, "sets": 32, "largest": 60}
SMALL = {"steps": 60, "sets": 4, "largest": 10}

#: A tensor of one step that is kept would be a hundred times as much.
MAX_MIB = 16


@pytest.mark.parametrize("name", [*available(), "weights"])
def test_memory_does_not_grow(name, sizes, seed, measure):
    # By PyTorch, the weighted path is slow, and would leak as fast.
    weighted = name == "weights"
    steps = sizes["steps"] // 5 if weighted else sizes["steps"]
    at, mib = call(train, name, weighted, steps, sizes, seed, timeout=1800)
    growth = float(np.polyfit(at, mib, 1)[0]) * steps
    label = name if weighted else f"'{name}'"
    ends = {"first_mib": mib[0], "last_mib": mib[-1]}
    measure(f"growth over {steps:,} steps, {label}", growth, MAX_MIB, "MiB", **ends)


def train(name, weighted, steps, sizes, seed):
    """The memory in use at some of the steps after the first fifth."""
    torch.manual_seed(seed)
    readout = GSWEAggregation(16, 16, 8, out_channels=4)
    optimizer = torch.optim.Adam(readout.parameters(), lr=1e-3)
    at, mib, sets = [], [], sizes["sets"]
    with backend("torch" if weighted else name):
        for i in range(steps):
            numbers = torch.tensor(random_sizes(sets, sizes["largest"], seed + i))
            index = torch.arange(sets).repeat_interleave(numbers)
            x = torch.randn(len(index), 16)
            weight = torch.rand(len(index)) + 0.1 if weighted else None
            out = readout(x, index, dim_size=sets, weight=weight)
            step(optimizer, out.square().mean())
            if i >= steps // 5 and i % max(1, steps // 200) == 0:
                at.append(i)
                mib.append(psutil.Process().memory_info().rss / 2**20)
    return at, mib
