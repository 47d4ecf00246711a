"""Set backbones and baseline readouts, all on scatter-indexed batches."""

from gswe_pyg.models.mlp import MLP
from gswe_pyg.models.pma import PMA
from gswe_pyg.models.repset import ApproxRepSet, RepSet
from gswe_pyg.models.sab import SAB, SharedSAB, StackedSAB
from gswe_pyg.models.set_model import SetModel

__all__ = [
    "MLP",
    "PMA",
    "SAB",
    "ApproxRepSet",
    "RepSet",
    "SetModel",
    "SharedSAB",
    "StackedSAB",
]
