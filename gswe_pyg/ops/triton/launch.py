"""How all kernels are launched."""

import torch
import triton
from torch import Tensor


def launch(kernel, grid: tuple[int, ...], like: Tensor, *args, **options) -> None:
    """Starts the programs of a kernel on the device of a tensor."""
    if 0 in grid:
        return
    # Products and sums are rounded one by one, as on the CPU.
    options["enable_fp_fusion"] = False
    if like.device.type == "cpu":  # in the interpreter
        kernel[grid](*args, **options)
    else:
        with torch.cuda.device_of(like):
            kernel[grid](*args, **options)


def num_blocks(size: int, block: int) -> int:
    return triton.cdiv(size, block)


def block_for(size: int, largest: int) -> int:
    """A power of two that covers the size, or the largest one."""
    return min(largest, triton.next_power_of_2(max(1, size)))
