"""Learning without labels (paper, section 5.1 and appendix A.1)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.config import RunSettings
from benchmarks.experiments.self_supervised_report import report
from benchmarks.nearest_neighbor import nearest_neighbor_accuracy
from benchmarks.registry import (
    AUGMENTATIONS,
    BACKBONES,
    DATASETS,
    LOSSES,
    READOUTS,
    SIZELESS_READOUTS,
)
from benchmarks.set_table import SetTable
from benchmarks.work import Context, Outcome
from gswe_pyg.models import SetModel

__all__ = ["Run", "execute", "report"]

#: Elements embedded at once when nothing is learned.
_CHUNK = 1 << 15


@dataclass(frozen=True)
class Run(RunSettings):
    dataset: str = "set_circles"
    backbone: str = "mlp_64_64_1"
    augmentation: str = "rotation"
    readout: str = "gswe_linear"
    loss: str = "simclr"
    points: int = 1  # elements of the reference, seeds of PMA
    epochs: int = 50
    batch_size: int = 32
    learning_rate: float = 1e-4
    temperature: float = 0.1  # of SimCLR
    p: float = 2.0  # of SimSiam
    train_sets: int | None = None  # all
    test_sets: int | None = None

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

    def canonical(self) -> "Run":
        return replace(self, points=1) if self.readout in SIZELESS_READOUTS else self


def execute(run: Run, context: Context) -> Outcome:
    """Trains on pairs of views, then asks the nearest training set for the label."""
    fabric = context.fabric
    train, test = DATASETS[run.dataset](context.data)
    train, test = train.take(run.train_sets), test.take(run.test_sets)
    context.listener.start(f"{run.readout}-{run.points} {run.loss}", run.epochs)

    torch.manual_seed(run.seed)
    backbone = BACKBONES[run.backbone](train.x.size(1))
    readout = READOUTS[run.readout](backbone.out_channels, run.points, 1)
    model = SetModel(backbone, readout)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate, fused=True)
    model, optimizer = fabric.setup(model, optimizer)

    # Batches and views depend on the seed alone: with the same seed, all readouts
    # see the same, and so do one process and several.
    generator = torch.Generator().manual_seed(run.seed)
    for _ in range(run.epochs):
        losses = [
            _step(run, model, optimizer, train.select(chosen), context, generator)
            for chosen in _batches(len(train), run.batch_size, generator)
        ]
        context.listener.epoch()

    model.eval()
    accuracy = nearest_neighbor_accuracy(
        embed(model, test, fabric), test.y, embed(model, train, fabric), train.y
    )
    return Outcome(
        metrics={
            "accuracy": round(accuracy, 6),
            "train_loss": float(f"{torch.stack(losses).mean().item():.6g}"),
        },
        parameters=sum(p.numel() for p in model.parameters()),
    )


def _batches(num_sets: int, batch_size: int, generator: torch.Generator):
    return torch.randperm(num_sets, generator=generator).split(batch_size)


def _step(run, model, optimizer, batch, context, generator) -> Tensor:
    fabric = context.fabric
    z, z_bar = _embed_views(run, model, batch, fabric, generator)
    loss = LOSSES[run.loss](z, z_bar, run)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    return loss.detach()


def _embed_views(run, model, batch: SetTable, fabric, generator):
    """Two views of all sets, embedded in one go; shared among the processes."""
    augment, index = AUGMENTATIONS[run.augmentation], batch.index()
    views = [augment(batch.x, index, len(batch), generator) for _ in range(2)]
    both = SetTable(
        torch.cat(views),
        torch.cat([batch.ptr, batch.ptr[1:] + batch.ptr[-1]]),
        torch.cat([batch.y, batch.y]),
    )
    if fabric.world_size == 1:
        return _embed(model, both, fabric).chunk(2)
    # Equal shares: at most world_size - 1 sets of a batch are left out.
    share = len(batch) // fabric.world_size
    mine = torch.arange(share) * fabric.world_size + fabric.global_rank
    z = _embed(model, both.select(torch.cat([mine, mine + len(batch)])), fabric)
    # The loss needs the negatives of all processes. The gather adds up gradients
    # and the data-parallel wrapper takes their mean: together, the gradient of the
    # loss on the joined batch.
    z = fabric.all_gather(z, sync_grads=True).view(-1, 2, share, z.size(1))
    return z[:, 0].flatten(0, 1), z[:, 1].flatten(0, 1)


def _embed(model: torch.nn.Module, sets: SetTable, fabric) -> Tensor:
    x, ptr = fabric.to_device((sets.x, sets.ptr))
    index = fabric.to_device(sets.index())
    return model(x, index, ptr, len(sets)).float()


@torch.no_grad()
def embed(model: torch.nn.Module, sets: SetTable, fabric) -> Tensor:
    """Embeddings of all sets as they are, a chunk at a time."""
    return torch.cat([_embed(model, part, fabric) for part in sets.chunks(_CHUNK)])
