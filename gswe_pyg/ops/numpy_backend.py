"""Segment quantiles on the CPU: ragged, threaded, sorted in place by numpy's SIMD sort.

The elements are brought into an order in which graphs of equal size stand together, one
slice after the other in memory. Then one call sorts all graphs of a size, and all else
is done for all graphs at once. Nothing is padded. Threads take some slices at a time:
apart from the results, only these chunks are in memory.
"""

import math
import threading
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.interpolation import Neighbours, neighbours, overlaps
from gswe_pyg.ops.threads import for_each

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Elements in a chunk, if a slice is not longer than that. Every call on it should take
# longer than it takes to wake a thread that waits for the interpreter, or the threads
# stand in each other's way; and it should not exceed the cache by much.
_CHUNK = 1 << 19

# Fewer elements than this are left to the threads of PyTorch. Where ours begin to pay
# is not sharp: around here, both ways took the same time up to noise.
_WORTH_THREADS = 1 << 21

# Entries of a table of positions: at most 4 MiB are kept for each number of points.
_TABLE_ENTRIES = 1 << 16

# Layouts of more elements than this are not remembered.
_REMEMBERED_ELEMENTS = 1 << 20

# Smaller buffers than this come from the allocator as fast, larger ones are not kept.
_FREE_BYTES, _KEPT_BYTES = 1 << 16, 1 << 24

# A float32 widened to float64 leaves 29 bits unused: here goes its place. One bit less,
# so that the place does not round the value up on the way back.
_PLACE_BITS = 28
_MAX_ELEMENTS = 1 << _PLACE_BITS
_PLACE_MASK = (1 << (_PLACE_BITS + 1)) - 1

# Too small to change a value other than zero, which it keeps clear of the denormal
# numbers: a processor may be told to take these for zero, and would lose their place.
_TINY = 2.0**-300

# Stand for infinity and NaN: beyond all of float32, but with places.
_INF, _NAN = 2.0**200, 2.0**300

# Sorted elements, the points that they are added to (None: one each), and the weights.
_Term = tuple[Tensor, Tensor | None, Tensor]


class _Layout:
    """Where things are in a batch of graphs, for a number of points."""

    def __init__(self, ptr: np.ndarray, num_points: int, interpolation: str) -> None:
        self.num_graphs = len(ptr) - 1
        self.num_points = num_points
        self.interpolation = interpolation
        self.num_elements = int(ptr[-1])
        sizes = np.diff(ptr)
        graphs = np.flatnonzero(sizes)
        self.graphs = torch.from_numpy(graphs)  # that are not empty
        self.has_all_graphs = len(graphs) == len(sizes)
        self.sizes = sizes[graphs]
        by_size = np.argsort(self.sizes, kind="stable")
        ordered_sizes = self.sizes[by_size]
        ordered_starts = np.cumsum(ordered_sizes) - ordered_sizes
        # The elements, ordered by the size of their graph.
        shift = np.repeat(ptr[graphs[by_size]] - ordered_starts, ordered_sizes)
        self.elements = torch.from_numpy(shift + np.arange(self.num_elements))
        # The first element of each graph in that order.
        self.starts = np.empty_like(self.sizes)
        self.starts[by_size] = ordered_starts
        # The sizes that occur, and the elements of all graphs of that size.
        distinct, first = np.unique(ordered_sizes, return_index=True)
        bounds = [*ordered_starts[first].tolist(), self.num_elements]
        self.groups = [
            (size, slice(*bounds[i : i + 2]))
            for i, size in enumerate(distinct.tolist())
        ]

        self.terms = self._terms()

    def _terms(self) -> list[_Term]:
        """The interpolation of all graphs as a sum of terms."""
        if self.interpolation == "barycentric":
            graph, column, point, weight = overlaps(self.sizes, self.num_points)
            column += self.starts[graph]
            point += graph * self.num_points
            arrays = [(column, torch.from_numpy(point), weight)]
        else:
            near = _neighbours(self.sizes, self.num_points, self.interpolation)
            first = self.starts[:, None]
            arrays = [(first + near.lower, None, near.lower_weight)]
            if near.upper_weight.any():
                arrays.append((first + near.upper, None, near.upper_weight))
        return [
            (
                torch.from_numpy(column.reshape(-1)),
                point,
                torch.from_numpy(weight.reshape(-1)).float(),
            )
            for column, point, weight in arrays
        ]

    @cached_property
    def used(self) -> Tensor | None:
        """The sorted elements that have a term, where these are but a few; otherwise
        :obj:`None`, which stands for all of them."""
        num_terms = sum(len(column) for column, _, _ in self.terms)
        if 2 * num_terms > self.num_elements:
            return None
        is_used = torch.zeros(self.num_elements, dtype=torch.bool)
        for column, _, _ in self.terms:
            is_used[column] = True
        return is_used.nonzero()[:, 0]

    @property
    def num_used(self) -> int:
        return self.num_elements if self.used is None else len(self.used)

    @cached_property
    def terms_of_used(self) -> list[_Term]:
        """As :attr:`terms`, with columns that count the used elements only."""
        if self.used is None:
            return self.terms
        rank = torch.empty(self.num_elements, dtype=torch.long)
        rank[self.used] = torch.arange(len(self.used))
        return [(rank[column], *rest) for column, *rest in self.terms]


def _neighbours(sizes: np.ndarray, num_points: int, interpolation: str) -> Neighbours:
    """As :func:`neighbours`, looked up in a table where sets and table are small."""
    largest = int(sizes.max(initial=1))
    if largest * num_points > _TABLE_ENTRIES:
        return neighbours(sizes, num_points, interpolation)
    num_rows = 1 << (largest - 1).bit_length()
    table = _neighbours_table(num_rows, num_points, interpolation)
    return Neighbours(*(array[sizes - 1] for array in table))


@lru_cache(maxsize=16)
def _neighbours_table(num_rows: int, num_points: int, interpolation: str) -> Neighbours:
    return neighbours(np.arange(1, num_rows + 1), num_points, interpolation)


def _layout(ptr: Tensor, num_points: int, interpolation: str) -> _Layout:
    """A layout; that of the forward pass is remembered for the backward pass."""
    ptr = ptr.numpy()
    if int(ptr[-1]) > _REMEMBERED_ELEMENTS:
        return _Layout(ptr, num_points, interpolation)
    return _remembered_layout(ptr.tobytes(), num_points, interpolation)


@lru_cache(maxsize=8)
def _remembered_layout(ptr: bytes, num_points: int, interpolation: str) -> _Layout:
    return _Layout(np.frombuffer(ptr, np.int64), num_points, interpolation)


def quantile(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    with_order: bool,
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, M]`` of each graph, and what the adjoint needs to know.

    The order holds, for each slice, the element that each used sorted value came from.
    It has room for all elements; memory that is not needed is not touched.
    """
    if with_order and src.shape[0] > _MAX_ELEMENTS:
        raise ValueError(
            f"The 'numpy' backend differentiates through at most {_MAX_ELEMENTS} "
            f"elements (got {src.shape[0]}): use the 'torch' backend or smaller batches"
        )
    layout = _layout(ptr, num_points, interpolation)
    out = _new_points(src, layout)
    order = torch.empty(src.shape if with_order else (0,), dtype=torch.int32)
    used_order = _used_part(order, layout) if with_order else None

    def work(slices: slice) -> None:
        rows = src[:, slices].t()
        rows = _select(rows.float(), layout.elements, "rows")
        is_finite = math.isfinite(rows.sum())  # or huge, which takes the same care
        if with_order:
            _sort_with_order(rows, layout, used_order[slices], is_finite)
        else:
            _sort(rows, layout)
        points = _interpolate(rows, layout.terms, layout, is_finite)
        _write_points(points, out, slices, layout)

    _for_chunks(work, src.shape)
    return out, order


def apply(
    src: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    layout = _layout(ptr, num_points, interpolation)
    out = _new_points(src, layout)
    used_order, terms = _used_part(order, layout), layout.terms_of_used

    def work(slices: slice) -> None:
        rows = src[:, slices].t().float().gather(1, used_order[slices].long())
        is_finite = math.isfinite(rows.sum())
        points = _interpolate(rows, terms, layout, is_finite)
        _write_points(points, out, slices, layout)

    _for_chunks(work, src.shape)
    return out


def adjoint(
    grad: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, M]`` to ``[N, L]``."""
    layout = _layout(ptr, num_points, interpolation)
    num_elements, num_slices = order.shape
    used_order, terms = _used_part(order, layout), layout.terms_of_used
    # One slice after the other, as they are sorted.
    out = torch.empty(num_slices, num_elements, dtype=torch.float32)

    def work(slices: slice) -> None:
        target = out[slices]
        if layout.used is not None:
            target.zero_()
        points = grad[:, slices]
        if not layout.has_all_graphs:
            points = points.index_select(0, layout.graphs)
        points = points.transpose(0, 1)
        points = _scratch("points", points.shape).copy_(points).flatten(1)
        used = _scratch("used", (len(points), layout.num_used)).zero_()
        for column, point, weight in terms:
            term = points if point is None else points.index_select(1, point)
            term = torch.mul(term, weight, out=_scratch("term", term.shape))
            used.index_add_(1, column, term)
        places = _scratch("long", used.shape, torch.int64)
        target.scatter_(1, places.copy_(used_order[slices]), used)

    _for_chunks(work, order.shape)
    return out.t().to(grad.dtype)


def _sort_with_order(
    rows: Tensor, layout: _Layout, order: Tensor, is_finite: bool
) -> None:
    """Sorts the graphs of each row in place, and writes the origin of used values.

    A value and its place make one float64, so that one sort of floats moves both, and
    ties go by place. The place is added to the magnitude: for negative numbers it is
    inverted, since there the larger magnitude comes first.
    """
    keys = _scratch("keys", rows.shape, torch.float64)
    keys.copy_(rows).add_(_TINY)  # which makes -0.0 and 0.0 a tie
    if not is_finite:
        keys.nan_to_num_(nan=_NAN, posinf=_INF, neginf=-_INF)
    bits = keys.view(torch.int64)
    places = _scratch("long", rows.shape, torch.int64)
    torch.bitwise_right_shift(bits, 63, out=places)
    bits += places.bitwise_xor_(layout.elements)
    _sort(keys, layout)
    rows.copy_(keys)
    if not is_finite:
        rows.masked_fill_(keys > _INF * 2, torch.nan)
    places = order
    if layout.used is not None:
        places = _scratch("places", rows.shape, torch.int32)
    places.copy_(bits)
    sign = _scratch("sign", rows.shape, torch.int32)
    torch.bitwise_right_shift(rows.view(torch.int32), 31, out=sign)
    places.bitwise_xor_(sign).bitwise_and_(_PLACE_MASK)
    if layout.used is not None:
        torch.index_select(places, 1, layout.used, out=order)


def _interpolate(
    rows: Tensor, terms: list[_Term], layout: _Layout, is_finite: bool
) -> Tensor:
    """From sorted rows ``[l, N]`` to points ``[l, graphs * M]``."""
    points = None
    for i, (column, point, weight) in enumerate(terms):
        term = _select(rows, column, f"term {i}")
        if point is not None:  # sums of many values
            term = term.double()
        term *= weight
        if not is_finite:
            term.masked_fill_(weight == 0, 0)  # zero times infinity is nothing
        if point is not None:
            points = term.new_zeros(len(rows), len(layout.graphs) * layout.num_points)
            points.scatter_add_(1, point.expand_as(term), term)
        else:
            points = term if points is None else points.add_(term)
    return points


def _new_points(src: Tensor, layout: _Layout) -> Tensor:
    make = torch.empty if layout.has_all_graphs else torch.zeros
    shape = (layout.num_graphs, src.shape[1], layout.num_points)
    return make(shape, dtype=src.dtype)


def _write_points(points: Tensor, out: Tensor, slices: slice, layout: _Layout) -> None:
    points = points.view(len(points), len(layout.graphs), layout.num_points)
    points = points.transpose(0, 1)
    if layout.has_all_graphs:
        out[:, slices] = points
    else:
        out[layout.graphs, slices] = points.to(out.dtype)


class _Local(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}


_local = _Local()


def _scratch(
    name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> Tensor:
    """Memory of this thread that is overwritten by the next use of the same name.

    It bounds what a thread holds, and spares the allocator large blocks in each call.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes < _FREE_BYTES:
        return torch.empty(shape, dtype=dtype)
    buffer = _local.buffers.get(name)
    if buffer is None or buffer.numel() < num_bytes:
        buffer = torch.empty(num_bytes, dtype=torch.uint8)
        if num_bytes <= _KEPT_BYTES:
            _local.buffers[name] = buffer
    return buffer[:num_bytes].view(dtype).view(shape)


def _select(rows: Tensor, columns: Tensor, name: str) -> Tensor:
    out = _scratch(name, (len(rows), len(columns)), rows.dtype)
    return torch.index_select(rows, 1, columns, out=out)


def _used_part(order: Tensor, layout: _Layout) -> Tensor:
    """The part of the order that is in use, ``[L, num_used]``."""
    num_slices = order.shape[1]
    flat = order.view(-1)[: num_slices * layout.num_used]
    return flat.view(num_slices, layout.num_used)


def _sort(rows: Tensor, layout: _Layout) -> None:
    """Sorts the graphs of each row ``[l, N]`` in place."""
    rows = rows.numpy()
    for size, elements in layout.groups:
        rows[:, elements].reshape(len(rows), -1, size).sort(axis=-1)


def _for_chunks(work: Callable[[slice], None], shape: tuple[int, int]) -> None:
    """Calls ``work`` for all slices of ``[N, L]``, some at a time."""
    num_elements, num_slices = shape
    if num_slices == 0 or num_elements == 0:
        return
    num_threads = 1
    if num_slices * num_elements >= _WORTH_THREADS:
        num_threads = min(torch.get_num_threads(), num_slices)
    step = min(max(1, _CHUNK // num_elements), -(-num_slices // num_threads))
    chunks = [
        slice(start, min(start + step, num_slices))
        for start in range(0, num_slices, step)
    ]
    # The caller waits: in its own thread, PyTorch would start more threads than cores.
    for_each(work, chunks, num_threads, caller_works=False)
