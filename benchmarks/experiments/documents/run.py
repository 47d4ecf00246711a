"""Learning with labels (paper, section 5.2 and appendix A.2)."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch

from benchmarks.engine.arguments import Registry
from benchmarks.engine.config import PARTS, setting
from benchmarks.engine.grid import Context, Outcome
from benchmarks.engine.training import epoch, num_parameters, significant
from benchmarks.experiments.documents import controls
from benchmarks.experiments.documents.model import (
    HIDDEN,
    OWN_ARCHITECTURES,
    SCALES,
    SetClassifier,
    WeightedMean,
)
from benchmarks.readouts import READOUTS, SLICERS, ReadoutSettings, Shape
from gswe_pyg.datasets import SetDataset, WordSets, stratified_folds
from gswe_pyg.loader import BucketBatchSampler
from gswe_pyg.models import StackedSAB

NUM_FOLDS = 5

#: Batches whose sets are sorted by size together. More would save little padding, as
#: the backbone groups sets by size once more, and would mix the sets less.
POOL_SIZE = 8

#: What may be weighted, beside GSWE in networks.
WEIGHTED = ("mean", "parameter_free")

#: Sets that an untrained network embeds at a time.
EMBEDDED = 256


@lru_cache(maxsize=1)
def word_sets(root: Path, name: str) -> WordSets:
    """Not as a table, which would hold the vector of a word again and again."""
    return WordSets(root / "text", name)


#: Called as ``load(root)``; gives a ``SetDataset`` of labelled sets with weights.
DATASETS: Registry = Registry(
    "labelled set",
    **{name: partial(word_sets, name=name) for name in WordSets.names},
)

#: Called as ``build(in_channels)``; the result has ``out_channels``.
BACKBONES: Registry = Registry(
    "backbone",
    sab_128_128_16=lambda channels: StackedSAB(channels, (128, 128, 16), (4, 4, 1)),
)


@dataclass(frozen=True)
class Run(ReadoutSettings):
    fold: int = 0  # of the cross-validation
    dataset: str = setting("twitter", DATASETS)
    backbone: str = setting("sab_128_128_16", BACKBONES)  # RepSet goes without
    readout: str = setting("gswe_linear", (*READOUTS, *controls.NAMES))
    points: int = setting(16, least=1)  # of a reference or hidden set, seeds of PMA
    references: int = setting(1, least=1)  # or hidden sets, heads of PMA
    weighted: bool = False  # by word counts: GSWE and `WEIGHTED` can be
    start: float = 0.1  # deviation of GSWE's first reference
    slicer: str = setting("identity", SLICERS)  # of GSWE, behind the backbone
    scale: str = setting("none", SCALES)  # of the embedding into the classifier
    epochs: int = setting(50, least=1)
    batch_size: int = setting(64, least=1)
    learning_rate: float = 1e-3
    evaluate: str = setting("test", PARTS)
    dropout: float = setting(0.0, added=True)  # of the embedding
    weight_decay: float = setting(0.0, added=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fold < NUM_FOLDS:
            raise ValueError(f"fold must be in 0 to {NUM_FOLDS - 1} (got {self.fold})")

    @property
    def repetition(self) -> tuple[int, ...]:
        return (self.seed, self.fold)

    def canonical(self) -> "Run":
        run = super().canonical()
        # Runs of logistic regression on file are named after settings that are idle.
        if self.is_control and self.readout != controls.LOGISTIC:
            idle = {"epochs": 1, "batch_size": 1, "learning_rate": 0.0}
            idle |= {"dropout": 0.0, "weight_decay": 0.0}
            if self.readout != "untrained":
                idle |= {"backbone": Run.backbone, "scale": Run.scale}
            run = replace(run, **idle)
        if not self.uses("slicer"):
            run = replace(run, start=Run.start)
            if not self.uses("extremes") and self.readout not in WEIGHTED:
                run = replace(run, weighted=False)
        return run


def execute(run: Run, context: Context) -> Outcome:
    """Trains on the training sets of a fold, then classifies the held-out sets."""
    dataset = DATASETS[run.dataset](context.data)
    train, held_out = split(dataset, run)
    if run.is_control:
        return controls.classify(
            run.readout, without_training(run, train), train, held_out
        )

    torch.manual_seed(run.seed)
    model = build(run, dataset.num_features, dataset.num_classes).to(context.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), run.learning_rate, weight_decay=run.weight_decay, fused=True
    )

    # Batches depend on the seed and the fold alone: all readouts see the same.
    sampler = BucketBatchSampler(train, run.batch_size, POOL_SIZE, run.seed)
    curve, seconds = [], []
    for _ in range(run.epochs):
        batches = (train.get_batch(chosen).to(context.device) for chosen in sampler)
        losses, time = epoch(
            optimizer, (F.cross_entropy(classify(run, model, b), b.y) for b in batches)
        )
        curve.append(significant(losses.mean().item()))
        seconds.append(time)

    model.eval()
    return Outcome(
        metrics={
            "accuracy": round(accuracy(run, model, held_out, context.device), 6),
            "train_loss": curve[-1],
            "epoch_seconds": round(median(seconds), 4),
        },
        parameters=num_parameters(model),
        curves={"train_loss": curve},
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
    backbone, channels, hidden = None, in_channels, OWN_ARCHITECTURES.get(run.readout)
    if run.readout not in OWN_ARCHITECTURES:
        backbone = BACKBONES[run.backbone](in_channels)
        channels, hidden = backbone.out_channels, HIDDEN
    entry = READOUTS[run.readout]
    shape = Shape(channels, run.points, run.references, slicer=run.slicer)
    is_counted = run.readout == "mean" and run.weighted
    readout = WeightedMean() if is_counted else entry.build(shape)
    if entry.uses("slicer"):
        entry.move_to_start(readout, run.start)
    options = {"scale": run.scale, "dropout": run.dropout}
    return SetClassifier(backbone, readout, channels, hidden, num_classes, **options)


def without_training(run: Run, train: SetDataset) -> controls.Vectors:
    """The vectors of documents that a control learns from."""
    if run.readout == controls.LOGISTIC:
        return controls.mean_vectors
    if run.readout != "untrained":
        return controls.sliced_vectors(train, run.seed, run.weighted)
    torch.manual_seed(run.seed)
    run = replace(run, readout="gswe_linear", points=Run.points)
    model = build(run, train.num_features, train.num_classes).eval()
    model.head = torch.nn.Identity()

    @torch.no_grad()
    def vectors(sets: SetDataset) -> np.ndarray:
        found = torch.empty(len(sets), Run.points * model.backbone.out_channels)
        for chosen in sets.set_sizes.argsort().split(EMBEDDED):
            found[chosen] = classify(run, model, sets.get_batch(chosen))
        return found.numpy()

    return vectors


def classify(run: Run, model: torch.nn.Module, batch: Batch) -> Tensor:
    weight = batch.weight if run.weighted else None
    return model(batch.x, batch.batch, batch.ptr, batch.num_graphs, weight).float()


@torch.no_grad()
def accuracy(
    run: Run, model: torch.nn.Module, sets: SetDataset, device: torch.device
) -> float:
    """The share of sets that get their class; what is not a number is wrong."""
    right = 0
    for chosen in sets.set_sizes.argsort().split(4 * run.batch_size):
        batch = sets.get_batch(chosen).to(device)
        logits = classify(run, model, batch)
        hit = logits.argmax(1) == batch.y
        right += int((hit & logits.isfinite().all(1)).sum())
    return right / len(sets)
