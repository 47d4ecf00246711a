"""Segment quantiles on the CPU by compiled loops, where numba is installed.

A row of the slice matrix has an element's values in all slices, side by side: a sorting
network, which compares rows with rows, sorts many slices at once. It takes graphs up to
:obj:`_NETWORK_NODES` nodes; larger ones are transposed, some slices at a time, for
numpy's SIMD sort. Nothing is padded. See :mod:`gswe_pyg.ops.numba_kernels`.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops import numba_kernels as kernels
from gswe_pyg.ops.numba_kernels import (
    LANES,
    PLACE_BITS,
    Part,
    WeightedReads,
    num_key_rows,
)
from gswe_pyg.ops.plan import Plan, Reads
from gswe_pyg.ops.threads import for_each
from gswe_pyg.ops.weighted import fractions

# Up to about here, a network is no slower than a sort that needs fewer comparisons. A
# multiple of eight, as the rows of its keys are.
_NETWORK_NODES = 4096

# What a key has room for.
_MAX_NODES = 1 << PLACE_BITS

# Fewer elements than this are not worth a second thread: where PyTorch's own threads
# have just been at work, somewhat fewer took longer with two than with one.
_WORTH_THREADS = 1 << 19

# Elements of a block of a large graph that are sorted in one call.
_BLOCK = 1 << 16


class _Batch(Plan):
    """A plan, and how its work is shared by threads."""

    def __init__(self, ptr: Tensor, num_slices: int, reads: Reads) -> None:
        super().__init__(ptr.numpy(), reads)
        self.num_slices = num_slices
        self.num_reads = reads.num_reads
        self.in_double = reads.in_double
        self.num_threads = 1
        if self.num_elements * num_slices >= _WORTH_THREADS:
            self.num_threads = torch.get_num_threads()

    @property
    def is_empty(self) -> bool:
        return self.num_elements == 0 or self.num_slices == 0

    def parts(self) -> Iterator[Part]:
        """Graphs and slices in some parts of about equal work for each thread."""
        share = self._share
        for first, last, _, num_slices in self.parts_of_graphs():
            # A graph of many shares is cut by slices.
            num_elements = int(self.ptr[last] - self.ptr[first])
            num_cuts = max(1, -(-num_elements // (2 * share)))
            num_blocks = -(-num_slices // LANES)
            step = LANES * -(-num_blocks // num_cuts)
            for start in range(0, num_slices, step):
                yield Part(first, last, start, min(start + step, num_slices))

    def parts_of_graphs(self) -> Iterator[Part]:
        """The same, but a graph with all its slices is in one part."""
        if self.num_threads == 1:
            yield Part(0, self.num_sets, 0, self.num_slices)
            return
        shares = np.arange(self._share, self.num_elements, self._share)
        bounds = np.searchsorted(self.ptr, shares)
        bounds = np.unique([0, *bounds, self.num_sets]).tolist()
        for first, last in pairwise(bounds):
            yield Part(first, last, 0, self.num_slices)

    @property
    def _share(self) -> int:
        """How many elements make a part."""
        num_parts = 4 * self.num_threads if self.num_threads > 1 else 1
        return self.num_elements // num_parts + 1


def quantile(
    src: Tensor, ptr: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]`` of each graph, and what the adjoint needs to know.

    The first rows of the order of each graph hold the place that each used sorted value
    came from, for each slice. Memory that is not needed is not touched.
    """
    batch = _Batch(ptr, src.shape[1], reads)
    largest = batch.largest
    if with_order:
        _check_room(largest)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    if batch.is_empty:
        return _zeros(src, batch), order
    out = _new_points(batch)
    key_dtype = np.int64 if with_order else np.int32
    bits = _flat(src).view(np.int32)
    flat_out, flat_order = out.numpy().reshape(-1), order.numpy().reshape(-1)

    def sort_by_network(part: Part) -> None:
        keys = _network_keys(batch, key_dtype)
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

    if largest > _NETWORK_NODES:
        large = _parts_of_large(batch)
        for_each(sort_by_numpy, large, batch.num_threads)
    if largest <= _NETWORK_NODES or (batch.sizes <= _NETWORK_NODES).any():
        for_each(sort_by_network, batch.parts(), batch.num_threads)
    return out.to(src.dtype), order


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    batch = _Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return _zeros(src, batch)
    out = _new_points(batch)
    values, flat_order = _flat(src), order.numpy().reshape(-1)
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
    batch = _Batch(ptr, order.shape[1], reads)
    out = grad.new_empty(order.shape, dtype=torch.float32)
    if batch.is_empty:
        return out.to(grad.dtype)
    points, flat_order = _flat(grad), order.numpy().reshape(-1)
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


def weighted_quantile(src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads) -> Tensor:
    """As :func:`quantile`, with a mass for each element."""
    batch = _Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return _zeros(src, batch)
    out = _new_points(batch)
    points = out.numpy().reshape(-1)
    nothing = np.empty(0, np.float32), np.empty(0)
    _run_weighted(batch, src, weight, points, *nothing)
    return out.to(src.dtype)


def weighted_adjoint(
    grad: Tensor, src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src`` and ``weight``, for which
    the sort is done once more."""
    batch = _Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return torch.zeros_like(src), torch.zeros_like(weight)
    values = src.new_empty(src.shape, dtype=torch.float32)
    mass = src.new_zeros(len(src), dtype=torch.float64)
    room = values.numpy().reshape(-1), mass.numpy()
    _run_weighted(batch, src, weight, _flat(grad), *room)
    return values.to(src.dtype), mass.to(weight.dtype)


def _run_weighted(
    batch: _Batch,
    src: Tensor,
    weight: Tensor,
    points: np.ndarray,
    grad_src: np.ndarray,
    grad_mass: np.ndarray,
) -> None:
    """The points or, if there is room for them, the gradients. The gradient of a mass
    is a sum over slices: each graph is done by one thread, so that it has the same bits
    with any number of them."""
    _check_room(batch.largest)
    bits, mass = _flat(src).view(np.int32), weight.detach().double().numpy()
    numerators, denominators = fractions(batch.reads)
    reads = WeightedReads(
        kernels.code_of(batch.reads),
        batch.reads.extremes,
        np.array(numerators, np.float64),
        np.array(denominators, np.float64),
    )

    def work(part: Part, keys: np.ndarray, is_sorted: bool) -> None:
        kernels.weighted(
            bits,
            batch.num_slices,
            batch.ptr,
            mass,
            reads,
            part,
            keys,
            is_sorted,
            points,
            grad_src,
            grad_mass,
        )

    def sort_by_network(part: Part) -> None:
        work(part, _network_keys(batch, np.int64), is_sorted=False)

    def sort_by_numpy(graph: int) -> None:
        start, size = int(batch.ptr[graph]), int(batch.sizes[graph])
        step = max(_BLOCK // size, 1)
        for first in range(0, batch.num_slices, step):
            last = min(first + step, batch.num_slices)
            keys = np.empty((last - first, size), np.int64)
            flat = keys.reshape(-1)
            kernels.pack(bits, batch.num_slices, start, size, first, len(keys), flat)
            keys.sort(axis=-1)
            work(Part(graph, graph + 1, first, last), flat, is_sorted=True)

    large = np.flatnonzero(batch.sizes > _NETWORK_NODES).tolist()
    if large:
        for_each(sort_by_numpy, large, batch.num_threads)
    if len(large) < batch.num_sets:
        parts = batch.parts_of_graphs()
        for_each(sort_by_network, parts, batch.num_threads)


def _network_keys(batch: _Batch, dtype: type) -> np.ndarray:
    num_rows = num_key_rows(min(batch.largest, _NETWORK_NODES))
    return np.empty(LANES * num_rows, dtype)


def _check_room(largest: int) -> None:
    if largest > _MAX_NODES:
        raise ValueError(
            f"With gradients or weights, the 'numba' backend takes graphs of at most "
            f"{_MAX_NODES} elements (got {largest}): use the 'torch' backend"
        )


def _parts_of_large(batch: _Batch) -> list[Part]:
    """The graphs for numpy's sort, one by one, and some slices of them."""
    parts = []
    for graph in np.flatnonzero(batch.sizes > _NETWORK_NODES).tolist():
        # A line of memory at least, unless the keys would exceed the slice matrix.
        step = max(_BLOCK // int(batch.sizes[graph]), LANES)
        step = max(1, min(step, batch.num_slices // (2 * batch.num_threads)))
        parts += [
            Part(graph, graph + 1, first, min(first + step, batch.num_slices))
            for first in range(0, batch.num_slices, step)
        ]
    return parts


def _flat(x: Tensor) -> np.ndarray:
    return x.detach().float().contiguous().numpy().reshape(-1)


def _new_points(batch: _Batch) -> Tensor:
    shape = (batch.num_sets, batch.num_slices, batch.num_reads)
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def _zeros(src: Tensor, batch: _Batch) -> Tensor:
    return src.new_zeros(batch.num_sets, batch.num_slices, batch.num_reads)
