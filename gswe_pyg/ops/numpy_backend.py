"""Segment quantiles on the CPU: ragged, threaded, sorted in place by numpy's SIMD sort.

The graphs are taken in order of their size. Those of one size form a dense block of
rows, one row a graph and slice, which is sorted and interpolated at once; a block is
cut into chunks that fit the cache. Nothing is padded, and apart from the results only a
chunk a thread is in memory.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.interpolation import Interpolator, interpolator

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Elements in a chunk: its keys (8 bytes each) stay within a core's second-level cache.
_CHUNK = 32768

# Fewer elements than this are done before a second thread has woken up.
_WORTH_A_THREAD = 65536

# Graphs of fewer elements than this are gathered by one call for all of them.
_TINY_GRAPH = 256

# Added to the bits of a float32, it keeps the float64 whose upper half they become
# clear of the denormal numbers, which a processor may be told to take for zero.
_NORMAL = np.int32(1 << 20)

_LOW, _HIGH = (0, 1) if sys.byteorder == "little" else (1, 0)


class _Chunk(NamedTuple):
    """Graphs of one size, and some of their slices."""

    graphs: np.ndarray | slice  # rows of the output
    starts: np.ndarray  # first element of each graph
    slices: slice
    shape: tuple[int, int, int]  # graphs, slices, elements
    map: Interpolator
    order: slice  # this chunk's part of the flat order


def quantile(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    with_order: bool,
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, M]`` of each graph, and what the adjoint needs to know.

    The order holds, chunk by chunk, the element that each used sorted value came from.
    It has room for all values of all graphs; memory that is not needed is not touched.
    """
    values = src.float().numpy()
    num_slices = values.shape[1]
    out = torch.zeros(len(ptr) - 1, num_slices, num_points, dtype=torch.float32)
    order = torch.empty(src.shape if with_order else (0,), dtype=torch.int32)
    result, flat_order = out.numpy(), order.numpy().reshape(-1)

    def work(chunk: _Chunk) -> None:
        rows = _load(values, chunk)
        if with_order:
            rows = _sort_with_order(rows, chunk.map.columns, flat_order[chunk.order])
        else:
            rows.sort(axis=1)
        shape = (*chunk.shape[:2], num_points)
        result[chunk.graphs, chunk.slices] = chunk.map(rows).reshape(shape)

    _for_each_chunk(work, ptr, num_slices, num_points, interpolation)
    return out.to(src.dtype), order


def apply(
    src: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    values, flat_order = src.float().numpy(), order.numpy().reshape(-1)
    num_slices = values.shape[1]
    out = torch.zeros(len(ptr) - 1, num_slices, num_points, dtype=torch.float32)
    result = out.numpy()

    def work(chunk: _Chunk) -> None:
        rows = _load(values, chunk)
        rows = rows.reshape(-1)[_flat_positions(flat_order, chunk)]
        shape = (*chunk.shape[:2], num_points)
        result[chunk.graphs, chunk.slices] = chunk.map.from_columns(rows).reshape(shape)

    _for_each_chunk(work, ptr, num_slices, num_points, interpolation)
    return out.to(src.dtype)


def adjoint(
    grad: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, M]`` to ``[N, L]``."""
    points, flat_order = grad.float().numpy(), order.numpy().reshape(-1)
    num_elements, num_slices = order.shape
    # The layout that linear slicers produce, and multiply by in their own backward.
    out = torch.empty(num_slices, num_elements, dtype=torch.float32).t()
    result = out.numpy()

    def work(chunk: _Chunk) -> None:
        num_graphs, num_rows, n = chunk.shape
        rows = points[chunk.graphs, chunk.slices].reshape(-1, num_points)
        rows = chunk.map.adjoint(np.ascontiguousarray(rows))
        make = np.empty if chunk.map.columns is None else np.zeros
        block = make((num_graphs * num_rows, n), np.float32)
        block.reshape(-1)[_flat_positions(flat_order, chunk)] = rows
        _store(block, result, chunk)

    _for_each_chunk(work, ptr, num_slices, num_points, interpolation)
    return out.to(grad.dtype)


def _sort_with_order(
    rows: np.ndarray, columns: np.ndarray | None, order: np.ndarray
) -> np.ndarray:
    """Sorts rows and writes the origin of the values at ``columns``; ties by origin.

    The bits of a value and its place in the row are the two halves of one float64, so
    that one sort of floats moves both. Among equal negative numbers the larger lower
    half sorts first: there the place is stored inverted.
    """
    num_rows, n = rows.shape
    rows += 0.0  # -0.0 and 0.0 are a tie
    if np.isnan(rows.min()):
        rows[np.isnan(rows)] = np.nan  # of positive sign: sorts behind infinity
    bits = rows.view(np.int32)
    keys = np.empty((num_rows, n), np.float64)
    halves = keys.view(np.int32).reshape(num_rows, n, 2)
    low, high = halves[..., _LOW], halves[..., _HIGH]
    np.add(bits, _NORMAL, out=high)
    np.right_shift(bits, 31, out=bits)
    np.bitwise_xor(bits, np.arange(n, dtype=np.int32), out=low)
    keys.sort(axis=1)
    np.subtract(high, _NORMAL, out=bits)
    if columns is not None:
        low, high = low[:, columns], high[:, columns]
    np.bitwise_xor(low, high >> 31, out=order.reshape(low.shape))
    return rows


def _flat_positions(order: np.ndarray, chunk: _Chunk) -> np.ndarray:
    """Indices into the flattened rows of a chunk, ``[rows, num_columns]``."""
    num_graphs, num_rows, n = chunk.shape
    order = order[chunk.order].reshape(-1, chunk.map.num_columns)
    first = np.arange(0, num_graphs * num_rows * n, n, dtype=np.intp)
    return order + first[:, None]


def _load(values: np.ndarray, chunk: _Chunk) -> np.ndarray:
    """Copies the values ``[N, L]`` of a chunk into rows ``[graphs * slices, n]``."""
    num_graphs, num_rows, n = chunk.shape
    rows = np.empty(chunk.shape, np.float32)
    for where, elements in _pieces(chunk):
        rows[where] = np.moveaxis(values[elements, chunk.slices], -1, -2)
    return rows.reshape(num_graphs * num_rows, n)


def _store(rows: np.ndarray, values: np.ndarray, chunk: _Chunk) -> None:
    """The reverse of :func:`_load`."""
    rows = rows.reshape(chunk.shape)
    for where, elements in _pieces(chunk):
        values[elements, chunk.slices] = np.moveaxis(rows[where], -1, -2)


def _pieces(chunk: _Chunk) -> Iterable[tuple]:
    """Pairs of places: graphs of a chunk, and their elements ``[(graphs,) n]``."""
    num_graphs, num_rows, n = chunk.shape
    if num_graphs > 1 and num_rows * n < _TINY_GRAPH:
        return [(slice(None), chunk.starts[:, None] + np.arange(n))]
    return [(i, slice(s, s + n)) for i, s in enumerate(chunk.starts.tolist())]


def _chunks(
    ptr: Tensor, num_slices: int, num_points: int, interpolation: str
) -> list[_Chunk]:
    ptr = ptr.numpy()
    sizes = np.diff(ptr)
    by_size = np.argsort(sizes, kind="stable")
    distinct, first = np.unique(sizes[by_size], return_index=True)
    bounds = [*first.tolist(), len(sizes)]
    chunks, offset = [], 0
    for i, n in enumerate(distinct.tolist()):
        if n == 0:
            continue
        map = interpolator(n, num_points, interpolation)
        row_step = min(num_slices, max(1, _CHUNK // n))
        graph_step = max(1, _CHUNK // (n * num_slices)) if row_step == num_slices else 1
        for a in range(bounds[i], bounds[i + 1], graph_step):
            graphs = by_size[a : min(a + graph_step, bounds[i + 1])]
            starts = ptr[graphs]
            if graphs[-1] - graphs[0] == len(graphs) - 1:
                graphs = slice(int(graphs[0]), int(graphs[-1]) + 1)
            for b in range(0, num_slices, row_step):
                slices = slice(b, min(b + row_step, num_slices))
                shape = (len(starts), slices.stop - b, n)
                end = offset + shape[0] * shape[1] * map.num_columns
                order = slice(offset, end)
                chunks.append(_Chunk(graphs, starts, slices, shape, map, order))
                offset = end
    return chunks


def _for_each_chunk(
    work: Callable[[_Chunk], None],
    ptr: Tensor,
    num_slices: int,
    num_points: int,
    interpolation: str,
) -> None:
    chunks = _chunks(ptr, num_slices, num_points, interpolation)
    num_elements = int(ptr[-1]) * num_slices
    num_threads = min(torch.get_num_threads(), len(chunks))
    if num_elements < _WORTH_A_THREAD or num_threads == 1:
        for chunk in chunks:
            work(chunk)
        return

    queue = iter(reversed(chunks))  # the large graphs first

    def drain() -> None:
        for chunk in queue:
            work(chunk)

    helpers = [_pool().submit(drain) for _ in range(num_threads - 1)]
    try:
        drain()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


_executor: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="gswe_pyg")
    return _executor


def _forget_pool() -> None:
    global _executor
    _executor = None


# Threads do not survive a fork: the child starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
