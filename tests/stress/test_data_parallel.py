"""Data parallel training.

`DistributedDataParallel` with two processes on gloo, each with half of the sets of a
batch, against one process with all of them: the largest difference of a parameter after
training, in double and in single precision (whose sums round in another order). Every
option is trained without `find_unused_parameters`, and one step leaves one process with
empty sets only. The checkpoint of the two is loaded by one, with `weights_only=True`.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from backends import ragged
from fresh import call_together
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.parallel import DistributedDataParallel

from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA

pytestmark = pytest.mark.stress

FULL = {"steps": 20, "sets": 16}
SMALL = {"steps": 2, "sets": 6}

#: SGD amplifies the rounding of sums a little with every step.
MAX_DISTANCE = {"float64": 1e-12, "float32": 1e-4}

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "mlp": {"slicer": "mlp"},
    "polynomial": {"slicer": "polynomial"},
    "identity": {"slicer": "identity"},
    "step": {"interpolation": "step"},
    "barycentric": {"interpolation": "barycentric"},
    "pswe": {"interpolation": "pswe"},
    "references": {"num_references": 3},
    "slice": {"reference": "slice"},
    "projected": {"out_channels": 4},
    "with size": {"encode_size": True},
    "projected with size": {"out_channels": 4, "encode_size": True},
    "heads": {"heads": 2, "extremes": True},
    "PMA": {},
}


def test_two_processes_learn_what_one_does(sizes, seed, measure, tmp_path):
    settings = (sizes["steps"], sizes["sets"], seed)
    both = call_together(train_together, str(tmp_path), *settings)
    errors = [error for errors in both for error in errors]
    for precision, limit in MAX_DISTANCE.items():
        distances, misread = {}, 0
        for path in sorted(tmp_path.glob(f"{precision} *.pt")):
            name = path.stem.removeprefix(f"{precision} ")
            alone = build(name, precision, seed)
            train(alone, None, *settings)
            together = build(name, precision, seed + 1)  # to be overwritten
            content = torch.load(path, weights_only=True)
            together.load_state_dict(content["state_dict"])
            pairs = zip(alone.parameters(), together.parameters(), strict=True)
            distances[name] = max((a - b).abs().max().item() for a, b in pairs)
            x, ptr, _ = batch(0, None, sizes["sets"], precision, seed)
            misread += not torch.allclose(together(x, ptr), content["out"])
        worst = max(distances, key=distances.get)
        name = f"checkpoints that one process reads otherwise, {precision}"
        measure(name, misread, 0)
        name = f"difference of parameters, {precision}, {len(distances)} readouts"
        details = {"worst": worst, "distances": distances}
        measure(name, distances[worst], limit, **details)
    measure("readouts with an error", len(errors), 0, errors=errors)


def build(name: str, precision: str, seed: int) -> Module:
    torch.manual_seed(seed)
    if name == "PMA":
        net = Net(PMA(4, num_seeds=3, heads=2), 12)
    else:
        readout = GSWEAggregation(4, 4, 5, **OPTIONS[name])
        net = Net(readout, readout(torch.zeros(1, 4), torch.zeros(1).long()).shape[1])
    return net.to(getattr(torch, precision))


class Net(Module):
    def __init__(self, readout: Module, width: int) -> None:
        super().__init__()
        self.lin_in, self.readout = Linear(4, 4), readout
        self.lin_out = Linear(width, 3)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.lin_out(self.readout(self.lin_in(x).tanh(), ptr=ptr))


def batch(
    step: int, rank: int | None, sets: int, precision: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The sets of a step, or the half of a process; those of every third second half
    are empty."""
    dtype, half = getattr(torch, precision), sets // 2
    generator = torch.Generator().manual_seed(1000 * seed + step)
    sizes = torch.randint(0, 12, (sets,), generator=generator)
    if step % 3 == 1:
        sizes[half:] = 0
    x, ptr = ragged(4, sizes.tolist(), dtype, 1000 * seed + step, boundaries=True)
    y = torch.randn(sets, 3, generator=generator).to(dtype)
    if rank is None:
        return x, ptr, y
    low, high = (0, half) if rank == 0 else (half, sets)
    ptr = ptr[low : high + 1]
    return x[ptr[0] : ptr[-1]], ptr - ptr[0], y[low:high]


def train(model: Module, rank: int | None, steps: int, sets: int, seed: int) -> None:
    precision = str(next(model.parameters()).dtype).removeprefix("torch.")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, ptr, y = batch(step, rank, sets, precision, seed)
        optimizer.zero_grad()
        (model(x, ptr) - y).square().mean().backward()
        optimizer.step()


def train_together(folder: str, steps: int, sets: int, seed: int) -> list[str]:
    """Writes a checkpoint for each readout; returns the errors of others."""
    rank, errors = dist.get_rank(), []
    for precision in MAX_DISTANCE:
        for name in OPTIONS:
            model = DistributedDataParallel(build(name, precision, seed))
            try:
                train(model, rank, steps, sets, seed)
            except RuntimeError as error:
                errors.append(f"{precision} {name}: {str(error)[:500]}")
                continue
            x, ptr, _ = batch(0, None, sets, precision, seed)
            content = {"state_dict": model.module.state_dict()}
            content["out"] = model.module(x, ptr).detach()
            if rank == 0:
                torch.save(content, Path(folder) / f"{precision} {name}.pt")
    return errors
