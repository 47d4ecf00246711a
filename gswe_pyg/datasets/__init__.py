r"""Data sets whose graphs are sets, and loaders of graph benchmarks."""

from gswe_pyg.datasets.modelnet10_points import ModelNet10Points
from gswe_pyg.datasets.ogb import load_ogb
from gswe_pyg.datasets.point_cloud_mnist import PointCloudMNIST
from gswe_pyg.datasets.set_circles import SetCircles
from gswe_pyg.datasets.set_dataset import SetDataset
from gswe_pyg.datasets.splits import stratified_folds
from gswe_pyg.datasets.tu import load_tu
from gswe_pyg.datasets.word_sets import WordSets

__all__ = [
    "ModelNet10Points",
    "PointCloudMNIST",
    "SetCircles",
    "SetDataset",
    "WordSets",
    "load_ogb",
    "load_tu",
    "stratified_folds",
]
