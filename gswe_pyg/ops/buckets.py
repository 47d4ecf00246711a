"""Ragged sets in parts that fit into memory, and as dense batches of similar sizes.

Padding takes time, and so does every batch: sets are taken in the order of their sizes,
and a batch ends where its padding takes longer than another batch would.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

# Bytes of all that is held for a part at once.
_BUDGET = 1 << 28

# Sorting so many padded elements takes about as long as one batch more.
_WORTH_A_BATCH = 1 << 15


class Bucket:
    """Sets of similar size, padded to ``width`` elements, and some of their slices."""

    def __init__(
        self, sets: np.ndarray, slices: slice, width: int, ptr: np.ndarray, like: Tensor
    ) -> None:
        self.slices = slices
        self.shape = len(sets), width
        self._device, self._num_rows = like.device, len(like)
        self._sets, self._end = sets, ptr[sets + 1][:, None]
        self._rows = ptr[sets][:, None] + np.arange(width)

    @cached_property
    def sets(self) -> Tensor:
        """``[b]``."""
        return self._tensor(self._sets)

    @cached_property
    def mask(self) -> Tensor:
        """Where there is an element, ``[b, P]``."""
        return self._tensor(self._rows < self._end)

    @cached_property
    def index(self) -> Tensor:
        """Rows of the input, ``[b * P]``; where padded, the last one of the set."""
        return self._tensor(np.minimum(self._rows, self._end - 1).reshape(-1))

    @cached_property
    def target(self) -> Tensor:
        """Rows of the input, ``[b * P]``; where padded, one behind it."""
        rows = np.where(self._rows < self._end, self._rows, self._num_rows)
        return self._tensor(rows.reshape(-1))

    def dense(self, values: Tensor, index: Tensor) -> Tensor:
        """These rows of ``[N, L]`` as ``[b, l, P]``."""
        rows = values[:, self.slices].index_select(0, index)
        return rows.view(*self.shape, -1).mT.contiguous()

    def write_rows(self, dense: Tensor, out: Tensor) -> None:
        """Writes ``[b, l, P]`` to the rows of ``[N + 1, L]``."""
        rows = dense.mT.flatten(0, 1)
        out[:, self.slices].index_copy_(0, self.target, rows)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def make_buckets(
    ptr: np.ndarray, like: Tensor, bytes_of_a_slice: Callable[[int], int]
) -> Iterator[Bucket]:
    """All sets that have elements.

    Args:
        ptr (numpy.ndarray): The boundaries.
        like (torch.Tensor): The rows between them, ``[N, L]``.
        bytes_of_a_slice (callable): What a slice of a set takes, given its padded size.
    """
    for sets, width in _groups(np.diff(ptr), like.shape[1]):
        num_bytes = np.full(len(sets), bytes_of_a_slice(width))
        for part, slices in cut(num_bytes, like.shape[1]):
            yield Bucket(sets[part], slices, width, ptr, like)


def cut(num_bytes: np.ndarray, num_slices: int) -> Iterator[tuple[slice, slice]]:
    """Consecutive sets and slices that are within the budget, of sets of which a slice
    takes so many bytes."""
    total, first = np.cumsum(num_bytes) * max(1, num_slices), 0
    while first < len(total):
        before = total[first - 1] if first > 0 else 0
        last = int(np.searchsorted(total, before + _BUDGET, side="right"))
        step = num_slices
        if last <= first:  # one alone exceeds it
            last, step = first + 1, max(1, _BUDGET // int(num_bytes[first]))
        for start in range(0, num_slices, max(1, step)):
            yield slice(first, last), slice(start, min(start + step, num_slices))
        first = last


def _groups(sizes: np.ndarray, num_slices: int) -> Iterator[tuple[np.ndarray, int]]:
    """Sets, and the largest size among them, which is at most twice the smallest."""
    sets = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    distinct, counts = np.unique(sizes[sets], return_counts=True)
    first = last = width = padding = 0
    for size, count in zip(distinct[::-1].tolist(), counts[::-1].tolist(), strict=True):
        padding += (width - size) * count * num_slices
        if width == 0 or padding > _WORTH_A_BATCH or 2 * size < width:
            if width > 0:
                yield sets[first:last], width
            first, width, padding = last, size, 0
        last += count
    if width > 0:
        yield sets[first:last], width
