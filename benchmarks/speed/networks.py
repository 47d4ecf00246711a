"""What a readout costs inside of a network.

All networks of a part take turns, step by step. Where the data are not at hand,
:class:`FileNotFoundError` is raised.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch, Data
from torch_geometric.nn import SAGEConv, aggr
from torch_geometric.utils import to_dense_batch

from benchmarks.engine.training import step
from benchmarks.experiments.documents.model import HIDDEN, SetClassifier
from benchmarks.speed.contenders import CONTENDERS, forward_or_step
from benchmarks.speed.shapes import SEED
from benchmarks.speed.timing import MODES, Record, Turn, record, take_turns
from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import WordSets, load_ogb
from gswe_pyg.loader import BucketBatchSampler
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout, StackedSAB


def _aggregation(name: str, channels: int, points: int) -> aggr.Aggregation:
    if name == "mean":  # a function, where it is timed alone
        return aggr.MeanAggregation()
    return CONTENDERS[name].build(channels, points)


def _training(
    model: Module,
    loss: Callable[[Module, Any], Tensor],
    batches: Sequence[Any],
    **options: Any,
) -> Turn:
    """In each round a step of Adam on the next batch."""
    optimizer = torch.optim.Adam(model.parameters(), **options)
    return lambda i: lambda: step(optimizer, loss(model, batches[i % len(batches)]))


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
            turns[name] = _training(model, _molecule_loss, batches)
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


def _molecule_loss(model: Module, b: Batch) -> Tensor:
    out = model(b.x, b.edge_index, b.batch, b.edge_attr, batch_size=b.num_graphs)
    return F.binary_cross_entropy_with_logits(out, b.y.float())


# Many tiny sets: the neighbourhoods of one graph ######################################

CHANNELS = 32
LAYERS = ("mean", "max", "gswe_heads1", "gswe_projected", "mean_and_gswe")
LAYERS += ("quantile_projected",)


def neighbourhoods(num_nodes: int = 100_000, rounds: int = 5) -> Iterator[Record]:
    """A layer of GraphSAGE, edges in any order and by their targets."""
    edges = make_edges(num_nodes)
    by_target = edges[:, edges[1].argsort(stable=True)]
    orders = {"edges in any order": edges, "edges by target": by_target}
    torch.manual_seed(SEED)
    x = torch.randn(num_nodes, CHANNELS)
    turns: dict[tuple[str, str, str], Turn] = {}
    for name in LAYERS:
        aggregation = _aggregation(name, CHANNELS, points=4)
        # Its linear map takes whatever comes out.
        layer = SAGEConv((-1, CHANNELS), CHANNELS, aggr=aggregation)
        layer(x, edges)
        for (case, e), mode in product(orders.items(), MODES):
            run = partial(layer, edge_index=e)
            call = forward_or_step(run, x, layer, mode == "training")
            turns[case, name, mode] = lambda i, call=call: call
    # What takes seconds is not called more often than it needs to be.
    for key, seconds in take_turns(turns, rounds, budget=5.0).items():
        yield record(*key, seconds)


def make_edges(num_nodes: int) -> Tensor:
    """Five edges a node, more of them towards low numbers, none to the last tenth."""
    generator = torch.Generator().manual_seed(SEED)
    num_edges = 5 * num_nodes
    source = torch.randint(num_nodes, (num_edges,), generator=generator)
    share = torch.rand(num_edges, generator=generator, dtype=torch.float64) ** 2
    return torch.stack([source, (share * (num_nodes - num_nodes // 10)).long()])


# Documents, padded and not ############################################################

BATCH_SIZE = 64


class PaddedSAB(Module):
    """The same function as a :class:`StackedSAB`, with the same parameters, on a batch
    that is padded to its largest set, as set attention is commonly formulated."""

    def __init__(self, backbone: StackedSAB) -> None:
        super().__init__()
        self.sabs = backbone.sabs

    def forward(self, x: Tensor, index: Tensor, ptr: Tensor, num_sets: int) -> Tensor:
        dense, mask = to_dense_batch(x, index, batch_size=num_sets)
        for sab in self.sabs:
            qkv = sab.lin_qkv(dense)
            q, k, v = qkv.unflatten(-1, (3, sab.heads, -1)).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, mask[:, None, None, :])
            hidden = qkv[..., : sab.out_channels] + attended.transpose(1, 2).flatten(2)
            dense = hidden + sab.lin_out(hidden).relu()
        return dense[mask]


def documents(data: Path, steps: int = 24) -> Iterator[Record]:
    """The seconds of an epoch of the paper's network, from the mean of some steps: in
    bucketed batches, whose linear layers see each word once, and in shuffled and padded
    ones. Gathering the word vectors of a batch is timed, too."""
    dataset = WordSets(str(data), "amazon")
    torch.manual_seed(SEED)
    backbone = StackedSAB(dataset.num_features)
    width = backbone.out_channels
    readout = GSWEAggregation(width, width, num_points=64)
    model = SetClassifier(backbone, readout, width, HIDDEN, dataset.num_classes)
    padded = copy.deepcopy(model)
    padded.backbone = PaddedSAB(padded.backbone)
    bucketed = list(BucketBatchSampler(dataset, BATCH_SIZE, pool_size=8, seed=SEED))
    shuffled = [c.tolist() for c in torch.randperm(len(dataset)).split(BATCH_SIZE)]

    def loss(model: Module, chosen: list[int]) -> Tensor:
        batch = dataset.get_batch(chosen)
        logits = model(batch.x, batch.batch, batch.ptr, batch.num_graphs)
        return F.cross_entropy(logits, batch.y)

    turns = {
        "bucketed": _training(model, loss, bucketed, fused=True),
        "padded_batches": _training(padded, loss, shuffled, fused=True),
    }
    for name, seconds in take_turns(turns, steps).items():
        # Batches are not alike: the mean, and not the median, makes an epoch.
        line = record("amazon", name, "training", seconds)
        yield line | {"seconds": fmean(seconds) * len(bucketed)}
