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
    read_row,
    row_of_zeros,
    scatter,
    write_points,
    write_row,
)
from gswe_pyg.ops.numba.job import (
    JOB,
    bits_at,
    doubles_at,
    floats_at,
    longs_at,
    next_item,
    own_scratch,
    pairs_at,
    part_of,
)
from gswe_pyg.ops.numba.simd import LANES, PLACE_BITS, pack_pairs, unpack_keys
from gswe_pyg.ops.numba.sort import lanes_of_block, pack_block, sort_rows
from gswe_pyg.ops.numba.vector import (
    gather,
    has_any,
    larger,
    load,
    masses_of_pairs,
    select,
    smaller,
    splat,
    store,
    values_of_pairs,
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

    keys: np.ndarray  # with places
    pairs: np.ndarray  # or with masses, and
    halves: np.ndarray  # the same
    values: np.ndarray  # in the end, sorted values: all of these in one place
    placed: np.ndarray  # the gradients of the values, in single precision
    cumulative: np.ndarray  # where elements begin and end: a row more
    mass: np.ndarray  # of the set, in the order of its elements
    grads: np.ndarray  # of each read
    points: np.ndarray  # in single precision
    left: np.ndarray
    right: np.ndarray
    scale: np.ndarray
    ends: np.ndarray  # the first and the last element that have a mass, in each lane
    places: np.ndarray  # a row
    line: np.ndarray  # of bits
    floats: np.ndarray  # the same


@inlined
def _room(scratch, num_rows, num_reads):
    placed = scratch + 8 * LANES * num_rows
    cumulative = placed + 4 * LANES * num_rows
    mass = cumulative + 8 * LANES * (num_rows + 1)
    grads = mass + 8 * num_rows
    points = grads + 8 * LANES * num_reads
    left = points + 4 * LANES * num_reads
    right = left + 8 * num_reads
    scale = right + 8 * num_reads
    ends = scale + 8 * num_reads
    places = ends + 8 * 2 * LANES
    line = places + 4 * LANES
    return Room(
        longs_at(scratch),
        pairs_at(scratch),
        floats_at(scratch),
        doubles_at(scratch),
        floats_at(placed),
        doubles_at(cumulative),
        doubles_at(mass),
        doubles_at(grads),
        floats_at(points),
        doubles_at(left),
        doubles_at(right),
        doubles_at(scale),
        longs_at(ends),
        bits_at(places),
        bits_at(line),
        floats_at(line),
    )


@inlined
def _reads_of(job):
    numerator, denominator = doubles_at(job.numerator), doubles_at(job.denominator)
    return WeightedReads(job.code, job.num_inner, job.num_reads, numerator, denominator)


# Sorted elements and their masses #####################################################


@inlined
def _mass_of_key(keys, at, stride, j, lane, mass):
    return mass[keys[at + j * stride + lane] & ((1 << PLACE_BITS) - 1)]


@inlined
def _mass_of_pair(halves, at, stride, j, lane, mass):
    return halves[2 * j * LANES + LANES + lane]


@inlined
def _mass_of_place(order, at, stride, j, lane, mass):
    return mass[order[at + j * stride + lane]]


@inlined
def _find_ends(mass_of, source, at, stride, width, masses, room):
    """The first and the last element that have a mass, in each lane."""
    for lane in range(width):
        first, last = 0, masses.size - 1
        if masses.has_zeros:
            while mass_of(source, at, stride, first, lane, room.mass) == 0:
                first += 1
            while mass_of(source, at, stride, last, lane, room.mass) == 0:
                last -= 1
        room.ends[lane], room.ends[LANES + lane] = first, last
    for lane in range(width, LANES):
        room.ends[lane], room.ends[LANES + lane] = 0, masses.size - 1


@inlined
def _open_ends(masses, room):
    """Nothing is before the first element, and nothing behind the last one that has a
    mass, which has what the sum may have lost."""
    store(splat(-np.inf), room.cumulative, 0)
    store(splat(np.inf), room.cumulative, masses.size * LANES)
    if masses.has_zeros:
        for lane in range(LANES):
            for j in range(room.ends[LANES + lane] + 1, masses.size):
                room.cumulative[j * LANES + lane] = np.inf


@inlined
def _unpack_pairs(masses, width, room):
    _find_ends(_mass_of_pair, room.halves, 0, LANES, width, masses, room)
    total, unit, factor = splat(0.0), splat(masses.unit), splat(masses.factor)
    for j in range(masses.size):
        at = j * LANES
        value, own = values_of_pairs(room.pairs, at), masses_of_pairs(room.pairs, at)
        store(value, room.values, at)
        total = total + own * unit
        store(total * factor, room.cumulative, at + LANES)
    _open_ends(masses, room)


@inlined
def _unpack_keys(job, masses, at, width, room):
    """Writes the order, too, if there is room for it."""
    order, num_slices = bits_at(job.order), job.num_slices
    _find_ends(_mass_of_key, room.keys, 0, LANES, width, masses, room)
    total, factor = splat(0.0), splat(masses.factor)
    for j in range(masses.size):
        row = j * LANES
        unpack_keys(room.keys, row, room.line, 0, room.places, 0)
        store(load(room.floats, 0), room.values, row)
        if job.order != 0:
            write_row(room.places, 0, width, order, at + j * num_slices)
        total = total + gather(room.mass, room.places, 0)
        store(total * factor, room.cumulative, row + LANES)
    _open_ends(masses, room)


@inlined
def _read_order(order, at, num_slices, width, masses, room):
    """The same, from an order that is given."""
    _find_ends(_mass_of_place, order, at, num_slices, width, masses, room)
    fill_with_zeros(room.places, 0, LANES)
    total, factor = splat(0.0), splat(masses.factor)
    for j in range(masses.size):
        read_row(order, at + j * num_slices, width, room.places, 0)
        total = total + gather(room.mass, room.places, 0)
        store(total * factor, room.cumulative, (j + 1) * LANES)
    _open_ends(masses, room)


# Windows ##############################################################################


@inlined
def _first_row(cumulative, first, row):
    """The first row, from this one on, that ends behind a place in any lane."""
    place = splat(first)
    while not has_any(place <= load(cumulative, (row + 1) * LANES)):
        row += 1
    return row


@inlined
def _add_windows(reads, room, add_means, add_at):
    """Calls a function for each read and the row that it begins in."""
    code, low, before = reads.code, 0, 0.0
    for r in range(reads.num_inner):
        begin, end = room.left[r], room.right[r]
        has_end = end > begin
        only_end = has_end and code in (STEP, HIGHER)
        first = end if only_end else begin
        if first < before:  # levels come in any order
            low = 0
        before = first
        low = _first_row(room.cumulative, first, low)
        if has_end and has_windows(code):
            add_means(room, r, low, begin, end)
        elif only_end:
            add_at(room, r, low, end, False, True)
        else:
            add_at(room, r, low, begin, True, True)
            if has_end and code == MIDPOINT:
                add_at(room, r, low, end, False, False)


@inlined
def _read_mean(room, r, low, begin, end):
    """The mean of the values in a window."""
    cumulative, j = room.cumulative, low
    left, right = splat(begin), splat(end)
    total, none = splat(0.0), splat(0.0)
    start = smaller(larger(load(cumulative, j * LANES), left), right)
    is_more = True
    while is_more:
        stop = load(cumulative, (j + 1) * LANES)
        is_more = has_any(stop < right)
        stop = smaller(larger(stop, left), right)
        share = stop - start
        # Nothing of infinity is nothing.
        sum_with = total + share * load(room.values, j * LANES)
        total = select(share > none, sum_with, total)
        start = stop
        j += 1
    store(total * splat(room.scale[r]), room.points, r * LANES)


@inlined
def _read_at(room, r, low, place, is_above, is_first):
    """The value at a place."""
    cumulative, j, at = room.cumulative, low, splat(place)
    found, start = splat(0.0), load(cumulative, low * LANES)
    is_more = True
    while is_more:
        stop = load(cumulative, (j + 1) * LANES)
        if is_above:
            is_there, is_before = start <= at, stop <= at
        else:
            is_there, is_before = start < at, stop < at
        # Later rows overwrite what earlier ones have found.
        found = select(is_there, load(room.values, j * LANES), found)
        is_more = has_any(is_before)
        start = stop
        j += 1
    found = found * splat(room.scale[r])
    if not is_first:
        found = found + load(room.grads, r * LANES)
    store(found, room.grads, r * LANES)
    store(found, room.points, r * LANES)


@inlined
def _add_mean(room, r, low, begin, end):
    """Its transpose: from the gradient of a point to those of the values."""
    cumulative, values, j = room.cumulative, room.values, low
    left, right, none = splat(begin), splat(end), splat(0.0)
    grad = load(room.points, r * LANES) * splat(room.scale[r])
    start = smaller(larger(load(cumulative, j * LANES), left), right)
    is_more = True
    while is_more:
        stop = load(cumulative, (j + 1) * LANES)
        is_more = has_any(stop < right)
        stop = smaller(larger(stop, left), right)
        share = stop - start
        before = load(values, j * LANES)
        sum_with = before + share * grad
        store(select(share > none, sum_with, before), values, j * LANES)
        start = stop
        j += 1


@inlined
def _add_at(room, r, low, place, is_above, is_first):
    cumulative, values, j, at = room.cumulative, room.values, low, splat(place)
    grad = load(room.points, r * LANES) * splat(room.scale[r])
    start, is_more = load(cumulative, low * LANES), True
    while is_more:
        stop = load(cumulative, (j + 1) * LANES)
        if is_above:
            is_there, is_more = (start <= at) & (at < stop), has_any(stop <= at)
        else:
            is_there, is_more = (start < at) & (at <= stop), has_any(stop < at)
        before = load(values, j * LANES)
        store(select(is_there, before + grad, before), values, j * LANES)
        start = stop
        j += 1


# Kernels ##############################################################################


@inlined
def _finish(job, reads, masses, graph, first, width, room):
    """From sorted values to points."""
    num_inner, num_reads, points = reads.num_inner, reads.num_reads, room.points
    _add_windows(reads, room, _read_mean, _read_at)
    for i in range(num_reads - num_inner):
        for lane in range(width):
            at = room.ends[i * LANES + lane] * LANES + lane
            points[(num_inner + i) * LANES + lane] = room.values[at]
    to = (graph * job.num_slices + first) * num_reads
    write_points(points, num_reads, width, floats_at(job.out), to)


@inlined
def _sort_with_places(job, masses, start, first, width, room):
    base = start * job.num_slices + first
    bits, size = bits_at(job.src), masses.size
    pack_block(bits, base, job.num_slices, size, width, room.keys, room.line)
    sort_rows(room.keys, size)
    _unpack_keys(job, masses, base, width, room)


@inlined
def _sort_with_masses(job, masses, start, first, width, room):
    """Where masses have single precision, and no order is wanted."""
    bits, mass, pairs = bits_at(job.src), doubles_at(job.mass), room.pairs
    for j in range(masses.size):
        own, at = np.float32(mass[start + j]), (start + j) * job.num_slices + first
        if width == LANES:
            pack_pairs(bits, at, pairs, j * LANES, own)
        else:
            for lane in range(width):
                room.line[lane] = bits[at + lane]
            pack_pairs(room.line, 0, pairs, j * LANES, own)
    sort_rows(pairs, masses.size)
    _unpack_pairs(masses, width, room)


@inlined
def _sort_and_finish(pointer, sort):
    """The points of the graphs that are not too large."""
    job = carray(pointer, 1, JOB)[0]
    ptr, reads = longs_at(job.ptr), _reads_of(job)
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, job.num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size > job.largest:
                continue
            masses = load_masses(doubles_at(job.mass), start, size, reads, room.mass)
            fill_windows(reads, masses, room.left, room.right, room.scale)
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                if size == 0:
                    row_of_zeros(job, graph, first, width)
                    continue
                sort(job, masses, start, first, width, room)
                _finish(job, reads, masses, graph, first, width, room)
        item = next_item(pointer)


@Kernel
def weighted(pointer):
    _sort_and_finish(pointer, _sort_with_masses)


@Kernel
def weighted_and_order(pointer):
    """Also the order, if there is room for it."""
    _sort_and_finish(pointer, _sort_with_places)


@Kernel
def weighted_of_sorted(pointer):
    """From sorted keys ``[width, size]`` of a graph to its points."""
    job = carray(pointer, 1, JOB)[0]
    graph, reads = job.graph, _reads_of(job)
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    start = longs_at(job.ptr)[graph]
    size = longs_at(job.ptr)[graph + 1] - start
    masses = load_masses(doubles_at(job.mass), start, size, reads, room.mass)
    fill_windows(reads, masses, room.left, room.right, room.scale)
    for block in range(0, job.width, LANES):
        first, width = job.first_slice + block, min(LANES, job.width - block)
        keys = longs_at(job.keys + 8 * block * size)
        for j in range(size):
            for lane in range(LANES):
                # Lanes that are not there are those of the first one.
                own = lane if lane < width else 0
                room.keys[j * LANES + lane] = keys[own * size + j]
        _unpack_keys(job, masses, start * job.num_slices + first, width, room)
        _finish(job, reads, masses, graph, first, width, room)


@Kernel
def weighted_adjoint(pointer):
    """From gradients of the points to those of the values."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, ptr, mass = job.num_slices, longs_at(job.ptr), doubles_at(job.mass)
    order, reads = bits_at(job.order), _reads_of(job)
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    sums, grads, num_inner = room.values, room.points, reads.num_inner
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
                at = start * num_slices + first
                read_gradients(job, item, graph, first, width, 0, grads, 0)
                _read_order(order, at, num_slices, width, masses, room)
                fill_with_zeros(sums, 0, size * LANES)
                _add_windows(reads, room, _add_mean, _add_at)
                for i in range(reads.num_reads - num_inner):
                    for lane in range(width):
                        to = room.ends[i * LANES + lane] * LANES + lane
                        sums[to] += grads[(num_inner + i) * LANES + lane]
                out = floats_at(job.grad_src)
                scatter(
                    sums, size, size, order, at, num_slices, width, room.placed, out
                )
        item = next_item(pointer)
