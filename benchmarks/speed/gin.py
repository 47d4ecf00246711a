"""What a readout costs in training: a step of a GIN on ogbg-molhiv.

One network for each readout; batch by batch, all of them take one step. Collating is
not timed: it is the same for all, and would only bring them closer together. All epochs
have as many steps, so that the ratio of two epochs is that of two steps.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch, Data
from torch_geometric.nn import aggr

from benchmarks.speed.timing import (
    Record,
    record,
    skipped,
    take_turns,
    training_turn,
)
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
        yield from skipped("ogbg-molhiv", READOUTS)
        return
    graphs = load_molecules(data, steps * max(size for _, size in SETTINGS), seed)
    for hidden, size in SETTINGS:
        starts = range(0, steps * size, size)
        batches = [Batch.from_data_list(graphs[i : i + size]) for i in starts]
        turns = {}
        for name, build in READOUTS.items():
            torch.manual_seed(seed)
            network = _network(hidden, build(hidden))
            turns[name] = training_turn(network, _loss, batches)
        for name, seconds in take_turns(turns, steps).items():
            case = f"{hidden} channels, batches of {size}"
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


def _loss(model: Module, b: Batch) -> Tensor:
    out = model(b.x, b.edge_index, b.batch, b.edge_attr, batch_size=b.num_graphs)
    return F.binary_cross_entropy_with_logits(out, b.y.float())
