"""Data parallel training.

`DistributedDataParallel` with two processes on gloo, each with half of the sets of a
batch, against one process with all of them: the largest difference of a parameter. Some
batches leave one process with empty sets only. One loads the checkpoint of the two.
"""

from itertools import product

import torch
import torch.distributed as dist
from backends import ragged
from fresh import call_together
from test_readouts import GSWE
from torch.nn import Linear
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import Sequential

from benchmarks.engine.training import step
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA, readout_channels

FULL = {"steps": 20, "sets": 16}
SMALL = {"steps": 2, "sets": 6}

#: SGD amplifies the rounding of sums a little with every step.
MAX_DISTANCE = {"float64": 1e-12, "float32": 1e-4}

OPTIONS = GSWE | {
    "projected with size": {"out_channels": 4, "encode_size": True},
    "heads": {"heads": 2, "extremes": True},
    "PMA": {},
}


def test_two_processes_learn_what_one_does(sizes, seed, measure, tmp_path):
    both = call_together(train_together, tmp_path, sizes, seed)
    for precision, limit in MAX_DISTANCE.items():
        distances, misread = {}, 0
        for path in sorted(tmp_path.glob(f"{precision} *.pt")):
            name = path.stem.removeprefix(f"{precision} ")
            alone = build(name, precision, seed)
            train(alone, None, sizes, precision, seed)
            together = build(name, precision, seed + 1)  # to be overwritten
            content = torch.load(path, weights_only=True)
            together.load_state_dict(content["state_dict"])
            pairs = zip(alone.parameters(), together.parameters(), strict=True)
            distances[name] = max((a - b).abs().max().item() for a, b in pairs)
            x, ptr, _ = batch(0, None, sizes["sets"], precision, seed)
            misread += not torch.allclose(together(x, None, ptr), content["out"])
        name = f"checkpoints that one process reads otherwise, {precision}"
        measure(name, misread, 0)
        name = f"difference of parameters, {precision}, {len(distances)} readouts"
        measure(name, max(distances.values()), limit, distances=distances)
    errors = [error for errors in both for error in errors]
    measure("readouts with an error", len(errors), 0, errors=errors)


def build(name, precision, seed):
    torch.manual_seed(seed)
    if name == "PMA":
        readout = PMA(4, num_seeds=3, heads=2)
    else:
        readout = GSWEAggregation(4, 4, 5, **OPTIONS[name])
    layers = [
        (Linear(4, 4), "x -> x"),
        (torch.tanh, "x -> x"),
        (readout, "x, index, ptr -> x"),
        Linear(readout_channels(readout, 4), 3),
    ]
    return Sequential("x, index, ptr", layers).to(getattr(torch, precision))


def batch(i, rank, sets, precision, seed):
    """The sets of a step, or the half of a process; those of every third second half
    are empty."""
    dtype, half = getattr(torch, precision), sets // 2
    generator = torch.Generator().manual_seed(1000 * seed + i)
    sizes = torch.randint(0, 12, (sets,), generator=generator)
    if i % 3 == 1:
        sizes[half:] = 0
    x, ptr = ragged(4, sizes.tolist(), dtype, 1000 * seed + i, boundaries=True)
    y = torch.randn(sets, 3, generator=generator).to(dtype)
    if rank is None:
        return x, ptr, y
    low, high = (0, half) if rank == 0 else (half, sets)
    ptr = ptr[low : high + 1]
    return x[ptr[0] : ptr[-1]], ptr - ptr[0], y[low:high]


def train(model, rank, sizes, precision, seed):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for i in range(sizes["steps"]):
        x, ptr, y = batch(i, rank, sizes["sets"], precision, seed)
        step(optimizer, (model(x, None, ptr) - y).square().mean())


def train_together(folder, sizes, seed):
    """Writes a checkpoint for each readout; returns the errors of others."""
    rank, errors = dist.get_rank(), []
    for precision, name in product(MAX_DISTANCE, OPTIONS):
        model = DistributedDataParallel(build(name, precision, seed))
        try:
            train(model, rank, sizes, precision, seed)
        except RuntimeError as error:
            errors.append(f"{precision} {name}: {str(error)[:500]}")
            continue
        x, ptr, _ = batch(0, None, sizes["sets"], precision, seed)
        content = {"state_dict": model.module.state_dict()}
        content["out"] = model.module(x, None, ptr).detach()
        if rank == 0:
            torch.save(content, folder / f"{precision} {name}.pt")
    return errors
