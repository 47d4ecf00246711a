"""Set backbones, baseline readouts and graph networks, on scatter-indexed batches."""

from gswe_pyg.aggr import PMA, ApproxRepSet, RepSet
from gswe_pyg.models.category_encoder import CategoryEncoder
from gswe_pyg.models.gine import GINE
from gswe_pyg.models.gnn_with_readout import GNNWithReadout
from gswe_pyg.models.mlp import MLP
from gswe_pyg.models.readout_channels import readout_channels
from gswe_pyg.models.sab import SAB, SharedSAB, StackedSAB
from gswe_pyg.models.set_model import SetModel

__all__ = [
    "GINE",
    "MLP",
    "PMA",
    "SAB",
    "ApproxRepSet",
    "CategoryEncoder",
    "GNNWithReadout",
    "RepSet",
    "SetModel",
    "SharedSAB",
    "StackedSAB",
    "readout_channels",
]
