from typing import Any

from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.register import register_config
from yacs.config import CfgNode

from gswe_pyg.aggr.gswe import REFERENCES
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.slicers import SLICERS

CHOICES = {
    "slicer": SLICERS,
    "interpolation": INTERPOLATIONS,
    "reference": REFERENCES,
}


def add_gswe_config(cfg: CfgNode) -> None:
    r"""Adds the group :obj:`gswe` with its defaults: the options of
    :class:`~gswe_pyg.GSWEAggregation` for the head :obj:`gswe`.
    """
    cfg.gswe = CfgNode()

    # Number of slices; as many as gnn.dim_inner by default.
    cfg.gswe.slices = None

    # Number of points of a reference set.
    cfg.gswe.points = 8

    # Number of reference sets.
    cfg.gswe.references = 1

    # Slicer: linear, mlp, polynomial, identity
    cfg.gswe.slicer = "linear"

    # Interpolation: linear, step, barycentric, pswe
    cfg.gswe.interpolation = "linear"

    # Space of the reference sets: input, slice
    cfg.gswe.reference = "input"

    # Width that the embedding is projected to; not projected by default.
    cfg.gswe.out_channels = None

    # Whether the size of the graph is appended.
    cfg.gswe.encode_size = False


def aggregation_options(cfg: CfgNode, in_channels: int) -> dict[str, Any]:
    """The arguments of the aggregation; errors are in terms of the config."""
    group = cfg.gswe
    slices = in_channels if group.slices is None else group.slices
    counts = {
        "slices": slices,
        "points": group.points,
        "references": group.references,
    }
    if group.out_channels is not None:
        counts["out_channels"] = group.out_channels
    for key, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"'gswe.{key}' must be a positive integer (got {value!r} in the config)"
            )
    for key, allowed in CHOICES.items():
        if group[key] not in allowed:
            raise ValueError(
                f"'gswe.{key}' must be one of {list(allowed)} (got {group[key]!r} in "
                f"the config)"
            )
    if group.slicer == "identity" and slices != in_channels:
        raise ValueError(
            f"'gswe.slicer: identity' needs 'gswe.slices' equal to 'gnn.dim_inner' "
            f"(got {slices} and {in_channels} in the config): leave 'gswe.slices' out"
        )
    return {
        "in_channels": in_channels,
        "num_slices": slices,
        "num_points": group.points,
        "num_references": group.references,
        "slicer": group.slicer,
        "interpolation": group.interpolation,
        "reference": group.reference,
        "out_channels": group.out_channels,
        "encode_size": group.encode_size,
    }


register_config("gswe", add_gswe_config)
if "gswe" not in cfg:
    add_gswe_config(cfg)  # GraphGym has set its defaults before we were imported
