"""All that the host has to know of a batch, in one read from the device."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gswe_pyg.ops.triton.launch import launch, num_blocks
from gswe_pyg.ops.triton.sort import CLASSES

BLOCK, NUM_WARPS = 1024, 4
_LOG_SMALLEST, _NUM_CLASSES = CLASSES[0].bit_length() - 1, len(CLASSES)


class Boundaries(NamedTuple):
    is_valid: bool  # from zero to the number of elements, and sorted
    largest: int


class Index(NamedTuple):
    smallest: int  # zero if no index is negative
    last: int
    is_sorted: bool
    max_num_elements: int | None  # if sorted and below the largest class


def read_ptr(ptr: Tensor, num_elements: int) -> Boundaries:
    """Whether boundaries are valid, and the largest size between them."""
    found = torch.zeros(2, dtype=torch.int64, device=ptr.device)
    grid = (num_blocks(len(ptr), BLOCK),)
    launch(
        read_ptr_kernel,
        grid,
        ptr,
        ptr,
        found,
        len(ptr),
        num_elements,
        block=BLOCK,
        num_warps=NUM_WARPS,
    )
    is_wrong, largest = found.tolist()
    return Boundaries(not is_wrong, largest)


@triton.jit(do_not_specialize=["num_bounds", "num_elements"])
def read_ptr_kernel(ptr, found, num_bounds, num_elements, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    bound = tl.load(ptr + at, at < num_bounds, 0)
    before = tl.load(ptr + at - 1, (at > 0) & (at < num_bounds), 0)
    size = tl.where(at < num_bounds, bound - before, 0)
    is_wrong = (size < 0) | ((at == 0) & (bound != 0))
    is_wrong |= (at == num_bounds - 1) & (bound != num_elements)
    tl.atomic_max(found, tl.max(is_wrong.to(tl.int64)))
    tl.atomic_max(found + 1, tl.max(size))


def read_index(index: Tensor) -> Index:
    """Whether an index is sorted, its ends, and a bound for the largest set.

    In a sorted index, a set has more than ``P`` elements if and only if two entries at
    a distance of ``P`` are equal: the sets need not be counted.
    """
    found = torch.zeros(4, dtype=torch.int64, device=index.device)
    launch(
        read_index_kernel,
        (num_blocks(len(index), BLOCK),),
        index,
        index,
        found,
        len(index),
        log_smallest=_LOG_SMALLEST,
        num_classes=_NUM_CLASSES,
        block=BLOCK,
        num_warps=NUM_WARPS,
    )
    negative, last, is_unsorted, num_smaller = found.tolist()
    has_bound = not is_unsorted and num_smaller < _NUM_CLASSES
    bound = CLASSES[num_smaller] if has_bound else None
    return Index(-negative, last, not is_unsorted, bound)


@triton.jit(do_not_specialize=["num_elements"])
def read_index_kernel(
    index,
    found,
    num_elements,
    log_smallest: tl.constexpr,
    num_classes: tl.constexpr,
    block: tl.constexpr,
):
    at = tl.program_id(0) * block + tl.arange(0, block)
    is_there = at < num_elements
    one_set = tl.load(index + at, is_there, 0)
    following = tl.load(index + at + 1, at + 1 < num_elements, 0)
    is_unsorted = (at + 1 < num_elements) & (following < one_set)
    num_smaller = at * 0
    for i in tl.static_range(num_classes):
        other = at + (1 << (log_smallest + i))
        is_same = tl.load(index + other, other < num_elements, -1) == one_set
        # Behind the last element there is no other.
        num_smaller = tl.where(is_same & (other < num_elements), i + 1, num_smaller)
    tl.atomic_max(found, tl.max(tl.where(is_there, -one_set, 0)))
    tl.atomic_max(found + 1, tl.max(tl.where(is_there, one_set, 0)))
    tl.atomic_max(found + 2, tl.max(is_unsorted.to(tl.int64)))
    tl.atomic_max(found + 3, tl.max(num_smaller.to(tl.int64)))
