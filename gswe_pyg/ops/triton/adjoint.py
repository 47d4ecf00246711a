"""The third kernel: the gradient of each element, from that of the points."""

import triton
import triton.language as tl
from torch import Tensor

from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.triton.convert import narrow, widen
from gswe_pyg.ops.triton.launch import launch, num_blocks
from gswe_pyg.ops.triton.terms import terms_for

LANES, BLOCK, NUM_WARPS = 32, 16, 4


def adjoint_of_sets(
    grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads, largest: int
) -> Tensor:
    """From ``[B, L, R]`` to ``[N, L]``."""
    num_elements, num_slices = order.shape
    num_sets = len(ptr) - 1
    out = grad.new_empty(num_elements, num_slices)
    launch(
        adjoint_kernel,
        (num_blocks(num_elements, BLOCK), num_blocks(num_slices, LANES)),
        grad,
        grad.contiguous(),
        order,
        ptr,
        *terms_for(ptr, reads, largest, transposed=True),
        out,
        num_elements,
        num_slices,
        num_sets,
        num_sets.bit_length(),
        reads.num_reads,
        largest,
        block=BLOCK,
        lanes=LANES,
        num_warps=NUM_WARPS,
    )
    return out


@triton.jit(
    do_not_specialize=[
        "num_elements",
        "num_slices",
        "num_sets",
        "num_halvings",
        "num_reads",
        "largest",
    ]
)
def adjoint_kernel(
    grad,
    order,
    ptr,
    rows,
    start_of_row,
    first,
    point,
    weight,
    out,
    num_elements,
    num_slices,
    num_sets,
    num_halvings,
    num_reads,
    largest,
    block: tl.constexpr,
    lanes: tl.constexpr,
):
    element = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)[:, None]
    column = tl.program_id(1) * lanes + tl.arange(0, lanes)[None, :]
    is_element = element < num_elements
    is_there = is_element & (column < num_slices)

    # The set of each element: the last one that begins at or before it.
    one_set, behind = element * 0, element * 0 + num_sets
    for _ in range(num_halvings):
        middle = (one_set + behind) // 2
        is_right = tl.load(ptr + middle) <= element
        one_set = tl.where(is_right, middle, one_set)
        behind = tl.where(is_right, behind, middle)
    start = tl.load(ptr + one_set)
    size = tl.load(ptr + one_set + 1) - start
    rank = element - start

    # A set may have more elements than were promised, and an element no set.
    is_known = is_element & (rank >= 0) & (rank < size) & (size <= largest)
    row = size - 1 if rows is None else tl.load(rows + one_set)
    at = first + tl.load(start_of_row + tl.where(is_known, row, 0), is_known, 0) + rank
    begin = tl.load(at, is_known, 0)
    count = tl.load(at + 1, is_known, 0) - begin

    total = tl.zeros([block, lanes], tl.float32)
    base = grad + (one_set * num_slices + column) * num_reads
    for term in range(tl.max(count)):
        is_term = term < count
        share = tl.load(weight + begin + term, is_term, 0.0)
        read = tl.load(point + begin + term, is_term, 0)
        value = tl.load(base + read, is_term & is_there, 0.0)
        total += widen(value) * share
    total = tl.where(size > largest, float("nan"), total)

    place = tl.load(order + element * num_slices + column, is_known & is_there, 0)
    to = tl.where(is_known, start + place, element) * num_slices + column
    tl.store(out + to, narrow(total, out.dtype.element_ty), is_there)
