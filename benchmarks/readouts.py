"""Every readout of the experiments: one entry is all that a new one needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import Parameter
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    Aggregation,
    DeepSetsAggregation,
    MaxAggregation,
    MeanAggregation,
    MultiAggregation,
    SetTransformerAggregation,
    SoftmaxAggregation,
    SortAggregation,
    SumAggregation,
)

from benchmarks.engine.arguments import Registry, UsageError
from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr import MedianAggregation, QuantileAggregation  # PyG's numbers
from gswe_pyg.aggr.gswe import REFERENCE_STD
from gswe_pyg.models import PMA, ApproxRepSet, RepSet

#: Self-attention over the nodes of a batch takes memory and time with the square of
#: the largest graph: beyond this, the set transformer goes without its encoder.
MAX_ATTENDED = 512

#: Slicers of GSWE behind a network.
SLICERS = ("identity", "linear", "mlp")


class Shape(NamedTuple):
    """What a readout may want to know when it is built."""

    channels: int
    points: int = 1  # of a reference; seeds, quantiles, nodes that sorting keeps
    references: int = 1  # heads of PMA, hidden sets
    max_nodes: int = 0  # of the largest graph
    slicer: str = "identity"  # if ``has_slicer``
    extremes: bool = True  # if ``has_extremes``


@dataclass(frozen=True)
class Readout:
    """A readout in configs, tables and figures, for sets and for graphs."""

    build: Callable[[Shape], Aggregation]
    label: str
    colour: str | None = None  # in figures
    line: str = "-"
    has_points: bool = True  # if not, one run stands for all numbers of points
    least_points: int = 1
    has_references: bool = False  # likewise
    has_slicer: bool = False  # and takes weights, and a reference that starts somewhere
    has_extremes: bool = False
    is_wide: bool = False  # has a wider layer behind it, where the experiment has one
    #: The parameters that shift the embeddings of all sets alike, if ``start`` says
    #: where they begin, and their scale as built.
    constants: Callable[[Aggregation], list[Parameter]] | None = None
    constants_scale: float = 1.0

    @torch.no_grad()
    def move_to_start(self, readout: Aggregation, start: float) -> None:
        """Moves the constants towards the origin: GSWE's reference gets the deviation
        ``start``, those of PMA are scaled by it.

        SimCLR compares embeddings by inner products, on which a constant far from the
        origin weighs more than the set does; at the paper's learning rate it would stay
        there.
        """
        for parameter in self.constants(readout) if self.constants else ():
            parameter.mul_(start / self.constants_scale)


def _gswe(interpolation: str, colour: str | None, line: str, size: bool) -> Readout:
    def build(shape: Shape) -> GSWEAggregation:
        # The backbone's channels are the slices already, as in the paper: "a unified
        # MLP, represented by a mapping g: R^d -> R^L".
        return GSWEAggregation(
            in_channels=shape.channels,
            num_slices=shape.channels,
            num_points=shape.points,
            num_references=shape.references,
            slicer=shape.slicer,
            interpolation=interpolation,
            encode_size=size,
        )

    return Readout(
        build,
        f"GSWE, {interpolation}{', size' if size else ''}",
        colour,
        line,
        has_references=True,
        has_slicer=True,
        constants=lambda readout: [readout.points],
        constants_scale=REFERENCE_STD,
    )


def _heads(heads: int, colour: str) -> Readout:
    def build(shape: Shape) -> GSWEAggregation:
        return GSWEAggregation(
            shape.channels,
            num_points=max(shape.points, heads),
            slicer="identity",
            heads=heads,
            extremes=shape.extremes,
            reference=None,
        )

    label = f"GSWE, {heads} head{'s' if heads > 1 else ''}"
    return Readout(build, label, colour, least_points=heads, has_extremes=True)


def _deep_sets(shape: Shape) -> DeepSetsAggregation:
    local, joint = (MLP([shape.channels] * 3, norm=None) for _ in range(2))
    return DeepSetsAggregation(local, joint)


def _set_transformer(shape: Shape) -> SetTransformerAggregation:
    blocks = 1 if shape.max_nodes <= MAX_ATTENDED else 0
    heads = 4 if shape.channels % 4 == 0 else 1
    return SetTransformerAggregation(
        shape.channels, num_encoder_blocks=blocks, heads=heads
    )


def _pma(shape: Shape) -> PMA:
    return PMA(shape.channels, shape.points, shape.references)


def _seeds_and_biases(readout: PMA) -> list[Parameter]:
    biases = [lin.bias for lin in (readout.lin_q, readout.lin_kv, readout.lin_out)]
    return [readout.seed, *biases]


def midpoints(num_points: int) -> list[float]:
    """The levels at which GSWE's points stand, too."""
    return [(m + 0.5) / num_points for m in range(num_points)]


# Okabe and Ito's, as in gswe_pyg/style.mplstyle; lines tell apart what shares a colour.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"

READOUTS: Registry = Registry(
    "readout",
    mean=Readout(lambda _: MeanAggregation(), "mean", "0.6", has_points=False),
    sum=Readout(lambda _: SumAggregation(), "sum", "0.4", has_points=False),
    max=Readout(lambda _: MaxAggregation(), "max", "0.2", has_points=False),
    mean_wide=Readout(
        lambda _: MeanAggregation(),
        "mean, wide",
        "0.7",
        has_points=False,
        is_wide=True,
    ),
    max_wide=Readout(
        lambda _: MaxAggregation(),
        "max, wide",
        "0.3",
        has_points=False,
        is_wide=True,
    ),
    mean_std_max=Readout(
        lambda _: MultiAggregation(["mean", "std", "max"]),
        "mean, std, max",
        BLACK,
        has_points=False,
    ),
    pna=Readout(
        lambda _: MultiAggregation(["mean", "min", "max", "std"]),
        "PNA's four",
        BLACK,
        ":",
        has_points=False,
    ),
    softmax=Readout(
        lambda shape: SoftmaxAggregation(learn=True, channels=shape.channels),
        "softmax",
        BLACK,
        ":",
        has_points=False,
    ),
    median=Readout(lambda _: MedianAggregation(), "median", BLACK, has_points=False),
    deep_sets=Readout(_deep_sets, "Deep Sets", YELLOW, has_points=False),
    sort=Readout(lambda shape: SortAggregation(shape.points), "sort", PINK, ":"),
    quantile=Readout(
        lambda shape: QuantileAggregation(midpoints(shape.points)),
        "quantile",
        GREEN,
    ),
    set_transformer=Readout(
        _set_transformer, "Set Transformer", ORANGE, "--", has_points=False
    ),
    pma=Readout(_pma, "PMA", ORANGE, has_references=True),
    pma_near_origin=Readout(
        _pma,
        "PMA, near origin",
        ORANGE,
        ":",
        has_references=True,
        constants=_seeds_and_biases,
    ),
    gswe_linear=_gswe("linear", SKY, "-", size=False),
    gswe_linear_size=_gswe("linear", SKY, "--", size=True),
    gswe_barycentric=_gswe("barycentric", SKY, "-.", size=False),
    gswe_barycentric_size=_gswe("barycentric", SKY, ":", size=True),
    gswe_heads1=_heads(1, BLUE),
    gswe_heads2=_heads(2, SKY),
    gswe_heads4=_heads(4, VERMILION),
    gswe_heads8=_heads(8, PINK),
    repset=Readout(
        lambda shape: RepSet(shape.channels, shape.references, shape.points),
        "RepSet",
        GREEN,
        "--",
        has_references=True,
    ),
    approx_repset=Readout(
        lambda shape: ApproxRepSet(shape.channels, shape.references, shape.points),
        "ApproxRepSet",
        PINK,
        has_references=True,
    ),
)


def check_points(name: str, points: int) -> None:
    """Before a grid is started, and not in the midst of it."""
    if points < READOUTS[name].least_points:
        raise UsageError(
            f"points must be at least {READOUTS[name].least_points} for the readout "
            f"{name} (got points={points})"
        )


def label(name: str) -> str:
    """In tables, also for readouts that only old records have."""
    return READOUTS[name].label if name in READOUTS else name


def in_order(names: "set[str] | list[str]") -> list[str]:
    """As they stand above, then those that are not there."""
    order = list(READOUTS)
    unknown = len(order)
    return sorted(
        set(names), key=lambda n: (order.index(n) if n in order else unknown, n)
    )
