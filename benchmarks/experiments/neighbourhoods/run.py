"""A layer that aggregates neighbours, on a generated graph with a known answer."""

import time
from dataclasses import dataclass
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MLP

from benchmarks.engine.config import setting
from benchmarks.engine.grid import Context, Outcome
from benchmarks.engine.training import num_parameters, significant, step
from benchmarks.readouts import READOUTS, ReadoutSettings, Shape
from gswe_pyg.models import readout_channels

NUM_NODES, CHANNELS = 6000, 32
PARTS = [2000, 1000, 3000]  # nodes for training, validation and test
LEAST, MOST = 3, 12  # neighbours

#: What the label of a node asks of the values of its neighbours, ``[nodes, degree]``.
TASKS = {
    "mean": lambda values: values.mean(1),
    "maximum": lambda values: values.amax(1),
    "spread": lambda values: values.std(1),
    "skewness": lambda values: values.mean(1) - values.quantile(0.5, dim=1),
}


@dataclass(frozen=True)
class Run(ReadoutSettings):
    """The seed draws the graph, the network and the parts."""

    task: str = setting("mean", TASKS)
    readout: str = setting("mean", READOUTS)
    points: int = setting(3, least=1)
    steps: int = setting(150, least=1)
    learning_rate: float = 0.01


def make_graph(task: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges sorted by their end, and labels.

    Each node has a value, which its features show in two channels of four. Half of the
    nodes of each degree have each label, so that the degree says nothing.
    """
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(NUM_NODES, generator=generator)
    noise = torch.randn(NUM_NODES, 4, generator=generator)
    x = torch.stack([values + noise[:, 0], noise[:, 0], noise[:, 1], noise[:, 2]], -1)
    degrees = LEAST + torch.arange(NUM_NODES) % (MOST - LEAST + 1)
    end = torch.arange(NUM_NODES).repeat_interleave(degrees)
    start = torch.randint(NUM_NODES, end.shape, generator=generator)
    y = torch.empty(NUM_NODES, dtype=torch.long)
    for degree in range(LEAST, MOST + 1):
        nodes = degrees == degree
        found = TASKS[task](values[start[nodes[end]]].view(-1, degree))
        y[nodes] = (found > found.median()).long()
    return x, torch.stack([start, end]), y


class Layer(torch.nn.Module):
    """Messages from a perceptron, their aggregation, a classifier."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.message = MLP([4, CHANNELS, CHANNELS], norm=None)
        shape = Shape(CHANNELS, run.points, extremes=True)
        self.aggregation = READOUTS[run.readout].build(shape)
        width = readout_channels(self.aggregation, CHANNELS)
        self.classifier = MLP([width, CHANNELS, 2], norm=None)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        start, end = edge_index
        messages = self.message(x)[start]
        return self.classifier(self.aggregation(messages, end, dim_size=len(x)))


def execute(run: Run, context: Context) -> Outcome:
    """Trains on all training nodes at once, and tests the step that is best on the
    validation nodes."""
    x, edge_index, y = make_graph(run.task, run.seed)
    torch.manual_seed(run.seed)
    parts = torch.randperm(NUM_NODES).split(PARTS)
    model = Layer(run)
    optimizer = torch.optim.Adam(model.parameters(), run.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.steps)
    best, test, seconds = -1.0, 0.0, []
    for _ in range(run.steps):
        start = time.process_time()
        out = model(x, edge_index)
        loss = F.cross_entropy(out[parts[0]], y[parts[0]])
        # What the step begins with; the last one of a cosine hardly moves.
        valid, found = (
            (out.argmax(-1) == y)[p].double().mean().item() for p in parts[1:]
        )
        if valid > best:
            best, test = valid, found
        step(optimizer, loss)
        schedule.step()
        seconds.append(time.process_time() - start)
    return Outcome(
        metrics={
            "test": round(test, 6),
            "valid": round(best, 6),
            "train_loss": round(loss.item(), 6),
            "step_seconds": significant(median(seconds), 4),
        },
        parameters=num_parameters(model),
    )
