"""The batches that readouts are timed on."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

SEED = 0


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

#: What grows as N log n.
GROWTH = [Shape(64, nodes, 64, 16) for nodes in (25, 100, 400, 1600)]


class Batch(NamedTuple):
    """A slice matrix ``x``, with all that PyG's loaders give beside it."""

    x: Tensor
    ptr: Tensor
    index: Tensor
    weight: Tensor
    num_graphs: int


def make_batch(shape: Shape, seed: int = SEED, device: str = "cpu") -> Batch:
    """Normal values; sizes are uniform within a factor of three around the mean, but
    all alike beside a large one."""
    generator = torch.Generator().manual_seed(seed)
    low, high = max(1, shape.nodes // 2), 3 * shape.nodes // 2
    if shape.large:
        low = high = shape.nodes
    sizes = torch.randint(low, high + 1, (shape.graphs,), generator=generator)
    if shape.large:
        sizes = torch.cat([sizes, torch.tensor([shape.large])])
        sizes = sizes[torch.randperm(len(sizes), generator=generator)]
    tensors = (
        torch.randn(int(sizes.sum()), shape.slices, generator=generator),
        torch.nn.functional.pad(sizes.cumsum(0), (1, 0)),
        torch.arange(len(sizes)).repeat_interleave(sizes),
        torch.rand(int(sizes.sum()), generator=generator) + 0.1,
    )
    return Batch(*(tensor.to(device) for tensor in tensors), len(sizes))
