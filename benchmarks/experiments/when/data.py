"""Labelled sets in which one thing tells the two classes apart.

An element has two features, and a set has between 10 and 60 elements. The first feature
of class 1 differs from that of class 0 in what the task is named after, and in nothing
else that mean, spread or number would show; the second one is noise. Sets are turned by
an angle that is the same for all sets of a data set.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch_geometric.utils import cumsum

SMALLEST, LARGEST = 10, 60


class Elements(NamedTuple):
    """The sets of a task before they are labelled and turned."""

    size: Tensor  # [B]
    label: Tensor  # [B]
    index: Tensor  # [N], the set of each element
    generator: Generator

    def per_set(self, draw: Callable = torch.randn) -> Tensor:
        """A value for each set, handed to each of its elements."""
        return draw(len(self.size), generator=self.generator)[self.index]

    def per_element(self, draw: Callable = torch.randn) -> Tensor:
        return draw(len(self.index), generator=self.generator)

    @property
    def is_one(self) -> Tensor:
        return self.label[self.index] == 1


def _shift(sets: Elements) -> Tensor:
    """Class 1 lies half a deviation higher."""
    return sets.per_element() + 0.5 * sets.is_one


def _spread(sets: Elements) -> Tensor:
    """Class 1 is wider by half; where a set lies says nothing."""
    return sets.per_set() + sets.per_element() * (1 + 0.5 * sets.is_one)


def _tail(sets: Elements) -> Tensor:
    """A fifth of class 1 lies far out, the rest near the centre: equal variance."""
    is_far = sets.per_element(torch.rand) < 0.2
    heavy = sets.per_element() * torch.where(is_far, 1.95, 0.55)
    return sets.per_set() + torch.where(sets.is_one, heavy, sets.per_element())


def _single(sets: Elements) -> Tensor:
    """One element of class 1 lies outside, where no other does."""
    x = sets.per_element().clamp(-2.5, 2.5)
    first = torch.cat([sets.index.new_ones(1), sets.index.diff()]) > 0
    return torch.where(first & sets.is_one, 3.0 + 0.2 * sets.per_element(), x)


def _sum(sets: Elements) -> Tensor:
    """The total of the feature decides, by size and mean alike."""
    x = 1 + 0.5 * sets.per_set() + 0.5 * sets.per_element()
    total = torch.zeros(len(sets.size)).index_add_(0, sets.index, x)
    sets.label.copy_(total > total.median())
    return x


def _shape(sets: Elements) -> Tensor:
    """Two heaps or one, of equal mean and variance; place and scale say nothing."""
    sign = sets.per_element(torch.rand).round() * 2 - 1
    heaps = 0.9 * sign + math.sqrt(1 - 0.9**2) * sets.per_element()
    shape = torch.where(sets.is_one, heaps, sets.per_element())
    return sets.per_set() + shape * (0.5 + sets.per_set(torch.rand))


def _count(sets: Elements) -> Tensor:
    """The number of elements decides."""
    sets.label.copy_(sets.size > (SMALLEST + LARGEST) / 2)
    return sets.per_element()


TASKS = {
    task.__name__[1:]: task
    for task in (_shift, _spread, _tail, _single, _sum, _shape, _count)
}


def make_sets(task: str, num_sets: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Elements ``[N, 2]``, boundaries ``[B + 1]`` and labels ``[B]``."""
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator}
    size = torch.randint(SMALLEST, LARGEST + 1, (num_sets,), **options)
    label = torch.randint(0, 2, (num_sets,), **options)
    index = torch.arange(num_sets).repeat_interleave(size)
    first = TASKS[task](Elements(size, label, index, generator))
    x = torch.stack([first, torch.randn(len(first), **options)], dim=-1)
    angle = 2 * math.pi * torch.rand((), **options)
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()])
    return x @ turn.view(2, 2), cumsum(size), label
