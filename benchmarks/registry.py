"""Every name that a config may use. A new readout or data set is one entry here, or,
for graphs, in ``graph_readouts.READOUTS`` or ``graph_data.DATASETS``."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import torch
from torch.nn import Parameter
from torch_geometric.nn import MeanAggregation
from torch_geometric.nn.aggr import Aggregation

from benchmarks import augmentations, graph_data, graph_readouts, set_data
from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr.gswe import REFERENCE_STD
from gswe_pyg.datasets import WordSets
from gswe_pyg.losses import simclr_loss, simsiam_loss
from gswe_pyg.models import MLP, PMA, ApproxRepSet, RepSet, SharedSAB, StackedSAB


class Registry(dict[str, Any]):
    """A dictionary whose missing keys are explained by the nearest present one."""

    def __init__(self, kind: str, **entries: Any) -> None:
        super().__init__(entries)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise ValueError(unknown(self.kind, name, self))


def unknown(kind: str, name: str, known: Any) -> str:
    """The message for a name that nobody registered."""
    near = get_close_matches(str(name), [str(entry) for entry in known], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"unknown {kind} {name!r}; {hint}"


def check_choices(run: Any, **choices: Sequence[str]) -> None:
    """Raises a ``ValueError`` for settings of a run that are none of the choices."""
    for name, known in choices.items():
        if getattr(run, name) not in known:
            raise ValueError(unknown(name, getattr(run, name), known))


def _gswe(
    interpolation: str,
    channels: int,
    points: int,
    references: int,
    slicer: str = "identity",
) -> GSWEAggregation:
    # The backbone's channels are the slices already, as in the paper: "a unified
    # MLP, represented by a mapping g: R^d -> R^L".
    return GSWEAggregation(
        in_channels=channels,
        num_slices=channels,
        num_points=points,
        num_references=references,
        slicer=slicer,
        interpolation=interpolation,
    )


def _reference(readout: GSWEAggregation) -> list[Parameter]:
    return [readout.points]


def _seeds_and_biases(readout: PMA) -> list[Parameter]:
    biases = [lin.bias for lin in (readout.lin_q, readout.lin_kv, readout.lin_out)]
    return [readout.seed, *biases]


#: Called as ``build(channels, points, references)``, where ``points`` counts the
#: elements of a reference (or the seeds) and ``references`` the references (heads).
READOUTS: Registry = Registry(
    "readout",
    mean=lambda channels, points, references: MeanAggregation(),
    pma=PMA,
    pma_near_origin=PMA,
    gswe_linear=partial(_gswe, "linear"),
    gswe_barycentric=partial(_gswe, "barycentric"),
    repset=lambda channels, points, references: RepSet(channels, references, points),
    approx_repset=lambda channels, points, references: ApproxRepSet(
        channels, references, points
    ),
)

#: Slicers of GSWE behind a network, and the parts of the data to evaluate on.
SLICERS = ("identity", "linear", "mlp")
PARTS = ("test", "validation")

#: Those that also take ``slicer``.
GSWE_READOUTS = frozenset({"gswe_linear", "gswe_barycentric"})

#: Readouts that know neither points nor references: one run stands for all sizes.
SIZELESS_READOUTS = frozenset({"mean"})

#: The parameters of a readout that shift embeddings of all sets alike, for readouts in
#: which the setting ``start`` says where they begin.
CONSTANTS: dict[str, Callable[[Any], list[Parameter]]] = {
    "pma_near_origin": _seeds_and_biases,
    "gswe_linear": _reference,
    "gswe_barycentric": _reference,
}


@torch.no_grad()
def scale_constants(name: str, readout: Aggregation, start: float) -> None:
    """Moves the constants of a readout towards the origin, if it has any: GSWE's
    reference gets the deviation ``start``, those of PMA are scaled by it.

    SimCLR compares embeddings by inner products, on which a constant far from the
    origin weighs more than the set does; at the paper's learning rate it would stay
    there.
    """
    if name in CONSTANTS:
        factor = start / REFERENCE_STD if name in GSWE_READOUTS else start
        for parameter in CONSTANTS[name](readout):
            parameter.mul_(factor)


#: Called as ``build(in_channels)``; the result has ``out_channels``.
BACKBONES: Registry = Registry(
    "backbone",
    mlp_64_64_1=lambda channels: MLP(channels, [64, 64], 1),
    sab_256x3_16=lambda channels: SharedSAB(channels, 256, 16, heads=4, num_layers=3),
    sab_128_128_16=lambda channels: StackedSAB(channels, (128, 128, 16), (4, 4, 1)),
)

#: Called as ``load(root)``; gives the training and the test sets.
DATASETS: Registry = Registry(
    "dataset",
    set_circles=set_data.set_circles,
    # The most noise, in tenths, at which the mean norm, "an ideal feature" in the
    # paper's words, still tells the classes apart without error.
    set_circles_noisy=partial(set_data.set_circles, noise=0.5),
    point_cloud_mnist=set_data.point_cloud_mnist,
)

#: Called as ``load(root)``; gives a ``SetDataset`` of labelled sets with weights.
LABELLED_DATASETS: Registry = Registry(
    "labelled set",
    **{name: partial(set_data.word_sets, name=name) for name in WordSets.names},
)

#: Called as ``loss(z, z_bar, run)``.
LOSSES: Registry = Registry(
    "loss",
    simclr=lambda z, z_bar, run: simclr_loss(z, z_bar, run.temperature),
    simsiam=lambda z, z_bar, run: simsiam_loss(z, z_bar, run.p),
)

#: Called as ``augment(x, index, num_sets, generator)`` on a whole batch of sets.
AUGMENTATIONS: Registry = Registry(
    "augmentation",
    rotation=augmentations.rotate_sets,
    jitter=augmentations.jitter_elements,
)

#: Called as ``load(root, run)``; gives a ``GraphTask``.
GRAPH_DATASETS: Registry = Registry("graph dataset", **graph_data.DATASETS)

#: Called as ``build(channels, points, max_nodes)``.
GRAPH_READOUTS: Registry = Registry("graph readout", **graph_readouts.READOUTS)

#: The modules under ``benchmarks/experiments`` that define what a run is.
EXPERIMENTS: Registry = Registry(
    "experiment",
    self_supervised="benchmarks.experiments.self_supervised",
    supervised="benchmarks.experiments.supervised",
    graphs="benchmarks.experiments.graphs",
)
