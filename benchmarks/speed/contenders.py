"""What is timed: this package, its peers, and the floor below all of them.

A contender is one entry of :obj:`CONTENDERS`. ``build(shape)`` makes the readout once,
as a model makes its modules once; calling it on a batch is what is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import aggr, global_mean_pool
from torch_geometric.utils import to_dense_batch

import gswe_pyg.aggr
from benchmarks.speed.shapes import Batch, Shape
from gswe_pyg.ops import backend, segment_quantile

Readout = Callable[[Batch], Any]

#: No contender gets more memory than this.
MAX_BYTES = 8 << 30


@dataclass(frozen=True)
class Contender:
    label: str
    #: ``"operator"``, ``"readout"``, ``"other"`` or ``"floor"``: what a floor makes of
    #: a batch is itself the call to be timed.
    group: str
    build: Callable[[Shape], Readout]
    #: The package that it comes from, where that is an extra.
    requires: str | None = None
    #: A lower bound on the bytes that a batch takes, where it pads.
    num_bytes: Callable[[Batch, Shape], int] = lambda batch, shape: 0

    def obstacle(self, batch: Batch, shape: Shape) -> str | None:
        """Why it cannot be measured on a batch of this shape."""
        if self.requires is not None and find_spec(self.requires) is None:
            return "not installed"
        num_bytes = self.num_bytes(batch, shape)
        return f"needs {num_bytes >> 30} GB" if num_bytes > MAX_BYTES else None


class Called(Module):
    """A readout as a model calls it: by the index that PyG's loaders give."""

    def __init__(self, aggregation: aggr.Aggregation, weighted: bool = False) -> None:
        super().__init__()
        self.aggregation, self.weighted = aggregation, weighted

    def forward(self, batch: Batch) -> Tensor:
        weight = {"weight": batch.weight} if self.weighted else {}
        return self.aggregation(
            batch.x, batch.index, dim_size=batch.num_graphs, **weight
        )


def midpoints(num_points: int) -> list[float]:
    return [(m + 0.5) / num_points for m in range(num_points)]


def _operator(shape: Shape, weighted: bool = False) -> Readout:
    def run(batch: Batch) -> Tensor:
        weight = batch.weight if weighted else None
        return segment_quantile(batch.x, batch.ptr, shape.points, weight=weight)

    return run


def _on_torch(shape: Shape) -> Readout:
    def run(batch: Batch) -> Tensor:
        with backend("torch"):
            return segment_quantile(batch.x, batch.ptr, shape.points)

    return run


def _gswe(label: str, weighted: bool = False, **options: Any) -> Contender:
    def build(shape: Shape) -> Readout:
        size = {"num_slices": shape.slices, "num_points": shape.points}
        readout = gswe_pyg.GSWEAggregation(shape.slices, **size, **options)
        return Called(readout, weighted)

    return Contender(f"GSWE, {label}", "readout", build)


def _mean(shape: Shape) -> Readout:
    return lambda batch: global_mean_pool(batch.x, batch.index, batch.num_graphs)


def _padded(shape: Shape) -> Readout:
    """The same operator as one would write it in a few lines of PyTorch."""

    def readout(batch: Batch) -> Tensor:
        sizes = batch.ptr.diff()[:, None]
        dense, _ = to_dense_batch(
            batch.x, batch.index, fill_value=torch.inf, batch_size=batch.num_graphs
        )
        values = dense.transpose(1, 2).contiguous().sort(dim=-1).values
        ranks = torch.arange(shape.points, device=batch.x.device) + 0.5
        position = (ranks * sizes / shape.points - 0.5).clamp(min=0)
        position = position.minimum(sizes - 1)[:, None].expand(-1, shape.slices, -1)
        lower = position.floor().long()
        upper = position.ceil().long()
        return values.gather(2, lower).lerp(values.gather(2, upper), position - lower)

    return readout


class _FSW(Module):
    """As many frequencies as we have points. It slices, too: a small product more."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        from fswlib import FSWEmbedding

        sizes = {"num_slices": shape.slices, "num_frequencies": shape.points}
        self.embedding = FSWEmbedding(shape.slices, **sizes)

    def forward(self, batch: Batch) -> Tensor:
        # Its sparse mode does not take slices times frequencies (0.9.9): padding, with
        # weights of zero.
        x, mask = to_dense_batch(batch.x, batch.index, batch_size=batch.num_graphs)
        return self.embedding(x, mask.float())


def _numpy_sort(batch: Batch) -> Callable[[], object]:
    columns = batch.columns()
    return lambda: [column.sort(axis=-1) for column in columns]


def _copy(batch: Batch) -> Callable[[], object]:
    target = batch.x.clone()  # pages that exist
    return lambda: target.copy_(batch.x)


CONTENDERS = {
    "segment_quantile": Contender("segment_quantile", "operator", _operator),
    "segment_quantile_weights": Contender(
        "segment_quantile, weights", "operator", lambda shape: _operator(shape, True)
    ),
    "segment_quantile_torch": Contender(
        "segment_quantile, 'torch' backend", "operator", _on_torch
    ),
    "gswe_identity": _gswe("identity, raw", slicer="identity"),
    "gswe_identity_heads1": _gswe("identity, 1 head", slicer="identity", heads=1),
    "gswe_identity_extremes": _gswe(
        "identity, 1 head, extremes", slicer="identity", heads=1, extremes=True
    ),
    "gswe_linear": _gswe("linear, raw"),
    "gswe_weights": _gswe("linear, raw, weights", weighted=True),
    "gswe_heads1": _gswe("linear, 1 head", heads=1),
    "gswe_heads4": _gswe("linear, 4 heads", heads=4),
    "gswe_extremes": _gswe("linear, 1 head, extremes", heads=1, extremes=True),
    "fast_quantile": Contender(
        "gswe_pyg QuantileAggregation",
        "readout",
        lambda shape: Called(
            gswe_pyg.aggr.QuantileAggregation(midpoints(shape.points))
        ),
    ),
    "padded": Contender(
        "padded torch.sort",
        "other",
        _padded,
        # Values, their copy, the sorted ones and the permutation.
        num_bytes=lambda batch, shape: 20 * batch.num_padded,
    ),
    "quantile": Contender(
        "PyG QuantileAggregation",
        "other",
        lambda shape: Called(aggr.QuantileAggregation(midpoints(shape.points))),
    ),
    "sort": Contender(
        "PyG SortAggregation",
        "other",
        lambda shape: Called(aggr.SortAggregation(k=shape.points)),
        num_bytes=lambda batch, shape: 8 * batch.num_padded,
    ),
    "transformer": Contender(
        "PyG SetTransformerAggregation",
        "other",
        lambda shape: Called(aggr.SetTransformerAggregation(shape.slices, heads=4)),
        # The weights of one layer of attention.
        num_bytes=lambda batch, shape: 16 * batch.num_graphs * batch.max_nodes**2,
    ),
    "mean": Contender("PyG mean", "other", _mean),
    "fsw": Contender(
        "fswlib FSWEmbedding",
        "other",
        _FSW,
        requires="fswlib",
        num_bytes=lambda batch, shape: 20 * batch.num_padded * shape.points,
    ),
    "numpy_sort": Contender(
        "floor: numpy.sort, one thread", "floor", lambda shape: _numpy_sort
    ),
    "copy": Contender("floor: memory copy", "floor", lambda shape: _copy),
}


def prepare(
    contender: Contender, readout: Readout, batch: Batch, train: bool
) -> Callable[[], object]:
    """The call to be timed."""
    if contender.group == "floor":
        return readout(batch)
    if train:
        return lambda: gradients(readout, batch)
    return torch.no_grad()(lambda: readout(batch))


def gradients(readout: Readout, batch: Batch) -> tuple[Tensor, ...]:
    """From a fixed cotangent to the slices, and to the parameters if there are any."""
    x = batch.x.detach().requires_grad_()
    out = readout(replace(batch, x=x))
    parameters = []
    if isinstance(readout, Module):
        parameters = [p for p in readout.parameters() if p.requires_grad]
    cotangent = _cotangent(out.shape, out.device)
    return torch.autograd.grad(out, [x, *parameters], cotangent)


@lru_cache(maxsize=64)
def _cotangent(shape: torch.Size, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).to(device)
