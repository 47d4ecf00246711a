"""Long training leaks nothing."""

from collections.abc import Iterator
from typing import Any

import psutil
import torch

from benchmarks.reliability.backends import available, random_sizes
from benchmarks.reliability.check import Check, answer, ask, check
from benchmarks.speed_timing import bar
from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import backend

TITLE = "Endurance"
ABOUT = (
    "Training steps on ragged batches that are all different, in a process of its own "
    "for each backend, and one with weights: the slope of a line through the memory in "
    "use (resident set size) over the steps after the first fifth, times the number "
    "of steps."
)
FULL = {"steps": 10_000, "sets": 32, "largest": 60}
SMALL = {"steps": 60, "sets": 4, "largest": 10}

MODULE = "benchmarks.reliability.endurance"

#: A tensor of one step that is kept would be a hundred times as much.
MAX_MIB = 16


def measure(config: dict, seed: int) -> Iterator[Check]:
    # By PyTorch, the weighted path is slow, and would leak as fast.
    tasks = [(name, False, config["steps"]) for name in available()]
    tasks.append(("torch", True, config["steps"] // 5))
    for name, weighted, steps in bar(tasks, "endurance", "process"):
        request = config | {"seed": seed, "steps": steps}
        request |= {"backend_name": name, "weighted": weighted}
        found = ask(MODULE, request, 1800)
        label = "weights" if weighted else f"'{name}'"
        yield check(
            f"growth over {steps:,} steps, {label}",
            found["slope"] * steps / 2**20,
            MAX_MIB,
            "MiB",
            **found,
        )


def train(
    steps: int, sets: int, largest: int, backend_name: str, weighted: bool, seed: int
) -> dict[str, Any]:
    """Bytes that the memory grows with each step."""
    torch.manual_seed(seed)
    readout = GSWEAggregation(16, 16, 8, out_channels=4)
    optimizer = torch.optim.Adam(readout.parameters(), lr=1e-3)
    process, at, memory = psutil.Process(), [], []
    with backend(backend_name):
        for step in range(steps):
            sizes = torch.tensor(random_sizes(sets, largest, seed + step))
            index = torch.arange(sets).repeat_interleave(sizes)
            x = torch.randn(len(index), 16)
            weight = torch.rand(len(index)) + 0.1 if weighted else None
            out = readout(x, index, dim_size=sets, weight=weight)
            optimizer.zero_grad()
            out.square().mean().backward()
            optimizer.step()
            if step % max(1, steps // 200) == 0:
                at.append(float(step))
                memory.append(float(process.memory_info().rss))
    first = len(at) // 5
    x = torch.tensor(at[first:], dtype=torch.float64)
    y = torch.tensor(memory[first:], dtype=torch.float64)
    x, y = x - x.mean(), y - y.mean()
    return {
        "slope": float((x * y).sum() / (x * x).sum()),
        "first_mib": round(memory[first] / 2**20, 1),
        "last_mib": round(memory[-1] / 2**20, 1),
    }


if __name__ == "__main__":
    answer(train)
