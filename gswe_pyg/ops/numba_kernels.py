"""The compiled loops of the ``numba`` backend.

Graphs are worked off in blocks of :obj:`LANES` slices. A block of a graph is a small
matrix in the cache with a row for each element, and what is done to a row is done to
all its lanes at once, by SIMD instructions. All matrices are flat arrays here.

Values are compared as integers of the same order, their *keys*. Where the order is
wanted, a key of twice the width has the place of the element in its lower half, so that
ties go by place. NaN comes last; -0.0 and 0.0 are a tie.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 16

# Points that are written at once.
TILE = 4

PLACE_BITS = 30

# Makes all keys with places positive, and as floats neither denormal nor infinite.
_OFFSET = 1 << 62

# Behind all keys.
_LAST_32 = np.int32(0x7FFFFFFF)
_LAST_64 = np.int64(0x6000000000000000)

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


# A part of a kernel: a call for each row would take longer than what is done to it.
_inlined = njit(nogil=True, forceinline=True)


def _kernel(function: Callable) -> Callable:
    """Compiled at the first call, and kept on disk if there is a place to write to."""
    try:
        return njit(function, cache=True, nogil=True)
    except RuntimeError:
        return njit(function, nogil=True)


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


# SIMD instructions ####################################################################
#
# As vectors for LLVM, because its own search for what can be done at once fails where
# rows of one array are read and written.


def _vector(lane: ir.Type) -> ir.VectorType:
    return ir.VectorType(lane, LANES)


def _constant(lane: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(_vector(lane), [value] * LANES)


def _splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    vector = _vector(value.type)
    zeros = ir.Constant(_vector(_INT32), [0] * LANES)
    single = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(single, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


class _Array:
    """Loads and stores vectors at a place of an array."""

    def __init__(self, context, builder, array_type, value) -> None:
        self.builder = builder
        self.data = make_array(array_type)(context, builder, value).data
        self.lane = context.get_data_type(array_type.dtype)
        self.num_bytes = array_type.dtype.bitwidth // 8

    def _pointer(self, at: ir.Value, vector: ir.VectorType) -> ir.Value:
        first = cgutils.gep_inbounds(self.builder, self.data, at)
        return self.builder.bitcast(first, vector.as_pointer())

    def load(self, at: ir.Value, lanes: int = LANES) -> ir.Value:
        pointer = self._pointer(at, ir.VectorType(self.lane, lanes))
        return self.builder.load(pointer, align=self.num_bytes)

    def store(self, value: ir.Value, at: ir.Value) -> None:
        pointer = self._pointer(at, value.type)
        self.builder.store(value, pointer, align=self.num_bytes)


def _network(*comparators: tuple[int, int]):
    """Sorts some rows of keys, given by their first lanes, by comparing these pairs."""

    @intrinsic
    def exchange(typing_context, keys, rows):
        def generate(context, builder, signature, arguments):
            array = _Array(context, builder, signature.args[0], arguments[0])
            starts = cgutils.unpack_tuple(builder, arguments[1])
            # As many lanes as all rows have room for in the registers.
            lanes = 32 // array.num_bytes
            for lane in range(0, LANES, lanes):
                shift = ir.Constant(starts[0].type, lane)
                places = [builder.add(start, shift) for start in starts]
                values = [array.load(place, lanes) for place in places]
                for low, high in comparators:
                    pair = _minimum_and_maximum(builder, values[low], values[high])
                    values[low], values[high] = pair
                for value, place in zip(values, places, strict=True):
                    array.store(value, place)
            return context.get_dummy_value()

        return types.void(keys, rows), generate

    return exchange


def _minimum_and_maximum(
    builder: ir.IRBuilder, a: ir.Value, b: ir.Value
) -> tuple[ir.Value, ir.Value]:
    if a.type.element == _INT32:
        is_less = builder.icmp_signed("<", a, b)
    else:
        # There are instructions for the minimum of floats, but not for that of int64.
        doubles = ir.VectorType(ir.DoubleType(), a.type.count)
        as_doubles = [builder.bitcast(x, doubles) for x in (a, b)]
        is_less = builder.fcmp_ordered("<", *as_doubles)
        a_double, b_double = as_doubles
        return (
            builder.bitcast(builder.select(is_less, a_double, b_double), a.type),
            builder.bitcast(builder.select(is_less, b_double, a_double), a.type),
        )
    return builder.select(is_less, a, b), builder.select(is_less, b, a)


_exchange = _network((0, 1))
_cross_4 = _network((0, 3), (1, 2), (0, 1), (2, 3))
_halve_4 = _network((0, 2), (1, 3), (0, 1), (2, 3))
_halve_8 = _network(
    *[(0, 4), (1, 5), (2, 6), (3, 7)],
    *[(0, 2), (1, 3), (4, 6), (5, 7)],
    *[(0, 1), (2, 3), (4, 5), (6, 7)],
)
_sort_8 = _network(
    *[(0, 1), (2, 3), (4, 5), (6, 7)],
    *[(0, 2), (1, 3), (4, 6), (5, 7)],
    *[(1, 2), (5, 6), (0, 4), (3, 7)],
    *[(1, 5), (2, 6)],
    *[(1, 4), (3, 6)],
    *[(2, 4), (3, 5)],
    *[(3, 4)],
)


@intrinsic
def _pack(typing_context, bits, at, keys, to, place):
    """The keys of a row of values."""

    def generate(context, builder, signature, arguments):
        source = _Array(context, builder, signature.args[0], arguments[0])
        target = _Array(context, builder, signature.args[2], arguments[2])
        # Zero is added: where denormal numbers are to be flushed, they are now.
        value = builder.bitcast(source.load(arguments[1]), _vector(ir.FloatType()))
        value = builder.fadd(value, _constant(ir.FloatType(), 0.0))
        value = builder.bitcast(value, _vector(_INT32))
        key = _flip_negative(builder, value)
        magnitude = builder.and_(value, _constant(_INT32, 0x7FFFFFFF))
        infinity = _constant(_INT32, 0x7F800000)
        is_nan = builder.icmp_signed(">", magnitude, infinity)
        key = builder.select(is_nan, _constant(_INT32, 0x7FFFFFFF), key)
        if target.lane != _INT32:
            key = builder.sext(key, _vector(_INT64))
            key = builder.shl(key, _constant(_INT64, PLACE_BITS))
            offset = builder.add(arguments[4], ir.Constant(_INT64, _OFFSET))
            key = builder.add(key, _splat(builder, offset))
        target.store(key, arguments[3])
        return context.get_dummy_value()

    signature = types.void(bits, types.intp, keys, types.intp, types.int64)
    return signature, generate


@intrinsic
def _unpack(typing_context, keys, at, bits, to, order, place_to):
    """The values of a row of keys, and their places if they have some."""

    def generate(context, builder, signature, arguments):
        source = _Array(context, builder, signature.args[0], arguments[0])
        target = _Array(context, builder, signature.args[2], arguments[2])
        key = source.load(arguments[1])
        if source.lane != _INT32:
            place = builder.and_(key, _constant(_INT64, (1 << PLACE_BITS) - 1))
            place = builder.trunc(place, _vector(_INT32))
            places = _Array(context, builder, signature.args[4], arguments[4])
            places.store(place, arguments[5])
            key = builder.sub(key, _constant(_INT64, _OFFSET))
            key = builder.ashr(key, _constant(_INT64, PLACE_BITS))
            key = builder.trunc(key, _vector(_INT32))
        target.store(_flip_negative(builder, key), arguments[3])
        return context.get_dummy_value()

    signature = types.void(keys, types.intp, bits, types.intp, order, types.intp)
    return signature, generate


def _flip_negative(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """From sign and magnitude to two's complement, or back."""
    negative = builder.sub(_constant(_INT32, -0x80000000), value)
    is_negative = builder.icmp_signed("<", value, _constant(_INT32, 0))
    return builder.select(is_negative, negative, value)


def _scaled(is_added: bool):
    """A row of values times a weight, written or added to another row."""

    @intrinsic
    def scale(typing_context, weight, values, at, out, to):
        def generate(context, builder, signature, arguments):
            source = _Array(context, builder, signature.args[1], arguments[1])
            target = _Array(context, builder, signature.args[3], arguments[3])
            value = source.load(arguments[2])
            if source.lane != target.lane:
                value = builder.fpext(value, _vector(target.lane))
            value = builder.fmul(value, _splat(builder, arguments[0]))
            if is_added:
                value = builder.fadd(target.load(arguments[4]), value)
            target.store(value, arguments[4])
            return context.get_dummy_value()

        return types.void(out.dtype, values, types.intp, out, types.intp), generate

    return scale


_set_scaled, _add_scaled = _scaled(False), _scaled(True)


@intrinsic
def _transpose(typing_context, points, at, out, to, stride):
    """Some rows of points as columns, which begin ``stride`` apart."""

    def generate(context, builder, signature, arguments):
        source = _Array(context, builder, signature.args[0], arguments[0])
        target = _Array(context, builder, signature.args[2], arguments[2])
        rows = []
        for row in range(TILE):
            shift = ir.Constant(arguments[1].type, row * LANES)
            value = source.load(builder.add(arguments[1], shift))
            if source.lane != target.lane:
                value = builder.fptrunc(value, _vector(target.lane))
            rows.append(value)
        # Two by two, until all lie in one vector.
        while len(rows) > 1:
            count = 2 * rows[0].type.count
            indices = ir.Constant(ir.VectorType(_INT32, count), list(range(count)))
            rows = [
                builder.shuffle_vector(a, b, indices)
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
        to = arguments[3]
        for lane in range(LANES):
            picked = [row * LANES + lane for row in range(TILE)]
            indices = ir.Constant(ir.VectorType(_INT32, TILE), picked)
            target.store(builder.shuffle_vector(rows[0], rows[0], indices), to)
            to = builder.add(to, arguments[4])
        return context.get_dummy_value()

    signature = types.void(points, types.intp, out, types.intp, types.intp)
    return signature, generate


# Parts of the kernels #################################################################


@_inlined
def _sort(keys, num_rows):
    """A bitonic sort of rows: the same comparisons for all lanes.

    Rows are added until there are eight in each run, and stay behind all others.
    """
    end = num_key_rows(num_rows)
    keys[num_rows * LANES : end * LANES] = _LAST_64 if keys.itemsize == 8 else _LAST_32
    for row in range(0, end, 8):
        _sort_8(keys, _eight_rows(row))
    length = 8
    while length < end:
        for start in range(0, end - length, 2 * length):
            stop = min(start + 2 * length, end)
            _cross(keys, start, length, stop)
            distance = length // 4 if length > 8 else 0
            while distance >= 16:
                _halve_twice(keys, start, distance, stop)
                distance //= 4
            if distance == 8:
                _halve(keys, start, stop)
            for row in range(start, stop, 8):
                _halve_8(keys, _eight_rows(row))
        length *= 2


@_inlined
def _cross(keys, start, length, stop):
    """Compares two sorted runs, the second backwards, and halves of the results."""
    last = start + 2 * length - 1
    if length == 8:
        for row in range(last + 1 - stop, 8):
            _exchange(keys, ((start + row) * LANES, (last - row) * LANES))
        return
    half = length // 2
    for i in range(half):
        a, b, c, d = start + i, start + i + half, last - i - half, last - i
        if d < stop:
            _cross_4(keys, (a * LANES, b * LANES, c * LANES, d * LANES))
        else:
            if c < stop:
                _exchange(keys, (b * LANES, c * LANES))
            _exchange(keys, (a * LANES, b * LANES))


@_inlined
def _halve_twice(keys, start, distance, stop):
    """Compares rows of this distance, and then of half of it."""
    half = distance // 2
    for first in range(start, stop, 2 * distance):
        for a in range(first, first + half):
            b, c, d = a + half, a + distance, a + distance + half
            if d < stop:
                _halve_4(keys, (a * LANES, b * LANES, c * LANES, d * LANES))
            else:
                if c < stop:
                    _exchange(keys, (a * LANES, c * LANES))
                if b < stop:
                    _exchange(keys, (a * LANES, b * LANES))


@_inlined
def _halve(keys, start, stop):
    """Compares rows of distance eight."""
    for first in range(start, stop - 8, 16):
        for row in range(first, first + 8):
            _exchange(keys, (row * LANES, (row + 8) * LANES))


@_inlined
def _lanes_of_block(block, part):
    """The first slice and the width of a block: a full one, if need be by doing some
    slices of the block before it once more."""
    first = max(part.first_slice, min(block, part.last_slice - LANES))
    return first, min(LANES, part.last_slice - first)


@_inlined
def _pack_row(bits, at, keys, to, place, width, line):
    if width == LANES:
        _pack(bits, at, keys, to, place)
    else:
        for lane in range(width):
            line[lane] = bits[at + lane]
        _pack(line, 0, keys, to, place)


@_inlined
def _pack_block(bits, at, num_slices, size, width, keys, line):
    for place in range(size):
        source = at + place * num_slices
        _pack_row(bits, source, keys, place * LANES, place, width, line)


@_inlined
def _unpack_row(keys, at, bits, to, order, place_to, width, line):
    if width == LANES:
        _unpack(keys, at, bits, to, order, place_to)
    else:
        _unpack(keys, at, bits, to, line, 0)
        if keys.itemsize == 8:
            for lane in range(width):
                order[place_to + lane] = line[lane]


@_inlined
def num_key_rows(num_rows):
    return (num_rows + 7) // 8 * 8


@_inlined
def _eight_rows(row):
    at = row * LANES
    return (
        at,
        at + LANES,
        at + 2 * LANES,
        at + 3 * LANES,
        at + 4 * LANES,
        at + 5 * LANES,
        at + 6 * LANES,
        at + 7 * LANES,
    )


@_inlined
def _interpolate(values, terms, row, num_points, points):
    """From used values ``[num_used, LANES]`` to points ``[num_points, LANES]``."""
    for m in range(num_points):
        start = terms.first[row * num_points + m]
        end = terms.first[row * num_points + m + 1]
        at = terms.position[start] * LANES
        _set_scaled(terms.weight[start], values, at, points, m * LANES)
        for t in range(start + 1, end):
            at = terms.position[t] * LANES
            _add_scaled(terms.weight[t], values, at, points, m * LANES)


@_inlined
def _finish(values, terms, row, num_points, in_double, points, sums, width, out, to):
    """From used values to points in the output."""
    if in_double:
        _interpolate(values, terms, row, num_points, sums)
        _write(sums, num_points, width, out, to)
    else:
        _interpolate(values, terms, row, num_points, points)
        _write(points, num_points, width, out, to)


@_inlined
def _write(points, num_points, width, out, at):
    """Points ``[num_points, LANES]`` to ``[width, num_points]``."""
    num_tiled = num_points // TILE * TILE if width == LANES else 0
    for m in range(0, num_tiled, TILE):
        _transpose(points, m * LANES, out, at + m, num_points)
    for lane in range(width):
        for m in range(num_tiled, num_points):
            out[at + lane * num_points + m] = points[m * LANES + lane]


@_inlined
def _max_used(terms):
    largest = 0
    for row in range(len(terms.first_used) - 1):
        largest = max(largest, terms.first_used[row + 1] - terms.first_used[row])
    return largest


# Kernels ##############################################################################


@_kernel
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
            first, width = _lanes_of_block(block, part)
            to = (graph * num_slices + first) * num_points
            if size == 0:
                out[to : to + width * num_points] = 0
                continue
            _pack_block(
                bits, start * num_slices + first, num_slices, size, width, keys, line
            )
            _sort(keys, size)
            begin, end = terms.first_used[row], terms.first_used[row + 1]
            for i in range(end - begin):
                at = terms.used[begin + i] * LANES
                place_to = (start + i) * num_slices + first
                _unpack_row(
                    keys, at, used_bits, i * LANES, order, place_to, width, line
                )
            _finish(
                values, terms, row, num_points, in_double, points, sums, width, out, to
            )


@_kernel
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
                _pack_row(bits, at, tile, i * LANES, place + i, lanes, line)
            for lane in range(lanes):
                to = (block + lane) * size + place
                for i in range(num_rows):
                    keys[to + i] = tile[i * LANES + lane]


@_kernel
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
            _unpack_row(gathered, 0, used_bits, i * LANES, order, place_to, lanes, line)
        to = (graph * num_slices + first + block) * num_points
        _finish(values, terms, row, num_points, in_double, points, sums, lanes, out, to)


@_kernel
def apply(src, num_slices, ptr, rows, terms, num_points, in_double, part, out, order):
    """The points of values in a given order."""
    values = np.zeros(_max_used(terms) * LANES, np.float32)
    points = np.empty(num_points * LANES, np.float32)
    sums = np.empty(num_points * LANES * in_double, np.float64)
    for graph in range(part.first_graph, part.last_graph):
        start, row = ptr[graph], rows[graph]
        is_empty = ptr[graph + 1] == start
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = _lanes_of_block(block, part)
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


@_kernel
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
            first, width = _lanes_of_block(block, part)
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
                    _add_scaled(terms.weight[t], points, m * LANES, used, to)
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


# Sets with masses #####################################################################
#
# Their order is another in each slice, so that this is done lane by lane. The formulas
# are those of `gswe_pyg.ops.weighted`.

# Kept here, as compiled code does not notice what changes in other files.
CODES = {"linear": 0, "step": 1, "barycentric": 2, "pswe": 3}
LINEAR, STEP, BARYCENTRIC = CODES["linear"], CODES["step"], CODES["barycentric"]


class Lane(NamedTuple):
    """A set in one slice, in sorted order, and room for its derivatives."""

    place: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    cumulative: np.ndarray
    grad_value: np.ndarray
    grad_mass: np.ndarray
    grad_knot: np.ndarray


@_inlined
def _load_lane(keys, at, stride, values, base, num_slices, mass, start, size, lane):
    cumulative = 0.0
    for j in range(size):
        place = keys[at + j * stride] & ((1 << PLACE_BITS) - 1)
        cumulative += mass[start + place]
        lane.place[j] = place
        lane.value[j] = values[base + place * num_slices]
        lane.mass[j] = mass[start + place]
        lane.cumulative[j] = cumulative


@_inlined
def _knot_factors(interpolation, size, num_points):
    """Knots are the first times the cumulative mass plus the second times the mass."""
    if interpolation == LINEAR:
        return 2.0 * num_points, -1.0 * num_points
    return float(size) * (num_points + 1), 0.0


@_inlined
def _rank(interpolation, size, m):
    """The place of a point among the knots is this times the total."""
    if interpolation == LINEAR:
        return 2.0 * m + 1
    return (size + 1.0) * (m + 1)


@_inlined
def _advance(lane, size, m, num_points, interpolation, lower):
    """The element below a point, from that of the point before, and how far it is to
    the next one, with the inverse of the gap between them."""
    last = size - 1
    total = lane.cumulative[last]
    if interpolation == STEP:
        # Compared as products, so that whole masses are compared exactly.
        wanted = (2.0 * m + 1) * total
        while lower < last and lane.cumulative[lower] * (2 * num_points) < wanted:
            lower += 1
        return lower, 0.0, 0.0
    per_cumulative, per_mass = _knot_factors(interpolation, size, num_points)
    wanted = _rank(interpolation, size, m) * total
    low = per_cumulative * lane.cumulative[lower] + per_mass * lane.mass[lower]
    upper = min(lower + 1, last)
    high = per_cumulative * lane.cumulative[upper] + per_mass * lane.mass[upper]
    while lower + 1 < last and high <= wanted:
        lower, low = lower + 1, high
        upper = lower + 1
        high = per_cumulative * lane.cumulative[upper] + per_mass * lane.mass[upper]
    if high <= low:  # a single element, or a mass that vanishes beside the total
        return lower, 0.0, 0.0
    fraction, inverse_gap = (wanted - low) / (high - low), 1 / (high - low)
    if interpolation == LINEAR and not 0 <= fraction <= 1:
        return lower, min(max(fraction, 0.0), 1.0), 0.0  # constant beyond the knots
    return lower, fraction, inverse_gap


@_inlined
def _points_between(lane, size, num_points, interpolation, points, to):
    lower = 0
    for m in range(num_points):
        lower, fraction, _ = _advance(lane, size, m, num_points, interpolation, lower)
        point = 0.0
        if fraction != 1:  # zero times infinity is nothing
            point += lane.value[lower] * (1 - fraction)
        if fraction != 0:
            point += lane.value[min(lower + 1, size - 1)] * fraction
        points[to + m] = point


@_inlined
def _gradients_between(lane, size, num_points, interpolation, grad_points, at):
    lane.grad_value[:size] = 0
    lane.grad_knot[:size] = 0
    grad_total = 0.0
    lower = 0
    for m in range(num_points):
        lower, fraction, inverse_gap = _advance(
            lane, size, m, num_points, interpolation, lower
        )
        upper = min(lower + 1, size - 1)
        grad = np.float64(grad_points[at + m])
        lane.grad_value[lower] += grad * (1 - fraction)
        if interpolation != STEP:
            lane.grad_value[upper] += grad * fraction
        slope = (grad * lane.value[upper] - grad * lane.value[lower]) * inverse_gap
        lane.grad_knot[lower] += slope * (fraction - 1)
        lane.grad_knot[upper] -= slope * fraction
        grad_total += slope * _rank(interpolation, size, m)
    if interpolation == STEP:
        lane.grad_mass[:size] = 0
        return
    per_cumulative, per_mass = _knot_factors(interpolation, size, num_points)
    for j in range(size - 1, -1, -1):
        grad_total += per_cumulative * lane.grad_knot[j]
        lane.grad_mass[j] = per_mass * lane.grad_knot[j] + grad_total


@_inlined
def _next_piece(lane, size, num_points, j, m):
    """Up to where element and point stay the same, and which of them ends there: both
    do at last, the element first."""
    end_of_point = (m + 1) * lane.cumulative[size - 1]
    if j == size:
        return end_of_point, False
    end_of_element = lane.cumulative[j] * num_points
    if end_of_point < end_of_element:
        return end_of_point, False
    return end_of_element, True


@_inlined
def _points_by_overlap(lane, size, num_points, points, to):
    total = lane.cumulative[size - 1]
    j, m, begin, point = 0, 0, 0.0, 0.0
    while m < num_points:
        end, is_element = _next_piece(lane, size, num_points, j, m)
        weight = (end - begin) / total
        if weight != 0:
            point += lane.value[min(j, size - 1)] * weight
        begin = end
        if is_element:
            j += 1
        else:
            points[to + m] = point
            m, point = m + 1, 0.0


@_inlined
def _gradients_by_overlap(lane, size, num_points, grad_points, at):
    total = lane.cumulative[size - 1]
    lane.grad_value[:size] = 0
    lane.grad_knot[:size] = 0
    grad_total, grad_before = 0.0, 0.0
    j, m, begin = 0, 0, 0.0
    before_is_element, before = False, -1  # what ended where this piece begins
    while True:
        is_over = m == num_points
        grad_width = 0.0
        if not is_over:
            end, is_element = _next_piece(lane, size, num_points, j, m)
            weight = (end - begin) / total
            column = min(j, size - 1)
            grad = np.float64(grad_points[at + m])
            lane.grad_value[column] += grad * weight
            grad_width = grad * lane.value[column] / total
            grad_total -= grad_width * weight
            begin = end
        grad_end = grad_before - grad_width
        if before >= 0 and before_is_element:
            lane.grad_knot[before] += grad_end * num_points
        elif before >= 0:
            grad_total += grad_end * (before + 1)
        if is_over:
            break
        grad_before, before_is_element = grad_width, is_element
        before = j if is_element else m
        if is_element:
            j += 1
        else:
            m += 1
    for j in range(size - 1, -1, -1):
        grad_total += lane.grad_knot[j]
        lane.grad_mass[j] = grad_total


@_inlined
def _points(lane, size, num_points, interpolation, points, to):
    if interpolation == BARYCENTRIC:
        _points_by_overlap(lane, size, num_points, points, to)
    else:
        _points_between(lane, size, num_points, interpolation, points, to)


@_inlined
def _gradients(lane, size, num_points, interpolation, grad_points, at):
    """Those of the values and masses, which are left in the lane."""
    if interpolation == BARYCENTRIC:
        _gradients_by_overlap(lane, size, num_points, grad_points, at)
    else:
        _gradients_between(lane, size, num_points, interpolation, grad_points, at)


@_kernel
def weighted(
    bits,
    num_slices,
    ptr,
    mass,
    num_points,
    interpolation,
    part,
    keys,
    is_sorted,
    points,
    grad_src,
    grad_mass,
):
    """The points of sets with masses; given room for them, gradients from those of the
    points. Graphs that have no room in ``keys`` are left out, unless there is but one
    whose keys ``[width, size]`` are sorted already."""
    values, with_gradients = bits.view(np.float32), len(grad_src) > 0
    largest = 0
    for graph in range(part.first_graph, part.last_graph):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
    if not is_sorted:
        largest = min(largest, len(keys) // LANES)
    room = np.empty((6, largest))
    lane = Lane(
        np.empty(largest, np.int64),
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
    )
    line = np.zeros(LANES, np.int32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        if not is_sorted and num_key_rows(size) * LANES > len(keys):
            continue
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = _lanes_of_block(block, part)
            base = start * num_slices + first
            if size == 0:
                if not with_gradients:
                    to = (graph * num_slices + first) * num_points
                    points[to : to + width * num_points] = 0
                continue
            if not is_sorted:
                _pack_block(bits, base, num_slices, size, width, keys, line)
                _sort(keys, size)
            for i in range(block - first, width):
                at = (graph * num_slices + first + i) * num_points
                key_at, stride = i, LANES
                if is_sorted:
                    key_at, stride = (first + i - part.first_slice) * size, 1
                _load_lane(
                    keys,
                    key_at,
                    stride,
                    values,
                    base + i,
                    num_slices,
                    mass,
                    start,
                    size,
                    lane,
                )
                if not with_gradients:
                    _points(lane, size, num_points, interpolation, points, at)
                    continue
                _gradients(lane, size, num_points, interpolation, points, at)
                for j in range(size):
                    place = lane.place[j]
                    grad_src[base + i + place * num_slices] = lane.grad_value[j]
                    grad_mass[start + place] += lane.grad_mass[j]
