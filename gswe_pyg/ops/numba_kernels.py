"""The compiled loops of the ``numba`` backend.

Graphs are worked off in blocks of :obj:`LANES` slices. A block of a graph is a small
matrix in the cache with a row for each element, and what is done to a row is done to
all its lanes at once, by SIMD instructions. All matrices are flat arrays here.

Values are compared as integers of the same order, their *keys*. Where the order is
wanted, a key of twice the width has the place of the element in its lower half, so that
ties go by place. NaN comes last; -0.0 and 0.0 are a tie.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 16

_MAGNITUDE = np.int32(0x7FFFFFFF)
_INFINITY = np.int32(0x7F800000)
_SMALLEST = np.int32(-0x80000000)


class Terms(NamedTuple):
    """Points as sums over sorted values, for sets of some sizes, a row for each size.

    Of the sorted values, ``used[first_used[row]:first_used[row + 1]]`` occur in a sum.
    Point ``m`` is the sum over ``first[row * num_points + m]`` to the next of
    ``weight`` times the used value number ``position``.
    """

    first: np.ndarray
    position: np.ndarray
    weight: np.ndarray
    first_used: np.ndarray
    used: np.ndarray


class Part(NamedTuple):
    """Some of the graphs, and some of the slices."""

    first_graph: int
    last_graph: int
    first_slice: int
    last_slice: int


@intrinsic
def _exchange(typing_context, keys, low, high):
    """Puts the smaller ones of two rows of keys into the first one, lane by lane, and
    the larger ones into the second. The rows are given by their first lane."""

    def generate(context, builder, signature, arguments):
        dtype = signature.args[0].dtype
        array = make_array(signature.args[0])(context, builder, arguments[0])
        vector = ir.VectorType(context.get_data_type(dtype), LANES)
        align = dtype.bitwidth // 8
        rows = [
            builder.bitcast(
                cgutils.gep_inbounds(builder, array.data, lane), vector.as_pointer()
            )
            for lane in arguments[1:]
        ]
        a, b = (builder.load(row, align=align) for row in rows)
        is_greater = builder.icmp_signed(">", a, b)
        builder.store(builder.select(is_greater, b, a), rows[0], align=align)
        builder.store(builder.select(is_greater, a, b), rows[1], align=align)
        return context.get_dummy_value()

    return types.void(keys, types.intp, types.intp), generate


@njit(nogil=True)
def _sort(keys, num_rows):
    """Batcher's merge exchange: the same comparisons for all lanes."""
    top = 1
    while 2 * top < num_rows:
        top *= 2
    step = top
    while step > 0:
        phase, first, distance = top, 0, step
        while True:
            last = num_rows - distance
            for start in range(first, last, 2 * step):
                for row in range(start, min(start + step, last)):
                    _exchange(keys, row * LANES, (row + distance) * LANES)
            if phase == step:
                break
            distance = phase - step
            phase //= 2
            first = step
        step //= 2


@njit(nogil=True)
def _key(bits):
    """From the bits of a float32 to an integer of the same order."""
    key = np.int32(_SMALLEST - bits) if bits < 0 else bits
    return _MAGNITUDE if np.int32(bits & _MAGNITUDE) > _INFINITY else key


@njit(nogil=True)
def _bits(key):
    """The way back."""
    return np.int32(_SMALLEST - key) if key < 0 else key


@njit(nogil=True)
def _pack_row(bits, at, width, keys, to, lane_stride, place):
    for lane in range(width):
        key = _key(bits[at + lane])
        if keys.itemsize == 8:
            keys[to + lane * lane_stride] = np.int64(key) << 32 | place
        else:
            keys[to + lane * lane_stride] = key


@njit(nogil=True)
def _unpack_row(keys, at, lane_stride, width, bits, to, order, place_to):
    for lane in range(width):
        key = keys[at + lane * lane_stride]
        if keys.itemsize == 8:
            order[place_to + lane] = np.int32(key)
            bits[to + lane] = _bits(np.int32(key >> 32))
        else:
            bits[to + lane] = _bits(key)


@njit(nogil=True)
def _interpolate(values, terms, row, num_points, in_double, points):
    """From used values ``[num_used, LANES]`` to points ``[num_points, LANES]``."""
    total = np.empty(LANES, np.float64)
    for m in range(num_points):
        start = terms.first[row * num_points + m]
        end = terms.first[row * num_points + m + 1]
        to = m * LANES
        if in_double:
            total[:] = 0.0
            for t in range(start, end):
                weight, at = terms.weight[t], terms.position[t] * LANES
                for lane in range(LANES):
                    total[lane] += weight * np.float64(values[at + lane])
            for lane in range(LANES):
                points[to + lane] = np.float32(total[lane])
        elif end == start + 1:
            weight, at = np.float32(terms.weight[start]), terms.position[start] * LANES
            for lane in range(LANES):
                points[to + lane] = weight * values[at + lane]
        else:
            a, u = np.float32(terms.weight[start]), terms.position[start] * LANES
            b, v = np.float32(terms.weight[start + 1]), terms.position[start + 1] * LANES
            for lane in range(LANES):
                points[to + lane] = a * values[u + lane] + b * values[v + lane]


@njit(nogil=True)
def _write(points, num_points, width, out, at):
    """Points ``[num_points, LANES]`` to ``[width, num_points]``."""
    for lane in range(width):
        for m in range(num_points):
            out[at + lane * num_points + m] = points[m * LANES + lane]


@njit(cache=True, nogil=True)
def quantile(
    src, num_slices, ptr, rows, terms, num_points, in_double, part, keys, out, order
):
    """The points of graphs that have room in ``keys``; the others are left out."""
    max_used = min(len(keys) // LANES, _max_used(terms))
    bits = np.zeros(max_used * LANES, np.int32)
    values = bits.view(np.float32)
    points = np.empty(num_points * LANES, np.float32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        if size * LANES > len(keys):
            continue
        row = rows[graph]
        for first in range(part.first_slice, part.last_slice, LANES):
            width = min(LANES, part.last_slice - first)
            at = (graph * num_slices + first) * num_points
            if size == 0:
                out[at : at + width * num_points] = 0
                continue
            for place in range(size):
                source = (start + place) * num_slices + first
                if width == LANES:
                    _pack_row(src, source, LANES, keys, place * LANES, 1, place)
                else:
                    _pack_row(src, source, width, keys, place * LANES, 1, place)
            _sort(keys, size)
            first_used = terms.first_used[row]
            for i in range(terms.first_used[row + 1] - first_used):
                rank = terms.used[first_used + i]
                to = (start + i) * num_slices + first
                if width == LANES:
                    _unpack_row(
                        keys, rank * LANES, 1, LANES, bits, i * LANES, order, to
                    )
                else:
                    _unpack_row(
                        keys, rank * LANES, 1, width, bits, i * LANES, order, to
                    )
            _interpolate(values, terms, row, num_points, in_double, points)
            _write(points, num_points, width, out, at)


@njit(nogil=True)
def _max_used(terms):
    largest = 0
    for row in range(len(terms.first_used) - 1):
        largest = max(largest, terms.first_used[row + 1] - terms.first_used[row])
    return largest


@njit(cache=True, nogil=True)
def pack(src, num_slices, start, size, first, width, keys):
    """The keys of some slices of a graph, ``[width, size]``, to be sorted."""
    for place in range(size):
        at = (start + place) * num_slices + first
        _pack_row(src, at, width, keys, place, size, place)


@njit(cache=True, nogil=True)
def unpack(
    keys,
    size,
    first,
    width,
    graph,
    num_slices,
    start,
    row,
    terms,
    num_points,
    in_double,
    out,
    order,
):
    """The points of sorted keys ``[width, size]``."""
    first_used = terms.first_used[row]
    num_used = terms.first_used[row + 1] - first_used
    bits = np.zeros(num_used * LANES, np.int32)
    values = bits.view(np.float32)
    points = np.empty(num_points * LANES, np.float32)
    for block in range(0, width, LANES):
        lanes = min(LANES, width - block)
        for i in range(num_used):
            rank = block * size + terms.used[first_used + i]
            to = (start + i) * num_slices + first + block
            _unpack_row(keys, rank, size, lanes, bits, i * LANES, order, to)
        _interpolate(values, terms, row, num_points, in_double, points)
        at = (graph * num_slices + first + block) * num_points
        _write(points, num_points, lanes, out, at)


@njit(cache=True, nogil=True)
def apply(
    src, num_slices, ptr, rows, terms, num_points, in_double, part, out, order
):
    """The points of values in a given order."""
    values = np.zeros(_max_used(terms) * LANES, np.float32)
    points = np.empty(num_points * LANES, np.float32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        row = rows[graph]
        for first in range(part.first_slice, part.last_slice, LANES):
            width = min(LANES, part.last_slice - first)
            at = (graph * num_slices + first) * num_points
            if size == 0:
                out[at : at + width * num_points] = 0
                continue
            for i in range(terms.first_used[row + 1] - terms.first_used[row]):
                place_at = (start + i) * num_slices + first
                for lane in range(width):
                    place = start + order[place_at + lane]
                    values[i * LANES + lane] = src[place * num_slices + first + lane]
            _interpolate(values, terms, row, num_points, in_double, points)
            _write(points, num_points, width, out, at)


@njit(cache=True, nogil=True)
def adjoint(grad, num_slices, ptr, rows, terms, num_points, part, out, order):
    """The transpose of :func:`apply`."""
    used = np.empty(_max_used(terms) * LANES, np.float32)
    points = np.zeros(num_points * LANES, np.float32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        if size == 0:
            continue
        row = rows[graph]
        num_used = terms.first_used[row + 1] - terms.first_used[row]
        for first in range(part.first_slice, part.last_slice, LANES):
            width = min(LANES, part.last_slice - first)
            at = (graph * num_slices + first) * num_points
            for lane in range(width):
                for m in range(num_points):
                    points[m * LANES + lane] = grad[at + lane * num_points + m]
            used[: num_used * LANES] = 0
            for m in range(num_points):
                for t in range(
                    terms.first[row * num_points + m],
                    terms.first[row * num_points + m + 1],
                ):
                    weight = np.float32(terms.weight[t])
                    to = terms.position[t] * LANES
                    for lane in range(LANES):
                        used[to + lane] += weight * points[m * LANES + lane]
            base = start * num_slices + first
            if num_used < size:
                for place in range(size):
                    to = base + place * num_slices
                    for lane in range(width):
                        out[to + lane] = 0
            for i in range(num_used):
                place_at = base + i * num_slices
                for lane in range(width):
                    to = base + order[place_at + lane] * num_slices + lane
                    out[to] = used[i * LANES + lane]
