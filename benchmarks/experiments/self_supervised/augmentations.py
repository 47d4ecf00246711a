"""Augmentations of a whole batch of sets at once.

The transforms in ``gswe_pyg.transforms`` treat one graph at a time, which is what a
``DataLoader`` wants. Here a batch of small sets is augmented a thousand times a
second, so the sets of the batch are treated in one go.
"""

import math

import torch
from torch import Tensor

#: Of `bend_and_jitter`: the widest angle, stretch and shear, and the shift, in noise.
ANGLE, STRETCH, SHIFT = 0.3, 0.2, 1.0


def _turn(x: Tensor, angle: Tensor) -> Tensor:
    cos, sin = angle.cos(), angle.sin()
    return torch.stack(
        [cos * x[:, 0] - sin * x[:, 1], sin * x[:, 0] + cos * x[:, 1]], dim=1
    )


def rotate_sets(
    x: Tensor, index: Tensor, num_sets: int, generator: torch.Generator, noise: float
) -> Tensor:
    """Turns each set in the plane about the origin, by an angle of its own."""
    angle = 2 * math.pi * torch.rand(num_sets, generator=generator)
    return _turn(x, angle[index])


def jitter_elements(
    x: Tensor, index: Tensor, num_sets: int, generator: torch.Generator, noise: float
) -> Tensor:
    """Moves each element by Gaussian noise of zero mean and that deviation."""
    return x + noise * torch.randn(x.shape, dtype=x.dtype, generator=generator)


def bend_and_jitter(
    x: Tensor, index: Tensor, num_sets: int, generator: torch.Generator, noise: float
) -> Tensor:
    """Turns, stretches, shears and shifts each set a little, then moves its elements:
    what the same hand might have written. Not in the paper."""

    def draw(*shape: int) -> Tensor:
        return 2 * torch.rand(num_sets, *shape, generator=generator) - 1

    centre = x.mean(dim=0)
    bend = torch.eye(2) + STRETCH * draw(2, 2)
    shift = centre + SHIFT * noise * draw(2)
    bent = torch.einsum("nij,nj->ni", bend[index], x - centre)
    moved = _turn(bent, (ANGLE * draw())[index]) + shift[index]
    return jitter_elements(moved, index, num_sets, generator, noise)
