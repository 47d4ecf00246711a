"""Segment quantiles in plain PyTorch, for every device and dtype.

Graphs are grouped by the power of two above their size and sorted as dense batches, so
that padding at most doubles the elements. Batches are cut to a budget, over graphs
first and over slices where one graph alone exceeds it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.interpolation import neighbours
from gswe_pyg.ops.merge import merge_breakpoints
from gswe_pyg.ops.weighted import weighted_terms

# Elements in a dense batch; a sort holds about 20 bytes for each of them.
_BUDGET = 1 << 24


class _Bucket(NamedTuple):
    """Graphs of similar size, and some of their slices."""

    graphs: Tensor  # [b]
    slices: slice
    sizes: Tensor  # [b]
    index: Tensor  # [b, P], rows of the input; anything where mask is False
    mask: Tensor  # [b, P]


class _Terms(NamedTuple):
    """The interpolation of the graphs of a bucket as a sum of terms, [b, T] each:
    ``weight`` times the sorted value ``column`` is added to point ``point``."""

    column: Tensor
    point: Tensor
    weight: Tensor


def quantile(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    with_order: bool,
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, M]``, and the sorting permutation ``[N, L]`` if wanted."""
    out = src.new_zeros(len(ptr) - 1, src.shape[1], num_points)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    for bucket in _buckets(ptr, src.shape[1]):
        values, position = _sort(src[bucket.index, bucket.slices], bucket)
        out[bucket.graphs, bucket.slices] = _interpolate(
            values, bucket, num_points, interpolation
        )
        if with_order:
            order[bucket.index[bucket.mask], bucket.slices] = position.mT[
                bucket.mask
            ].to(torch.int32)
    return out, order


def apply(
    src: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    out = src.new_zeros(len(ptr) - 1, src.shape[1], num_points)
    for bucket in _buckets(ptr, src.shape[1]):
        position = order[bucket.index, bucket.slices].mT.long()
        position = position.where(bucket.mask[:, None], 0)
        values = src[bucket.index, bucket.slices].mT.gather(-1, position)
        out[bucket.graphs, bucket.slices] = _interpolate(
            values, bucket, num_points, interpolation
        )
    return out


def adjoint(
    grad: Tensor, order: Tensor, ptr: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, M]`` to ``[N, L]``."""
    out = grad.new_empty(order.shape)
    for bucket in _buckets(ptr, order.shape[1]):
        points = _accurate(grad[bucket.graphs, bucket.slices])
        terms = _terms(bucket, num_points, interpolation, points.dtype)
        picked = points.gather(-1, _over_slices(terms.point, points))
        picked = picked * terms.weight[:, None]
        shape = (*points.shape[:2], bucket.mask.shape[1])
        sorted_grad = picked.new_zeros(shape).scatter_add_(
            -1, _over_slices(terms.column, points), picked
        )
        position = order[bucket.index, bucket.slices].mT.long()
        # Padding goes nowhere: each padded column keeps its own place.
        own = torch.arange(shape[-1], device=grad.device)
        position = position.where(bucket.mask[:, None], own)
        values = _unsort(sorted_grad, position).mT[bucket.mask]
        out[bucket.index[bucket.mask], bucket.slices] = values.to(grad.dtype)
    return out


def weighted_quantile(
    src: Tensor, ptr: Tensor, weight: Tensor, num_points: int, interpolation: str
) -> Tensor:
    """As :func:`quantile`, with a mass for each element."""
    src, weight, ptr, _ = drop_massless(src, weight, ptr)
    out = src.new_zeros(len(ptr) - 1, src.shape[1], num_points)
    for bucket in _buckets(ptr, src.shape[1]):
        values, position = _sort(src[bucket.index, bucket.slices], bucket)
        mass = _sorted_mass(weight, position, bucket)
        terms = weighted_terms(mass, bucket.sizes, num_points, interpolation)
        picked = values.double().gather(-1, terms.column) * terms.weight
        picked = picked.where(terms.weight != 0, 0)  # also where it is infinite
        points = picked.new_zeros(*values.shape[:2], num_points)
        points.scatter_add_(-1, terms.point, picked)
        out[bucket.graphs, bucket.slices] = points.to(src.dtype)
    return out


def weighted_adjoint(
    grad: Tensor, src: Tensor, ptr: Tensor, weight: Tensor, interpolation: str
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src`` and ``weight``.

    The sort is done once more: with masses, what would have to be kept of it is several
    times the size of its input.
    """
    grad_src, grad_weight = torch.zeros_like(src), torch.zeros_like(weight)
    src, weight, ptr, present = drop_massless(src, weight, ptr)
    for bucket in _buckets(ptr, src.shape[1]):
        values, position = _sort(src[bucket.index, bucket.slices], bucket)
        mass = _sorted_mass(weight, position, bucket)
        terms = weighted_terms(mass, bucket.sizes, grad.shape[-1], interpolation)
        points = grad[bucket.graphs, bucket.slices].double()
        picked = points.gather(-1, terms.point)
        grad_values = torch.zeros_like(mass)
        grad_values.scatter_add_(-1, terms.column, picked * terms.weight)
        picked = picked * values.double().gather(-1, terms.column)
        grad_mass = terms.mass_gradient(picked)
        elements = present[bucket.index[bucket.mask]]
        grad_values = _unsort(grad_values, position).mT[bucket.mask]
        grad_src[elements, bucket.slices] = grad_values.to(src.dtype)
        grad_mass = _unsort(grad_mass, position).sum(1)[bucket.mask]
        grad_weight[elements] += grad_mass.to(weight.dtype)
    return grad_src, grad_weight


def _sorted_mass(weight: Tensor, position: Tensor, bucket: _Bucket) -> Tensor:
    mass = weight[bucket.index].where(bucket.mask, 0).double()
    return mass[:, None].expand(position.shape).gather(-1, position)


def drop_massless(
    src: Tensor, weight: Tensor, ptr: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Without the elements of mass zero, and the places of those that remain.

    They are ordered by mass in each graph, and a stable sort of their values keeps them
    so where these are equal: the order of the rows must not decide on the order of
    ties, which matters between elements of different mass.
    """
    present = weight > 0
    num_before = torch.nn.functional.pad(present.cumsum(0), (1, 0))
    places = present.nonzero()[:, 0]
    places = places[weight[places].argsort(stable=True)]
    places = places[torch.searchsorted(ptr, places, right=True).argsort(stable=True)]
    return src[places], weight[places], num_before[ptr], places


def _buckets(ptr: Tensor, num_slices: int) -> Iterator[_Bucket]:
    starts = ptr.cpu().numpy()
    sizes = np.diff(starts)
    exponents = np.frexp(np.maximum(sizes - 1, 0))[1]
    for exponent in np.unique(exponents[sizes > 0]):
        graphs = np.flatnonzero((exponents == exponent) & (sizes > 0))
        width = int(sizes[graphs].max())
        graph_step = max(1, _BUDGET // (width * max(1, num_slices)))
        slice_step = max(1, _BUDGET // width)
        for a in range(0, len(graphs), graph_step):
            part = graphs[a : a + graph_step]
            to = {"device": ptr.device}
            size = torch.as_tensor(sizes[part], **to)
            place = torch.arange(width, **to)
            mask = place < size[:, None]
            index = torch.as_tensor(starts[part], **to)[:, None] + place
            index = index.where(mask, 0)
            graph = torch.as_tensor(part, **to)
            for b in range(0, num_slices, slice_step):
                slices = slice(b, min(b + slice_step, num_slices))
                yield _Bucket(graph, slices, size, index, mask)


def _sort(dense: Tensor, bucket: _Bucket) -> tuple[Tensor, Tensor]:
    """Sorted values and their origin, ``[b, l, P]``; padding is last, and zero."""
    # NaN sorts behind everything, and a stable sort keeps real ones before the padding.
    values = dense.mT.where(bucket.mask[:, None], torch.nan)
    values, position = values.sort(dim=-1, stable=True)
    return values.where(bucket.mask[:, None], 0), position


def _unsort(values: Tensor, position: Tensor) -> Tensor:
    return torch.empty_like(values).scatter_(-1, position, values)


def _interpolate(
    values: Tensor, bucket: _Bucket, num_points: int, interpolation: str
) -> Tensor:
    dtype, values = values.dtype, _accurate(values)
    if interpolation == "barycentric" and values.device.type != "mps":
        values = values.double()  # sums of many values
    terms = _terms(bucket, num_points, interpolation, values.dtype)
    picked = values.gather(-1, _over_slices(terms.column, values))
    weight = terms.weight[:, None]
    picked = (picked * weight).where(weight != 0, 0)  # also where it is infinite
    if interpolation != "barycentric":
        lower, upper = picked.chunk(2, dim=-1)
        return (lower + upper).to(dtype)
    out = picked.new_zeros(*values.shape[:2], num_points)
    out.scatter_add_(-1, _over_slices(terms.point, values), picked)
    return out.to(dtype)


def _terms(
    bucket: _Bucket, num_points: int, interpolation: str, dtype: torch.dtype
) -> _Terms:
    to = {"device": bucket.sizes.device}
    if interpolation != "barycentric":
        near = neighbours(bucket.sizes.cpu().numpy(), num_points, interpolation)
        columns = np.concatenate([near.lower, near.upper], axis=-1)
        weights = np.concatenate([near.lower_weight, near.upper_weight], axis=-1)
        points = torch.arange(num_points, **to).repeat(len(columns), 2)
        # Rounded before they are moved: not every device knows float64.
        weights = torch.as_tensor(weights).to(dtype).to(**to)
        return _Terms(torch.as_tensor(columns, **to), points, weights)
    # In units of 1 / (n M), all breakpoints are integers.
    size = bucket.sizes[:, None]
    place = torch.arange(1, bucket.mask.shape[1] + 1, **to)
    ends = (place * num_points).where(bucket.mask, size * num_points)
    bins = torch.arange(1, num_points + 1, **to) * size
    width, column, point, _ = merge_breakpoints(ends, bins)
    return _Terms(column, point, width.to(dtype) / size)


def _over_slices(index: Tensor, values: Tensor) -> Tensor:
    return index[:, None].expand(-1, values.shape[1], -1)


def _accurate(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.half, torch.bfloat16) else values
