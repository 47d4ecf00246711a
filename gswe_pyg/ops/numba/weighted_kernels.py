"""The kernels of sets with masses: sort, then means over windows, or their transpose.

The masses are in another order in each slice, so that a window has other elements in
each. A row of elements is nevertheless looked at for all lanes at once: from a little
before the first row that ends in the window in any lane to the last that begins there.
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
    SPARE_ROWS,
    bits_at,
    doubles_at,
    floats_at,
    longs_at,
    next_item,
    own_scratch,
    pairs_at,
    part_of,
)
from gswe_pyg.ops.numba.simd import (
    LANES,
    PLACE_BITS,
    gather,
    has_any,
    in_double,
    larger,
    load,
    masses_of_pairs,
    pack_pairs,
    select,
    smaller,
    splat,
    store,
    unpack_keys,
    values_of_pairs,
)
from gswe_pyg.ops.numba.sort import fill_line, lanes_of_block, pack_block, sort_rows
from gswe_pyg.ops.numba.windows import (
    HIGHER,
    MIDPOINT,
    STEP,
    fill_windows,
    load_masses,
)

# Rows that are looked at before asking whether a window goes on, or has begun: fewer
# questions are fewer branches that are predicted wrongly.
GROUP = SPARE_ROWS

# A count beside masses so large is so small that its product with a value may vanish.
_MINUTE = 1e-200


class Room(NamedTuple):
    """A set in some lanes, in sorted order, and what is read from it."""

    keys: np.ndarray  # with places
    pairs: np.ndarray  # or with masses; in the end,
    values: np.ndarray  # sorted values, or their gradients, and
    floats: np.ndarray  # what is rounded of these: all of these in one place
    placed: np.ndarray  # the gradients of the values, in single precision
    cumulative: np.ndarray  # where elements begin and end: a row more
    mass: np.ndarray  # of the set, in the order of its elements
    sums: np.ndarray  # of each read
    points: np.ndarray  # in single precision
    left: np.ndarray
    right: np.ndarray
    scale: np.ndarray
    ends: np.ndarray  # the first and the last element that have a mass, in each lane
    places: np.ndarray  # a row
    line: np.ndarray  # of bits
    line_of_floats: np.ndarray  # the same


@inlined
def _room(scratch, num_rows, num_reads):
    placed = scratch + 8 * LANES * num_rows
    cumulative = placed + 4 * LANES * num_rows
    mass = cumulative + 8 * LANES * (num_rows + 1)
    sums = mass + 8 * num_rows
    points = sums + 8 * LANES * num_reads
    left = points + 4 * LANES * num_reads
    right = left + 8 * num_reads
    scale = right + 8 * num_reads
    ends = scale + 8 * num_reads
    places = ends + 8 * 2 * LANES
    line = places + 4 * LANES
    return Room(
        longs_at(scratch),
        pairs_at(scratch),
        doubles_at(scratch),
        floats_at(scratch),
        floats_at(placed),
        doubles_at(cumulative),
        doubles_at(mass),
        doubles_at(sums),
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
def _end(room, j):
    """Where element ``j`` ends."""
    return load(room.cumulative, (j + 1) * LANES)


# Sorted elements and their masses #####################################################


@inlined
def _mass_of_key(keys, at, stride, j, lane, mass):
    return mass[keys[at + j * stride + lane] & ((1 << PLACE_BITS) - 1)]


@inlined
def _mass_of_pair(floats, at, stride, j, lane, mass):
    return floats[2 * j * LANES + LANES + lane]


@inlined
def _mass_of_place(order, at, stride, j, lane, mass):
    return mass[order[at + j * stride + lane]]


@inlined
def _find_ends(mass_of, source, at, stride, width, masses, room):
    """The first and the last element that have a mass, in each lane."""
    for lane in range(width * masses.has_zeros):
        first, last = 0, masses.size - 1
        while mass_of(source, at, stride, first, lane, room.mass) == 0:
            first += 1
        while mass_of(source, at, stride, last, lane, room.mass) == 0:
            last -= 1
        room.ends[lane], room.ends[LANES + lane] = first, last


@inlined
def _open_ends(masses, room):
    """Nothing is behind the last element that has a mass, which has what the sum may
    have lost."""
    for j in range(masses.size - 1, masses.size + GROUP):
        if j >= masses.size:
            fill_with_zeros(room.values, j * LANES, LANES)
        store(splat(np.inf), room.cumulative, (j + 1) * LANES)
    if masses.has_zeros:
        for j in range(masses.size):
            for lane in range(LANES):
                if j >= room.ends[LANES + lane]:
                    room.cumulative[(j + 1) * LANES + lane] = np.inf


@inlined
def _unpack_pairs(job, masses, at, width, room):
    _find_ends(_mass_of_pair, room.floats, 0, LANES, width, masses, room)
    total, unit, factor = splat(0.0), splat(masses.unit), splat(masses.factor)
    for j in range(masses.size):
        value = values_of_pairs(room.pairs, j * LANES)
        own = in_double(masses_of_pairs(room.pairs, j * LANES))
        total = total + own * unit
        store(value, room.values, j * LANES)
        store(total * factor, room.cumulative, (j + 1) * LANES)


@inlined
def _unpack_keys(job, masses, at, width, room):
    """Writes the order, too, if there is room for it."""
    order, num_slices = bits_at(job.order), job.num_slices
    _find_ends(_mass_of_key, room.keys, 0, LANES, width, masses, room)
    total, factor = splat(0.0), splat(masses.factor)
    for j in range(masses.size):
        unpack_keys(room.keys, j * LANES, room.line, 0, room.places, 0)
        if job.order != 0:
            write_row(room.places, 0, width, order, at + j * num_slices)
        total = total + gather(room.mass, room.places, 0)
        store(load(room.line_of_floats, 0), room.values, j * LANES)
        store(total * factor, room.cumulative, (j + 1) * LANES)


@inlined
def _read_order(job, masses, at, width, room):
    """The same, from an order that is given, with zeros for values."""
    order, num_slices = bits_at(job.order), job.num_slices
    _find_ends(_mass_of_place, order, at, num_slices, width, masses, room)
    fill_with_zeros(room.places, 0, LANES)
    fill_with_zeros(room.values, 0, masses.size * LANES)
    total, factor = splat(0.0), splat(masses.factor)
    for j in range(masses.size):
        read_row(order, at + j * num_slices, width, room.places, 0)
        total = total + gather(room.mass, room.places, 0)
        store(total * factor, room.cumulative, (j + 1) * LANES)


# Means over windows ###################################################################


@inlined
def _first_row(room, place, low):
    """The first group of rows, from this one on, of which one ends behind a place in
    any lane."""
    while not has_any(place <= _end(room, low + GROUP - 1)):
        low += GROUP
    return low


@inlined
def _add_means(job, room, add_mean):
    """Calls a function for each window and a row that it begins in or behind."""
    low, before = 0, room.left[0]
    for r in range(job.num_inner):
        if room.left[r] < before:  # levels come in any order
            low = 0
        before = room.left[r]
        left = splat(before)
        low = _first_row(room, left, low)
        add_mean(room, r, low, left, splat(room.right[r]), splat(room.scale[r]))


@inlined
def _stop(room, j, left, right):
    """Where element ``j`` ends within a window."""
    return smaller(larger(_end(room, j), left), right)


@inlined
def _walk(room, low, left, right, factor, total, visit):
    """Calls a function for each row in a window, with how much of it is inside."""
    j, start, is_more = low, left, True
    while is_more:
        for _ in range(GROUP):
            stop = _stop(room, j, left, right)
            total = visit(room, j * LANES, stop - start, factor, total)
            start = stop
            j += 1
        is_more = has_any(stop < right)
    return total


@inlined
def _read_part(room, at, width, scale, total):
    sum_with = total + width * scale * load(room.values, at)
    # Nothing of infinity is nothing.
    return select(width > splat(0.0), sum_with, total)


@inlined
def _read_usual_part(room, at, width, scale, total):
    return total + width * load(room.values, at)


@inlined
def _read_mean(room, r, low, left, right, scale):
    """The mean of the values in a window."""
    total = _walk(room, low, left, right, scale, splat(0.0), _read_part)
    store(total, room.points, r * LANES)


@inlined
def _read_usual_mean(room, r, low, left, right, scale):
    """The same, where values are finite and windows are not minute."""
    total = _walk(room, low, left, right, scale, splat(0.0), _read_usual_part)
    store(total * scale, room.points, r * LANES)


@inlined
def _add_part(room, at, width, scale, grad):
    before = load(room.values, at)
    sum_with = before + width * scale * grad
    store(select(width > splat(0.0), sum_with, before), room.values, at)
    return grad


@inlined
def _add_usual_part(room, at, width, scaled, grad):
    store(load(room.values, at) + width * scaled, room.values, at)
    return grad


@inlined
def _add_mean(room, r, low, left, right, scale):
    """The transpose: from the gradient of a point to those of the values."""
    grad = in_double(load(room.points, r * LANES))
    scaled = grad * scale
    if _are_finite(scaled):
        _walk(room, low, left, right, scaled, grad, _add_usual_part)
    else:
        _walk(room, low, left, right, scale, grad, _add_part)


@inlined
def _are_finite(row):
    return not has_any(splat(0.0) != row - row)


@inlined
def _are_usual(masses, room):
    """Sorted values are finite if the first and the last of them are."""
    first, last = load(room.values, 0), load(room.values, (masses.size - 1) * LANES)
    return masses.unit > _MINUTE and _are_finite(last - first)


# Elements at places ###################################################################


@inlined
def _add_places(job, room, add_at):
    """Calls a function for each read and a row that it begins in or behind."""
    code, low, before = job.code, 0, 0.0
    store(splat(-np.inf), room.cumulative, 0)
    for r in range(job.num_inner):
        begin, end = room.left[r], room.right[r]
        only_end = end > begin and code in (STEP, HIGHER)
        first = end if only_end else begin
        if first < before:  # levels come in any order
            low = 0
        before = first
        low = _first_row(room, splat(first), low)
        add_at(room, r, low, first, not only_end, True)
        if end > begin and code == MIDPOINT:
            add_at(room, r, low, end, False, False)


@inlined
def _find(room, low, place, is_above, factor, found, visit):
    """Calls a function for rows up to those that a place is in, in all lanes."""
    j, at, is_more = low, splat(place), True
    start = load(room.cumulative, low * LANES)
    while is_more:
        stop = load(room.cumulative, (j + 1) * LANES)
        if is_above:
            is_there, is_more = (start <= at) & (at < stop), has_any(stop <= at)
        else:
            is_there, is_more = (start < at) & (at <= stop), has_any(stop < at)
        found = visit(room, j * LANES, is_there, factor, found)
        start = stop
        j += 1
    return found


@inlined
def _read_row(room, at, is_there, factor, found):
    return select(is_there, load(room.values, at), found)


@inlined
def _read_at(room, r, low, place, is_above, is_first):
    """The value at a place."""
    scale = splat(room.scale[r])
    found = _find(room, low, place, is_above, scale, splat(0.0), _read_row) * scale
    if not is_first:
        found = found + load(room.sums, r * LANES)
    store(found, room.sums, r * LANES)
    store(found, room.points, r * LANES)


@inlined
def _add_row(room, at, is_there, grad, found):
    before = load(room.values, at)
    store(select(is_there, before + grad, before), room.values, at)
    return found


@inlined
def _add_at(room, r, low, place, is_above, is_first):
    grad = in_double(load(room.points, r * LANES)) * splat(room.scale[r])
    _find(room, low, place, is_above, grad, grad, _add_row)


# Kernels ##############################################################################


@inlined
def _read_extremes(job, width, room):
    for i in range(job.num_reads - job.num_inner):
        for lane in range(width):
            at = room.ends[i * LANES + lane] * LANES + lane
            room.points[(job.num_inner + i) * LANES + lane] = room.values[at]


@inlined
def _sort_with_places(job, masses, start, at, width, room):
    bits, size = bits_at(job.src), masses.size
    pack_block(bits, at, job.num_slices, size, width, room.keys, room.line)
    sort_rows(room.keys, size)


@inlined
def _sort_with_masses(job, masses, start, at, width, room):
    """Where masses have single precision, and no order is wanted."""
    bits, mass, pairs = bits_at(job.src), doubles_at(job.mass), room.pairs
    for j in range(masses.size):
        own = np.float32(mass[start + j])
        if width == LANES:
            pack_pairs(bits, at, pairs, j * LANES, own)
        else:
            fill_line(bits, at, width, room.line)
            pack_pairs(room.line, 0, pairs, j * LANES, own)
        at += job.num_slices
    sort_rows(pairs, masses.size)


@inlined
def _read_means(job, masses, room):
    if _are_usual(masses, room):
        _add_means(job, room, _read_usual_mean)
    else:
        _add_means(job, room, _read_mean)


@inlined
def _read_places(job, masses, room):
    _add_places(job, room, _read_at)


@inlined
def _add_gradients_of_means(job, masses, room):
    _add_means(job, room, _add_mean)


@inlined
def _add_gradients_of_places(job, masses, room):
    _add_places(job, room, _add_at)


@inlined
def _read_keys(job, masses, graph, at, first, width, unpack, read, room):
    """From sorted keys to points in the output."""
    unpack(job, masses, at, width, room)
    _open_ends(masses, room)
    read(job, masses, room)
    _read_extremes(job, width, room)
    to = (graph * job.num_slices + first) * job.num_reads
    write_points(room.points, job.num_reads, width, floats_at(job.out), to)


@inlined
def _write_gradients(job, masses, at, width, room):
    sums, size, num_inner = room.floats, masses.size, job.num_inner
    for j in range(size):  # in single precision, each at the start of its old row
        store(load(room.values, j * LANES), sums, 2 * j * LANES)
    for i in range(job.num_reads - num_inner):
        for lane in range(width):
            to = room.ends[i * LANES + lane] * 2 * LANES + lane
            sums[to] += room.points[(num_inner + i) * LANES + lane]
    order, out = bits_at(job.order), floats_at(job.grad_src)
    scatter(sums, 2 * LANES, size, size, order, at, job, width, room.placed, out)


@inlined
def _load_set(job, start, size, room):
    """The masses of a set, and its windows."""
    masses = load_masses(job, start, size, room.mass)
    fill_windows(job, masses, room.left, room.right, room.scale)
    for lane in range(LANES):  # as if all had a mass
        room.ends[lane], room.ends[LANES + lane] = 0, size - 1
    return masses


@inlined
def _sort_and_read(pointer, sort, unpack, read):
    """The points of the graphs that are not too large."""
    job = carray(pointer, 1, JOB)[0]
    ptr = longs_at(job.ptr)
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, job.num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size > job.largest:
                continue
            if size == 0:
                for block in range(part.first_slice, part.last_slice, LANES):
                    first, width = lanes_of_block(block, part)
                    row_of_zeros(job, graph, first, width)
                continue
            masses = _load_set(job, start, size, room)
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                at = start * job.num_slices + first
                sort(job, masses, start, at, width, room)
                _read_keys(job, masses, graph, at, first, width, unpack, read, room)
        item = next_item(pointer)


@Kernel
def means(pointer):
    _sort_and_read(pointer, _sort_with_masses, _unpack_pairs, _read_means)


@Kernel
def means_and_order(pointer):
    """Also the order, if there is room for it."""
    _sort_and_read(pointer, _sort_with_places, _unpack_keys, _read_means)


@Kernel
def places_and_order(pointer):
    _sort_and_read(pointer, _sort_with_places, _unpack_keys, _read_places)


@inlined
def _read_sorted(pointer, read):
    """From sorted keys ``[width, size]`` of a graph to its points."""
    job = carray(pointer, 1, JOB)[0]
    graph = job.graph
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    start = longs_at(job.ptr)[graph]
    size = longs_at(job.ptr)[graph + 1] - start
    masses = _load_set(job, start, size, room)
    for block in range(0, job.width, LANES):
        first, width = job.first_slice + block, min(LANES, job.width - block)
        keys = longs_at(job.keys + 8 * block * size)
        for j in range(size):
            for lane in range(LANES):
                # Lanes that are not there are those of the first one.
                own = lane if lane < width else 0
                room.keys[j * LANES + lane] = keys[own * size + j]
        at = start * job.num_slices + first
        _read_keys(job, masses, graph, at, first, width, _unpack_keys, read, room)


@Kernel
def means_of_sorted(pointer):
    _read_sorted(pointer, _read_means)


@Kernel
def places_of_sorted(pointer):
    _read_sorted(pointer, _read_places)


@inlined
def _add_gradients(pointer, add_gradients):
    """From gradients of the points to those of the values."""
    job = carray(pointer, 1, JOB)[0]
    ptr = longs_at(job.ptr)
    room = _room(own_scratch(pointer, job), job.num_rows, job.num_reads)
    grads = room.points
    fill_with_zeros(grads, 0, job.num_reads * LANES)  # lanes that are not there
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, job.num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size == 0:
                continue
            masses = _load_set(job, start, size, room)
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                at = start * job.num_slices + first
                read_gradients(job, item, graph, first, width, 0, grads, 0)
                _read_order(job, masses, at, width, room)
                _open_ends(masses, room)
                add_gradients(job, masses, room)
                _write_gradients(job, masses, at, width, room)
        item = next_item(pointer)


@Kernel
def means_adjoint(pointer):
    _add_gradients(pointer, _add_gradients_of_means)


@Kernel
def places_adjoint(pointer):
    _add_gradients(pointer, _add_gradients_of_places)
