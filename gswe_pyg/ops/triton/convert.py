"""Values to single precision and back.

bfloat16 by its bits: Triton's interpreter does not round it to the nearest.
"""

import triton
import triton.language as tl


@triton.jit
def widen(values):
    if values.dtype == tl.bfloat16:
        bits = values.to(tl.int16, bitcast=True).to(tl.int32) << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        return values.to(tl.float32)


@triton.jit
def narrow(values, dtype: tl.constexpr):
    values = values.to(tl.float32)
    if dtype == tl.bfloat16:
        bits = values.to(tl.int32, bitcast=True)
        nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        nearest = tl.where(is_nan, 0x7FC0, nearest)
        return nearest.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return values.to(dtype)
