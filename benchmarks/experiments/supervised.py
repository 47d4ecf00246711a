"""Learning with labels (paper, section 5.2 and appendix A.2)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor
from torch_geometric.data import Batch

from benchmarks.config import RunSettings
from benchmarks.experiments import supervised_logistic as logistic
from benchmarks.experiments.supervised_model import (
    HIDDEN,
    OWN_ARCHITECTURES,
    SCALES,
    SetClassifier,
)
from benchmarks.experiments.supervised_report import report
from benchmarks.registry import (
    BACKBONES,
    GSWE_READOUTS,
    LABELLED_DATASETS,
    PARTS,
    READOUTS,
    SIZELESS_READOUTS,
    SLICERS,
    check_choices,
    scale_constants,
)
from benchmarks.work import Context, Outcome
from gswe_pyg.datasets import SetDataset, stratified_folds
from gswe_pyg.loader import BucketBatchSampler

__all__ = ["Run", "execute", "report"]

NUM_FOLDS = 5

#: Batches whose sets are sorted by size together. More would save little padding, as
#: the backbone groups sets by size once more, and would mix the sets less.
POOL_SIZE = 8


@dataclass(frozen=True)
class Run(RunSettings):
    fold: int = 0  # of the cross-validation
    dataset: str = "twitter"
    backbone: str = "sab_128_128_16"  # RepSet and ApproxRepSet go without
    readout: str = "gswe_linear"
    points: int = 16  # elements of a reference or hidden set, seeds of PMA
    references: int = 1  # reference or hidden sets, heads of PMA
    weighted: bool = False  # by word counts; only GSWE can be
    start: float = 0.1  # deviation of GSWE's first reference
    slicer: str = "identity"  # of GSWE, behind the backbone
    scale: str = "none"  # of the embedding into the classifier
    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    evaluate: str = "test"  # or on validation sets, which are cut from training sets

    def __post_init__(self) -> None:
        LABELLED_DATASETS[self.dataset]
        BACKBONES[self.backbone]
        check_choices(
            self,
            readout=(*READOUTS, logistic.NAME),
            slicer=SLICERS,
            scale=SCALES,
            evaluate=PARTS,
        )
        for name in ("points", "references", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= self.fold < NUM_FOLDS:
            raise ValueError(f"fold must be in 0 to {NUM_FOLDS - 1} (got {self.fold})")

    @property
    def repetition(self) -> tuple[int, ...]:
        return (self.seed, self.fold)

    def canonical(self) -> "Run":
        run = self
        if self.readout in {*SIZELESS_READOUTS, logistic.NAME}:
            run = replace(run, points=1, references=1)
        if self.readout not in GSWE_READOUTS:
            run = replace(run, weighted=False, start=Run.start, slicer=Run.slicer)
        return run


def execute(run: Run, context: Context) -> Outcome:
    """Trains on the training sets of a fold, then classifies the held-out sets."""
    fabric = context.fabric
    dataset = LABELLED_DATASETS[run.dataset](context.data)
    train, held_out = split(dataset, run)
    label = f"{run.readout} {run.references}x{run.points} fold {run.fold}"
    context.listener.start(label, run.epochs)
    if run.readout == logistic.NAME:
        return logistic.execute(train, held_out)

    torch.manual_seed(run.seed)
    model = build(run, dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate, fused=True)
    model, optimizer = fabric.setup(model, optimizer)

    # Batches depend on the seed and the fold alone: all readouts see the same.
    sampler = BucketBatchSampler(train, run.batch_size, POOL_SIZE, run.seed)
    seconds = []
    for _ in range(run.epochs):
        begin = time.process_time()  # other work on the machine left out
        losses = [
            step(run, model, optimizer, train, batch, fabric)
            for batch in sampler
            if len(batch) >= fabric.world_size
        ]
        seconds.append(time.process_time() - begin)
        context.listener.epoch()

    model.eval()
    return Outcome(
        metrics={
            "accuracy": round(accuracy(run, model, held_out, fabric), 6),
            "train_loss": float(f"{torch.stack(losses).mean().item():.6g}"),
            "epoch_seconds": round(median(seconds), 4),
        },
        parameters=sum(p.numel() for p in model.parameters()),
    )


def split(dataset: SetDataset, run: Run) -> tuple[SetDataset, SetDataset]:
    """What is learned from, and what is held out: the test part of the fold, or, for
    choices that must not see it, a fifth of the training part, another with each
    seed."""
    y = dataset.y.flatten()
    train, held_out = stratified_folds(y, NUM_FOLDS)[run.fold]
    if run.evaluate == "validation":
        inner, validation = stratified_folds(y[train], NUM_FOLDS)[run.seed % NUM_FOLDS]
        train, held_out = train[inner], train[validation]
    return dataset[train], dataset[held_out]


def build(run: Run, in_channels: int, num_classes: int) -> SetClassifier:
    options = {}
    if run.readout in GSWE_READOUTS:
        options = {"slicer": run.slicer}
    backbone, channels, hidden = None, in_channels, OWN_ARCHITECTURES.get(run.readout)
    if run.readout not in OWN_ARCHITECTURES:
        backbone = BACKBONES[run.backbone](in_channels)
        channels, hidden = backbone.out_channels, HIDDEN
    readout = READOUTS[run.readout](channels, run.points, run.references, **options)
    if run.readout in GSWE_READOUTS:
        scale_constants(run.readout, readout, run.start)
    return SetClassifier(backbone, readout, channels, hidden, num_classes, run.scale)


def step(
    run: Run,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    train: SetDataset,
    chosen: Sequence[int],
    fabric: Fabric,
) -> Tensor:
    """One step on a batch, of which several processes take a share each."""
    mine = chosen[fabric.global_rank :: fabric.world_size]
    batch = train.get_batch(mine)
    logits = classify(run, model, batch, fabric)
    loss = F.cross_entropy(logits, fabric.to_device(batch.y), reduction="sum")
    # The data-parallel wrapper takes the mean over processes: together, the gradient
    # of the mean over the batch, even if the shares differ.
    loss = loss * fabric.world_size / len(chosen)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    loss = loss.detach()
    return loss if fabric.world_size == 1 else fabric.all_reduce(loss)


def classify(run: Run, model: torch.nn.Module, batch: Batch, fabric: Fabric) -> Tensor:
    x, index, ptr = fabric.to_device((batch.x, batch.batch, batch.ptr))
    weight = fabric.to_device(batch.weight) if run.weighted else None
    return model(x, index, ptr, batch.num_graphs, weight).float()


@torch.no_grad()
def accuracy(
    run: Run, model: torch.nn.Module, sets: SetDataset, fabric: Fabric
) -> float:
    """The share of sets that get their class; what is not a number is wrong."""
    right = 0
    for chosen in sets.set_sizes.argsort().split(4 * run.batch_size):
        batch = sets.get_batch(chosen)
        logits = classify(run, model, batch, fabric)
        hit = logits.argmax(1) == fabric.to_device(batch.y)
        right += int((hit & logits.isfinite().all(1)).sum())
    return right / len(sets)
