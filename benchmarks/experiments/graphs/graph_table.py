"""A data set of graphs as a few tensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import InMemoryDataset


@dataclass(frozen=True)
class GraphTable:
    """All nodes one after the other, all edges likewise, and the borders of the graphs.

    Collating graph by graph would take longer than a step of a small model. A batch
    of rows of this table is a few index operations.
    """

    x: Tensor  # [N, d]
    edge_index: Tensor  # [2, E], nodes counted from the first of their graph
    edge_attr: Tensor | None  # [E, *]
    node_ptr: Tensor  # [B + 1]
    edge_ptr: Tensor  # [B + 1]
    y: Tensor  # [B, *]

    @classmethod
    def from_dataset(cls, dataset: InMemoryDataset) -> "GraphTable":
        """PyG keeps graphs much like this; the whole data set is taken."""
        data, slices = dataset._data, dataset.slices
        return cls(
            data.x,
            data.edge_index,
            data.edge_attr,
            slices["x"].clone(),
            slices["edge_index"].clone(),
            data.y,
        )

    @classmethod
    def from_sets(cls, x: Tensor, ptr: Tensor, y: Tensor) -> "GraphTable":
        """Graphs without edges."""
        no_edges = torch.empty(2, 0, dtype=torch.long)
        return cls(x, no_edges, None, ptr, torch.zeros_like(ptr), y)

    def __len__(self) -> int:
        return self.y.size(0)

    @cached_property
    def max_nodes(self) -> int:
        return int(self.node_ptr.diff().max())

    def select(self, chosen: Tensor) -> "GraphTable":
        """The chosen graphs, in the order asked for."""
        nodes, node_ptr = _rows(self.node_ptr, chosen)
        edges, edge_ptr = _rows(self.edge_ptr, chosen)
        return GraphTable(
            self.x[nodes],
            self.edge_index[:, edges],
            None if self.edge_attr is None else self.edge_attr[edges],
            node_ptr,
            edge_ptr,
            self.y[chosen],
        )

    def index(self) -> Tensor:
        """The graph of each node."""
        return _index(self.node_ptr)

    def joined_edges(self) -> Tensor:
        """The edges as those of one large graph."""
        first = self.node_ptr[:-1]
        return self.edge_index + first.repeat_interleave(self.edge_ptr.diff())

    def batches(self, chosen: Tensor, batch_size: int) -> Iterator["GraphTable"]:
        """As even as can be: a last batch of one node would fail in a batch norm."""
        for part in chosen.tensor_split(-(-len(chosen) // batch_size)):
            yield self.select(part)


def _index(ptr: Tensor) -> Tensor:
    return torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())


def _rows(ptr: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the chosen graphs, and the borders that these then have."""
    begin, sizes = ptr[chosen], ptr[chosen + 1] - ptr[chosen]
    new_ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    shift = (begin - new_ptr[:-1]).repeat_interleave(sizes)
    return torch.arange(shift.numel()) + shift, new_ptr
