"""GSWE inside a layer, where it aggregates many tiny sets: a SAGEConv on one graph."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn import SAGEConv, aggr

from benchmarks.speed.contenders import midpoints
from benchmarks.speed.timing import MODES, Record, Turn, record, take_turns
from gswe_pyg import GSWEAggregation

NODES, CHANNELS, POINTS = 100_000, 32, 4


class Projected(aggr.Aggregation):
    def __init__(self, inner: aggr.Aggregation, width: int, channels: int) -> None:
        super().__init__()
        self.inner, self.lin = inner, Linear(width, channels, bias=False)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.lin(self.inner(x, *args, **kwargs))


#: Called as ``build(channels)``. What comes out has as many channels, for the layer.
AGGREGATIONS: dict[str, Callable[[int], aggr.Aggregation]] = {
    "mean": lambda c: aggr.MeanAggregation(),
    "max": lambda c: aggr.MaxAggregation(),
    "gswe_heads1": lambda c: GSWEAggregation(c, num_points=POINTS, heads=1),
    "gswe_projected": lambda c: GSWEAggregation(c, num_points=POINTS, out_channels=c),
    "mean_and_gswe": lambda c: Projected(
        aggr.MultiAggregation(["mean", AGGREGATIONS["gswe_projected"](c)]), 2 * c, c
    ),
    "quantile_projected": lambda c: Projected(
        aggr.QuantileAggregation(midpoints(POINTS)), POINTS * c, c
    ),
}


def measure(rounds: int, seed: int, num_nodes: int = NODES) -> Iterator[Record]:
    """Forward passes and training steps, edges in any order and by their targets."""
    edges = make_edges(num_nodes, seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, CHANNELS, generator=generator)
    orders = {
        "edges in any order": edges,
        "edges by target": edges[:, edges[1].argsort(stable=True)],
    }
    torch.manual_seed(seed)
    layers = {
        name: SAGEConv(CHANNELS, CHANNELS, aggr=build(CHANNELS))
        for name, build in AGGREGATIONS.items()
    }
    turns = {
        (case, name, mode): _make_turn(layer, x, edge_index, mode)
        for case, edge_index in orders.items()
        for mode in MODES
        for name, layer in layers.items()
    }
    # What takes seconds is not called more often than it needs to be.
    for key, seconds in take_turns(turns, rounds, budget=5.0).items():
        yield record(*key, seconds)


def _make_turn(layer: Module, x: Tensor, edge_index: Tensor, mode: str) -> Turn:
    def forward() -> Tensor:
        with torch.no_grad():
            return layer(x, edge_index)

    def train() -> tuple[Tensor, ...]:
        leaf = x.detach().requires_grad_()
        out = layer(leaf, edge_index)
        return torch.autograd.grad(out.sum(), [leaf, *layer.parameters()])

    return lambda i: train if mode == "training" else forward


def make_edges(num_nodes: int, seed: int) -> Tensor:
    """Five edges a node, more of them towards low numbers, none to the last tenth."""
    generator = torch.Generator().manual_seed(seed)
    num_edges = 5 * num_nodes
    source = torch.randint(num_nodes, (num_edges,), generator=generator)
    share = torch.rand(num_edges, generator=generator, dtype=torch.float64) ** 2
    return torch.stack([source, (share * (num_nodes - num_nodes // 10)).long()])
