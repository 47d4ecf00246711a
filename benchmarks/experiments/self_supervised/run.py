"""Learning without labels (paper, section 5.1 and appendix A.1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.engine.arguments import Registry
from benchmarks.engine.config import RunSettings, check_choices, check_positive
from benchmarks.engine.grid import Context, Outcome
from benchmarks.experiments.self_supervised import augmentations
from benchmarks.experiments.self_supervised.nearest_neighbor import (
    nearest_neighbor_accuracy,
)
from benchmarks.experiments.self_supervised.set_table import SetTable
from benchmarks.readouts import READOUTS, Shape, check_points
from gswe_pyg.datasets import PointCloudMNIST, SetCircles
from gswe_pyg.losses import simclr_loss, simsiam_loss
from gswe_pyg.models import MLP, SetModel, SharedSAB

#: Elements that are augmented at once, or embedded when nothing is learned.
_CHUNK = 1 << 15


@lru_cache(maxsize=1)
def set_circles(root: Path, noise: float = 0.1) -> tuple[SetTable, SetTable]:
    """Generated, so there is nothing to read from ``root``."""
    return (
        SetTable.from_dataset(SetCircles(train=True, noise=noise)),
        SetTable.from_dataset(SetCircles(train=False, noise=noise)),
    )


@lru_cache(maxsize=1)
def point_cloud_mnist(root: Path) -> tuple[SetTable, SetTable]:
    folder = str(root / "MNIST")
    return (
        SetTable.from_dataset(PointCloudMNIST(folder, train=True)),
        SetTable.from_dataset(PointCloudMNIST(folder, train=False)),
    )


#: Called as ``load(root)``; gives the training and the test sets.
DATASETS: Registry = Registry(
    "dataset",
    set_circles=set_circles,
    # The most noise, in tenths, at which the mean norm, "an ideal feature" in the
    # paper's words, still tells the classes apart without error.
    set_circles_noisy=partial(set_circles, noise=0.5),
    point_cloud_mnist=point_cloud_mnist,
)

#: Called as ``build(in_channels)``; the result has ``out_channels``.
BACKBONES: Registry = Registry(
    "backbone",
    mlp_64_64_1=lambda channels: MLP(channels, [64, 64], 1),
    sab_256x3_16=lambda channels: SharedSAB(channels, 256, 16, heads=4, num_layers=3),
)

#: Called as ``loss(z, z_bar, run)``.
LOSSES: Registry = Registry(
    "loss",
    simclr=lambda z, z_bar, run: simclr_loss(z, z_bar, run.temperature),
    simsiam=lambda z, z_bar, run: simsiam_loss(z, z_bar, run.p),
)

#: Called as ``augment(x, index, num_sets, generator)`` on a whole batch of sets.
AUGMENTATIONS: Registry = Registry(
    "augmentation",
    rotation=augmentations.rotate_sets,
    jitter=augmentations.jitter_elements,
)


@dataclass(frozen=True)
class Run(RunSettings):
    dataset: str = "set_circles"
    backbone: str = "mlp_64_64_1"
    augmentation: str = "rotation"
    readout: str = "gswe_linear"
    loss: str = "simclr"
    points: int = 1  # elements of the reference, seeds of PMA
    start: float = 0.0  # of the readout's constants: see `Readout.move_to_start`
    epochs: int = 50
    batch_size: int = 32
    learning_rate: float = 1e-4
    temperature: float = 0.1  # of SimCLR
    p: float = 2.0  # of SimSiam
    train_sets: int | None = None  # all
    test_sets: int | None = None
    evaluate: str = "test"  # or "validation": a quarter of the training sets

    def __post_init__(self) -> None:
        for registry, name in (
            (DATASETS, self.dataset),
            (BACKBONES, self.backbone),
            (AUGMENTATIONS, self.augmentation),
            (READOUTS, self.readout),
            (LOSSES, self.loss),
        ):
            registry[name]
        check_positive(self, "points", "epochs", "batch_size")
        check_points(self.readout, self.points)
        check_choices(self, evaluate=("test", "validation"))

    def canonical(self) -> "Run":
        readout = READOUTS[self.readout]
        run = self if readout.has_points else replace(self, points=1)
        return run if readout.constants else replace(run, start=1.0)


def execute(run: Run, context: Context) -> Outcome:
    """Trains on pairs of views, then asks the nearest training set for the label."""
    train, test = DATASETS[run.dataset](context.data)
    if run.evaluate == "validation":
        train, test = train.hold_out(0.25)
    train, test = train.take(run.train_sets), test.take(run.test_sets)

    torch.manual_seed(run.seed)
    backbone = BACKBONES[run.backbone](train.x.size(1))
    entry = READOUTS[run.readout]
    readout = entry.build(Shape(backbone.out_channels, run.points))
    entry.move_to_start(readout, run.start)
    model = SetModel(backbone, readout).to(context.device)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate, fused=True)

    # Batches and views depend on the seed alone: all readouts see the same.
    generator = torch.Generator().manual_seed(run.seed)
    for _ in range(run.epochs):
        losses = [
            _step(run, model, optimizer, views, context.device)
            for views in _batches_of_views(run, train, generator)
        ]

    model.eval()
    accuracy = nearest_neighbor_accuracy(
        embed(model, test, context.device),
        test.y.to(context.device),
        embed(model, train, context.device),
        train.y.to(context.device),
    )
    return Outcome(
        metrics={
            "accuracy": round(accuracy, 6),
            "train_loss": float(f"{torch.stack(losses).mean().item():.6g}"),
        },
        parameters=sum(p.numel() for p in model.parameters()),
    )


def _batches_of_views(
    run: Run, train: SetTable, generator: torch.Generator
) -> Iterator[SetTable]:
    """The sets of an epoch in batches: first views first, second views after them.

    Many batches are drawn and augmented at once, and then cut, as every call costs
    as much for a few small sets as for hundreds.
    """
    augment = AUGMENTATIONS[run.augmentation]
    mean_size = max(1, train.x.size(0) // len(train))
    batches_at_once = max(1, _CHUNK // (2 * mean_size * run.batch_size))
    order = torch.randperm(len(train), generator=generator)
    for many in order.split(batches_at_once * run.batch_size):
        batches = many.split(run.batch_size)
        twice = torch.cat([torch.cat([batch, batch]) for batch in batches])
        sets = train.select(twice)
        views = augment(sets.x, sets.index(), len(sets), generator)
        yield from replace(sets, x=views).split([2 * len(batch) for batch in batches])


def _step(
    run: Run,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    views: SetTable,
    device: torch.device,
) -> Tensor:
    z, z_bar = _embed(model, views, device).chunk(2)
    loss = LOSSES[run.loss](z, z_bar, run)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def _embed(model: torch.nn.Module, sets: SetTable, device: torch.device) -> Tensor:
    x, ptr, index = (t.to(device) for t in (sets.x, sets.ptr, sets.index()))
    return model(x, index, ptr, len(sets)).float()


@torch.no_grad()
def embed(model: torch.nn.Module, sets: SetTable, device: torch.device) -> Tensor:
    """Embeddings of all sets as they are, a chunk at a time."""
    return torch.cat([_embed(model, part, device) for part in sets.chunks(_CHUNK)])
