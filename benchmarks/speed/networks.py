"""What a readout costs inside of a network.

All networks of a part take turns, step by step. Where the data are not at hand,
:class:`FileNotFoundError` is raised.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer
from torch_geometric.data import Batch, Data
from torch_geometric.nn import SAGEConv, aggr

from benchmarks.engine.training import step
from benchmarks.speed.contenders import CONTENDERS, Call, forward_or_step
from benchmarks.speed.shapes import SEED
from benchmarks.speed.timing import MODES, Record, Turn, record, take_turns
from gswe_pyg.datasets import load_ogb
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout


def _aggregation(name: str, channels: int, points: int) -> aggr.Aggregation:
    if name == "mean":  # a function, where it is timed alone
        return aggr.MeanAggregation()
    return CONTENDERS[name].build(channels, points)


# A GIN on ogbg-molhiv #################################################################

#: Channels and molecules in a batch: what OGB's examples use, and a small network,
#: where a readout weighs more.
GIN_SIZES = ((300, 32), (64, 256))

#: All give as many channels as they get.
GIN_READOUTS = ("mean", "gswe_heads1", "gswe_extremes", "gswe_projected", "transformer")


def gin(data: Path, steps: int = 30) -> Iterator[Record]:
    """The time of a step. Collating is not timed: it is the same for all, and would
    only bring them closer together."""
    graphs = load_molecules(data, steps * max(size for _, size in GIN_SIZES))
    for hidden, size in GIN_SIZES:
        starts = range(0, steps * size, size)
        batches = [Batch.from_data_list(graphs[i : i + size]) for i in starts]
        turns = {}
        for name in GIN_READOUTS:
            torch.manual_seed(SEED)
            gnn = GINE(hidden, hidden, 5, hidden, dropout=0.5, norm="batch_norm")
            atoms = CategoryEncoder.of_atoms(hidden)
            bonds = CategoryEncoder.of_bonds(hidden)
            readout = _aggregation(name, hidden, points=8)
            model = GNNWithReadout(gnn, readout, 1, atoms, bonds)
            optimizer = torch.optim.Adam(model.parameters())
            turns[name] = partial(_step, model, optimizer, batches)
        for name, seconds in take_turns(turns, steps).items():
            case = f"{hidden} channels, batches of {size}"
            yield record(case, name, "training", seconds)


def load_molecules(data: Path, most: int) -> list[Data]:
    if not (data / "ogbg_molhiv").is_dir():  # else OGB would download it
        raise FileNotFoundError(f"there is no folder {data / 'ogbg_molhiv'}")
    dataset, splits = load_ogb(data, "ogbg-molhiv")
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(splits["train"]), generator=generator)
    return [dataset[i] for i in splits["train"][order[:most]].tolist()]


def _step(model: Module, optimizer: Optimizer, batches: list[Batch], i: int) -> Call:
    """A step of training on the batch of a round."""
    b = batches[i % len(batches)]

    def run() -> Tensor:
        out = model(b.x, b.edge_index, b.batch, b.edge_attr, batch_size=b.num_graphs)
        return step(optimizer, F.binary_cross_entropy_with_logits(out, b.y.float()))

    return run


# Many tiny sets: the neighbourhoods of one graph ######################################

CHANNELS = 32
LAYERS = ("mean", "gswe_heads1", "gswe_projected", "products")


def neighbourhoods(num_nodes: int = 100_000, rounds: int = 15) -> Iterator[Record]:
    """A layer of GraphSAGE, edges in any order and by their targets."""
    edges = make_edges(num_nodes)
    by_target = edges[:, edges[1].argsort(stable=True)]
    orders = {"edges in any order": edges, "edges by target": by_target}
    torch.manual_seed(SEED)
    x = torch.randn(num_nodes, CHANNELS)
    turns: dict[tuple[str, str, str], Turn] = {}
    for name in LAYERS:
        aggregation = _aggregation(name, CHANNELS, points=4)
        layer = SAGEConv(CHANNELS, CHANNELS, aggr=aggregation)
        for (case, e), mode in product(orders.items(), MODES):
            run = partial(layer, edge_index=e)
            call = forward_or_step(run, x, layer, mode == "training")
            turns[case, name, mode] = lambda i, call=call: call
    for key, seconds in take_turns(turns, rounds).items():
        yield record(*key, seconds)


def make_edges(num_nodes: int) -> Tensor:
    """Five edges a node, more of them towards low numbers, none to the last tenth."""
    generator = torch.Generator().manual_seed(SEED)
    num_edges = 5 * num_nodes
    source = torch.randint(num_nodes, (num_edges,), generator=generator)
    share = torch.rand(num_edges, generator=generator, dtype=torch.float64) ** 2
    return torch.stack([source, (share * (num_nodes - num_nodes // 10)).long()])
