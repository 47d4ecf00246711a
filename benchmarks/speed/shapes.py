"""The batches that readouts are timed on."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """``graphs`` graphs of about ``nodes`` nodes, and possibly one large one."""

    graphs: int
    nodes: int
    slices: int
    points: int
    large: int = 0

    def __str__(self) -> str:
        head = f"{self.graphs}, {self.nodes}, {self.slices}, {self.points}"
        return f"{self.large} + {head}" if self.large else head


#: Molecules, proteins, wide molecules and point clouds, as in the design.
SIX = (
    Shape(128, 25, 128, 8),
    Shape(128, 25, 128, 32),
    Shape(32, 150, 16, 16),
    Shape(64, 100, 300, 64),
    Shape(32, 1024, 128, 128),
    Shape(256, 25, 300, 16),
)

#: One large graph among small ones: what padding is worst at.
SKEWED = Shape(graphs=255, nodes=20, slices=64, points=16, large=100_000)

#: One graph at a time, where a call is all overhead.
SMALL = Shape(1, 25, 64, 8)

#: From a batch in the middle, one number at a time.
GROWTH = {
    "nodes": [Shape(64, nodes, 64, 16) for nodes in (25, 100, 400, 1600)],
    "graphs": [Shape(graphs, 100, 64, 16) for graphs in (16, 64, 256, 1024)],
    "slices": [Shape(64, 100, slices, 16) for slices in (16, 64, 256, 1024)],
    "points": [Shape(64, 100, 64, points) for points in (4, 16, 64, 256)],
}


@dataclass
class Batch:
    """A slice matrix ``x``, with all that PyG's loaders give beside it."""

    x: Tensor
    ptr: Tensor
    index: Tensor
    weight: Tensor

    @property
    def num_graphs(self) -> int:
        return len(self.ptr) - 1

    @property
    def max_nodes(self) -> int:
        return int(self.ptr.diff().max())

    @property
    def num_padded(self) -> int:
        """The elements of the slice matrix, padded to the largest graph."""
        return self.num_graphs * self.max_nodes * self.x.shape[1]

    def to(self, device: str) -> "Batch":
        moved = {name: value.to(device) for name, value in vars(self).items()}
        return replace(self, **moved)

    def columns(self) -> list[np.ndarray]:
        """A copy of the values, ``[L, n]`` for each graph."""
        values = self.x.detach().numpy()
        bounds = pairwise(self.ptr.tolist())
        return [values[start:end].T.copy() for start, end in bounds]


def make_batch(shape: Shape, seed: int) -> Batch:
    """Normal values; sizes are uniform within a factor of three around the mean."""
    generator = torch.Generator().manual_seed(seed)
    low, high = max(1, shape.nodes // 2), 3 * shape.nodes // 2
    if shape.large:  # the others are all alike
        low = high = shape.nodes
    sizes = torch.randint(low, high + 1, (shape.graphs,), generator=generator)
    if shape.large:
        sizes = torch.cat([sizes, torch.tensor([shape.large])])
        sizes = sizes[torch.randperm(len(sizes), generator=generator)]
    num_nodes = int(sizes.sum())
    return Batch(
        x=torch.randn(num_nodes, shape.slices, generator=generator),
        ptr=torch.nn.functional.pad(sizes.cumsum(0), (1, 0)),
        index=torch.arange(len(sizes)).repeat_interleave(sizes),
        weight=torch.rand(num_nodes, generator=generator) + 0.1,
    )
