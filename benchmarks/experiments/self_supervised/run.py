"""Learning without labels (paper, section 5.1 and appendix A.1)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.engine.arguments import Registry
from benchmarks.engine.config import PARTS, setting
from benchmarks.engine.grid import Context, Outcome
from benchmarks.engine.training import epoch, num_parameters, significant
from benchmarks.experiments.self_supervised import augmentations, frozen
from benchmarks.experiments.set_table import SetTable
from benchmarks.readouts import READOUTS, ReadoutSettings, Shape
from gswe_pyg.datasets import PointCloudMNIST, SetCircles, SetDataset
from gswe_pyg.losses import simclr_loss, simsiam_loss
from gswe_pyg.models import MLP, SetModel, SharedSAB, readout_channels

#: Elements that are augmented at once, or embedded when nothing is learned.
_CHUNK = 1 << 15


def _both_parts(load: Callable[..., SetDataset]) -> tuple[SetTable, SetTable]:
    train, test = (SetTable.from_dataset(load(train=part)) for part in (True, False))
    return train, test


@lru_cache(maxsize=1)
def set_circles(root: Path, seed: int, noise: float = 0.1) -> tuple[SetTable, SetTable]:
    """Generated, so there is nothing to read from ``root``."""
    return _both_parts(partial(SetCircles, noise=noise, seed=seed))


@lru_cache(maxsize=1)
def point_cloud_mnist(root: Path, seed: int) -> tuple[SetTable, SetTable]:
    """The same with any seed."""
    return _both_parts(partial(PointCloudMNIST, str(root / "MNIST")))


#: Called as ``load(root, seed)``; gives the training and the test sets.
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
    mlp_128_128_16=lambda channels: MLP(channels, [128, 128], 16),
    sab_256x3_16=lambda channels: SharedSAB(channels, 256, 16, heads=4, num_layers=3),
    none=None,  # see `frozen.WITHOUT_NETWORK`
)

#: Called as ``loss(z, z_bar, run)``.
LOSSES: Registry = Registry(
    "loss",
    simclr=lambda z, z_bar, run: simclr_loss(z, z_bar, run.temperature, run.normalize),
    simsiam=lambda z, z_bar, run: simsiam_loss(z, z_bar, run.p),
)

#: Called as ``augment(sets, generator, noise)``; gives the new elements.
AUGMENTATIONS: Registry = Registry(
    "augmentation",
    rotation=augmentations.rotate_sets,
    jitter=augmentations.jitter_elements,
    bend=augmentations.bend_and_jitter,
)


@dataclass(frozen=True)
class Run(ReadoutSettings):
    dataset: str = setting("set_circles", DATASETS)
    backbone: str = setting("mlp_64_64_1", BACKBONES)
    augmentation: str = setting("rotation", AUGMENTATIONS)
    readout: str = setting("gswe_linear", (*READOUTS, *frozen.WITHOUT_NETWORK))
    loss: str = setting("simclr", LOSSES)
    points: int = setting(1, least=1)  # elements of the reference, seeds of PMA
    start: float = 0.0  # of the readout's constants: see `Readout.move_to_start`
    epochs: int = setting(50, least=0)  # none: the network as it is built, a control
    batch_size: int = setting(32, least=1)
    learning_rate: float = 1e-4
    temperature: float = 0.1  # of SimCLR
    p: float = 2.0  # of SimSiam
    train_sets: int | None = None  # all
    test_sets: int | None = None
    evaluate: str = setting("test", PARTS)  # validation: a quarter of training sets
    normalize: bool = setting(False, added=True)  # SimCLR by cosines
    unit_scale: bool = setting(False, added=True)  # to mean zero and deviation one
    noise: float = setting(1.0, added=True)  # of jitter, in units of the data: pixels
    view_elements: int | None = setting(None, added=True)  # drawn for a view; all
    projection: int | None = setting(None, added=True)  # channels, for the loss only
    draw_data: bool = setting(False, added=True)  # by the seed, where it is generated
    directions: int = setting(16, least=1, added=True)  # of vectors without a network
    probes: bool = setting(False, added=True)  # classifiers learn from the vectors

    def canonical(self) -> "Run":
        if not self.is_control:
            run = replace(super().canonical(), directions=Run.directions)
            if READOUTS[self.readout].constants is None:
                run = replace(run, start=1.0)
        else:
            run = replace(self, epochs=0, backbone="none", start=Run.start)
            run = run if self.draw_data else replace(run, seed=0)
            if self.readout != "sliced":
                run = replace(run, points=1, directions=Run.directions)
        if run.epochs == 0:
            run = replace(run, **{name: getattr(Run, name) for name in OF_TRAINING})
        return run


#: Settings that make no difference without training.
OF_TRAINING = (
    *("augmentation", "loss", "batch_size", "learning_rate", "temperature", "p"),
    *("normalize", "noise", "view_elements", "projection"),
)


def execute(run: Run, context: Context) -> Outcome:
    """Trains on pairs of views, then asks the nearest training set for the label."""
    data_seed = run.seed if run.draw_data else 0
    train, test = DATASETS[run.dataset](context.data, data_seed)
    if run.evaluate == "validation":
        train, test = train.hold_out(0.25)
    train, test = train.take(run.train_sets), test.take(run.test_sets)
    if run.unit_scale:
        centre, scale = train.x.mean(dim=0), train.x.std().item()
        train, test = (replace(s, x=(s.x - centre) / scale) for s in (train, test))
        run = replace(run, noise=run.noise / scale)

    metrics, curves, parameters = {}, None, 0
    if not run.is_control:
        torch.manual_seed(run.seed)
        model = build(run, train.x.size(1)).to(context.device)
        parameters = num_parameters(model)
        if run.epochs > 0:
            metrics, curves = _train(run, model, train, context.device)
        to_vectors = partial(embed, model, device=context.device)
    else:
        without_network = frozen.WITHOUT_NETWORK[run.readout]
        to_vectors = partial(without_network, train, run.directions, run.points)
    begin = time.process_time()
    points, queries = to_vectors(train).cpu(), to_vectors(test).cpu()
    seconds = time.process_time() - begin
    vectors = queries, test.y, points, train.y
    metrics["accuracy"] = round(frozen.nearest_neighbor_accuracy(*vectors), 6)
    if run.probes:
        metrics |= {"embed_seconds": significant(seconds), **frozen.probes(*vectors)}
    return Outcome(metrics, parameters, curves)


def build(run: Run, in_channels: int) -> SetModel:
    backbone = BACKBONES[run.backbone](in_channels)
    entry = READOUTS[run.readout]
    readout = entry.build(Shape(backbone.out_channels, run.points))
    entry.move_to_start(readout, run.start)
    return SetModel(backbone, readout)


def _train(
    run: Run, model: SetModel, train: SetTable, device: torch.device
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Returns metrics and curves of the training."""
    project = torch.nn.Identity()
    if run.projection is not None:
        width = readout_channels(model.readout, model.backbone.out_channels)
        project = MLP(width, [run.projection], run.projection).to(device)
    optimizer = torch.optim.Adam(
        [*model.parameters(), *project.parameters()], run.learning_rate, fused=True
    )
    # Batches and views depend on the seed alone: all readouts see the same.
    generator = torch.Generator().manual_seed(run.seed)
    loss, starts, curve = LOSSES[run.loss], [], []
    for _ in range(run.epochs):
        batches = _batches_of_views(run, train, generator)
        views = (project(_embed(model, batch, device)).chunk(2) for batch in batches)
        losses, _ = epoch(optimizer, (loss(z, z_bar, run) for z, z_bar in views))
        starts.append(significant(losses[0].item()))
        curve.append(significant(losses.double().mean().item()))
    model.eval()
    metrics = {
        "start_loss": starts[0],
        "train_loss": curve[-1],
        "view_share": _view_share(run, model, train, device),
    }
    return metrics, {"train_loss": curve[:: max(1, run.epochs // 10)]}


def _batches_of_views(
    run: Run, train: SetTable, generator: torch.Generator
) -> Iterator[SetTable]:
    """The sets of an epoch in batches: first views first, second views after them.

    Many batches are drawn and augmented at once, and then cut, as every call costs
    as much for a few small sets as for hundreds.
    """
    augment = AUGMENTATIONS[run.augmentation]
    mean_size = run.view_elements or max(1, train.x.size(0) // len(train))
    batches_at_once = max(1, _CHUNK // (2 * mean_size * run.batch_size))
    order = torch.randperm(len(train), generator=generator)
    for many in order.split(batches_at_once * run.batch_size):
        batches = many.split(run.batch_size)
        twice = torch.cat([torch.cat([batch, batch]) for batch in batches])
        sets = train.select(twice)
        if run.view_elements is not None:
            sets = sets.resample(run.view_elements, generator)
        views = augment(sets, generator, run.noise)
        yield from replace(sets, x=views).split([2 * len(batch) for batch in batches])


@torch.no_grad()
def _view_share(
    run: Run, model: SetModel, train: SetTable, device: torch.device
) -> float:
    """Of the variance of embeddings, the share that is between two views of a set:
    near one, what was learned tells views apart and not sets."""
    generator = torch.Generator().manual_seed(run.seed)
    batches = _batches_of_views(run, train, generator)
    views = [_embed(model, v, device).chunk(2) for v in batches]
    z, z_bar = (torch.cat(part) for part in zip(*views, strict=True))
    total = torch.cat([z, z_bar]).var(dim=0).sum()
    return significant(((z - z_bar).square().sum(1).mean() / 2 / total).item())


def _embed(model: torch.nn.Module, sets: SetTable, device: torch.device) -> Tensor:
    x, ptr, index = (t.to(device) for t in (sets.x, sets.ptr, sets.index()))
    return model(x, index, ptr, len(sets)).float()


@torch.no_grad()
def embed(model: torch.nn.Module, sets: SetTable, device: torch.device) -> Tensor:
    """Embeddings of all sets as they are, a chunk at a time."""
    return torch.cat([_embed(model, part, device) for part in sets.chunks(_CHUNK)])
