"""The paper's augmentations on a whole batch of sets at once.

The transforms in ``gswe_pyg.transforms`` treat one graph at a time, which is what a
``DataLoader`` wants. Here a batch of small sets is augmented a thousand times a
second, so the sets of the batch are treated in one go.
"""

import math

import torch
from torch import Tensor


def rotate_sets(
    x: Tensor, index: Tensor, num_sets: int, generator: torch.Generator
) -> Tensor:
    """Turns each set in the plane about the origin, by an angle of its own."""
    angle = 2 * math.pi * torch.rand(num_sets, generator=generator)
    cos, sin = angle.cos()[index], angle.sin()[index]
    return torch.stack(
        [cos * x[:, 0] - sin * x[:, 1], sin * x[:, 0] + cos * x[:, 1]], dim=1
    )


def jitter_elements(
    x: Tensor, index: Tensor, num_sets: int, generator: torch.Generator
) -> Tensor:
    """Moves each element by Gaussian noise of zero mean and unit variance."""
    return x + torch.randn(x.shape, dtype=x.dtype, generator=generator)
