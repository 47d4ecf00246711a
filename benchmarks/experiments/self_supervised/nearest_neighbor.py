"""1-nearest-neighbour accuracy of frozen embeddings."""

import torch
from torch import Tensor

#: Distances held at once: 64 MiB of them in single precision.
_DISTANCES = 1 << 24


def nearest_neighbors(queries: Tensor, points: Tensor) -> Tensor:
    """The row of ``points`` nearest to each row of ``queries``; the first in a tie.

    Distances come from differences, not from an expanded square: the latter is
    faster and wrong for close points far from the origin.
    """
    chunk = max(1, _DISTANCES // max(1, points.size(0)))
    return torch.cat(
        [
            torch.cdist(
                part, points, compute_mode="donot_use_mm_for_euclid_dist"
            ).argmin(dim=1)
            for part in queries.split(chunk)
        ]
    )


def nearest_neighbor_accuracy(
    queries: Tensor, labels: Tensor, points: Tensor, point_labels: Tensor
) -> float:
    """The share of queries whose nearest point has their label.

    Embeddings that are not finite, as of a diverged model, have no neighbour: a
    query among them counts as wrong, and a point among them is never the nearest.
    """
    usable = points.isfinite().all(dim=1)
    if not usable.any():
        return 0.0
    points, point_labels = points[usable], point_labels[usable]
    found = point_labels[nearest_neighbors(queries.nan_to_num(), points)]
    right = (found == labels) & queries.isfinite().all(dim=1)
    return right.double().mean().item()
