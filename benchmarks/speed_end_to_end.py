"""What a readout costs in training: epochs of a GIN on ogbg-molhiv.

A network of five layers as in OGB's examples. One network for each readout; batch by
batch, all of them take one step of training, in an order that is drawn anew. Collating
is not timed: it is the same for all, and would only bring them closer together. The
time of an epoch is the median of a step times the number of steps.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import (
    BatchNorm1d,
    Embedding,
    Linear,
    Module,
    ModuleList,
    ReLU,
    Sequential,
)
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, MeanAggregation
from torch_geometric.nn.aggr import Aggregation, SetTransformerAggregation

from benchmarks.speed_timing import Record, bar, no_garbage_collection
from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import load_ogb

NUM_POINTS = 8
NUM_MOLECULES = 32_901  # the training part of ogbg-molhiv
WARM_UP = 3


class Setting(NamedTuple):
    hidden: int
    batch_size: int


#: What OGB's examples use, and a small network, where a readout weighs more.
SETTINGS = [Setting(300, 32), Setting(64, 256)]

READOUTS: dict[str, Callable[[int], Aggregation]] = {
    "mean": lambda hidden: MeanAggregation(),
    "transformer": lambda hidden: SetTransformerAggregation(hidden, heads=4),
    "gswe": lambda hidden: GSWEAggregation(
        hidden, num_slices=hidden, num_points=NUM_POINTS, out_channels=hidden
    ),
}


class GIN(Module):
    def __init__(
        self, columns: tuple[list[int], list[int]], hidden: int, readout: Module
    ) -> None:
        super().__init__()
        self.encoder = _Encoder(columns[0], hidden)
        self.edge_encoders = ModuleList(_Encoder(columns[1], hidden) for _ in range(5))
        self.convs = ModuleList(GINEConv(_perceptron(hidden)) for _ in range(5))
        self.norms = ModuleList(BatchNorm1d(hidden) for _ in range(5))
        self.readout = readout
        self.head = Linear(hidden, 1)

    def forward(self, batch: Batch) -> Tensor:
        x = self.encoder(batch.x)
        layers = zip(self.edge_encoders, self.convs, self.norms, strict=True)
        for encoder, conv, norm in layers:
            x = norm(conv(x, batch.edge_index, encoder(batch.edge_attr)))
            x = torch.nn.functional.dropout(x.relu(), 0.5, self.training)
        return self.head(self.readout(x, batch.batch, dim_size=batch.num_graphs))


class _Encoder(Module):
    """The sum of the embeddings of some categories."""

    def __init__(self, num_categories: list[int], hidden: int) -> None:
        super().__init__()
        self.embeddings = ModuleList(Embedding(n, hidden) for n in num_categories)

    def forward(self, x: Tensor) -> Tensor:
        columns = zip(self.embeddings, x.unbind(1), strict=True)
        return sum(embedding(column) for embedding, column in columns)


def _perceptron(hidden: int) -> Sequential:
    wide = 2 * hidden
    return Sequential(
        Linear(hidden, wide), BatchNorm1d(wide), ReLU(), Linear(wide, hidden)
    )


def time_epochs(
    settings: Sequence[Setting], data: Path, num_batches: int, seed: int
) -> Iterator[Record]:
    """The time of an epoch for each setting and readout."""
    most = max(setting.batch_size for setting in settings)
    graphs, source, num_graphs = load_molecules(data, most * num_batches, seed)
    for setting in settings:
        steps = _time_steps(setting, graphs, num_batches, seed)
        num_steps = -(-num_graphs // setting.batch_size)
        for name, seconds in steps.items():
            yield {
                **setting._asdict(),
                "data": source,
                "readout": name,
                "step_seconds": median(seconds),
                "steps_timed": len(seconds),
                "epoch_seconds": median(seconds) * num_steps,
            }


def load_molecules(data: Path, most: int, seed: int) -> tuple[list[Data], str, int]:
    """Some training molecules, where they are from, and how many there are in all."""
    if (data / "ogbg_molhiv").is_dir():
        dataset, splits = load_ogb(data, "ogbg-molhiv")
        train = splits["train"]
        generator = torch.Generator().manual_seed(seed)
        chosen = train[torch.randperm(len(train), generator=generator)[:most]]
        return [dataset[i] for i in chosen.tolist()], "ogbg-molhiv", len(train)
    graphs = [generated_molecule(seed + i) for i in range(min(most, NUM_MOLECULES))]
    return graphs, "generated", NUM_MOLECULES


def generated_molecule(seed: int) -> Data:
    """A tree with two more bonds, of the size that molecules in molhiv have."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.randn((), generator=generator) * 0.4 + 3.15  # log-normal, mean 25.5
    num_nodes = max(4, int(size.exp()))
    child = torch.arange(1, num_nodes)
    parent = (torch.rand(num_nodes - 1, generator=generator) * child).long()
    rings = torch.randint(num_nodes, (2, 2), generator=generator)
    edges = torch.cat([torch.stack([parent, child]), rings], dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(
        x=torch.randint(8, (num_nodes, 9), generator=generator),
        edge_index=edges,
        edge_attr=torch.randint(4, (edges.shape[1], 3), generator=generator),
        y=torch.randint(2, (1, 1), generator=generator),
    )


def _time_steps(
    setting: Setting, graphs: list[Data], num_batches: int, seed: int
) -> dict[str, list[float]]:
    columns = _num_categories(graphs)
    steps, seconds = {}, {name: [] for name in READOUTS}
    for name, build in READOUTS.items():
        torch.manual_seed(seed)
        steps[name] = _make_step(GIN(columns, setting.hidden, build(setting.hidden)))
    order, names = random.Random(seed), list(READOUTS)
    label = f"GIN, {setting.hidden} channels, batches of {setting.batch_size}"
    for i in bar(range(-WARM_UP, num_batches), label, "batch"):
        start = max(i, 0) * setting.batch_size
        chosen = [
            graphs[j % len(graphs)] for j in range(start, start + setting.batch_size)
        ]
        batch = Batch.from_data_list(chosen)
        order.shuffle(names)
        for name in names:
            with no_garbage_collection():
                begin = time.perf_counter()
                steps[name](batch)
                elapsed = time.perf_counter() - begin
            if i >= 0:
                seconds[name].append(elapsed)
    return seconds


def _make_step(model: Module) -> Callable[[Batch], Any]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss_of(model(batch), batch.y.float()).backward()
        optimizer.step()

    return step


def _num_categories(graphs: list[Data]) -> tuple[list[int], list[int]]:
    nodes = torch.cat([graph.x for graph in graphs])
    edges = torch.cat([graph.edge_attr for graph in graphs])
    return (nodes.amax(0) + 1).tolist(), (edges.amax(0) + 1).tolist()
