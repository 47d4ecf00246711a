"""What a kernel is told: one pointer to a struct of numbers and addresses.

Not arrays as arguments: numba counts references to an array in each function that it
passes through, also where that function is inlined, and took several times as long for
it as for sorting. An array that is made from an address has nothing to be counted.
"""

import ctypes
import threading
from typing import NamedTuple

import numpy as np
from numba import carray

from gswe_pyg.ops.numba.compiling import inlined
from gswe_pyg.ops.numba.simd import LANES, fetch_and_add_one, pointer_to
from gswe_pyg.ops.plan import Terms

_FIELDS = (
    # The batch: values [N, L] in single precision, boundaries, and rows in the terms.
    "src",
    "num_slices",
    "ptr",
    "num_sets",
    "rows",
    # The terms of `plan.Terms`.
    "first",
    "position",
    "weight",
    "first_used",
    "used",
    "num_reads",
    "in_double",
    # Points [B, L, R], or those of heads [B, H, L], or their gradients; the order.
    "out",
    "order",
    # Heads: their weights [H, R, L], and the points [B, R, L] if they are to be kept.
    "num_heads",
    "head_weight",
    "points",
    # Gradients of the values [N, L], and of the weights [num_chunks, H, R, L].
    "grad_src",
    "grad_head_weight",
    # Masses [N] and their gradients, in double precision; what is read, see `windows`.
    "mass",
    "grad_mass",
    "code",
    "num_inner",
    "numerator",
    "denominator",
    # Sets of more elements are left out; so many rows of keys or values have room.
    "largest",
    "num_rows",
    "scratch",
    "scratch_bytes",
    # Items of work: chunks of sets times cuts of slices; and two counters.
    "num_chunks",
    "num_cuts",
    "next_item",
    "next_thread",
    # Of a set that numpy sorts, these slices: keys [width, size].
    "graph",
    "first_slice",
    "width",
    "keys",
)

JOB = np.dtype([(name, np.int64) for name in _FIELDS])
_NEXT_ITEM, _NEXT_THREAD = (_FIELDS.index(f"next_{x}") for x in ("item", "thread"))


class Job(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in _FIELDS]


class Part(NamedTuple):
    """Some of the graphs, and some of the slices."""

    first_graph: int
    last_graph: int
    first_slice: int
    last_slice: int


# In kernels ###########################################################################

# Behind those of a set with masses, for what is looked at in groups.
SPARE_ROWS = 4

_ANY = 1 << 40  # the length of an array is not known, and not looked at


def _array_of(dtype):
    @inlined
    def array_at(address):
        return carray(pointer_to(address), _ANY, dtype)

    return array_at


bits_at, floats_at = _array_of(np.int32), _array_of(np.float32)
longs_at, doubles_at, pairs_at = map(_array_of, (np.int64, np.float64, np.uint64))


@inlined
def terms_of(job):
    return Terms(
        longs_at(job.first),
        bits_at(job.position),
        doubles_at(job.weight),
        longs_at(job.first_used),
        bits_at(job.used),
    )


@inlined
def own_scratch(pointer, job):
    """Memory of this thread."""
    numbers = carray(pointer, len(_FIELDS), np.int64)
    thread = fetch_and_add_one(numbers, _NEXT_THREAD)
    return job.scratch + thread * job.scratch_bytes


@inlined
def next_item(pointer):
    """Work that no other thread has taken."""
    return fetch_and_add_one(carray(pointer, len(_FIELDS), np.int64), _NEXT_ITEM)


@inlined
def part_of(item, num_sets, num_chunks, num_slices, num_cuts):
    """The last part has a block's width, too, if there are as many slices."""
    chunk, cut = item // num_cuts, item % num_cuts
    num_blocks = (num_slices + LANES - 1) // LANES
    return Part(
        chunk * num_sets // num_chunks,
        (chunk + 1) * num_sets // num_chunks,
        cut * num_blocks // num_cuts * LANES,
        min(num_slices, (cut + 1) * num_blocks // num_cuts * LANES),
    )


# Before ###############################################################################

# Kept for the next call: fresh pages take longer than small batches.
_KEPT_BYTES = 1 << 22
_kept = threading.local()


def give_scratch(job: Job, num_rows: int, num_threads: int) -> ctypes.Array:
    """Room for rows of keys and of used values, and for two rows of each read; twice as
    many rows if there are masses. It lives as long as what is returned."""
    num_bytes = LANES * (12 * num_rows + 16 * job.num_reads + 64)
    if job.mass != 0:
        num_rows += SPARE_ROWS
        num_bytes += LANES * (14 * num_rows + 12 * SPARE_ROWS)
    job.num_rows, job.scratch_bytes = num_rows, num_bytes
    total = num_threads * num_bytes + 64
    found = getattr(_kept, "scratch", None)
    if found is None or len(found) < total:
        found = ctypes.create_string_buffer(total)
        if total <= _KEPT_BYTES:
            _kept.scratch = found
    job.scratch = -(-ctypes.addressof(found) // 64) * 64
    return found
