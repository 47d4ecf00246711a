"""What is timed: this package, its peers, and the floor below all of them.

``build(channels, points)`` makes the readout once, as a model makes its modules once;
:func:`prepare` makes the call to be timed from it and a batch.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn import aggr, global_mean_pool
from torch_geometric.utils import to_dense_batch

from benchmarks.speed.shapes import Batch
from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr import QuantileAggregation
from gswe_pyg.ops import backend, segment_quantile

Call = Callable[[], object]


class Contender(NamedTuple):
    label: str
    #: ``"operator"``, ``"readout"``, ``"other"``, ``"floor"`` (what it makes of a batch
    #: is itself the call to be timed) or ``"network"`` (only inside of one).
    group: str
    #: Aggregations are called by PyG's signature, all else with a batch.
    build: Callable[[int, int], Any]
    #: Whether it makes all graphs as large as the largest one.
    pads: bool = False
    weighted: bool = False


def _operator(label: str, name: str | None = None, weighted: bool = False) -> Contender:
    def build(channels: int, points: int) -> Callable[[Batch], Tensor]:
        def run(batch: Batch) -> Tensor:
            weight = batch.weight if weighted else None
            return segment_quantile(batch.x, batch.ptr, points, weight=weight)

        return run if name is None else backend(name)(run)

    return Contender(f"segment_quantile{label}", "operator", build)


def _gswe(label: str, weighted: bool = False, **options: Any) -> Contender:
    def build(channels: int, points: int) -> GSWEAggregation:
        return GSWEAggregation(channels, num_points=points, **options)

    return Contender(f"GSWE, {label}", "readout", build, weighted=weighted)


def _projected(channels: int, points: int) -> GSWEAggregation:
    return GSWEAggregation(channels, num_points=points, out_channels=channels)


class _Products(aggr.MeanAggregation):
    """What of a projected embedding is matrix products, around a mean."""

    def __init__(self, channels: int, points: int) -> None:
        super().__init__()
        self.slicer = Linear(channels, channels, bias=False)
        self.lin = Linear(channels * points, channels, bias=False)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        mean = super().forward(self.slicer(x), *args, **kwargs)
        points = self.lin.in_features // self.lin.out_features
        return self.lin(mean.repeat(1, points))


def _quantile(kind: type[aggr.Aggregation]) -> Callable[[int, int], aggr.Aggregation]:
    return lambda channels, p: kind([(m + 0.5) / p for m in range(p)])


def _mean(batch: Batch) -> Tensor:
    return global_mean_pool(batch.x, batch.index, batch.num_graphs)


def _padded(channels: int, points: int) -> Callable[[Batch], Tensor]:
    """The same operator as one would write it in a few lines of PyTorch."""

    def run(batch: Batch) -> Tensor:
        sizes = batch.ptr.diff()[:, None]
        dense, _ = to_dense_batch(
            batch.x, batch.index, fill_value=torch.inf, batch_size=batch.num_graphs
        )
        values = dense.transpose(1, 2).contiguous().sort(dim=-1).values
        ranks = torch.arange(points, device=batch.x.device) + 0.5
        position = (ranks * sizes / points - 0.5).clamp(min=0)
        position = position.minimum(sizes - 1)[:, None].expand(-1, channels, -1)
        lower = position.floor().long()
        upper = position.ceil().long()
        return values.gather(2, lower).lerp(values.gather(2, upper), position - lower)

    return run


def _numpy_sort(batch: Batch) -> Call:
    values = batch.x.numpy()
    columns = [values[i:j].T.copy() for i, j in pairwise(batch.ptr.tolist())]
    return lambda: [column.sort(axis=-1) for column in columns]


_FAST, _PYG = _quantile(QuantileAggregation), _quantile(aggr.QuantileAggregation)

CONTENDERS = {
    "segment_quantile": _operator(""),
    "segment_quantile_weights": _operator(", weights", weighted=True),
    "segment_quantile_torch": _operator(", 'torch' backend", "torch"),
    "gswe_identity": _gswe("identity, raw", slicer="identity"),
    "gswe_linear": _gswe("linear, raw"),
    "gswe_weights": _gswe("linear, raw, weights", weighted=True),
    "gswe_heads1": _gswe("1 head", heads=1),
    "gswe_extremes": _gswe("1 head, extremes", heads=1, extremes=True),
    "fast_quantile": Contender("gswe_pyg QuantileAggregation", "readout", _FAST),
    "padded": Contender("padded torch.sort", "other", _padded, pads=True),
    "quantile": Contender("PyG QuantileAggregation", "other", _PYG),
    "sort": Contender(
        "PyG SortAggregation",
        "other",
        lambda _, points: aggr.SortAggregation(points),
        pads=True,
    ),
    "transformer": Contender(
        "PyG SetTransformerAggregation",
        "other",
        lambda channels, _: aggr.SetTransformerAggregation(channels, heads=4),
        pads=True,
    ),
    "mean": Contender("PyG mean", "other", lambda *sizes: _mean),
    "numpy_sort": Contender(
        "floor: numpy.sort, one thread", "floor", lambda *sizes: _numpy_sort
    ),
    "gswe_projected": Contender("GSWE, linear, projected", "network", _projected),
    "products": Contender("its matrix products, around a mean", "network", _Products),
}

LABELS = {name: contender.label for name, contender in CONTENDERS.items()}


def prepare(contender: Contender, readout: Any, batch: Batch, train: bool) -> Call:
    """The call of a readout: by the index that PyG's loaders give, as a model does."""
    if contender.group == "floor":
        return readout(batch)
    weight = {"weight": batch.weight} if contender.weighted else {}

    def run(x: Tensor) -> Tensor:
        if isinstance(readout, aggr.Aggregation):
            return readout(x, batch.index, dim_size=batch.num_graphs, **weight)
        return readout(batch._replace(x=x))

    return forward_or_step(run, batch.x, readout, train)


def forward_or_step(
    run: Callable[[Tensor], Tensor], x: Tensor, module: object, train: bool
) -> Call:
    """A forward pass, or one with the gradients of the input and of the parameters, as
    if that of the output were the output."""
    if not train:
        return torch.no_grad()(lambda: run(x))
    parameters = module.parameters() if isinstance(module, Module) else []
    wanted = [parameter for parameter in parameters if parameter.requires_grad]

    def step() -> tuple[Tensor, ...]:
        leaf = x.detach().requires_grad_()
        out = run(leaf)
        return torch.autograd.grad(out, [leaf, *wanted], out.detach())

    return step
