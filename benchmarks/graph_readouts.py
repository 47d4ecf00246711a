"""The readouts of the graph benchmark.

Called as ``build(channels, points, max_nodes)``, where ``points`` counts the elements
of GSWE's reference, the nodes that sorting keeps, or the quantiles, and ``max_nodes``
the nodes of the largest graph.
"""

from functools import partial

from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    DeepSetsAggregation,
    MaxAggregation,
    MeanAggregation,
    QuantileAggregation,
    SetTransformerAggregation,
    SortAggregation,
    SumAggregation,
)

from benchmarks.speed_contenders import midpoints
from gswe_pyg import GSWEAggregation

#: Self-attention over the nodes of a batch takes memory and time with the square of
#: the largest graph: beyond this, the set transformer goes without its encoder.
MAX_ATTENDED = 512


def _deep_sets(channels: int, points: int, max_nodes: int) -> DeepSetsAggregation:
    local, joint = (MLP([channels] * 3, norm=None) for _ in range(2))
    return DeepSetsAggregation(local, joint)


def _set_transformer(
    channels: int, points: int, max_nodes: int
) -> SetTransformerAggregation:
    blocks = 1 if max_nodes <= MAX_ATTENDED else 0
    return SetTransformerAggregation(channels, num_encoder_blocks=blocks, heads=4)


def _gswe(
    interpolation: str,
    encode_size: bool,
    channels: int,
    points: int,
    max_nodes: int,
    slicer: str = "identity",
) -> GSWEAggregation:
    return GSWEAggregation(
        channels,
        num_slices=channels,
        num_points=points,
        slicer=slicer,
        interpolation=interpolation,
        encode_size=encode_size,
    )


READOUTS = {
    "mean": lambda channels, points, max_nodes: MeanAggregation(),
    "sum": lambda channels, points, max_nodes: SumAggregation(),
    "max": lambda channels, points, max_nodes: MaxAggregation(),
    "deep_sets": _deep_sets,
    "sort": lambda channels, points, max_nodes: SortAggregation(k=points),
    "quantile": lambda channels, points, max_nodes: QuantileAggregation(
        midpoints(points)
    ),
    "set_transformer": _set_transformer,
    "gswe_linear": partial(_gswe, "linear", False),
    "gswe_linear_size": partial(_gswe, "linear", True),
    "gswe_barycentric": partial(_gswe, "barycentric", False),
    "gswe_barycentric_size": partial(_gswe, "barycentric", True),
}

#: Those that also take ``slicer``.
GSWE = frozenset(name for name in READOUTS if name.startswith("gswe"))

#: Those that know no points: one run stands for all sizes.
SIZELESS = frozenset({"mean", "sum", "max", "deep_sets", "set_transformer"})
