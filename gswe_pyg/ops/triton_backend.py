"""Segment quantiles on a GPU, by the kernels in :mod:`gswe_pyg.ops.triton`."""

import torch
from torch import Tensor

from gswe_pyg.ops import torch_backend
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
    src, largest = src.contiguous(), _largest(ptr, len(src), max_num_elements)
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
    largest = _largest(ptr, len(order), max_num_elements)
    return interpolate_sets(src.contiguous(), order, ptr, reads, largest)


def adjoint(
    grad: Tensor,
    order: Tensor,
    ptr: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    largest = _largest(ptr, len(order), max_num_elements)
    return adjoint_of_sets(grad, order, ptr, reads, largest)


# Masses are sorted with their elements, for which there is no kernel yet.
weighted_quantile = torch_backend.weighted_quantile
weighted_adjoint = torch_backend.weighted_adjoint


def _largest(ptr: Tensor, num_elements: int, max_num_elements: int | None) -> int:
    if max_num_elements is not None:
        return max_num_elements
    return read_ptr(ptr, num_elements).largest
