"""The data sets of the experiments on sets."""

from functools import lru_cache
from pathlib import Path

from benchmarks.set_table import SetTable
from gswe_pyg.datasets import PointCloudMNIST, SetCircles, WordSets


@lru_cache(maxsize=1)
def set_circles(root: Path, noise: float = 0.1) -> tuple[SetTable, SetTable]:
    """Generated, so there is nothing to read from ``root``."""
    return (
        SetTable.from_dataset(SetCircles(train=True, noise=noise)),
        SetTable.from_dataset(SetCircles(train=False, noise=noise)),
    )


@lru_cache(maxsize=1)
def point_cloud_mnist(root: Path) -> tuple[SetTable, SetTable]:
    folder = str(root / "MNIST")
    return (
        SetTable.from_dataset(PointCloudMNIST(folder, train=True)),
        SetTable.from_dataset(PointCloudMNIST(folder, train=False)),
    )


@lru_cache(maxsize=1)
def word_sets(root: Path, name: str) -> WordSets:
    """Not as a table, which would hold the vector of a word again and again."""
    return WordSets(root / "text", name)
