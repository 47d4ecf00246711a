"""Graphs that are too large for the network: numpy sorts some slices of one at a time,
between these kernels."""

import numpy as np
from numba import carray

from gswe_pyg.ops.numba.compiling import Kernel, inlined
from gswe_pyg.ops.numba.interpolate import finish, finish_heads
from gswe_pyg.ops.numba.job import (
    JOB,
    Job,
    bits_at,
    floats_at,
    longs_at,
    own_scratch,
    terms_of,
)
from gswe_pyg.ops.numba.simd import LANES
from gswe_pyg.ops.numba.sort import pack_row, unpack_row


@inlined
def pack_slices(pointer, keys_at):
    """The keys of some slices of a graph, ``[width, size]``, to be sorted."""
    job = carray(pointer, 1, JOB)[0]
    start = longs_at(job.ptr)[job.graph]
    size = longs_at(job.ptr)[job.graph + 1] - start
    num_slices, src, keys = job.num_slices, bits_at(job.src), keys_at(job.keys)
    tile = keys_at(job.scratch)
    line = bits_at(job.scratch + 8 * LANES * LANES)
    for block in range(0, job.width, LANES):
        lanes = min(LANES, job.width - block)
        for place in range(0, size, LANES):
            num_rows = min(LANES, size - place)
            for i in range(num_rows):
                at = (start + place + i) * num_slices + job.first_slice + block
                pack_row(src, at, tile, i * LANES, place + i, lanes, line)
            for lane in range(lanes):
                to = (block + lane) * size + place
                for i in range(num_rows):
                    keys[to + i] = tile[i * LANES + lane]


@Kernel
def pack(pointer):
    pack_slices(pointer, bits_at)


@Kernel
def pack_with_places(pointer):
    pack_slices(pointer, longs_at)


def sorted_keys(job: Job, size: int, dtype: type) -> np.ndarray:
    """Of the slices that a job has of a graph, ``[width, size]``."""
    keys = np.empty((job.width, size), dtype)
    tile = np.zeros(LANES * (LANES + 1), np.int64)
    job.keys, job.scratch = keys.ctypes.data, tile.ctypes.data
    (pack if dtype is np.int32 else pack_with_places)(job)
    keys.sort(axis=-1)
    return keys


@inlined
def finish_sorted(pointer, keys_at, finish):
    """From sorted keys ``[width, size]`` of a graph to the output."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, graph = job.num_slices, job.graph
    order, terms = bits_at(job.order), terms_of(job)
    start, row = longs_at(job.ptr)[graph], longs_at(job.rows)[graph]
    size = longs_at(job.ptr)[graph + 1] - start
    scratch = own_scratch(pointer, job)
    keys, gathered = keys_at(job.keys), keys_at(scratch)
    used_at = scratch + 8 * LANES * job.num_rows
    used_bits, values = bits_at(used_at), floats_at(used_at)
    room = used_at + 4 * LANES * job.num_rows
    line = bits_at(room + LANES * (16 * job.num_reads + 32))
    begin, end = terms.first_used[row], terms.first_used[row + 1]
    for block in range(0, job.width, LANES):
        width = min(LANES, job.width - block)
        first = job.first_slice + block
        for i in range(end - begin):
            at = block * size + terms.used[begin + i]
            for lane in range(width):
                gathered[lane] = keys[at + lane * size]
            to = (start + i) * num_slices + first
            unpack_row(gathered, 0, used_bits, i * LANES, order, to, width, line)
        finish(job, terms, row, graph, first, width, values, room)


@Kernel
def quantile_of_sorted(pointer):
    finish_sorted(pointer, bits_at, finish)


@Kernel
def quantile_and_order_of_sorted(pointer):
    finish_sorted(pointer, longs_at, finish)


@Kernel
def heads_of_sorted(pointer):
    finish_sorted(pointer, bits_at, finish_heads)


@Kernel
def heads_and_order_of_sorted(pointer):
    finish_sorted(pointer, longs_at, finish_heads)
