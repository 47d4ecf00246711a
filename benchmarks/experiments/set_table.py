"""Data sets of sets, or of graphs, as a few tensors.

Collating graph by graph would take longer than a step of a small model. A batch of rows
of such a table is a few index operations.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import InMemoryDataset

from gswe_pyg.datasets.set_dataset import Rows, SetDataset


@dataclass(frozen=True)
class SetTable:
    """All elements one after the other, the borders of the sets, and the labels; of
    graphs, the edges one after the other, too."""

    x: Tensor  # [N, d]
    ptr: Tensor  # [B + 1]
    y: Tensor  # [B, *]
    edge_index: Tensor | None = None  # [2, E], from the first node of the graph on
    edge_attr: Tensor | None = None  # [E, *]
    edge_ptr: Tensor | None = None  # [B + 1]

    @classmethod
    def from_dataset(cls, dataset: SetDataset) -> "SetTable":
        """Collates a whole data set; elements are ``x``, or else ``pos``."""
        batch = dataset.get_batch(torch.arange(len(dataset)))
        x = batch.pos if batch.x is None else batch.x
        return cls(x.float(), batch.ptr, batch.y.view(-1))

    @classmethod
    def from_graphs(cls, dataset: InMemoryDataset) -> "SetTable":
        """PyG keeps graphs much like this; the whole data set is taken."""
        data = dataset._data
        ptr, edge_ptr = (dataset.slices[key].clone() for key in ("x", "edge_index"))
        return cls(data.x, ptr, data.y, data.edge_index, data.edge_attr, edge_ptr)

    def __len__(self) -> int:
        return self.y.size(0)

    @cached_property
    def max_size(self) -> int:
        return int(self.ptr.diff().max())

    def index(self) -> Tensor:
        """The set of each element."""
        sets = torch.arange(len(self), device=self.ptr.device)
        return sets.repeat_interleave(self.ptr.diff(), output_size=self.x.size(0))

    def select(self, chosen: Tensor) -> "SetTable":
        """The chosen sets, in the order asked for."""
        nodes = Rows.of(self.ptr, chosen)
        table = SetTable(self.x[nodes.index], nodes.ptr, self.y[chosen])
        if self.edge_index is None:
            return table
        edges = Rows.of(self.edge_ptr, chosen)
        attr = None if self.edge_attr is None else self.edge_attr[edges.index]
        edge_index = self.edge_index[:, edges.index]
        return replace(table, edge_index=edge_index, edge_attr=attr, edge_ptr=edges.ptr)

    def joined_edges(self) -> Tensor | None:
        """The edges as those of one large graph."""
        if self.edge_index is None:
            return None
        return self.edge_index + self.ptr[:-1].repeat_interleave(self.edge_ptr.diff())

    def batches(self, chosen: Tensor, batch_size: int) -> "Iterator[SetTable]":
        """As even as can be: a last batch of one node would fail in a batch norm."""
        for part in chosen.tensor_split(-(-len(chosen) // batch_size)):
            yield self.select(part)

    def take(self, num_sets: int | None) -> "SetTable":
        """A random but always the same part of that many sets, all if ``None``."""
        if num_sets is None:
            return self
        if not 0 < num_sets <= len(self):
            raise ValueError(
                f"the data set has {len(self)} sets; {num_sets} cannot be taken"
            )
        return self.select(self._shuffled()[:num_sets])

    def hold_out(self, share: float) -> tuple["SetTable", "SetTable"]:
        """Random but always the same parts: all sets but that share, and the share."""
        order, count = self._shuffled(), round(share * len(self))
        return self.select(order[count:]), self.select(order[:count])

    def _shuffled(self) -> Tensor:
        return torch.randperm(len(self), generator=torch.Generator().manual_seed(0))

    def resample(self, size: int, generator: torch.Generator) -> "SetTable":
        """Sets of that size, of elements drawn with replacement from sets that are not
        empty."""
        place = torch.rand(len(self), size, generator=generator, dtype=torch.double)
        rows = self.ptr[:-1, None] + (place * self.ptr.diff()[:, None]).long()
        ptr = size * torch.arange(len(self) + 1)
        return replace(self, x=self.x[rows.flatten()], ptr=ptr)

    def chunks(self, num_elements: int) -> Iterator["SetTable"]:
        """Consecutive sets, about that many elements at a time."""
        chunk = self.ptr[:-1].div(num_elements, rounding_mode="floor")
        counts = torch.unique_consecutive(chunk, return_counts=True)[1]
        yield from self.split(counts.tolist())

    def split(self, counts: list[int]) -> Iterator["SetTable"]:
        """Consecutive sets, so many at a time; elements are not copied."""
        begin = 0
        for count in counts:
            ptr = self.ptr[begin : begin + count + 1]
            first, last = ptr[0].item(), ptr[-1].item()
            y = self.y[begin : begin + count]
            yield SetTable(self.x[first:last], ptr - first, y)
            begin += count
