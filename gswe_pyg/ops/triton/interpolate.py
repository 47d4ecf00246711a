"""The second kernel: points as sums over values in sorted order."""

import triton
import triton.language as tl
from torch import Tensor

from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.triton.convert import narrow, widen
from gswe_pyg.ops.triton.launch import block_for, launch, num_blocks
from gswe_pyg.ops.triton.terms import terms_for

LANES, _MAX_BLOCK = 32, 16


def interpolate_sets(
    values: Tensor, order: Tensor | None, ptr: Tensor, reads: Reads, largest: int
) -> Tensor:
    """The points ``[B, L, R]`` of values in a given order, or of sorted ones."""
    num_sets, num_slices = len(ptr) - 1, values.shape[1]
    terms = terms_for(ptr, reads, largest)
    out = values.new_empty(num_sets, num_slices, reads.num_reads)
    block = block_for(reads.num_reads, _MAX_BLOCK)
    grid = (
        num_sets,
        num_blocks(num_slices, LANES),
        num_blocks(reads.num_reads, block),
    )
    launch(
        interpolate_kernel,
        grid,
        values,
        values,
        order,
        ptr,
        *terms,
        out,
        num_slices,
        reads.num_reads,
        largest,
        block=block,
        lanes=LANES,
        num_warps=num_warps(block),
    )
    return out


def num_warps(block: int) -> int:
    return max(1, block // 4)


@triton.jit(do_not_specialize=["num_slices", "num_reads", "largest"])
def interpolate_kernel(
    values,
    order,
    ptr,
    rows,
    start_of_row,
    first,
    rank,
    weight,
    out,
    num_slices,
    num_reads,
    largest,
    block: tl.constexpr,
    lanes: tl.constexpr,
):
    one_set = tl.program_id(0).to(tl.int64)
    start = tl.load(ptr + one_set)
    size = tl.load(ptr + one_set + 1) - start
    column = tl.program_id(1) * lanes + tl.arange(0, lanes)[None, :]
    point = tl.program_id(2) * block + tl.arange(0, block)[:, None]
    is_slice, is_point = column < num_slices, point < num_reads

    is_known = (size > 0) & (size <= largest)
    row = size - 1 if rows is None else tl.load(rows + one_set)
    at = first + tl.load(start_of_row + tl.where(is_known, row, 0)) + point
    is_read = point < tl.where(is_known, num_reads, 0)
    begin = tl.load(at, is_read, 0)
    count = tl.load(at + 1, is_read, 0) - begin

    total = tl.zeros([block, lanes], weight.dtype.element_ty)
    for term in range(tl.max(count)):
        is_there = term < count
        share = tl.load(weight + begin + term, is_there, 0.0)
        element = start + tl.load(rank + begin + term, is_there, 0)
        is_there = is_there & is_slice
        if order is not None:
            element = start + tl.load(
                order + element * num_slices + column, is_there, 0
            )
        value = tl.load(values + element * num_slices + column, is_there, 0.0)
        total += widen(value).to(total.dtype) * share
    # More elements than were promised: their order is not known.
    total = tl.where(size > largest, float("nan"), total)
    to = out + (one_set * num_slices + column) * num_reads + point
    tl.store(to, narrow(total, out.dtype.element_ty), is_point & is_slice)
