r"""Augmentations of sets, as PyG transforms."""

from gswe_pyg.transforms.drop_elements import DropElements
from gswe_pyg.transforms.gaussian_jitter import GaussianJitter
from gswe_pyg.transforms.random_rotation import RandomRotation
from gswe_pyg.transforms.resample_elements import ResampleElements
from gswe_pyg.transforms.two_views import TwoViews

__all__ = [
    "DropElements",
    "GaussianJitter",
    "RandomRotation",
    "ResampleElements",
    "TwoViews",
]
