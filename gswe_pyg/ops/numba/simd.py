"""SIMD instructions, written by hand in LLVM's language.

This file exists because LLVM does not find by itself what can be done at once where
rows of one array are read and written: from plain loops over the lanes it makes code
that takes several times as long. Only here and in
:mod:`~gswe_pyg.ops.numba.compiling` does the package depend on how numba lays out
arrays and builds code (``make_array``, ``intrinsic``, libraries), so that
``pyproject.toml`` bounds numba to versions that were tested.

Everything works on rows of :obj:`LANES` numbers in flat arrays, given by their first
place. Values are compared as integers of the same order, their *keys*. Where the order
is wanted, a key of twice the width has the place of the element in its lower half, so
that ties go by place. Where only masses are to go with the values, the halves of a row
of *pairs* hold keys and masses, which takes fewer instructions than a key of twice the
width. NaN comes last; -0.0 and 0.0 are a tie.
"""

import operator

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import make_array

LANES = 16

# Points that are written at once.
TILE = 4

PLACE_BITS = 30

# Makes all keys with places positive, and as floats neither denormal nor infinite.
_OFFSET = 1 << 62

# Behind all keys, by the type of their array.
_LAST = {
    types.int32: 0x7FFFFFFF,
    types.int64: 0x6000000000000000,
    types.uint64: 0x7FFFFFFF7FFFFFFF,
}

# That of NaN, before the last one: what is added must not be mistaken for it.
_NAN = 0x7FFFFFFE

# Eight rows of so many bytes have room in the registers, of which there are 16 or 32.
_REGISTER_BYTES = 64 if get_host_cpu_features().get("avx512f") else 32

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _vector(lane: ir.Type) -> ir.VectorType:
    return ir.VectorType(lane, LANES)


def _constant(lane: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(_vector(lane), [value] * LANES)


def splat_lanes(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    vector = _vector(value.type)
    zeros = ir.Constant(_vector(_INT32), [0] * LANES)
    single = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(single, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


class Rows:
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

    def load_half(self, at: ir.Value, which: int, lanes: int = LANES) -> ir.Value:
        """Of a row of pairs: its keys, or what lies behind them, in 32 bits each."""
        pointer = self._half(at, which, ir.VectorType(_INT32, lanes))
        return self.builder.load(pointer, align=4)

    def store_half(self, value: ir.Value, at: ir.Value, which: int) -> None:
        self.builder.store(value, self._half(at, which, value.type), align=4)

    def _half(self, at: ir.Value, which: int, vector: ir.VectorType) -> ir.Value:
        # Lanes are counted in pairs, so that a row has as many as any other.
        lane = self.builder.and_(at, ir.Constant(at.type, LANES - 1))
        first = self.builder.sub(self.builder.add(at, at), lane)
        first = self.builder.add(first, ir.Constant(at.type, which * LANES))
        data = self.builder.bitcast(self.data, _INT32.as_pointer())
        pointer = cgutils.gep_inbounds(self.builder, data, first)
        return self.builder.bitcast(pointer, vector.as_pointer())

    def number(self, at: ir.Value) -> ir.Value:
        return self.builder.load(cgutils.gep_inbounds(self.builder, self.data, at))

    def store(self, value: ir.Value, at: ir.Value) -> None:
        pointer = self._pointer(at, value.type)
        self.builder.store(value, pointer, align=self.num_bytes)


def _network(*comparators: tuple[int, int]):
    """Sorts some rows of keys, given by their first lanes, by comparing these pairs."""

    @intrinsic
    def exchange(typing_context, keys, rows):
        def generate(context, builder, signature, arguments):
            array = Rows(context, builder, signature.args[0], arguments[0])
            starts = cgutils.unpack_tuple(builder, arguments[1])
            is_pairs = signature.args[0].dtype == types.uint64
            lanes = _REGISTER_BYTES // (4 if is_pairs else array.num_bytes)
            for lane in range(0, LANES, lanes):
                shift = ir.Constant(starts[0].type, lane)
                places = [builder.add(start, shift) for start in starts]
                if is_pairs:
                    _exchange_pairs(builder, array, places, comparators, lanes)
                    continue
                values = [array.load(place, lanes) for place in places]
                for low, high in comparators:
                    pair = _minimum_and_maximum(builder, values[low], values[high])
                    values[low], values[high] = pair
                for value, place in zip(values, places, strict=True):
                    array.store(value, place)
            return context.get_dummy_value()

        return types.void(keys, rows), generate

    return exchange


def _exchange_pairs(builder, array, places, comparators, lanes) -> None:
    """By keys alone: what lies behind equal ones may come in any order."""
    keys = [array.load_half(place, 0, lanes) for place in places]
    others = [array.load_half(place, 1, lanes) for place in places]
    for low, high in comparators:
        a, b, with_a, with_b = keys[low], keys[high], others[low], others[high]
        is_less = builder.icmp_signed("<", a, b)
        keys[low], keys[high] = _minimum_and_maximum(builder, a, b)
        others[low] = builder.select(is_less, with_a, with_b)
        others[high] = builder.select(is_less, with_b, with_a)
    for key, other, place in zip(keys, others, places, strict=True):
        array.store_half(key, place, 0)
        array.store_half(other, place, 1)


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


exchange = _network((0, 1))
cross_4 = _network((0, 3), (1, 2), (0, 1), (2, 3))
halve_4 = _network((0, 2), (1, 3), (0, 1), (2, 3))
halve_8 = _network(
    *[(0, 4), (1, 5), (2, 6), (3, 7)],
    *[(0, 2), (1, 3), (4, 6), (5, 7)],
    *[(0, 1), (2, 3), (4, 5), (6, 7)],
)
sort_8 = _network(
    *[(0, 1), (2, 3), (4, 5), (6, 7)],
    *[(0, 2), (1, 3), (4, 6), (5, 7)],
    *[(1, 2), (5, 6), (0, 4), (3, 7)],
    *[(1, 5), (2, 6)],
    *[(1, 4), (3, 6)],
    *[(2, 4), (3, 5)],
    *[(3, 4)],
)


def _keys_of(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    # Zero is added: where denormal numbers are to be flushed, they are now.
    value = builder.bitcast(bits, _vector(ir.FloatType()))
    value = builder.fadd(value, _constant(ir.FloatType(), 0.0))
    value = builder.bitcast(value, _vector(_INT32))
    magnitude = builder.and_(value, _constant(_INT32, 0x7FFFFFFF))
    is_nan = builder.icmp_signed(">", magnitude, _constant(_INT32, 0x7F800000))
    key = flip_negative(builder, value)
    return builder.select(is_nan, _constant(_INT32, _NAN), key)


@intrinsic
def pack_keys(typing_context, bits, at, keys, to, place):
    """The keys of a row of values."""

    def generate(context, builder, signature, arguments):
        source = Rows(context, builder, signature.args[0], arguments[0])
        target = Rows(context, builder, signature.args[2], arguments[2])
        key = _keys_of(builder, source.load(arguments[1]))
        if target.lane != _INT32:
            key = builder.sext(key, _vector(_INT64))
            key = builder.shl(key, _constant(_INT64, PLACE_BITS))
            offset = builder.add(arguments[4], ir.Constant(_INT64, _OFFSET))
            key = builder.add(key, splat_lanes(builder, offset))
        target.store(key, arguments[3])
        return context.get_dummy_value()

    signature = types.void(bits, types.intp, keys, types.intp, types.int64)
    return signature, generate


@intrinsic
def pack_pairs(typing_context, bits, at, pairs, to, other):
    """The keys of a row of values, and a number in single precision behind them."""

    def generate(context, builder, signature, arguments):
        source = Rows(context, builder, signature.args[0], arguments[0])
        target = Rows(context, builder, signature.args[2], arguments[2])
        key = _keys_of(builder, source.load(arguments[1]))
        other = splat_lanes(builder, builder.bitcast(arguments[4], _INT32))
        target.store_half(key, arguments[3], 0)
        target.store_half(other, arguments[3], 1)
        return context.get_dummy_value()

    signature = types.void(bits, types.intp, pairs, types.intp, types.float32)
    return signature, generate


@intrinsic
def last_key(typing_context, keys):
    """A key behind all others."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(context.get_value_type(keys.dtype), _LAST[keys.dtype])

    return keys.dtype(keys), generate


@intrinsic
def unpack_keys(typing_context, keys, at, bits, to, order, place_to):
    """The values of a row of keys, and their places if they have some."""

    def generate(context, builder, signature, arguments):
        source = Rows(context, builder, signature.args[0], arguments[0])
        target = Rows(context, builder, signature.args[2], arguments[2])
        key = source.load(arguments[1])
        if source.lane != _INT32:
            place = builder.and_(key, _constant(_INT64, (1 << PLACE_BITS) - 1))
            place = builder.trunc(place, _vector(_INT32))
            places = Rows(context, builder, signature.args[4], arguments[4])
            places.store(place, arguments[5])
            key = builder.sub(key, _constant(_INT64, _OFFSET))
            key = builder.ashr(key, _constant(_INT64, PLACE_BITS))
            key = builder.trunc(key, _vector(_INT32))
        target.store(flip_negative(builder, key), arguments[3])
        return context.get_dummy_value()

    signature = types.void(keys, types.intp, bits, types.intp, order, types.intp)
    return signature, generate


def flip_negative(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """From sign and magnitude to two's complement, or back."""
    negative = builder.sub(_constant(_INT32, -0x80000000), value)
    is_negative = builder.icmp_signed("<", value, _constant(_INT32, 0))
    return builder.select(is_negative, negative, value)


@intrinsic
def scatter_lanes(typing_context, values, at, places, place_at, out, to, stride):
    """Writes the lanes of a row to other rows, ``stride`` apart: one by one, because
    the instructions that LLVM finds for a loop take longer."""

    def generate(context, builder, signature, arguments):
        source, places, target = (
            Rows(context, builder, signature.args[i], arguments[i]) for i in (0, 2, 4)
        )
        _, at, _, place_at, _, to, stride = arguments
        for lane in range(LANES):
            shift = ir.Constant(to.type, lane)
            row = places.number(builder.add(place_at, shift))
            row = builder.mul(builder.zext(row, to.type), stride)
            place = builder.add(builder.add(to, row), shift)
            value = source.number(builder.add(at, shift))
            pointer = cgutils.gep_inbounds(builder, target.data, place)
            builder.store(value, pointer)
        return context.get_dummy_value()

    integer = types.intp
    signature = types.void(values, integer, places, integer, out, integer, integer)
    return signature, generate


def convert(builder: ir.IRBuilder, value: ir.Value, lane: ir.Type) -> ir.Value:
    if value.type.element == lane:
        return value
    if lane == ir.DoubleType():
        return builder.fpext(value, _vector(lane))
    return builder.fptrunc(value, _vector(lane))


@intrinsic
def transpose(typing_context, points, at, out, to, stride):
    """Some rows of points as columns, which begin ``stride`` apart."""

    def generate(context, builder, signature, arguments):
        source = Rows(context, builder, signature.args[0], arguments[0])
        target = Rows(context, builder, signature.args[2], arguments[2])
        rows = []
        for row in range(TILE):
            shift = ir.Constant(arguments[1].type, row * LANES)
            value = source.load(builder.add(arguments[1], shift))
            rows.append(convert(builder, value, target.lane))
        tile, to = _joined(builder, rows), arguments[3]
        for lane in range(LANES):
            picked = [row * LANES + lane for row in range(TILE)]
            target.store(_picked(builder, tile, picked), to)
            to = builder.add(to, arguments[4])
        return context.get_dummy_value()

    signature = types.void(points, types.intp, out, types.intp, types.intp)
    return signature, generate


@intrinsic
def transpose_back(typing_context, columns, at, stride, out, to):
    """Some columns, which begin ``stride`` apart, as rows of points."""

    def generate(context, builder, signature, arguments):
        source = Rows(context, builder, signature.args[0], arguments[0])
        target = Rows(context, builder, signature.args[3], arguments[3])
        parts, at = [], arguments[1]
        for _ in range(LANES):
            parts.append(source.load(at, TILE))
            at = builder.add(at, arguments[2])
        tile = _joined(builder, parts)
        for row in range(TILE):
            picked = [lane * TILE + row for lane in range(LANES)]
            shift = ir.Constant(arguments[4].type, row * LANES)
            to = builder.add(arguments[4], shift)
            target.store(_picked(builder, tile, picked), to)
        return context.get_dummy_value()

    signature = types.void(columns, types.intp, types.intp, out, types.intp)
    return signature, generate


def _joined(builder: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Two by two, until all lie in one vector."""
    while len(vectors) > 1:
        count = 2 * vectors[0].type.count
        indices = ir.Constant(ir.VectorType(_INT32, count), list(range(count)))
        vectors = [
            builder.shuffle_vector(a, b, indices)
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _picked(builder: ir.IRBuilder, vector: ir.Value, indices: list[int]) -> ir.Value:
    constant = ir.Constant(ir.VectorType(_INT32, len(indices)), indices)
    return builder.shuffle_vector(vector, vector, constant)


# Vectors ##############################################################################
#
# Rows as values of compiled functions, so that sums stay in registers. The usual
# operators work on two of them, lane by lane; comparisons make vectors of booleans.


class Vector(types.Type):
    def __init__(self, dtype: types.Type) -> None:
        super().__init__(f"Vector({dtype})")
        self.dtype = dtype


@register_model(Vector)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, vector) -> None:
        lane = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(lane, LANES))


def _define(function, build, result=None) -> None:
    """An operator on two vectors of one type."""

    @infer_global(function)
    class _Typed(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and args[0] == args[1] and isinstance(args[0], Vector):
                return signature(result or args[0], *args)
            return None

    @lower_builtin(function, Vector, Vector)
    def lower(context, builder, signature, args):
        return build(builder, *args)


# A product and a sum may become one instruction, where there is one.
_MAY_FUSE = ("contract",)
_BOOLEANS = Vector(types.boolean)

_define(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=_MAY_FUSE))
_define(operator.sub, lambda builder, a, b: builder.fsub(a, b))
_define(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=_MAY_FUSE))
_define(operator.and_, lambda builder, a, b: builder.and_(a, b))
for function, sign in ((operator.lt, "<"), (operator.le, "<="), (operator.gt, ">")):
    _define(
        function,
        lambda builder, a, b, sign=sign: builder.fcmp_ordered(sign, a, b),
        _BOOLEANS,
    )
_define(
    operator.ne, lambda builder, a, b: builder.fcmp_unordered("!=", a, b), _BOOLEANS
)


def _pick(sign: str):
    @intrinsic
    def pick(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            a, b = arguments
            return builder.select(builder.fcmp_ordered(sign, a, b), a, b)

        return a(a, b), generate

    return pick


smaller, larger = _pick("<"), _pick(">")


@intrinsic
def select(typing_context, chosen, a, b):
    """Lanes of ``a`` where chosen, and of ``b`` elsewhere."""

    def generate(context, builder, signature, arguments):
        return builder.select(*arguments)

    return a(chosen, a, b), generate


@intrinsic
def has_any(typing_context, booleans):
    def generate(context, builder, signature, arguments):
        as_integer = builder.bitcast(arguments[0], ir.IntType(LANES))
        zero = ir.Constant(as_integer.type, 0)
        return builder.icmp_unsigned("!=", as_integer, zero)

    return types.boolean(booleans), generate


@intrinsic
def splat(typing_context, number):
    """A number in all lanes."""

    def generate(context, builder, signature, arguments):
        return splat_lanes(builder, arguments[0])

    return Vector(number)(number), generate


@intrinsic
def load(typing_context, array, at):
    """A row."""

    def generate(context, builder, signature, arguments):
        rows = Rows(context, builder, signature.args[0], arguments[0])
        return rows.load(arguments[1])

    return Vector(array.dtype)(array, types.intp), generate


@intrinsic
def store(typing_context, row, array, at):
    """In the precision of the array."""

    def generate(context, builder, signature, arguments):
        rows = Rows(context, builder, signature.args[1], arguments[1])
        rows.store(convert(builder, arguments[0], rows.lane), arguments[2])
        return context.get_dummy_value()

    return types.void(row, array, types.intp), generate


@intrinsic
def converted(typing_context, row, like):
    """To the precision of another one."""

    def generate(context, builder, signature, arguments):
        row, like = arguments
        return convert(builder, row, like.type.element)

    return like(row, like), generate


@intrinsic
def in_double(typing_context, row):
    def generate(context, builder, signature, arguments):
        return convert(builder, arguments[0], ir.DoubleType())

    return Vector(types.float64)(row), generate


@intrinsic
def product(typing_context, a, b):
    """Rounded before it is added to anything, as elsewhere."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return a(a, b), generate


@intrinsic
def gather(typing_context, array, places, at):
    """Numbers of an array, from the places that a row of integers says."""

    def generate(context, builder, signature, arguments):
        array = Rows(context, builder, signature.args[0], arguments[0])
        places = Rows(context, builder, signature.args[1], arguments[1])
        row = ir.Constant(ir.VectorType(array.lane, LANES), ir.Undefined)
        for lane in range(LANES):
            shift = ir.Constant(arguments[2].type, lane)
            place = places.number(builder.add(arguments[2], shift))
            own = array.number(builder.zext(place, arguments[2].type))
            row = builder.insert_element(row, own, ir.Constant(_INT32, lane))
        return row

    return Vector(types.float64)(array, places, types.intp), generate


def _half(which: int):
    """A half of a row of pairs: keys made values again, or the masses beside them."""

    @intrinsic
    def half(typing_context, pairs, at):
        def generate(context, builder, signature, arguments):
            rows = Rows(context, builder, signature.args[0], arguments[0])
            row = rows.load_half(arguments[1], which)
            if which == 0:
                row = flip_negative(builder, row)
            return builder.bitcast(row, ir.VectorType(ir.FloatType(), LANES))

        return Vector(types.float32)(pairs, types.intp), generate

    return half


values_of_pairs, masses_of_pairs = _half(0), _half(1)


# Pointers #############################################################################


@intrinsic
def pointer_to(typing_context, address):
    """From a number, as a struct holds it."""

    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(signature.return_type)
        return builder.inttoptr(arguments[0], kind)

    return types.voidptr(types.int64), generate


@intrinsic
def fetch_and_add_one(typing_context, numbers, at):
    """Counts a number up, for all threads; returns it as it was."""

    def generate(context, builder, signature, arguments):
        array = Rows(context, builder, signature.args[0], arguments[0])
        pointer = cgutils.gep_inbounds(builder, array.data, arguments[1])
        one = ir.Constant(_INT64, 1)
        return builder.atomic_rmw("add", pointer, one, "seq_cst")

    return types.int64(numbers, types.intp), generate
