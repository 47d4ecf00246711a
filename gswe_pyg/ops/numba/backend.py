"""Segment quantiles on the CPU by compiled loops, where numba is installed.

A row of the slice matrix has an element's values in all slices, side by side: a sorting
network, which compares rows with rows, sorts many slices at once. It takes graphs up to
:obj:`~gswe_pyg.ops.numba.batch.NETWORK_NODES` nodes; larger ones are transposed, some
slices at a time, for numpy's SIMD sort. Nothing is padded.
"""

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.numba import batch as limits
from gswe_pyg.ops.numba import interpolate as kernels
from gswe_pyg.ops.numba.batch import (
    Batch,
    Part,
    check_room,
    flat,
    network_keys,
    new_points,
    zeros,
)
from gswe_pyg.ops.numba.simd import LANES
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.threads import for_each


def quantile(
    src: Tensor, ptr: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]`` of each graph, and what the adjoint needs to know.

    The first rows of the order of each graph hold the place that each used sorted value
    came from, for each slice. Memory that is not needed is not touched.
    """
    batch = Batch(ptr, src.shape[1], reads)
    largest = batch.largest
    if with_order:
        check_room(largest)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    if batch.is_empty:
        return zeros(src, batch), order
    out = new_points(batch)
    key_dtype = np.int64 if with_order else np.int32
    bits = flat(src).view(np.int32)
    flat_out, flat_order = out.numpy().reshape(-1), order.numpy().reshape(-1)

    def sort_by_network(part: Part) -> None:
        keys = network_keys(batch, key_dtype)
        kernels.quantile(
            bits,
            batch.num_slices,
            batch.ptr,
            batch.rows,
            batch.terms,
            batch.num_reads,
            batch.in_double,
            part,
            keys,
            flat_out,
            flat_order,
        )

    def sort_by_numpy(part: Part) -> None:
        graph, _, first, last = part
        start, size = int(batch.ptr[graph]), int(batch.sizes[graph])
        keys = np.empty((last - first, size), key_dtype)
        flat_keys = keys.reshape(-1)
        kernels.pack(bits, batch.num_slices, start, size, first, len(keys), flat_keys)
        keys.sort(axis=-1)
        kernels.unpack(
            flat_keys,
            batch.num_slices,
            start,
            size,
            first,
            len(keys),
            graph,
            int(batch.rows[graph]),
            batch.terms,
            batch.num_reads,
            batch.in_double,
            flat_out,
            flat_order,
        )

    if largest > limits.NETWORK_NODES:
        large = _parts_of_large(batch)
        for_each(sort_by_numpy, large, batch.num_threads)
    if largest <= limits.NETWORK_NODES or (batch.sizes <= limits.NETWORK_NODES).any():
        for_each(sort_by_network, batch.parts(), batch.num_threads)
    return out.to(src.dtype), order


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    batch = Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return zeros(src, batch)
    out = new_points(batch)
    values, flat_order = flat(src), order.numpy().reshape(-1)
    flat_out = out.numpy().reshape(-1)

    def work(part: Part) -> None:
        kernels.apply(
            values,
            batch.num_slices,
            batch.ptr,
            batch.rows,
            batch.terms,
            batch.num_reads,
            batch.in_double,
            part,
            flat_out,
            flat_order,
        )

    for_each(work, batch.parts(), batch.num_threads)
    return out.to(src.dtype)


def adjoint(grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    batch = Batch(ptr, order.shape[1], reads)
    out = grad.new_empty(order.shape, dtype=torch.float32)
    if batch.is_empty:
        return out.to(grad.dtype)
    points, flat_order = flat(grad), order.numpy().reshape(-1)
    flat_out = out.numpy().reshape(-1)

    def work(part: Part) -> None:
        kernels.adjoint(
            points,
            batch.num_slices,
            batch.ptr,
            batch.rows,
            batch.terms,
            batch.num_reads,
            part,
            flat_out,
            flat_order,
        )

    for_each(work, batch.parts(), batch.num_threads)
    return out.to(grad.dtype)


def _parts_of_large(batch: Batch) -> list[Part]:
    """The graphs for numpy's sort, one by one, and some slices of them."""
    parts = []
    for graph in np.flatnonzero(batch.sizes > limits.NETWORK_NODES).tolist():
        # A line of memory at least, unless the keys would exceed the slice matrix.
        step = max(limits.BLOCK // int(batch.sizes[graph]), LANES)
        step = max(1, min(step, batch.num_slices // (2 * batch.num_threads)))
        parts += [
            Part(graph, graph + 1, first, min(first + step, batch.num_slices))
            for first in range(0, batch.num_slices, step)
        ]
    return parts
