"""Two processes learn what one does."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.parallel import DistributedDataParallel

from benchmarks.reliability.check import Check, answer, ask, check
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA

TITLE = "Data parallel training"
ABOUT = (
    "`DistributedDataParallel` with two processes on gloo, each with half of the sets "
    "of a batch, against one process with all of them: the largest difference of a "
    "parameter after training, in double and in single precision (whose sums round in "
    "another order). Every option is trained without `find_unused_parameters`, and "
    "one step leaves one process with empty sets only. The checkpoint of the two is "
    "loaded by one, with `weights_only=True`."
)
FULL = {"steps": 20, "sets": 16}
SMALL = {"steps": 2, "sets": 6}

MODULE = "benchmarks.reliability.data_parallel"

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


def measure(config: dict, seed: int) -> Iterator[Check]:
    found = ask(MODULE, config | {"seed": seed}, 900)
    for precision, distances in found["distances"].items():
        worst = max(distances, key=distances.get)
        yield check(
            f"difference of parameters, {precision}, {len(distances)} readouts",
            distances[worst],
            MAX_DISTANCE[precision],
            worst=worst,
            distances=distances,
        )
    errors = found["errors"]
    yield check("readouts with an error", len(errors), 0, errors=errors)
    yield check("checkpoints that one process reads otherwise", found["misread"], 0)


def build(name: str, dtype: torch.dtype, seed: int) -> Module:
    torch.manual_seed(seed)
    if name == "PMA":
        return Net(PMA(4, num_seeds=3, heads=2), 12).to(dtype)
    readout = GSWEAggregation(4, 4, 5, **OPTIONS[name])
    width = readout.out_channels or readout.embedding_channels
    return Net(readout, width).to(dtype)


class Net(Module):
    def __init__(self, readout: Module, width: int) -> None:
        super().__init__()
        self.lin_in, self.readout = Linear(4, 4), readout
        self.lin_out = Linear(width, 3)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.lin_out(self.readout(self.lin_in(x).tanh(), ptr=ptr))


def batch(step: int, sets: int, dtype: torch.dtype, seed: int) -> list[Any]:
    """The sets of a step in two halves; those of every third second half are empty."""
    generator = torch.Generator().manual_seed(1000 * seed + step)
    sizes = torch.randint(0, 12, (sets,), generator=generator)
    if step % 3 == 1:
        sizes[sets // 2 :] = 0
    x = torch.randn(int(sizes.sum()), 4, generator=generator, dtype=torch.float64)
    y = torch.randn(sets, 3, generator=generator, dtype=torch.float64)
    half = sets // 2
    parts = (slice(None, half), slice(half, None))
    return [
        (
            rows.to(dtype),
            torch.nn.functional.pad(part.cumsum(0), (1, 0)),
            y[i].to(dtype),
        )
        for rows, part, i in zip(
            x.split([int(sizes[part].sum()) for part in parts]),
            (sizes[part] for part in parts),
            parts,
            strict=True,
        )
    ]


def join(parts: list[Any]) -> Any:
    (x, ptr, y), (more_x, more_ptr, more_y) = parts
    ptr = torch.cat([ptr, more_ptr[1:] + ptr[-1]])
    return torch.cat([x, more_x]), ptr, torch.cat([y, more_y])


def train(model: Module, rank: int | None, steps: int, sets: int, seed: int) -> None:
    dtype = next(model.parameters()).dtype
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        parts = batch(step, sets, dtype, seed)
        x, ptr, y = join(parts) if rank is None else parts[rank]
        optimizer.zero_grad()
        (model(x, ptr) - y).square().mean().backward()
        optimizer.step()


def _worker(rank: int, folder: str, steps: int, sets: int, seed: int) -> None:
    torch.set_num_threads(1)
    meeting_point = f"file://{folder}/processes"
    dist.init_process_group("gloo", meeting_point, rank=rank, world_size=2)
    try:
        for precision in MAX_DISTANCE:
            for name in OPTIONS:
                model = build(name, getattr(torch, precision), seed)
                model = DistributedDataParallel(model)
                error = ""
                try:
                    train(model, rank, steps, sets, seed)
                except RuntimeError as failure:
                    error = str(failure)[:500]
                path = Path(folder) / f"{precision} {name}.pt"
                if error:
                    path.with_suffix(f".error{rank}").write_text(error)
                elif rank == 0:
                    x, ptr, _ = join(batch(0, sets, getattr(torch, precision), seed))
                    content = {"state_dict": model.module.state_dict()}
                    torch.save(content | {"out": model.module(x, ptr).detach()}, path)
                del model
    finally:
        # What outlives the group waits for a thread that may wait for the interpreter.
        gc.collect()
        dist.destroy_process_group()


def compare(steps: int, sets: int, seed: int) -> dict[str, Any]:
    distances: dict[str, dict[str, float]] = {}
    errors, misread = [], 0
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_worker, (folder, steps, sets, seed), nprocs=2)
        errors = [
            f"{path.stem}: {path.read_text()}" for path in Path(folder).glob("*.error*")
        ]
        for precision in MAX_DISTANCE:
            distances[precision] = {}
            for name in OPTIONS:
                path = Path(folder) / f"{precision} {name}.pt"
                if not path.exists():
                    continue
                dtype = getattr(torch, precision)
                alone = build(name, dtype, seed)
                train(alone, None, steps, sets, seed)
                together = build(name, dtype, seed + 1)  # to be overwritten
                content = torch.load(path, weights_only=True)
                together.load_state_dict(content["state_dict"])
                distances[precision][name] = max(
                    float((a - b).abs().max())
                    for a, b in zip(
                        alone.parameters(), together.parameters(), strict=True
                    )
                )
                x, ptr, _ = join(batch(0, sets, dtype, seed))
                misread += not torch.allclose(together(x, ptr), content["out"])
    return {"distances": distances, "errors": errors, "misread": misread}


if __name__ == "__main__":
    answer(compare)
