"""Generalized Sliced-Wasserstein Embedding: a readout for PyTorch Geometric."""

from gswe_pyg.aggr import GSWEAggregation
from gswe_pyg.distance import gsw_distance, max_gsw_distance
from gswe_pyg.losses import simclr_loss, simsiam_loss
from gswe_pyg.resolver import register

__version__ = "0.2.0"

__all__ = [
    "GSWEAggregation",
    "__version__",
    "gsw_distance",
    "max_gsw_distance",
    "register",
    "simclr_loss",
    "simsiam_loss",
]
