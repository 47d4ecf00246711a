"""Segment quantiles on a GPU by Triton: a sort, and a linear map.

Three kernels, each beside its launcher: :mod:`~gswe_pyg.ops.triton.sort` orders sets up
to 2,048 elements in registers, :mod:`~gswe_pyg.ops.triton.interpolate` sums up values
in this order, and :mod:`~gswe_pyg.ops.triton.adjoint` is the transpose of it. All sizes
that a batch may have are served by tables, so that the host waits for nothing but the
largest size, in :mod:`~gswe_pyg.ops.triton.read`, and not for this if it is given.
"""

import torch
from torch import Tensor

from gswe_pyg.ops import torch_backend
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.triton.adjoint import transpose_of_interpolate
from gswe_pyg.ops.triton.interpolate import interpolate
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
        return interpolate(src, result, ptr, reads, largest), result
    nothing = src.new_empty(0, dtype=torch.int32)
    return interpolate(result, None, ptr, reads, largest), nothing


def apply(
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    largest = _largest(ptr, len(order), max_num_elements)
    return interpolate(src.contiguous(), order, ptr, reads, largest)


def adjoint(
    grad: Tensor,
    order: Tensor,
    ptr: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    largest = _largest(ptr, len(order), max_num_elements)
    return transpose_of_interpolate(grad, order, ptr, reads, largest)


# Masses are sorted with their elements, for which there is no kernel yet.
weighted_quantile = torch_backend.weighted_quantile
weighted_adjoint = torch_backend.weighted_adjoint


def _largest(ptr: Tensor, num_elements: int, max_num_elements: int | None) -> int:
    if max_num_elements is not None:
        return max_num_elements
    return read_ptr(ptr, num_elements).largest
