"""Every readout of the experiments: one entry is all that a new one needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
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
from benchmarks.engine.config import RunSettings
from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr import MedianAggregation, QuantileAggregation  # PyG's numbers
from gswe_pyg.aggr.gswe import REFERENCE_STD
from gswe_pyg.models import PMA, ApproxRepSet, RepSet

if TYPE_CHECKING:
    import pandas as pd

#: Self-attention over the nodes of a batch takes memory and time with the square of
#: the largest graph: beyond this, the set transformer goes without its encoder.
MAX_ATTENDED = 512

#: Slicers of GSWE behind a network.
SLICERS = ("identity", "linear", "mlp")

#: What a readout may be built with, and what stands for all values where it is not.
IDLE = {
    "points": 1,
    "references": 1,
    "slicer": "identity",
    "extremes": True,
    "head_start": "moments",
    "head_rate": 1.0,
}

#: Where the third and the fourth head begin: as skewness and tails; as the maximum and
#: the minimum, which need extremes; or as the means of the highest and the lowest bin.
HEAD_STARTS = ("moments", "extremes", "bins")


class Shape(NamedTuple):
    """What a readout may want to know when it is built."""

    channels: int
    points: int = 1  # of a reference; seeds, quantiles, nodes that sorting keeps
    references: int = 1  # heads of PMA, hidden sets
    max_nodes: int = 0  # of the largest graph
    slicer: str = "identity"
    extremes: bool = True  # of heads
    head_start: str = "moments"


@dataclass(frozen=True)
class Readout:
    """A readout in configs, tables and figures, for sets and for graphs."""

    build: Callable[[Shape], Aggregation]
    label: str
    colour: str = "0.5"  # in figures
    options: tuple[str, ...] = ()  # those of `IDLE` that make a difference
    least_points: int = 1
    is_wide: bool = False  # has a wider layer behind it, where the experiment has one
    #: The parameters that shift the embeddings of all sets alike, if ``start`` says
    #: where they begin, and their scale as built.
    constants: Callable[[Aggregation], list[Parameter]] | None = None
    constants_scale: float = 1.0

    def uses(self, option: str) -> bool:
        return option in self.options

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


def _plain(
    build: Callable[[], Aggregation], label: str, colour: str, is_wide: bool = False
) -> Readout:
    return Readout(lambda _: build(), label, colour, is_wide=is_wide)


def _gswe(interpolation: str, size: bool) -> Readout:
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
        SKY,
        ("points", "references", "slicer"),
        constants=lambda readout: [readout.points],
        constants_scale=REFERENCE_STD,
    )


def _heads(heads: int, colour: str) -> Readout:
    def build(shape: Shape) -> GSWEAggregation:
        readout = GSWEAggregation(
            shape.channels,
            num_points=max(shape.points, heads),
            slicer="identity",
            heads=heads,
            extremes=shape.extremes,
            reference=None,
        )
        if shape.head_start != "moments":
            bins = readout.num_points - 1, 0
            reads = (-1, -2) if shape.head_start == "extremes" else bins
            start_at_reads(readout.head_weight, reads)
        return readout

    label = f"GSWE, {heads} head{'s' if heads > 1 else ''}"
    options = ("points", "extremes", "head_rate", "head_start")
    options = options if heads > 2 else options[:-1]
    return Readout(build, label, colour, options, least_points=heads)


@torch.no_grad()
def start_at_reads(head_weight: Tensor, reads: tuple[int, int]) -> None:
    """The third head begins as the first of these reads, the fourth as the second."""
    for head, read in zip(head_weight[2:], reads, strict=False):
        head.zero_()
        head[:, read] = 1


def _deep_sets(shape: Shape) -> DeepSetsAggregation:
    local, joint = (MLP([shape.channels] * 3, norm=None) for _ in range(2))
    return DeepSetsAggregation(local, joint)


def _set_transformer(shape: Shape) -> SetTransformerAggregation:
    blocks = 1 if shape.max_nodes <= MAX_ATTENDED else 0
    heads = 4 if shape.channels % 4 == 0 else 1
    return SetTransformerAggregation(
        shape.channels, num_encoder_blocks=blocks, heads=heads
    )


def _pma(label: str, **more: Any) -> Readout:
    def build(shape: Shape) -> PMA:
        return PMA(shape.channels, shape.points, shape.references)

    return Readout(build, label, ORANGE, SIZE, **more)


def _seeds_and_biases(readout: PMA) -> list[Parameter]:
    biases = [lin.bias for lin in (readout.lin_q, readout.lin_kv, readout.lin_out)]
    return [readout.seed, *biases]


def _hidden_sets(kind: type[Aggregation], label: str, colour: str) -> Readout:
    def build(shape: Shape) -> Aggregation:
        return kind(shape.channels, shape.references, shape.points)

    return Readout(build, label, colour, SIZE)


def _quantile(shape: Shape) -> QuantileAggregation:
    """At the levels at which GSWE's points stand, too."""
    levels = [(m + 0.5) / shape.points for m in range(shape.points)]
    return QuantileAggregation(levels)


# Okabe and Ito's, as in gswe_pyg/style.mplstyle.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
BROWN = "#8C510A"  # not theirs

POINTS, SIZE = ("points",), ("points", "references")

READOUTS: Registry = Registry(
    "readout",
    mean=_plain(MeanAggregation, "mean", "0.6"),
    sum=_plain(SumAggregation, "sum", "0.4"),
    max=_plain(MaxAggregation, "max", "0.2"),
    mean_wide=_plain(MeanAggregation, "mean, wide", "0.6", is_wide=True),
    max_wide=_plain(MaxAggregation, "max, wide", "0.2", is_wide=True),
    mean_std_max=_plain(
        lambda: MultiAggregation(["mean", "std", "max"]), "mean, std, max", BLACK
    ),
    pna=_plain(
        lambda: MultiAggregation(["mean", "min", "max", "std"]), "PNA's four", BLACK
    ),
    softmax=Readout(
        lambda shape: SoftmaxAggregation(learn=True, channels=shape.channels), "softmax"
    ),
    median=_plain(MedianAggregation, "median", BLACK),
    deep_sets=Readout(_deep_sets, "Deep Sets", YELLOW),
    sort=Readout(lambda shape: SortAggregation(shape.points), "sort", PINK, POINTS),
    quantile=Readout(_quantile, "quantile", GREEN, POINTS),
    set_transformer=Readout(_set_transformer, "Set Transformer", ORANGE),
    pma=_pma("PMA"),
    pma_near_origin=_pma("PMA, near origin", constants=_seeds_and_biases),
    gswe_linear=_gswe("linear", size=False),
    gswe_linear_size=_gswe("linear", size=True),
    gswe_barycentric=_gswe("barycentric", size=False),
    gswe_barycentric_size=_gswe("barycentric", size=True),
    gswe_heads1=_heads(1, BLUE),
    gswe_heads2=_heads(2, SKY),
    gswe_heads4=_heads(4, VERMILION),
    gswe_heads8=_heads(8, PINK),
    repset=_hidden_sets(RepSet, "RepSet", GREEN),
    approx_repset=_hidden_sets(ApproxRepSet, "ApproxRepSet", PINK),
)


class WithSize(Aggregation):
    """A readout, and the logarithm of the size of the graph behind it."""

    def __init__(self, readout: Aggregation) -> None:
        super().__init__()
        self.readout = readout

    def forward(self, x: Tensor, index: Tensor, ptr=None, dim_size=None, dim=-2):
        out = self.readout(x, index, ptr, dim_size, dim)
        size = torch.bincount(index, minlength=len(out)).clamp(min=1).log()
        return torch.cat([out, size[:, None].to(out.dtype)], dim=-1)


#: What takes the place of a readout in some experiments, and learns nothing.
CONTROLS = {
    "logistic": "mean word vector, logistic regression",
    "sliced": "no network: sliced",
    "mean_of_elements": "no network: mean of the points",
    "size": "no network: number of points",
    "untrained": "untrained network, linear model",
    "parameter_free": "GSWE, no training",
}


class ReadoutSettings(RunSettings):
    """Of a run with a ``readout``, or with a control in its place."""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 1 if self.is_control else READOUTS[self.readout].least_points
        if self.points < least:  # before a grid is started, and not in the midst of it
            raise UsageError(
                f"points must be at least {least} for the readout {self.readout} (got "
                f"points={self.points})"
            )

    @property
    def is_control(self) -> bool:
        return self.readout in CONTROLS

    def uses(self, option: str) -> bool:
        return not self.is_control and READOUTS[self.readout].uses(option)

    def canonical(self) -> "ReadoutSettings":
        idle = {k: v for k, v in IDLE.items() if not self.uses(k) and hasattr(self, k)}
        return replace(self, **idle)


def label(name: str) -> str:
    return CONTROLS.get(name) or READOUTS[name].label


def colour(name: str) -> str:
    if name == "parameter_free":
        return BROWN
    return "0.8" if name in CONTROLS else READOUTS[name].colour


def by_readout(table: "pd.DataFrame", controls: Iterable[str] = ()) -> "pd.DataFrame":
    """Runs in the order of the readouts above, behind the given controls."""
    order = {name: place for place, name in enumerate([*controls, *READOUTS])}
    return table.sort_values("readout", key=lambda c: c.map(order), kind="stable")
