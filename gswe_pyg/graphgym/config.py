from typing import Any

from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.register import register_config
from yacs.config import CfgNode

from gswe_pyg._checks import one_of, positive_int
from gswe_pyg.aggr.gswe import REFERENCES
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.slicers import SLICERS

CHOICES = {
    "slicer": SLICERS,
    "interpolation": INTERPOLATIONS,
    "reference": ("auto", *REFERENCES),
}


def add_gswe_config(cfg: CfgNode) -> None:
    r"""Adds the group :obj:`gswe` with its defaults: the options of
    :class:`~gswe_pyg.GSWEAggregation` for the head :obj:`gswe`.
    """
    cfg.gswe = CfgNode()

    # Number of learned combinations of the points of each slice; None for the points
    # themselves.
    cfg.gswe.heads = 1

    # Whether minimum and maximum of each slice are read, too.
    cfg.gswe.extremes = False

    # Number of slices; as many as gnn.dim_inner by default.
    cfg.gswe.slices = None

    # Number of points at which a slice is read.
    cfg.gswe.points = 8

    # Number of reference sets.
    cfg.gswe.references = 1

    # Slicer: linear, mlp, polynomial, identity
    cfg.gswe.slicer = None

    # Interpolation: linear, step, barycentric, pswe
    cfg.gswe.interpolation = None

    # Space of the reference sets: input, slice; None for no reference
    cfg.gswe.reference = "auto"

    # Width that the embedding is projected to; not projected by default.
    cfg.gswe.out_channels = None

    # Whether the size of the graph is appended.
    cfg.gswe.encode_size = False


def aggregation_options(cfg: CfgNode, in_channels: int) -> dict[str, Any]:
    """The arguments of the aggregation; errors are in terms of the config."""
    group, where = cfg.gswe, "in the config"
    for key in ("points", "references", "slices", "heads", "out_channels"):
        if group[key] is not None or key in ("points", "references"):
            positive_int(f"gswe.{key}", group[key], where)
    for key, allowed in CHOICES.items():
        if group[key] is not None:
            one_of(f"gswe.{key}", group[key], allowed, where)
    if group.slicer == "identity" and group.slices not in (None, in_channels):
        raise ValueError(
            f"'gswe.slicer: identity' needs 'gswe.slices' equal to 'gnn.dim_inner' "
            f"(got {group.slices} and {in_channels} in the config): leave "
            f"'gswe.slices' out"
        )
    if group.heads is not None and group.heads > group.points:
        raise ValueError(
            f"'gswe.heads' must not exceed 'gswe.points' (got {group.heads} and "
            f"{group.points} in the config)"
        )
    has_one = group.heads is not None or group.reference is None
    if has_one and group.references > 1:
        raise ValueError(
            f"'gswe.references' must be 1 with 'gswe.heads' or without "
            f"'gswe.reference' (got {group.references} in the config): set "
            f"'gswe.heads: null' for the embedding with references"
        )
    return {
        "in_channels": in_channels,
        "num_slices": group.slices,
        "num_points": group.points,
        "num_references": group.references,
        "slicer": group.slicer,
        "interpolation": group.interpolation,
        "reference": group.reference,
        "out_channels": group.out_channels,
        "encode_size": group.encode_size,
        "heads": group.heads,
        "extremes": group.extremes,
    }


register_config("gswe", add_gswe_config)
if "gswe" not in cfg:
    add_gswe_config(cfg)  # GraphGym has set its defaults before we were imported
