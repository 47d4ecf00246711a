"""Data parallel training.

`DistributedDataParallel` with two processes on gloo, each with half of the sets of a
batch, against one process with all of them: the largest difference of a parameter after
training, in double and in single precision (whose sums round in another order). Every
option is trained without `find_unused_parameters`, and one step leaves one process with
empty sets only. The checkpoint of the two is loaded by one, with `weights_only=True`.
"""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from backends import ragged
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
    "PMA": {},
}


@pytest.fixture(scope="module")
def trained(sizes, seed, tmp_path_factory) -> Path:
    """A folder with what two processes have learned together."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = (str(folder), sizes["steps"], sizes["sets"], seed)
    mp.spawn(train_together, arguments, nprocs=2)
    return folder


@pytest.mark.parametrize("precision", MAX_DISTANCE)
def test_two_processes_learn_what_one_does(precision, trained, sizes, seed, measure):
    distances, misread = {}, 0
    for name in OPTIONS:
        path = trained / f"{precision} {name}.pt"
        if not path.exists():  # an error, which another test reports
            continue
        alone = build(name, precision, seed)
        train(alone, None, sizes["steps"], sizes["sets"], seed)
        together = build(name, precision, seed + 1)  # to be overwritten
        content = torch.load(path, weights_only=True)
        together.load_state_dict(content["state_dict"])
        distances[name] = max(
            (a - b).abs().max().item()
            for a, b in zip(alone.parameters(), together.parameters(), strict=True)
        )
        x, ptr, _ = batch(0, None, sizes["sets"], precision, seed)
        misread += not torch.allclose(together(x, ptr), content["out"])
    worst = max(distances, key=distances.get)
    measure(f"checkpoints that one process reads otherwise, {precision}", misread, 0)
    measure(
        f"difference of parameters, {precision}, {len(distances)} readouts",
        distances[worst],
        MAX_DISTANCE[precision],
        worst=worst,
        distances=distances,
    )


def test_no_readout_fails(trained, measure):
    errors = [f"{path.stem}: {path.read_text()}" for path in trained.glob("*.error*")]
    measure("readouts with an error", len(errors), 0, errors=errors)


def build(name: str, precision: str, seed: int) -> Module:
    torch.manual_seed(seed)
    if name == "PMA":
        net = Net(PMA(4, num_seeds=3, heads=2), 12)
    else:
        readout = GSWEAggregation(4, 4, 5, **OPTIONS[name])
        net = Net(readout, readout.out_channels or readout.embedding_channels)
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
    x, ptr = ragged(sizes.tolist(), 4, 1000 * seed + step, dtype)
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


def train_together(rank: int, folder: str, steps: int, sets: int, seed: int) -> None:
    torch.set_num_threads(1)
    meeting_point = f"file://{folder}/processes"
    dist.init_process_group("gloo", meeting_point, rank=rank, world_size=2)
    try:
        for precision in MAX_DISTANCE:
            for name in OPTIONS:
                path = Path(folder) / f"{precision} {name}.pt"
                model = DistributedDataParallel(build(name, precision, seed))
                try:
                    train(model, rank, steps, sets, seed)
                except RuntimeError as error:
                    path.with_suffix(f".error{rank}").write_text(str(error)[:500])
                else:
                    x, ptr, _ = batch(0, None, sets, precision, seed)
                    content = {"state_dict": model.module.state_dict()}
                    content["out"] = model.module(x, ptr).detach()
                    if rank == 0:
                        torch.save(content, path)
                del model
    finally:
        # What outlives the group waits for a thread that may wait for the interpreter.
        gc.collect()
        dist.destroy_process_group()
