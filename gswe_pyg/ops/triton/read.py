"""All that the host has to know of a batch, in one read from the device."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gswe_pyg.ops.triton.launch import launch, num_blocks

BLOCK, NUM_WARPS = 1024, 4


class Boundaries(NamedTuple):
    is_valid: bool  # from zero to the number of elements, and sorted
    largest: int


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
