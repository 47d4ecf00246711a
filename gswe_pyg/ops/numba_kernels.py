"""The compiled loops of the ``numba`` backend.

Graphs are worked off in blocks of :obj:`LANES` slices. A block of a graph is a small
matrix in the cache with a row for each element, and what is done to a row is done to
all its lanes at once, by SIMD instructions. All matrices are flat arrays here.

Values are compared as integers of the same order, their *keys*. Where the order is
wanted, a key of twice the width has the place of the element in its lower half, so that
ties go by place. NaN comes last; -0.0 and 0.0 are a tie.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from gswe_pyg.ops.plan import Reads

LANES = 16

EPSILON = float(np.finfo(np.float64).eps)

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


class _ForgivingCache(FunctionCache):
    """Compiled code on disk, which is a matter of time only: what cannot be read or
    written, such as a damaged file or a full disk, is as if it were not there."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig, data):
        with suppress(Exception):
            super().save_overload(sig, data)


def _kernel(function: Callable) -> Callable:
    """Compiled at the first call, and kept on disk if there is a place to write to."""
    dispatcher = njit(function, nogil=True)
    with suppress(RuntimeError):  # no place
        dispatcher._cache = _ForgivingCache(function)
    return dispatcher


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
STEP, BARYCENTRIC, LINEAR, LEVEL_LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST = range(8)
_CODES = {
    "step": STEP,
    "barycentric": BARYCENTRIC,
    "linear": LINEAR,
    "lower": LOWER,
    "higher": HIGHER,
    "midpoint": MIDPOINT,
    "nearest": NEAREST,
}


def code_of(reads: Reads) -> int:
    if reads.levels and reads.interpolation == "linear":
        return LEVEL_LINEAR
    return _CODES[reads.interpolation]


class WeightedReads(NamedTuple):
    """What is read from sets with masses, at places ``numerator / denominator``."""

    code: int
    extremes: bool
    numerator: np.ndarray
    denominator: np.ndarray


class Lane(NamedTuple):
    """A set in one slice, in sorted order, and room for its derivatives."""

    place: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    cumulative: np.ndarray
    grad_value: np.ndarray
    grad_mass: np.ndarray
    grad_before: np.ndarray


class Masses(NamedTuple):
    """Of all elements of a set; the first and the last are places in sorted order. The
    ends of windows are compared with the cumulative mass times ``factor``."""

    total: float
    squares: float
    unit: float
    factor: float
    first: int
    last: int
    has_zeros: bool


@_inlined
def _load_lane(
    keys, at, stride, values, base, num_slices, mass, unit, size, reads, lane
):
    cumulative, squares = 0.0, 0.0
    first, last, num_zeros = size, 0, 0
    for j in range(size):
        place = keys[at + j * stride] & ((1 << PLACE_BITS) - 1)
        own = mass[place]
        cumulative += own
        squares += own * own
        if own > 0:
            first, last = min(first, j), j
        else:
            num_zeros += 1
        lane.place[j] = place
        lane.value[j] = values[base + place * num_slices]
        lane.mass[j] = own
        lane.cumulative[j] = cumulative
    # So that the ends of windows are whole numbers where the masses are.
    factor = 1.0
    if reads.code in (STEP, BARYCENTRIC, LINEAR):
        factor = reads.denominator[0]
        if reads.code == LINEAR:
            factor *= cumulative
        for j in range(size):
            lane.cumulative[j] *= factor
    return Masses(cumulative, squares, unit, factor, first, last, num_zeros > 0)


@_inlined
def _window(reads, r, masses):
    """Its ends times the factor, and how they change, without it, with the total and
    the sum of squares."""
    total, unit = masses.total, masses.unit
    numerator, denominator = reads.numerator[r], reads.denominator[r]
    share = numerator / denominator
    if reads.code == BARYCENTRIC:
        left, right = numerator * total, (numerator + 1) * total
        return left, right, share, (numerator + 1) / denominator, 0.0, 0.0
    if reads.code == LINEAR:
        by_total, by_squares = -masses.squares / (total * total), 1 / total
        width, whole = denominator * masses.squares, masses.factor * total
        left = numerator * total * total - width / 2
        if left < 0:
            return 0.0, width, 0.0, by_total, 0.0, by_squares
        if left > whole - width:
            return whole - width, whole, 1 - by_total, 1.0, -by_squares, 0.0
        return (
            left,
            left + width,
            share - by_total / 2,
            share - by_total / 2 + by_total,
            -by_squares / 2,
            -by_squares / 2 + by_squares,
        )
    if reads.code == STEP:
        left = numerator * total
        return left, left, 0.0, 0.0, 0.0, 0.0
    left = numerator * max(total - unit, 0.0) / denominator
    if total > unit:
        return left, left + unit, share, share, 0.0, 0.0
    return left, left + total, 0.0, 1.0, 0.0, 0.0


@_inlined
def _above(lane, masses, place, start):
    """The element that begins at or before this place and ends behind it."""
    while start < masses.last and lane.cumulative[start] <= place:
        start += 1
    return start


@_inlined
def _at(lane, masses, place, start):
    """The element that begins before this place and ends there or behind it."""
    while start < masses.last and lane.cumulative[start] < place:
        start += 1
    return start


@_inlined
def _ends_at(lane, place, column):
    """The element with mass that ends at this place, or the one that begins there."""
    j = column - 1
    while j >= 0 and lane.mass[j] == 0:
        j -= 1
    return j if j >= 0 and lane.cumulative[j] == place else column


@_inlined
def _begins_at(lane, masses, place, column):
    """The element with mass that begins at this place, or the one that ends there."""
    if column == masses.last or lane.cumulative[column] != place:
        return column
    j = column + 1
    while j < masses.last and lane.mass[j] == 0:
        j += 1
    return j


@_inlined
def _columns(lane, size, masses, code, left, right, start):
    """The two elements of which the mean is read."""
    if code == STEP:
        # A little less, by what the sum may have lost: the last digits of equal masses
        # must not decide which element it is.
        lower = _at(lane, masses, left * (1 - 4 * size * EPSILON), start)
        return lower, lower
    if code == NEAREST:
        # Half to even.
        lower = _above(lane, masses, np.rint(left / masses.unit) * masses.unit, start)
        return lower, lower
    lower = _above(lane, masses, left, start)
    if code == LOWER:
        return lower, lower
    upper = _at(lane, masses, right, lower)
    if code == HIGHER:
        return upper, upper
    return lower, upper


@_inlined
def _has_windows(code):
    return code in (BARYCENTRIC, LINEAR, LEVEL_LINEAR)


@_inlined
def _mean(lane, masses, left, right, lower):
    """The mean over a window that begins in element ``lower``, and its last one."""
    if right <= left:  # a count that vanishes beside the total
        return lane.value[lower], lower
    mean, begin, j = 0.0, left, lower
    while True:
        end = right
        if j < masses.last:
            end = min(lane.cumulative[j], right)
        share = (end - begin) / (right - left)
        if share > 0:  # also where a value without a share is infinite
            mean += lane.value[j] * share
        if end >= right:
            return mean, j
        begin = end
        j += 1


@_inlined
def _points(lane, size, masses, reads, points, to):
    lower, before = 0, 0.0
    num_inner = len(reads.numerator)
    for r in range(num_inner):
        left, right, _, _, _, _ = _window(reads, r, masses)
        if left < before:  # levels come in any order
            lower = 0
        before = left
        if _has_windows(reads.code):
            lower = _above(lane, masses, left, lower)
            points[to + r], _ = _mean(lane, masses, left, right, lower)
        else:
            a, b = _columns(lane, size, masses, reads.code, left, right, 0)
            point = lane.value[a]
            if a != b:
                point = 0.5 * point + 0.5 * lane.value[b]
            points[to + r] = point
    if reads.extremes:
        points[to + num_inner] = lane.value[masses.first]
        points[to + num_inner + 1] = lane.value[masses.last]


@_inlined
def _gradients(lane, size, masses, reads, grad_points, at):
    """Those of the values and masses, which are left in the lane."""
    lane.grad_value[:size] = 0
    lane.grad_mass[:size] = 0
    lane.grad_before[:size] = 0
    grad_total, grad_squares = 0.0, 0.0
    lower, before = 0, 0.0
    num_inner = len(reads.numerator)
    for r in range(num_inner):
        grad = np.float64(grad_points[at + r])
        (
            left,
            right,
            left_by_total,
            right_by_total,
            left_by_squares,
            right_by_squares,
        ) = _window(reads, r, masses)
        if left < before:
            lower = 0
        before = left
        if not _has_windows(reads.code):
            a, b = _columns(lane, size, masses, reads.code, left, right, 0)
            lane.grad_value[a] += 0.5 * grad
            lane.grad_value[b] += 0.5 * grad
            continue
        lower = _above(lane, masses, left, lower)
        point, upper = _mean(lane, masses, left, right, lower)
        if right <= left:
            lane.grad_value[lower] += grad
            continue
        begin = left
        for j in range(lower, upper + 1):
            end = right
            if j < masses.last:
                end = min(lane.cumulative[j], right)
            share = (end - begin) / (right - left)
            if share > 0:
                lane.grad_value[j] += grad * share
            begin = end
        # With a little more mass, an element inside of the window pushes out the value
        # at its right end, and one before it moves the whole window. Where an end meets
        # that of an element, the mean of both sides counts.
        grad *= masses.factor / (right - left)
        after_left, before_right = lane.value[lower], lane.value[upper]
        before_left = lane.value[_ends_at(lane, left, lower)]
        after_right = lane.value[_begins_at(lane, masses, right, upper)]
        low = 0.5 * before_left + 0.5 * after_left
        high = 0.5 * before_right + 0.5 * after_right
        for j in range(lower, upper + 1):
            lane.grad_mass[j] += grad * (lane.value[j] - high)
        lane.grad_before[lower] += grad * (low - high)
        # A mass of zero can only grow, so that for it one of the sides counts; and if
        # it lies at an end itself, as much of it as that leaves inside.
        for j in range(size * masses.has_zeros):
            if lane.mass[j] > 0:
                continue
            move = left_by_total - (j < lower)
            lost = (after_left if move > 0 else before_left) * move
            if lane.cumulative[j] == left:
                lost = after_left * max(left_by_total - 1, 0.0)
                lost -= lane.value[j] * max(1 - left_by_total, 0.0)
            correction = low * move - lost
            move = right_by_total - (j <= upper)
            gained = (after_right if move > 0 else before_right) * move
            if lane.cumulative[j] == right:
                gained = lane.value[j] * min(max(right_by_total, 0.0), 1.0)
                gained += after_right * max(right_by_total - 1, 0.0)
                gained -= before_right * max(-right_by_total, 0.0)
            correction += gained - high * move
            lane.grad_mass[j] += grad * correction
        grad_total += grad * (
            (high - point) * right_by_total + (point - low) * left_by_total
        )
        grad_squares += grad * (
            (high - point) * right_by_squares + (point - low) * left_by_squares
        )
    if reads.extremes:
        lane.grad_value[masses.first] += grad_points[at + num_inner]
        lane.grad_value[masses.last] += grad_points[at + num_inner + 1]
    for j in range(size - 1, -1, -1):
        lane.grad_mass[j] += grad_total + 2 * lane.mass[j] * grad_squares
        grad_total += lane.grad_before[j]
        if lane.mass[j] == 0 and not np.isfinite(lane.value[j]):
            lane.grad_mass[j] = 0  # left out altogether


@_inlined
def _scale_masses(mass, start, size, scaled):
    """By a power of two, so that the largest is about one: sums must not overflow."""
    largest = 0.0
    for j in range(size):
        largest = max(largest, mass[start + j])
    exponent = math.frexp(largest)[1]
    scale = math.ldexp(1.0, -max(-1000, min(exponent, 1000)))
    for j in range(size):
        scaled[j] = mass[start + j] * scale
    return scale


@_kernel
def weighted(
    bits,
    num_slices,
    ptr,
    mass,
    reads,
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
    num_reads = len(reads.numerator) + 2 * reads.extremes
    largest = 0
    for graph in range(part.first_graph, part.last_graph):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
    if not is_sorted:
        largest = min(largest, len(keys) // LANES)
    room = np.empty((7, largest))
    lane = Lane(
        np.empty(largest, np.int64),
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
    )
    scaled = room[6]
    line = np.zeros(LANES, np.int32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        if not is_sorted and num_key_rows(size) * LANES > len(keys):
            continue
        unit = _scale_masses(mass, start, size, scaled)
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = _lanes_of_block(block, part)
            base = start * num_slices + first
            if size == 0:
                if not with_gradients:
                    to = (graph * num_slices + first) * num_reads
                    points[to : to + width * num_reads] = 0
                continue
            if not is_sorted:
                _pack_block(bits, base, num_slices, size, width, keys, line)
                _sort(keys, size)
            for i in range(block - first, width):
                at = (graph * num_slices + first + i) * num_reads
                key_at, stride = i, LANES
                if is_sorted:
                    key_at, stride = (first + i - part.first_slice) * size, 1
                masses = _load_lane(
                    keys,
                    key_at,
                    stride,
                    values,
                    base + i,
                    num_slices,
                    scaled,
                    unit,
                    size,
                    reads,
                    lane,
                )
                if not with_gradients:
                    _points(lane, size, masses, reads, points, at)
                    continue
                _gradients(lane, size, masses, reads, points, at)
                for j in range(size):
                    place = lane.place[j]
                    grad_src[base + i + place * num_slices] = lane.grad_value[j]
                    grad_mass[start + place] += lane.grad_mass[j] * unit
