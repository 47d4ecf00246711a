"""The first kernel: the elements of each set in ascending order, for each slice."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# A program holds all rows of a set for some slices. Larger sets do not fit.
CLASSES = (16, 32, 64, 128, 256, 512, 1024, 2048)

# Keys of a thread and of a program. With 64 a thread, they are spilled; 8,192 of 64
# bits are all that the shared memory of every device has room for.
_KEYS_OF_THREAD, _KEYS_OF_PROGRAM = 16, 8192

# A line of memory in single precision.
_MAX_LANES = 32


@triton.jit
def _as_key(values):
    """Integers in the order of the values: NaN is last, and -0 is 0."""
    if values.dtype.primitive_bitwidth == 16:
        bits = values.to(tl.int16, bitcast=True).to(tl.int32)
        largest = 0x7FFF
    else:
        bits = values.to(tl.int32, bitcast=True)
        largest = 0x7FFFFFFF
    keys = bits ^ ((bits >> 31) & largest)
    keys = tl.where(values == 0, 0, keys)
    return tl.where(values != values, largest, keys)


@triton.jit
def _as_value(keys, dtype: tl.constexpr):
    if dtype.primitive_bitwidth == 16:
        bits = keys ^ ((keys >> 31) & 0x7FFF)
        return bits.to(tl.int16).to(dtype, bitcast=True)
    bits = keys ^ ((keys >> 31) & 0x7FFFFFFF)
    return bits.to(dtype, bitcast=True)


@triton.jit
def _exchange(keys, bit: tl.constexpr, rows: tl.constexpr, lanes: tl.constexpr):
    """Compares the places of the network that differ in this bit."""
    before: tl.constexpr = 1 << bit
    after: tl.constexpr = rows >> (bit + 1)
    pairs = keys.reshape(before, 2, after, lanes).permute(0, 2, 3, 1)
    a, b = tl.split(pairs)
    pairs = tl.join(tl.minimum(a, b), tl.maximum(a, b))
    return pairs.permute(0, 3, 1, 2).reshape(rows, lanes)


@triton.jit(do_not_specialize=["num_slices"])
def sort_kernel(
    src,
    ptr,
    out,
    num_slices,
    log_rows: tl.constexpr,
    lanes: tl.constexpr,
    is_smallest: tl.constexpr,
    with_order: tl.constexpr,
):
    rows: tl.constexpr = 1 << log_rows
    one_set = tl.program_id(0)
    start = tl.load(ptr + one_set).to(tl.int64)
    size = tl.load(ptr + one_set + 1).to(tl.int64) - start
    smaller: tl.constexpr = 0 if is_smallest else rows // 2
    if (size <= smaller) | (size > rows):
        return
    size = size.to(tl.int32)

    row = tl.arange(0, rows)[:, None]
    column = tl.program_id(1) * lanes + tl.arange(0, lanes)[None, :]
    is_slice = column < num_slices
    first = start * num_slices + column
    is_there = (row < size) & is_slice
    values = tl.load(src + first + row.to(tl.int64) * num_slices, is_there, 0.0)
    is_half: tl.constexpr = values.dtype.primitive_bitwidth == 16
    keys = _as_key(values)
    # Behind NaN, for which rows are compared.
    keys = tl.where(row < size, keys, 0x7FFF if is_half else 0x7FFFFFFF)
    if with_order:
        if is_half:
            keys = (keys << 16) | row
        else:
            keys = (keys.to(tl.int64) << 32) | row

    # A bitonic network. Its lowest bits are compared most often: they are the highest
    # ones of the row, which are in the registers of one thread. So the place in the
    # network has the bits of the row in reversed order.
    for stage in tl.static_range(1, log_rows + 1):
        # Half of the sequences are sorted in descending order: they are negated.
        is_negated = row & 0
        if stage > 1:
            is_negated = is_negated ^ (row >> (log_rows - stage))
        if stage < log_rows:
            is_negated = is_negated ^ (row >> (log_rows - 1 - stage))
        keys = keys ^ -(is_negated & 1).to(keys.dtype)
        for step in tl.static_range(stage):
            keys = _exchange(keys, stage - 1 - step, rows, lanes)

    rank = row & 0
    for bit in tl.static_range(log_rows):
        rank = rank | (((row >> bit) & 1) << (log_rows - 1 - bit))
    if with_order:
        result = (keys & 0xFFFF) if is_half else keys.to(tl.int32)
    else:
        result = _as_value(keys, values.dtype)
    is_there = (rank < size) & is_slice
    tl.store(out + first + rank.to(tl.int64) * num_slices, result, is_there)
