"""What a readout costs in training: a step of a GIN on ogbg-molhiv.

One network for each readout; batch by batch, all of them take one step. Collating is
not timed: it is the same for all, and would only bring them closer together. All epochs
have as many steps, so that the ratio of two epochs is that of two steps.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.nn import Module
from torch_geometric.data import Batch, Data
from torch_geometric.nn import aggr

from benchmarks.speed.timing import Record, Turn, record, take_turns
from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import load_ogb
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout

#: Channels and molecules in a batch: what OGB's examples use, and a small network,
#: where a readout weighs more.
SETTINGS = ((300, 32), (64, 256))

#: Called as ``build(channels)``; all give as many channels as they get.
READOUTS: dict[str, Callable[[int], aggr.Aggregation]] = {
    "mean": lambda channels: aggr.MeanAggregation(),
    "gswe_heads1": lambda channels: GSWEAggregation(channels, heads=1),
    "gswe_extremes": lambda channels: GSWEAggregation(channels, heads=1, extremes=True),
    "gswe_projected": lambda channels: GSWEAggregation(channels, out_channels=channels),
    "transformer": lambda channels: aggr.SetTransformerAggregation(channels, heads=4),
}


def measure(data: Path, steps: int, seed: int) -> Iterator[Record]:
    """The time of a step for each setting and readout."""
    if not (data / "ogbg_molhiv").is_dir():
        for name in READOUTS:
            yield record("ogbg-molhiv", name, "training", skipped="no data")
        return
    graphs = load_molecules(data, steps * max(size for _, size in SETTINGS), seed)
    for hidden, batch_size in SETTINGS:
        case = f"{hidden} channels, batches of {batch_size}"
        batches = [
            Batch.from_data_list(graphs[i * batch_size : (i + 1) * batch_size])
            for i in range(steps)
        ]
        turns = {}
        for name, build in READOUTS.items():
            torch.manual_seed(seed)
            turns[name] = _make_turn(_network(hidden, build(hidden)), batches)
        for name, seconds in take_turns(turns, steps).items():
            yield record(case, name, "training", seconds)


def load_molecules(data: Path, most: int, seed: int) -> list[Data]:
    dataset, splits = load_ogb(data, "ogbg-molhiv")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(splits["train"]), generator=generator)
    return [dataset[i] for i in splits["train"][order[:most]].tolist()]


def _network(hidden: int, readout: Module) -> GNNWithReadout:
    gnn = GINE(hidden, hidden, 5, hidden, dropout=0.5, norm="batch_norm")
    atoms, bonds = CategoryEncoder.of_atoms(hidden), CategoryEncoder.of_bonds(hidden)
    return GNNWithReadout(gnn, readout, 1, atoms, bonds)


def _make_turn(model: Module, batches: list[Batch]) -> Turn:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits

    def step(b: Batch) -> None:
        optimizer.zero_grad()
        out = model(b.x, b.edge_index, b.batch, b.edge_attr, batch_size=b.num_graphs)
        loss_of(out, b.y.float()).backward()
        optimizer.step()

    return lambda i: lambda: step(batches[i % len(batches)])
