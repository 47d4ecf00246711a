"""Augmentations of a whole batch of sets at once.

The transforms in ``gswe_pyg.transforms`` treat one graph at a time, which is what a
``DataLoader`` wants. Here a batch of small sets is augmented a thousand times a
second, so the sets of the batch are treated in one go.
"""

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor

from benchmarks.experiments.set_table import SetTable

#: Of `bend_and_jitter`: the widest angle, stretch and shear, and the shift, in noise.
ANGLE, STRETCH, SHIFT = 0.3, 0.2, 1.0


def _turn(x: Tensor, angle: Tensor) -> Tensor:
    cos, sin = angle.cos(), angle.sin()
    return torch.stack(
        [cos * x[:, 0] - sin * x[:, 1], sin * x[:, 0] + cos * x[:, 1]], dim=1
    )


def rotate_sets(sets: SetTable, generator: Generator, noise: float) -> Tensor:
    """Turns each set in the plane about the origin, by an angle of its own."""
    angle = 2 * math.pi * torch.rand(len(sets), generator=generator)
    return _turn(sets.x, angle[sets.index()])


def jitter_elements(sets: SetTable, generator: Generator, noise: float) -> Tensor:
    """Moves each element by Gaussian noise of zero mean and that deviation."""
    x = sets.x
    return x + noise * torch.randn(x.shape, dtype=x.dtype, generator=generator)


def bend_and_jitter(sets: SetTable, generator: Generator, noise: float) -> Tensor:
    """Turns, stretches, shears and shifts each set a little, then moves its elements:
    what the same hand might have written. Not in the paper."""

    def draw(*shape: int) -> Tensor:
        return 2 * torch.rand(len(sets), *shape, generator=generator) - 1

    index, centre = sets.index(), sets.x.mean(dim=0)
    bend = torch.eye(2) + STRETCH * draw(2, 2)
    shift = centre + SHIFT * noise * draw(2)
    bent = torch.einsum("nij,nj->ni", bend[index], sets.x - centre)
    moved = _turn(bent, (ANGLE * draw())[index]) + shift[index]
    return jitter_elements(replace(sets, x=moved), generator, noise)
