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
    """Some sets, padded to ``width`` elements, and some of their slices.

    Args:
        sets (torch.Tensor): The sets, shape :math:`(b)`.
        slices (slice): The slices.
        start (torch.Tensor): The first row of each set, shape :math:`(b)`.
        end (torch.Tensor): The row behind the last one, shape :math:`(b)`.
        width (int): How many elements there is room for.
        num_rows (int): The number of all rows.
    """

    def __init__(
        self,
        sets: Tensor,
        slices: slice,
        start: Tensor,
        end: Tensor,
        width: int,
        num_rows: int,
    ) -> None:
        self.sets, self.slices = sets, slices
        self._rows = start[:, None] + torch.arange(width, device=sets.device)
        self._end, self._num_rows = end[:, None], num_rows

    @cached_property
    def mask(self) -> Tensor:
        """Where there is an element, ``[b, P]``."""
        return self._rows < self._end

    @cached_property
    def index(self) -> Tensor:
        """Rows of the elements, ``[b * P]``; where padded, a row that there is."""
        return self._rows.minimum(self._end - 1).clamp(min=0).flatten()

    @cached_property
    def target(self) -> Tensor:
        """Rows of the elements, ``[b * P]``; where padded, one behind all rows."""
        return self._rows.where(self.mask, self._num_rows).flatten()

    def dense(self, values: Tensor, index: Tensor) -> Tensor:
        """These rows of ``[N, L]`` as ``[b, l, P]``."""
        rows = values[:, self.slices].index_select(0, index)
        return rows.view(*self._rows.shape, -1).mT.contiguous()

    def write_rows(self, dense: Tensor, out: Tensor) -> None:
        """Writes ``[b, l, P]`` to the rows of ``[N + 1, L]``."""
        rows = dense.mT.flatten(0, 1)
        out[:, self.slices].index_copy_(0, self.target, rows)


def make_buckets(
    ptr: Tensor,
    like: Tensor,
    bytes_of_a_slice: Callable[[int], int],
    width: int | None = None,
) -> Iterator[Bucket]:
    """All sets that have elements.

    Args:
        ptr (torch.Tensor): The boundaries.
        like (torch.Tensor): The rows between them, ``[N, L]``.
        bytes_of_a_slice (callable): What a slice of a set takes, given its padded size.
        width (int, optional): The padded size of all sets. Then nothing is read from a
            device, and elements beyond it are left out. (default: :obj:`None`)
    """
    num_rows, num_slices = like.shape
    if width is None:
        groups = _groups(np.diff(ptr.cpu().numpy()), num_slices)
    else:
        groups = iter([(np.arange(len(ptr) - 1), width)])
    ptr = ptr.to(like.device)
    for sets, size in groups:
        num_bytes = np.full(len(sets), bytes_of_a_slice(size))
        for part, slices in cut(num_bytes, num_slices):
            members = torch.as_tensor(sets[part], device=like.device)
            bounds = ptr[members], ptr[members + 1]
            yield Bucket(members, slices, *bounds, size, num_rows)


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
