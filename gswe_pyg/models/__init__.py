"""Set backbones and baseline readouts, all on scatter-indexed batches."""

from gswe_pyg.models.mlp import MLP
from gswe_pyg.models.pma import PMA
from gswe_pyg.models.sab import SAB, SharedSAB, StackedSAB
from gswe_pyg.models.set_model import SetModel

__all__ = ["MLP", "PMA", "SAB", "SetModel", "SharedSAB", "StackedSAB"]
