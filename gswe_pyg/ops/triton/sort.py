"""The first kernel: each slice of each set in ascending order.

A program holds all rows of a set, for some slices, in registers. There is a kernel for
each class of sizes, and PyTorch's sort for sets that are larger than all of them.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gswe_pyg.ops.triton.launch import launch, num_blocks

CLASSES = (16, 32, 64, 128, 256, 512, 1024, 2048)

# A warp of 32 threads with 16 keys each: with 64, keys of 64 bits are spilled.
_KEYS_OF_WARP, _MAX_WARPS = 512, 16

# A line of memory in single precision.
_MAX_LANES = 32

# Bytes of the dense batches that sets above all classes are sorted in, and about what
# an element takes there.
_BUDGET, _BYTES_OF_ELEMENT = 1 << 28, 190


def sort_sets(src: Tensor, ptr: Tensor, largest: int, with_order: bool) -> Tensor:
    """Sorts each slice of all sets, which have at most ``largest`` elements.

    Returns:
        ``[N, L]``: of each rank, the place of its value in the set, ``int32``; or the
        sorted values themselves, which takes keys of half the bits.
    """
    out = torch.empty_like(src, dtype=torch.int32 if with_order else src.dtype)
    for rows in CLASSES[: bisect_left(CLASSES, largest) + 1]:
        _sort_class(src, ptr, out, rows, with_order)
    if largest > CLASSES[-1]:
        _sort_large(src, ptr, out, with_order)
    return out


def tile(rows: int) -> tuple[int, int]:
    """How many slices are sorted at once in a class, and by how many warps."""
    lanes = min(_MAX_LANES, _KEYS_OF_WARP * _MAX_WARPS // rows)
    return lanes, rows * lanes // _KEYS_OF_WARP


def _sort_class(
    src: Tensor, ptr: Tensor, out: Tensor, rows: int, with_order: bool
) -> None:
    num_slices = src.shape[1]
    lanes, num_warps = tile(rows)
    launch(
        sort_kernel,
        (len(ptr) - 1, num_blocks(num_slices, lanes)),
        src,
        src,
        ptr,
        out,
        num_slices,
        log_rows=rows.bit_length() - 1,
        lanes=lanes,
        is_smallest=rows == CLASSES[0],
        with_order=with_order,
        num_warps=num_warps,
    )


@triton.jit
def _as_key(values):
    """Integers in the order of the values: NaN is last, and -0 is 0."""
    if values.dtype.primitive_bitwidth == 16:
        bits = values.to(tl.int16, bitcast=True).to(tl.int32)
        magnitude_bits: tl.constexpr = 0x7FFF
        infinity: tl.constexpr = 0x7F80 if values.dtype == tl.bfloat16 else 0x7C00
    else:
        bits = values.to(tl.int32, bitcast=True)
        magnitude_bits: tl.constexpr = 0x7FFFFFFF
        infinity: tl.constexpr = 0x7F800000
    magnitude = bits & magnitude_bits
    keys = tl.where(bits < 0, -magnitude, magnitude)
    return tl.where(magnitude > infinity, magnitude_bits, keys)


@triton.jit
def _as_value(keys, dtype: tl.constexpr):
    is_half: tl.constexpr = dtype.primitive_bitwidth == 16
    sign: tl.constexpr = 0x8000 if is_half else -0x80000000
    bits = tl.where(keys < 0, -keys | sign, keys)
    return (bits.to(tl.int16) if is_half else bits).to(dtype, bitcast=True)


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
    start = tl.load(ptr + one_set)
    size = tl.load(ptr + one_set + 1) - start
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
        wide = keys << 16 if is_half else keys.to(tl.int64) << 32
        keys = wide | row

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


def _sort_large(src: Tensor, ptr: Tensor, out: Tensor, with_order: bool) -> None:
    """Sets above all classes, in dense batches of nearly one size."""
    ptr = ptr.cpu().numpy()
    for sets, slices in _large_batches(ptr, src.shape[1]):
        sizes, starts = ptr[sets + 1] - ptr[sets], ptr[sets]
        width = int(sizes.max())
        # Where elements come from, and where they are in the batch.
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        to = {"device": src.device}
        element = torch.as_tensor(np.repeat(starts, sizes) + place, **to)
        slot = np.repeat(np.arange(len(sets)) * width, sizes) + place
        slot = torch.as_tensor(slot, **to)
        # NaN is last, and a stable sort keeps real ones before the padding.
        columns = src[:, slices]
        dense = columns.new_full((len(sets) * width, columns.shape[1]), torch.nan)
        dense[slot] = columns[element]
        dense = dense.view(len(sets), width, -1)
        values, position = dense.sort(dim=1, stable=True)
        result = position.int() if with_order else values
        out[element, slices] = result.flatten(0, 1)[slot]


def _large_batches(
    ptr: np.ndarray, num_slices: int
) -> Iterator[tuple[np.ndarray, slice]]:
    sizes = np.diff(ptr)
    exponents = np.frexp(sizes - 1)[1]  # of the power of two above
    for exponent in np.unique(exponents[sizes > CLASSES[-1]]):
        sets = np.flatnonzero(exponents == exponent)
        room = max(1, _BUDGET // (_BYTES_OF_ELEMENT << int(exponent)))
        slice_step = min(room, num_slices)
        set_step = max(1, room // num_slices)
        for a in range(0, len(sets), set_step):
            for b in range(0, num_slices, slice_step):
                yield sets[a : a + set_step], slice(b, b + slice_step)
