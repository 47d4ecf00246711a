"""The kernels without masses: sort, then a linear map, or its transpose.

Graphs are worked off in blocks of :obj:`~gswe_pyg.ops.numba.simd.LANES` slices. All
matrices are flat arrays here.
"""

import numpy as np

from gswe_pyg.ops.numba.compiling import inlined, kernel
from gswe_pyg.ops.numba.simd import LANES, TILE, add_scaled, set_scaled, transpose
from gswe_pyg.ops.numba.sort import (
    lanes_of_block,
    num_key_rows,
    pack_block,
    pack_row,
    sort_rows,
    unpack_row,
)


@inlined
def _interpolate(values, terms, row, num_points, points):
    """From used values ``[num_used, LANES]`` to points ``[num_points, LANES]``."""
    for m in range(num_points):
        start = terms.first[row * num_points + m]
        end = terms.first[row * num_points + m + 1]
        at = terms.position[start] * LANES
        set_scaled(terms.weight[start], values, at, points, m * LANES)
        for t in range(start + 1, end):
            at = terms.position[t] * LANES
            add_scaled(terms.weight[t], values, at, points, m * LANES)


@inlined
def _finish(values, terms, row, num_points, in_double, points, sums, width, out, to):
    """From used values to points in the output."""
    if in_double:
        _interpolate(values, terms, row, num_points, sums)
        _write(sums, num_points, width, out, to)
    else:
        _interpolate(values, terms, row, num_points, points)
        _write(points, num_points, width, out, to)


@inlined
def _write(points, num_points, width, out, at):
    """Points ``[num_points, LANES]`` to ``[width, num_points]``."""
    num_tiled = num_points // TILE * TILE if width == LANES else 0
    for m in range(0, num_tiled, TILE):
        transpose(points, m * LANES, out, at + m, num_points)
    for lane in range(width):
        for m in range(num_tiled, num_points):
            out[at + lane * num_points + m] = points[m * LANES + lane]


@inlined
def _max_used(terms):
    largest = 0
    for row in range(len(terms.first_used) - 1):
        largest = max(largest, terms.first_used[row + 1] - terms.first_used[row])
    return largest


@kernel
def quantile(
    bits, num_slices, ptr, rows, terms, num_points, in_double, part, keys, out, order
):
    """The points of graphs that have room in ``keys``; the others are left out."""
    num_rows = min(len(keys) // LANES, _max_used(terms))
    used_bits = np.empty(num_rows * LANES, np.int32)
    values = used_bits.view(np.float32)
    points = np.empty(num_points * LANES, np.float32)
    sums = np.empty(num_points * LANES * in_double, np.float64)
    line = np.zeros(LANES, np.int32)
    for graph in range(part.first_graph, part.last_graph):
        start, row = ptr[graph], rows[graph]
        size = ptr[graph + 1] - start
        if num_key_rows(size) * LANES > len(keys):
            continue
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = lanes_of_block(block, part)
            to = (graph * num_slices + first) * num_points
            if size == 0:
                out[to : to + width * num_points] = 0
                continue
            pack_block(
                bits, start * num_slices + first, num_slices, size, width, keys, line
            )
            sort_rows(keys, size)
            begin, end = terms.first_used[row], terms.first_used[row + 1]
            for i in range(end - begin):
                at = terms.used[begin + i] * LANES
                place_to = (start + i) * num_slices + first
                unpack_row(keys, at, used_bits, i * LANES, order, place_to, width, line)
            _finish(
                values, terms, row, num_points, in_double, points, sums, width, out, to
            )


@kernel
def pack(bits, num_slices, start, size, first, width, keys):
    """The keys of some slices of a graph, ``[width, size]``, to be sorted."""
    tile = np.empty(LANES * LANES, keys.dtype)
    line = np.zeros(LANES, np.int32)
    for block in range(0, width, LANES):
        lanes = min(LANES, width - block)
        for place in range(0, size, LANES):
            num_rows = min(LANES, size - place)
            for i in range(num_rows):
                at = (start + place + i) * num_slices + first + block
                pack_row(bits, at, tile, i * LANES, place + i, lanes, line)
            for lane in range(lanes):
                to = (block + lane) * size + place
                for i in range(num_rows):
                    keys[to + i] = tile[i * LANES + lane]


@kernel
def unpack(
    keys,
    num_slices,
    start,
    size,
    first,
    width,
    graph,
    row,
    terms,
    num_points,
    in_double,
    out,
    order,
):
    """The points of sorted keys ``[width, size]``."""
    begin, end = terms.first_used[row], terms.first_used[row + 1]
    used_bits = np.empty((end - begin) * LANES, np.int32)
    values = used_bits.view(np.float32)
    points = np.empty(num_points * LANES, np.float32)
    sums = np.empty(num_points * LANES * in_double, np.float64)
    gathered = np.zeros(LANES, keys.dtype)
    line = np.zeros(LANES, np.int32)
    for block in range(0, width, LANES):
        lanes = min(LANES, width - block)
        for i in range(end - begin):
            at = block * size + terms.used[begin + i]
            for lane in range(lanes):
                gathered[lane] = keys[at + lane * size]
            place_to = (start + i) * num_slices + first + block
            unpack_row(gathered, 0, used_bits, i * LANES, order, place_to, lanes, line)
        to = (graph * num_slices + first + block) * num_points
        _finish(values, terms, row, num_points, in_double, points, sums, lanes, out, to)


@kernel
def apply(src, num_slices, ptr, rows, terms, num_points, in_double, part, out, order):
    """The points of values in a given order."""
    values = np.zeros(_max_used(terms) * LANES, np.float32)
    points = np.empty(num_points * LANES, np.float32)
    sums = np.empty(num_points * LANES * in_double, np.float64)
    for graph in range(part.first_graph, part.last_graph):
        start, row = ptr[graph], rows[graph]
        is_empty = ptr[graph + 1] == start
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = lanes_of_block(block, part)
            to = (graph * num_slices + first) * num_points
            if is_empty:
                out[to : to + width * num_points] = 0
                continue
            for i in range(terms.first_used[row + 1] - terms.first_used[row]):
                at = (start + i) * num_slices + first
                for lane in range(width):
                    place = start + order[at + lane]
                    values[i * LANES + lane] = src[place * num_slices + first + lane]
            _finish(
                values, terms, row, num_points, in_double, points, sums, width, out, to
            )


@kernel
def adjoint(grad, num_slices, ptr, rows, terms, num_points, part, out, order):
    """The transpose of :func:`apply`."""
    used = np.empty(_max_used(terms) * LANES, np.float32)
    points = np.zeros(num_points * LANES, np.float32)
    for graph in range(part.first_graph, part.last_graph):
        start, row = ptr[graph], rows[graph]
        size = ptr[graph + 1] - start
        if size == 0:
            continue
        num_used = terms.first_used[row + 1] - terms.first_used[row]
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = lanes_of_block(block, part)
            at = (graph * num_slices + first) * num_points
            for lane in range(width):
                for m in range(num_points):
                    points[m * LANES + lane] = grad[at + lane * num_points + m]
            used[: num_used * LANES] = 0
            for m in range(num_points):
                begin = terms.first[row * num_points + m]
                end = terms.first[row * num_points + m + 1]
                for t in range(begin, end):
                    to = terms.position[t] * LANES
                    add_scaled(terms.weight[t], points, m * LANES, used, to)
            base = start * num_slices + first
            if num_used < size:
                for place in range(size):
                    to = base + place * num_slices
                    out[to : to + width] = 0
            for i in range(num_used):
                at = base + i * num_slices
                for lane in range(width):
                    to = base + order[at + lane] * num_slices + lane
                    out[to] = used[i * LANES + lane]
