"""The kernels of sets with masses: sort, then means over windows, or their transpose.

The masses are in another order in each slice, so that a window has other elements in
each. A row of elements is nevertheless looked at for all lanes at once: from the first
row that ends in the window in any lane to the last that begins there.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from gswe_pyg.ops.numba.compiling import Kernel, inlined
from gswe_pyg.ops.numba.interpolate import (
    fill_with_zeros,
    read_gradients,
    row_of_zeros,
    scatter,
    write_points,
)
from gswe_pyg.ops.numba.job import (
    JOB,
    bits_at,
    doubles_at,
    floats_at,
    longs_at,
    next_item,
    own_scratch,
    part_of,
)
from gswe_pyg.ops.numba.simd import (
    LANES,
    add_above,
    add_at,
    add_overlap,
    all_below,
    set_scaled,
)
from gswe_pyg.ops.numba.sort import (
    lanes_of_block,
    pack_block,
    sort_rows,
    unpack_row,
)
from gswe_pyg.ops.numba.windows import (
    HIGHER,
    MIDPOINT,
    STEP,
    WeightedReads,
    fill_windows,
    has_windows,
    load_masses,
)


class Room(NamedTuple):
    """A set in some lanes, in sorted order, and what is read from it."""

    keys: np.ndarray
    bits: np.ndarray
    values: np.ndarray  # the same
    places: np.ndarray
    cumulative: np.ndarray  # a row more
    mass: np.ndarray  # of the set, in the order of its elements
    sums: np.ndarray  # of each read
    left: np.ndarray
    right: np.ndarray
    scale: np.ndarray
    line: np.ndarray
    points: np.ndarray  # in single precision


@inlined
def _room(scratch, num_rows, num_reads):
    bits = scratch + 8 * LANES * num_rows
    places = bits + 4 * LANES * num_rows
    cumulative = places + 4 * LANES * num_rows
    mass = cumulative + 8 * LANES * (num_rows + 1)
    sums = mass + 8 * num_rows
    left = sums + 8 * LANES * num_reads
    right = left + 8 * num_reads
    scale = right + 8 * num_reads
    line = scale + 8 * num_reads
    return Room(
        longs_at(scratch),
        bits_at(bits),
        floats_at(bits),
        bits_at(places),
        doubles_at(cumulative),
        doubles_at(mass),
        doubles_at(sums),
        doubles_at(left),
        doubles_at(right),
        doubles_at(scale),
        bits_at(line),
        floats_at(line + 4 * LANES),
    )


@inlined
def _reads_of(job):
    numerator, denominator = doubles_at(job.numerator), doubles_at(job.denominator)
    return WeightedReads(job.code, job.num_inner, job.num_reads, numerator, denominator)


@inlined
def _accumulate(places, at, stride, size, width, masses, room):
    """Where elements end, a row behind that where they begin, in sorted order."""
    cumulative, mass = room.cumulative, room.mass
    fill_with_zeros(cumulative, 0, 2 * LANES)
    for j in range(size):
        row, to = at + j * stride, (j + 1) * LANES
        before = max(j, 1) * LANES
        if width == LANES:  # a number that the compiler knows
            for lane in range(LANES):
                own = mass[places[row + lane]]
                cumulative[to + lane] = cumulative[before + lane] + own
        else:
            for lane in range(width):
                own = mass[places[row + lane]]
                cumulative[to + lane] = cumulative[before + lane] + own
    # Nothing is before the first element, and nothing behind the last one, which has
    # what the sum may have lost.
    for lane in range(LANES):
        cumulative[lane] = -np.inf
        cumulative[size * LANES + lane] = np.inf
    for i in range(LANES, size * LANES):
        cumulative[i] *= masses.factor
    if masses.has_zeros:
        for lane in range(width):
            j = size - 1
            while mass[places[at + j * stride + lane]] == 0:
                cumulative[j * LANES + lane] = np.inf
                j -= 1
    for lane in range(width, LANES):  # nothing must wait for them
        for j in range(size + 1):
            cumulative[j * LANES + lane] = cumulative[j * LANES]


@inlined
def _add_windows(reads, room, source, by_element, out):
    """Adds up the source, times the part of each element in each window.

    The source has a row for each element, and the sums have one for each read, or the
    other way round.
    """
    cumulative, code = room.cumulative, reads.code
    low, before = 0, 0.0
    for r in range(reads.num_inner):
        begin, end = room.left[r], room.right[r]
        has_end = end > begin
        only_end = has_end and code in (STEP, HIGHER)
        first = end if only_end else begin
        if first < before:  # levels come in any order
            low = 0
        before = first
        while all_below(cumulative, (low + 1) * LANES, first):
            low += 1
        j, is_more = low, True
        while is_more:
            at, to = (j, r) if by_element else (r, j)
            at, to, row = at * LANES, to * LANES, (j + 1) * LANES
            if has_end and has_windows(code):
                is_more = add_overlap(source, at, cumulative, row, begin, end, out, to)
            elif only_end:
                is_more = add_at(source, at, cumulative, row, end, end, out, to)
            else:
                is_more = add_above(source, at, cumulative, row, begin, end, out, to)
                if has_end and code == MIDPOINT:
                    is_more |= add_at(source, at, cumulative, row, end, end, out, to)
            j += 1


@inlined
def _extreme(places, at, stride, size, mass, is_maximum):
    """The first or the last element that has a mass, in a lane."""
    j, step = (size - 1, -1) if is_maximum else (0, 1)
    while mass[places[at + j * stride]] == 0:
        j += step
    return j


@inlined
def _finish(job, reads, masses, graph, first, width, places, at, stride, room):
    """From sorted values to points."""
    size, num_inner, values = masses.size, reads.num_inner, room.values
    _accumulate(places, at, stride, size, width, masses, room)
    fill_with_zeros(room.sums, 0, reads.num_reads * LANES)
    _add_windows(reads, room, values, True, room.sums)
    for r in range(num_inner):
        set_scaled(room.scale[r], room.sums, r * LANES, room.sums, r * LANES)
    for i in range(reads.num_reads - num_inner):
        for lane in range(width):
            j = _extreme(places, at + lane, stride, size, room.mass, i == 1)
            room.sums[(num_inner + i) * LANES + lane] = values[j * LANES + lane]
    to = (graph * job.num_slices + first) * reads.num_reads
    write_points(room.sums, reads.num_reads, width, floats_at(job.out), to)


@Kernel
def weighted(pointer):
    """The points of the graphs that are not too large, and their order if there is room
    for it."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, ptr, mass = job.num_slices, longs_at(job.ptr), doubles_at(job.mass)
    bits, reads = bits_at(job.src), _reads_of(job)
    scratch = own_scratch(pointer, job)
    room = _room(scratch, job.num_rows, job.num_reads)
    places = _places(job, scratch)
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size > job.largest:
                continue
            masses = load_masses(mass, start, size, reads, room.mass)
            fill_windows(reads, masses, room.left, room.right, room.scale)
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                if size == 0:
                    row_of_zeros(job, graph, first, width)
                    continue
                base = start * num_slices + first
                pack_block(bits, base, num_slices, size, width, room.keys, room.line)
                sort_rows(room.keys, size)
                at, stride = (base, num_slices) if job.order != 0 else (0, LANES)
                for j in range(size):
                    row, to = j * LANES, at + j * stride
                    unpack_row(
                        room.keys, row, room.bits, row, places, to, width, room.line
                    )
                _finish(
                    job, reads, masses, graph, first, width, places, at, stride, room
                )
        item = next_item(pointer)


@Kernel
def weighted_of_sorted(pointer):
    """From sorted keys ``[width, size]`` of a graph to its points."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, graph, reads = job.num_slices, job.graph, _reads_of(job)
    scratch = own_scratch(pointer, job)
    room = _room(scratch, job.num_rows, job.num_reads)
    places = _places(job, scratch)
    start = longs_at(job.ptr)[graph]
    size = longs_at(job.ptr)[graph + 1] - start
    masses = load_masses(doubles_at(job.mass), start, size, reads, room.mass)
    fill_windows(reads, masses, room.left, room.right, room.scale)
    for block in range(0, job.width, LANES):
        first, width = job.first_slice + block, min(LANES, job.width - block)
        keys = longs_at(job.keys + 8 * block * size)
        base = start * num_slices + first
        at, stride = (base, num_slices) if job.order != 0 else (0, LANES)
        for j in range(size):
            for lane in range(width):
                room.keys[lane] = keys[lane * size + j]
            row, to = j * LANES, at + j * stride
            unpack_row(room.keys, 0, room.bits, row, places, to, width, room.line)
        _finish(job, reads, masses, graph, first, width, places, at, stride, room)


@inlined
def _places(job, scratch):
    """The order, or room for that of a set."""
    own = scratch + 12 * LANES * job.num_rows
    return bits_at(job.order if job.order != 0 else own)


@Kernel
def weighted_adjoint(pointer):
    """From gradients of the points to those of the values."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, ptr, mass = job.num_slices, longs_at(job.ptr), doubles_at(job.mass)
    grad, out = floats_at(job.out), floats_at(job.grad_src)
    order, reads = bits_at(job.order), _reads_of(job)
    scratch = own_scratch(pointer, job)
    room = _room(scratch, job.num_rows, job.num_reads)
    sums, grads, num_inner = doubles_at(scratch), room.sums, reads.num_inner
    fill_with_zeros(grads, 0, reads.num_reads * LANES)  # lanes that are not there
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size == 0:
                continue
            masses = load_masses(mass, start, size, reads, room.mass)
            fill_windows(reads, masses, room.left, room.right, room.scale)
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                base = start * num_slices + first
                read_gradients(job, item, graph, first, width, 0, room.points, 0)
                for r in range(num_inner):
                    row = r * LANES
                    set_scaled(room.scale[r], room.points, row, grads, row)
                _accumulate(order, base, num_slices, size, width, masses, room)
                fill_with_zeros(sums, 0, size * LANES)
                _add_windows(reads, room, grads, False, sums)
                at = (graph * num_slices + first) * reads.num_reads + num_inner
                for i in range(reads.num_reads - num_inner):
                    for lane in range(width):
                        to = base + lane
                        j = _extreme(order, to, num_slices, size, room.mass, i == 1)
                        own = grad[at + lane * reads.num_reads + i]
                        sums[j * LANES + lane] += own
                scatter(
                    sums,
                    size,
                    size,
                    order,
                    base,
                    num_slices,
                    width,
                    room.values,
                    out,
                )
        item = next_item(pointer)
