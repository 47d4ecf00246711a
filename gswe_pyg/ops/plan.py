"""What is read from the sorted values of a set, and how it is computed.

Everything here is *sort, then a linear map*: given the size of a set, each point that
is read is a sum over a few sorted values. A :class:`Plan` holds these sums for all
sizes of a batch. All backends work from it, forward and backward.

The *order* ``[N, L]`` says, for each column of each set, at which place of the set its
sorted values stood: row ``i`` of a set is that of its ``i``-th smallest value. The
``numba`` backend writes only the values that some sum uses, in their first rows.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np

from gswe_pyg.ops.interpolation import neighbours, neighbours_at, overlaps

# Sizes up to this one have their terms in tables, which serve all batches.
_TABLE_ROWS, _TABLE_ENTRIES = 256, 1 << 16

# Terms are kept up to so many bytes, the least recently used are dropped first.
_KEPT_BYTES = 1 << 25


class Reads(NamedTuple):
    """What is read from each set: the points of a grid or given levels, and the
    extremes behind them if wanted."""

    num_points: int  # of the grid; zero if there are levels
    interpolation: str
    extremes: bool = False
    levels: tuple[float, ...] = ()

    @property
    def num_inner(self) -> int:
        """How many are no extremes."""
        return len(self.levels) or self.num_points

    @property
    def num_reads(self) -> int:
        return self.num_inner + 2 * self.extremes

    @property
    def in_double(self) -> bool:
        """Whether many values are added up."""
        return self.interpolation == "barycentric"

    def max_terms(self, size: int) -> int:
        """At most so many terms has a set of this size."""
        inner = size + self.num_inner if self.in_double else 2 * self.num_inner
        return inner + 2 * self.extremes


class _Arrays(NamedTuple):
    first: np.ndarray
    position: np.ndarray
    weight: np.ndarray
    first_used: np.ndarray
    used: np.ndarray


class Terms(_Arrays):
    """Points as sums over sorted values, for sets of some sizes, a row for each size.

    Of the sorted values, ``used[first_used[row]:first_used[row + 1]]`` occur in a sum.
    Point ``m`` is the sum over ``first[row * num_reads + m]`` to the next of ``weight``
    times the used value number ``position``.
    """

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Of the arrays, for compiled code: asking numpy takes its time."""
        return tuple(array.ctypes.data for array in self)


def check_ptr(num_elements: int, bounds: np.ndarray) -> None:
    is_sorted = not (bounds[1:] < bounds[:-1]).any()
    if bounds[0] != 0 or bounds[-1] != num_elements or not is_sorted:
        raise ValueError(
            f"'ptr' must increase from 0 to the number of elements, {num_elements} "
            f"(got {bounds[0]} to {bounds[-1]}, {'' if is_sorted else 'not '}sorted)"
        )


class Plan:
    """The sizes of a batch, and the terms of each set in row ``rows`` of ``terms``."""

    def __init__(self, ptr: np.ndarray, reads: Reads) -> None:
        self.ptr = ptr
        self.reads = reads
        self.num_sets = len(ptr) - 1
        self.num_elements = int(ptr[-1])
        self.sizes = ptr[1:] - ptr[:-1]
        self.largest = int(self.sizes.max(initial=0))
        self.rows, self.terms = _rows_and_terms(self.sizes, self.largest, reads)


def make_terms(sizes: np.ndarray, reads: Reads) -> Terms:
    """The terms of sets of these sizes, all positive."""
    terms = _inner_terms(sizes, reads)
    if reads.extremes:
        terms = _with_extremes(sizes, reads, *terms)
    row, rank, point, weight = terms
    first = _starts(row * reads.num_reads + point, len(sizes) * reads.num_reads)
    starts = np.cumsum(sizes) - sizes
    used, position = _distinct(starts[row] + rank, int(sizes.sum()))
    used_row = np.searchsorted(starts, used, side="right") - 1
    first_used = _starts(used_row, len(sizes))
    return Terms(
        first,
        (position - first_used[row]).astype(np.int32),
        weight,
        first_used,
        (used - starts[used_row]).astype(np.int32),
    )


def _with_extremes(
    sizes: np.ndarray,
    reads: Reads,
    row: np.ndarray,
    rank: np.ndarray,
    point: np.ndarray,
    weight: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Adds the terms of minimum and maximum, behind the others of their row."""
    inner = np.arange(len(row)) + 2 * row
    ends = np.cumsum(np.bincount(row, minlength=len(sizes)))
    low = ends + 2 * np.arange(len(sizes))

    def merge(own: np.ndarray, of_low: object, of_high: object) -> np.ndarray:
        merged = np.empty(len(own) + 2 * len(sizes), own.dtype)
        merged[inner], merged[low], merged[low + 1] = own, of_low, of_high
        return merged

    rows, num_inner = np.arange(len(sizes)), reads.num_inner
    return (
        merge(row, rows, rows),
        merge(rank, 0, sizes - 1),
        merge(point, num_inner, num_inner + 1),
        merge(weight, 1.0, 1.0),
    )


def _distinct(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Those that occur among ``size`` numbers, and which of them each one is."""
    if size > 16 * len(values):
        return np.unique(values, return_inverse=True)
    occurs = np.zeros(size, bool)
    occurs[values] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]


def _inner_terms(sizes: np.ndarray, reads: Reads) -> tuple[np.ndarray, ...]:
    """Row, rank, point and weight of each term, ordered by row and point."""
    if reads.in_double:
        return overlaps(sizes, reads.num_points)
    if reads.levels:
        near = neighbours_at(sizes, reads.levels, reads.interpolation)
    else:
        near = neighbours(sizes, reads.num_points, reads.interpolation)
    rank = np.stack([near.lower, near.upper], axis=-1).reshape(-1)
    weight = np.stack([near.lower_weight, near.upper_weight], axis=-1).reshape(-1)
    row, point = np.indices(near.lower.shape).repeat(2, axis=-1).reshape(2, -1)
    present = weight != 0  # zero times infinity is nothing
    return row[present], rank[present], point[present], weight[present]


def _starts(sorted_index: np.ndarray, size: int) -> np.ndarray:
    counts = np.bincount(sorted_index, minlength=size)
    return np.concatenate([[0], np.cumsum(counts)])


class _Kept:
    """Terms by key, up to a number of bytes: for the backward pass and later steps,
    which want what an earlier one has made."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple, Terms] = OrderedDict()
        self._lock = Lock()
        self.num_bytes = 0

    def get(self, key: tuple) -> Terms | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def add(self, key: tuple, terms: Terms) -> None:
        num_bytes = _num_bytes(terms)
        with self._lock:
            if key in self._entries or num_bytes > _KEPT_BYTES // 2:
                return
            self._entries[key] = terms
            self.num_bytes += num_bytes
            while self.num_bytes > _KEPT_BYTES:
                _, dropped = self._entries.popitem(last=False)
                self.num_bytes -= _num_bytes(dropped)


_kept = _Kept()


def _forget() -> None:
    global _kept
    _kept = _Kept()


# The lock may be held by a thread that does not survive a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _num_bytes(terms: Terms) -> int:
    return 256 + sum(array.nbytes for array in terms)


def _rows_and_terms(
    sizes: np.ndarray, largest: int, reads: Reads
) -> tuple[np.ndarray, Terms]:
    """The terms of the sizes that occur, and the row of each set in them."""
    num_rows = 1 << max(0, largest - 1).bit_length()
    if num_rows <= _TABLE_ROWS and num_rows * reads.num_reads <= _TABLE_ENTRIES:
        found = _kept.get(("up to", num_rows, reads))
        if found is None:
            found = make_terms(np.arange(1, num_rows + 1), reads)
            _kept.add(("up to", num_rows, reads), found)
        return sizes - 1, found
    distinct, rows = np.unique(np.maximum(sizes, 1), return_inverse=True)
    # One by one: shuffled batches have other sizes together each time.
    kept = {size: _kept.get(("of", size, reads)) for size in distinct.tolist()}
    missing = [size for size, terms in kept.items() if terms is None]
    made: dict[int, Terms] = {}
    if missing:
        whole = make_terms(np.array(missing), reads)
        made = dict(zip(missing, _split(whole, reads.num_reads), strict=True))
        for size, terms in made.items():
            _kept.add(("of", size, reads), terms)
        if len(missing) == len(distinct):
            return rows, whole
    return rows, _joined([terms or made[size] for size, terms in kept.items()])


def _split(terms: Terms, num_reads: int) -> Iterator[Terms]:
    """The rows, each by itself and in memory of its own."""
    for row, (low_used, high_used) in enumerate(pairwise(terms.first_used)):
        first = terms.first[row * num_reads : (row + 1) * num_reads + 1]
        own = slice(first[0], first[-1])
        yield Terms(
            first - first[0],
            terms.position[own].copy(),
            terms.weight[own].copy(),
            np.array([0, high_used - low_used]),
            terms.used[low_used:high_used].copy(),
        )


def _joined(rows: list[Terms]) -> Terms:
    """The reverse."""
    starts = np.cumsum([0, *(len(row.weight) for row in rows)])
    firsts = [row.first[:-1] + start for row, start in zip(rows, starts, strict=False)]
    return Terms(
        np.concatenate([*firsts, starts[-1:]]),
        np.concatenate([row.position for row in rows]),
        np.concatenate([row.weight for row in rows]),
        np.cumsum([0, *(len(row.used) for row in rows)]),
        np.concatenate([row.used for row in rows]),
    )
