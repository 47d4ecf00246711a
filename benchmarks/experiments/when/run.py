"""Trains a small network with a readout on sets whose label depends on one thing."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch_geometric.nn import MLP

from benchmarks.engine.config import setting
from benchmarks.engine.grid import Context, Outcome
from benchmarks.engine.training import Best, num_parameters, step
from benchmarks.experiments.set_table import SetTable
from benchmarks.experiments.when.data import TASKS, make_sets
from benchmarks.readouts import READOUTS, ReadoutSettings, Shape, WithSize
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import readout_channels

NUM_TRAINING, NUM_VALIDATION, NUM_TEST = 5000, 500, 2000  # drawn for any number used
CHECKS = 10  # of the validation sets during training

#: Not a network: quantiles in fixed directions, and logistic regression on them.
PARAMETER_FREE = "parameter_free"


@dataclass(frozen=True)
class Run(ReadoutSettings):
    """The seed draws the data, the network and the batches."""

    task: str = setting("shift", TASKS)
    readout: str = setting("mean", (*READOUTS, PARAMETER_FREE))
    train_sets: int = setting(1000, least=1)
    with_size: bool = False  # the logarithm of the size is appended, to any readout
    points: int = setting(8, least=1)
    hidden: int = setting(32, least=1)
    steps: int = setting(300, least=1)
    batch_size: int = setting(64, least=1)
    learning_rate: float = 0.005

    def canonical(self) -> "Run":
        if self.readout == PARAMETER_FREE:
            return replace(self, learning_rate=0.0, steps=1, batch_size=1, hidden=1)
        return super().canonical()


class Network(torch.nn.Module):
    """Elements to channels, a readout, a classifier."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.backbone = MLP([2, run.hidden, run.hidden], norm=None, plain_last=False)
        readout = READOUTS[run.readout].build(Shape(run.hidden, run.points))
        self.readout = WithSize(readout) if run.with_size else readout
        width = readout_channels(self.readout, run.hidden)
        self.head = MLP([width, run.hidden, 2], norm=None)

    def forward(self, sets: SetTable) -> Tensor:
        out = self.readout(self.backbone(sets.x), sets.index(), dim_size=len(sets))
        return self.head(out)


def execute(run: Run, context: Context) -> Outcome:
    """Keeps the parameters that are best on validation sets, and tests them."""
    parts = [NUM_TEST, NUM_VALIDATION, max(NUM_TRAINING, run.train_sets)]
    sets = SetTable(*make_sets(run.task, sum(parts), run.seed))
    test, validation, train = torch.arange(sum(parts)).split(parts)
    train = train[: run.train_sets]
    if run.readout == PARAMETER_FREE:
        return _without_network(run, sets, train, validation, test)
    torch.manual_seed(run.seed)
    model = Network(run)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.steps)
    generator = torch.Generator().manual_seed(run.seed)
    best = Best(model)
    for number in range(1, run.steps + 1):
        chosen = torch.randint(len(train), (run.batch_size,), generator=generator)
        batch = sets.select(train[chosen])
        model.train()
        loss = step(optimizer, F.cross_entropy(model(batch), batch.y))
        schedule.step()
        if number % max(1, run.steps // CHECKS) == 0:
            best.offer(accuracy(model, sets, validation), number)
    best.restore()
    return Outcome(
        metrics={
            "test": accuracy(model, sets, test),
            "valid": best.score,
            "best_step": best.when,
            "train_loss": round(loss.item(), 6),
        },
        parameters=num_parameters(model),
    )


@torch.no_grad()
def accuracy(model: Network, sets: SetTable, part: Tensor) -> float:
    model.eval()
    chosen = sets.select(part)
    return (model(chosen).argmax(-1) == chosen.y).double().mean().item()


def _without_network(
    run: Run, sets: SetTable, train: Tensor, validation: Tensor, test: Tensor
) -> Outcome:
    """Quantiles in eight fixed directions; the penalty is chosen by validation."""
    angles = torch.arange(8) * (torch.pi / 8)
    directions = torch.nn.Linear(2, 8, bias=False)
    directions.weight.data = torch.stack([angles.cos(), angles.sin()], dim=-1)
    embedding = GSWEAggregation(
        2, 8, run.points, slicer=directions, reference=None, extremes=True
    )
    embedding = WithSize(embedding) if run.with_size else embedding
    with torch.no_grad():
        x = embedding(sets.x, sets.index(), dim_size=len(sets))
    y, models = sets.y, {}
    for penalty in (0.01, 0.1, 1.0, 10.0):
        classifier = LogisticRegression(C=penalty, max_iter=2000)
        model = make_pipeline(StandardScaler(), classifier).fit(x[train], y[train])
        models[model.score(x[validation], y[validation])] = model
    best = max(models)
    metrics = {"test": models[best].score(x[test], y[test]), "valid": best}
    return Outcome(metrics, parameters=x.shape[1] + 1)
