"""A batch as the kernels see it, and how its work is shared by threads."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.numba.job import Job
from gswe_pyg.ops.numba.simd import PLACE_BITS
from gswe_pyg.ops.plan import Plan, Reads, Terms, check_ptr

# Up to about here, a network is no slower than a sort that needs fewer comparisons. A
# multiple of eight, as the rows of its keys are.
NETWORK_NODES = 4096

# What a key has room for.
MAX_NODES = 1 << PLACE_BITS

# Fewer elements than this are not worth a second thread.
WORTH_THREADS = 1 << 16

# Chunks of the sets of a batch, at most: as many with any number of threads, so that
# sums over chunks have the same bits.
NUM_CHUNKS = 16

# A batch of more sets or elements takes so long that planning does not matter, and its
# plan would take memory for long.
_REMEMBERED_SETS = 4096
_REMEMBERED_ELEMENTS = 1 << 18

# Elements of a block of a large graph that are sorted in one call.
BLOCK = 1 << 16


class Prepared(NamedTuple):
    """A plan, and a job that has all numbers of it."""

    plan: Plan
    job: Job


def prepare(ptr: Tensor, reads: Reads) -> Prepared:
    """The plan of the last batches is remembered, for the backward pass and for the
    next layer."""
    bounds = ptr.numpy()
    if len(bounds) <= _REMEMBERED_SETS and bounds[-1] <= _REMEMBERED_ELEMENTS:
        return _remembered(bounds.tobytes(), reads)
    return _prepare(np.ascontiguousarray(bounds), reads)


@lru_cache(maxsize=8)
def _remembered(ptr: bytes, reads: Reads) -> Prepared:
    return _prepare(np.frombuffer(ptr, np.int64), reads)


def _prepare(ptr: np.ndarray, reads: Reads) -> Prepared:
    check_ptr(int(ptr[-1]), ptr)
    plan = Plan(ptr, reads)
    job = Job(
        ptr=ptr.ctypes.data,
        num_sets=plan.num_sets,
        rows=plan.rows.ctypes.data,
        **dict(zip(Terms._fields, plan.terms.addresses, strict=True)),
        num_reads=reads.num_reads,
        in_double=reads.in_double,
        largest=NETWORK_NODES,
        num_chunks=min(plan.num_sets, NUM_CHUNKS),
    )
    return Prepared(plan, job)


def num_threads_for(num_elements: int) -> int:
    return torch.get_num_threads() if num_elements >= WORTH_THREADS else 1


def check_room(largest: int) -> None:
    if largest > MAX_NODES:
        raise ValueError(
            f"With gradients or weights, the 'numba' backend takes graphs of at most "
            f"{MAX_NODES} elements (got {largest}): use the 'torch' backend"
        )
