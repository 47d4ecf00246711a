"""What is timed: this package, its peers, and the floor below all of them.

A contender makes, from a batch, the call that is timed; what it does before that is
not. Modules are made once for a shape, as a model makes them once.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch_geometric.nn import global_mean_pool
from torch_geometric.nn.aggr import (
    QuantileAggregation,
    SetTransformerAggregation,
    SortAggregation,
)
from torch_geometric.utils import to_dense_batch

from benchmarks.speed_shapes import Batch, Shape
from gswe_pyg.ops import backend, segment_quantile

Readout = Callable[[Batch], Tensor]

HEADS = 4

# Elements that FSWEmbedding may have in memory at once, for each tensor of its.
_FSW_ELEMENTS = 1 << 26


@dataclass(frozen=True)
class Contender:
    """A readout, as ``build(shape)`` makes it, or a floor, which has none."""

    label: str
    build: Callable[[Shape], Readout] | None = None
    requires: str | None = None
    #: A lower bound on the bytes that a batch takes, where it pads.
    num_bytes: Callable[[Batch], int] = lambda batch: 0
    #: Whether a call on this shape would take more than five seconds, by estimate.
    is_too_slow: Callable[[Shape], bool] = lambda shape: False

    @property
    def is_installed(self) -> bool:
        return self.requires is None or find_spec(self.requires) is not None


def _ours(shape: Shape) -> Readout:
    return lambda batch: segment_quantile(batch.x, batch.ptr, batch.num_points)


def _ours_on(name: str) -> Callable[[Shape], Readout]:
    def build(shape: Shape) -> Readout:
        readout = _ours(shape)

        def run(batch: Batch) -> Tensor:
            with backend(name):
                return readout(batch)

        return run

    return build


def midpoints(num_points: int) -> list[float]:
    return [(m + 0.5) / num_points for m in range(num_points)]


def _quantile(shape: Shape) -> Readout:
    module = QuantileAggregation(midpoints(shape.points))
    return lambda batch: module(batch.x, batch.index, dim_size=batch.num_graphs)


def _padded(shape: Shape) -> Readout:
    """The same operator as one would write it in a few lines of PyTorch."""

    def readout(batch: Batch) -> Tensor:
        sizes = batch.ptr.diff()[:, None]
        dense, _ = to_dense_batch(
            batch.x, batch.index, fill_value=torch.inf, batch_size=batch.num_graphs
        )
        values = dense.transpose(1, 2).contiguous().sort(dim=-1).values
        ranks = torch.arange(shape.points) + 0.5
        position = (ranks * sizes / shape.points - 0.5).clamp(min=0)
        position = position.minimum(sizes - 1)[:, None].expand(-1, shape.slices, -1)
        lower = position.floor().long()
        upper = position.ceil().long()
        return values.gather(2, lower).lerp(values.gather(2, upper), position - lower)

    return readout


def _sort(shape: Shape) -> Readout:
    module = SortAggregation(k=shape.points)
    return lambda batch: module(batch.x, batch.index, dim_size=batch.num_graphs)


class _SetTransformer(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.aggregation = SetTransformerAggregation(channels, heads=HEADS)

    def forward(self, batch: Batch) -> Tensor:
        return self.aggregation(batch.x, batch.index, dim_size=batch.num_graphs)


def _mean(shape: Shape) -> Readout:
    return lambda batch: global_mean_pool(batch.x, batch.index, batch.num_graphs)


class _FSW(torch.nn.Module):
    """As many frequencies as we have points. It slices, too: a small product more."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        from fswlib import FSWEmbedding

        self.embedding = FSWEmbedding(
            shape.slices, num_slices=shape.slices, num_frequencies=shape.points
        )

    def forward(self, batch: Batch) -> Tensor:
        # Its sparse mode does not take slices times frequencies (0.9.9): padding, with
        # weights of zero.
        x, mask = to_dense_batch(batch.x, batch.index, batch_size=batch.num_graphs)
        num_slices = _FSW_ELEMENTS // (mask.numel() * batch.num_points)
        num_slices = max(1, min(num_slices, x.shape[-1]))
        return self.embedding(x, mask.float(), max_parallel_slices=num_slices)


class _TW(torch.nn.Module):
    """Two templates, the layer's default, of as many nodes as we have points."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        from ot.gnn import TWPooling

        self.pooling = TWPooling(shape.slices, n_tplt=2, n_tplt_nodes=shape.points)

    def forward(self, batch: Batch) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its solver stops after 50 iterations
            return self.pooling(batch.x, batch=batch.index)


OURS, PADDED, QUANTILE, SET_TRANSFORMER = "ours", "padded", "quantile", "transformer"
OURS_BY_SLICES = "ours_by_slices"
COPY_FLOOR, SORT_FLOOR = "copy", "numpy_sort"

CONTENDERS = {
    # The slices of a node side by side in memory, as our slicers leave them.
    OURS: Contender("gswe_pyg segment_quantile", _ours),
    OURS_BY_SLICES: Contender("the same, laid out by slices", _ours),
    "ours_on_torch": Contender("the same, 'torch' backend", _ours_on("torch")),
    # Values, their copy, the sorted ones and the permutation.
    PADDED: Contender(
        "padded torch.sort", _padded, num_bytes=lambda batch: 20 * batch.num_padded
    ),
    QUANTILE: Contender("PyG QuantileAggregation", _quantile),
    "sort": Contender(
        "PyG SortAggregation", _sort, num_bytes=lambda batch: 8 * batch.num_padded
    ),
    # The weights of one layer of attention.
    SET_TRANSFORMER: Contender(
        "PyG SetTransformerAggregation",
        lambda shape: _SetTransformer(shape.slices),
        num_bytes=lambda batch: 4 * HEADS * batch.num_graphs * batch.max_nodes**2,
    ),
    "mean": Contender("PyG global_mean_pool", _mean),
    "fsw": Contender(
        "fswlib FSWEmbedding",
        _FSW,
        requires="fswlib",
        num_bytes=lambda batch: 20 * batch.num_padded,
        is_too_slow=lambda shape: (
            shape.graphs * shape.nodes * shape.slices * shape.points > 3e8
        ),
    ),
    "tw": Contender("POT TWPooling", _TW, requires="ot"),
    SORT_FLOOR: Contender("floor: numpy.sort, one thread"),
    COPY_FLOOR: Contender("floor: memory copy"),
}

FLOORS = (SORT_FLOOR, COPY_FLOOR)

#: Other ways to call the kernel, beside the one that is judged.
VARIANTS = (OURS_BY_SLICES, "ours_on_torch")


def prepare(
    name: str, readout: Readout | None, batch: Batch, train: bool
) -> Callable[[], object]:
    """The call to be timed."""
    if name == SORT_FLOOR:
        columns = batch.columns()
        return lambda: [column.sort(axis=-1) for column in columns]
    if name == COPY_FLOOR:
        target = torch.empty_like(batch.x)
        target.copy_(batch.x)  # pages that exist
        return lambda: target.copy_(batch.x)
    if name == OURS_BY_SLICES:
        batch = replace(batch, x=batch.x.t().contiguous().t())
    if train:
        return lambda: gradients(readout, batch)

    def forward() -> Tensor:
        with torch.no_grad():
            return readout(batch)

    return forward


def gradients(readout: Readout, batch: Batch) -> tuple[Tensor, ...]:
    """From a fixed cotangent to the slices, and to the parameters if there are any."""
    x = batch.x.detach().requires_grad_()
    out = readout(replace(batch, x=x))
    parameters = []
    if isinstance(readout, torch.nn.Module):
        parameters = [p for p in readout.parameters() if p.requires_grad]
    return torch.autograd.grad(out, [x, *parameters], _cotangent(out.shape))


@lru_cache(maxsize=32)
def _cotangent(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
