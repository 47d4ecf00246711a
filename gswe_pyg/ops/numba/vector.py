"""Rows of numbers as values of compiled functions, so that sums stay in registers.

A :class:`Vector` has :obj:`~gswe_pyg.ops.numba.simd.LANES` lanes. The usual operators
work on two of them, lane by lane, and comparisons make vectors of booleans.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from gswe_pyg.ops.numba.simd import LANES, Rows, convert, flip_negative, splat_lanes

_INT32 = ir.IntType(32)


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
