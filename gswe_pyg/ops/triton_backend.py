"""Segment quantiles on a GPU, by the kernels in :mod:`gswe_pyg.ops.triton`."""

import torch
from torch import Tensor

from gswe_pyg.ops.checks import check_ptr
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.triton.adjoint import adjoint_of_sets
from gswe_pyg.ops.triton.interpolate import interpolate_sets
from gswe_pyg.ops.triton.read import read_ptr
from gswe_pyg.ops.triton.sort import sort_sets


def quantile(
    src: Tensor,
    ptr: Tensor,
    reads: Reads,
    with_order: bool,
    max_num_elements: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]``, and the sorting permutation ``[N, L]`` if wanted."""
    src, largest = src.contiguous(), _largest(src, ptr, max_num_elements)
    result = sort_sets(src, ptr, largest, with_order)
    if with_order:
        return interpolate_sets(src, result, ptr, reads, largest), result
    nothing = src.new_empty(0, dtype=torch.int32)
    return interpolate_sets(result, None, ptr, reads, largest), nothing


def apply(
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    largest = _largest(order, ptr, max_num_elements)
    return interpolate_sets(src.contiguous(), order, ptr, reads, largest)


def adjoint(
    grad: Tensor,
    order: Tensor,
    ptr: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    largest = _largest(order, ptr, max_num_elements)
    return adjoint_of_sets(grad, order, ptr, reads, largest)


def read_largest(src: Tensor, ptr: Tensor) -> int:
    """The largest size between the boundaries, which are checked."""
    boundaries = read_ptr(ptr, len(src))
    if not boundaries.is_valid:
        check_ptr(src, ptr)  # says what is wrong
    return boundaries.largest


def _largest(like: Tensor, ptr: Tensor, max_num_elements: int | None) -> int:
    return read_largest(like, ptr) if max_num_elements is None else max_num_elements
