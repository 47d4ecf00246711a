"""Learning without labels (paper, section 5.1 and appendix A.1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from lightning_fabric import Fabric
from torch import Tensor

from benchmarks.config import RunSettings
from benchmarks.experiments.self_supervised_report import report
from benchmarks.nearest_neighbor import nearest_neighbor_accuracy
from benchmarks.registry import (
    AUGMENTATIONS,
    BACKBONES,
    CONSTANTS,
    DATASETS,
    LOSSES,
    PARTS,
    READOUTS,
    SIZELESS_READOUTS,
    check_choices,
    scale_constants,
)
from benchmarks.set_table import SetTable
from benchmarks.work import Context, Outcome
from gswe_pyg.models import SetModel

__all__ = ["Run", "execute", "report"]

#: Elements that are augmented at once, or embedded when nothing is learned.
_CHUNK = 1 << 15


@dataclass(frozen=True)
class Run(RunSettings):
    dataset: str = "set_circles"
    backbone: str = "mlp_64_64_1"
    augmentation: str = "rotation"
    readout: str = "gswe_linear"
    loss: str = "simclr"
    points: int = 1  # elements of the reference, seeds of PMA
    start: float = 0.0  # of what `CONSTANTS` lists: see `scale_constants`
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
        for name in ("points", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        check_choices(self, evaluate=PARTS)

    def canonical(self) -> "Run":
        run = self
        if run.readout in SIZELESS_READOUTS:
            run = replace(run, points=1)
        if run.readout not in CONSTANTS:
            run = replace(run, start=1.0)
        return run


def execute(run: Run, context: Context) -> Outcome:
    """Trains on pairs of views, then asks the nearest training set for the label."""
    fabric = context.fabric
    train, test = DATASETS[run.dataset](context.data)
    if run.evaluate == "validation":
        train, test = train.hold_out(0.25)
    train, test = train.take(run.train_sets), test.take(run.test_sets)
    context.listener.start(f"{run.readout}-{run.points} {run.loss}", run.epochs)

    torch.manual_seed(run.seed)
    backbone = BACKBONES[run.backbone](train.x.size(1))
    readout = READOUTS[run.readout](backbone.out_channels, run.points, 1)
    scale_constants(run.readout, readout, run.start)
    model = SetModel(backbone, readout)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate, fused=True)
    model, optimizer = fabric.setup(model, optimizer)

    # Batches and views depend on the seed alone: with the same seed, all readouts
    # see the same, and so do one process and several.
    generator = torch.Generator().manual_seed(run.seed)
    for _ in range(run.epochs):
        losses = [
            _step(run, model, optimizer, views, fabric)
            for views in _batches_of_views(run, train, generator)
        ]
        context.listener.epoch()

    model.eval()
    accuracy = nearest_neighbor_accuracy(
        embed(model, test, fabric),
        fabric.to_device(test.y),
        embed(model, train, fabric),
        fabric.to_device(train.y),
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
    fabric: Fabric,
) -> Tensor:
    z, z_bar = _embed_views(model, views, fabric)
    loss = LOSSES[run.loss](z, z_bar, run)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    return loss.detach()


def _embed_views(
    model: torch.nn.Module, views: SetTable, fabric: Fabric
) -> tuple[Tensor, Tensor]:
    """Both views of all sets; several processes embed a share of them each."""
    if fabric.world_size == 1:
        z, z_bar = _embed(model, views, fabric).chunk(2)
        return z, z_bar
    # Equal shares: at most world_size - 1 sets of a batch are left out.
    num_sets = len(views) // 2
    share = num_sets // fabric.world_size
    mine = torch.arange(share) * fabric.world_size + fabric.global_rank
    z = _embed(model, views.select(torch.cat([mine, mine + num_sets])), fabric)
    # The loss needs the negatives of all processes. The gather adds up gradients
    # and the data-parallel wrapper takes their mean: together, the gradient of the
    # loss on the joined batch.
    z = fabric.all_gather(z, sync_grads=True).view(-1, 2, share, z.size(1))
    return z[:, 0].flatten(0, 1), z[:, 1].flatten(0, 1)


def _embed(model: torch.nn.Module, sets: SetTable, fabric: Fabric) -> Tensor:
    x, ptr = fabric.to_device((sets.x, sets.ptr))
    index = fabric.to_device(sets.index())
    return model(x, index, ptr, len(sets)).float()


@torch.no_grad()
def embed(model: torch.nn.Module, sets: SetTable, fabric: Fabric) -> Tensor:
    """Embeddings of all sets as they are, a chunk at a time."""
    return torch.cat([_embed(model, part, fabric) for part in sets.chunks(_CHUNK)])
