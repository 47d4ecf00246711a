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

from gswe_pyg.ops.plan import Plan, Reads
from gswe_pyg.ops.weighted import HAS_WINDOWS, WeightedReads, scale_masses

# Bytes of all that is held for a dense batch at once.
_BUDGET = 1 << 28


class _Bucket(NamedTuple):
    """Graphs of similar size, and some of their slices."""

    graphs: Tensor  # [b]
    slices: slice
    index: Tensor  # [b, P], rows of the input; anything where mask is False
    mask: Tensor  # [b, P]
    rows: np.ndarray  # [b], of the terms


class _DenseTerms(NamedTuple):
    """The terms of the graphs of a bucket, [b, T] each: ``weight`` times the sorted
    value ``column`` is added to point ``point``. Two for each point in a row, unless
    there may be more."""

    column: Tensor
    point: Tensor
    weight: Tensor


def quantile(
    src: Tensor, ptr: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]``, and the sorting permutation ``[N, L]`` if wanted."""
    plan = _plan(ptr, reads)
    out = src.new_zeros(plan.num_sets, src.shape[1], reads.num_reads)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    for bucket in _buckets(plan, src):
        values, position = _sort(src[bucket.index, bucket.slices], bucket)
        out[bucket.graphs, bucket.slices] = _interpolate(values, bucket, plan)
        if with_order:
            order[bucket.index[bucket.mask], bucket.slices] = position.mT[
                bucket.mask
            ].to(torch.int32)
    return out, order


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    plan = _plan(ptr, reads)
    out = src.new_zeros(plan.num_sets, src.shape[1], reads.num_reads)
    for bucket in _buckets(plan, src):
        position = order[bucket.index, bucket.slices].mT.long()
        position = position.where(bucket.mask[:, None], 0)
        values = src[bucket.index, bucket.slices].mT.gather(-1, position)
        out[bucket.graphs, bucket.slices] = _interpolate(values, bucket, plan)
    return out


def adjoint(grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    plan = _plan(ptr, reads)
    out = grad.new_empty(order.shape)
    for bucket in _buckets(plan, order):
        points = _accurate(grad[bucket.graphs, bucket.slices])
        terms = _dense_terms(bucket, plan, points)
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


def weighted_quantile(src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads) -> Tensor:
    """As :func:`quantile`, with a mass for each element."""
    plan = _plan(ptr, reads)
    out = src.new_zeros(plan.num_sets, src.shape[1], reads.num_reads)
    for bucket in _buckets(plan, src, weighted=True):
        weighted, _, _ = _weighted_reads(src, weight, bucket, reads)
        out[bucket.graphs, bucket.slices] = weighted.points().to(src.dtype)
    return out


def weighted_adjoint(
    grad: Tensor, src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src`` and ``weight``.

    The sort is done once more: with masses, what would have to be kept of it is several
    times the size of its input.
    """
    plan = _plan(ptr, reads)
    grad_src, grad_weight = torch.zeros_like(src), torch.zeros_like(weight)
    for bucket in _buckets(plan, src, weighted=True):
        weighted, position, scale = _weighted_reads(src, weight, bucket, reads)
        points = grad[bucket.graphs, bucket.slices].double()
        grad_values, grad_mass = weighted.gradients(points)
        elements = bucket.index[bucket.mask]
        grad_values = _unsort(grad_values, position).mT[bucket.mask]
        grad_src[elements, bucket.slices] = grad_values.to(src.dtype)
        grad_mass = _unsort(grad_mass, position).sum(1) * scale
        grad_weight[elements] += grad_mass[bucket.mask].to(weight.dtype)
    return grad_src, grad_weight


def weighted_tangent(
    src_tangent: Tensor,
    weight_tangent: Tensor,
    src: Tensor,
    ptr: Tensor,
    weight: Tensor,
    reads: Reads,
) -> Tensor:
    """The transpose of :func:`weighted_adjoint`: how the points change."""
    plan = _plan(ptr, reads)
    out = src.new_zeros(plan.num_sets, src.shape[1], reads.num_reads)
    for bucket in _buckets(plan, src, weighted=True):
        weighted, position, scale = _weighted_reads(src, weight, bucket, reads)
        values = src_tangent[bucket.index, bucket.slices].mT.double()
        mass = weight_tangent[bucket.index].where(bucket.mask, 0).double() * scale
        mass = mass[:, None].expand(position.shape).gather(-1, position)
        points = weighted.tangents(values.gather(-1, position), mass)
        out[bucket.graphs, bucket.slices] = points.to(src.dtype)
    return out


def _plan(ptr: Tensor, reads: Reads) -> Plan:
    return Plan(ptr.cpu().numpy(), reads)


def _weighted_reads(
    src: Tensor, weight: Tensor, bucket: _Bucket, reads: Reads
) -> tuple[WeightedReads, Tensor, Tensor]:
    values, position = _sort(src[bucket.index, bucket.slices], bucket)
    mass, scale = scale_masses(weight[bucket.index].where(bucket.mask, 0).double())
    mass = mass[:, None].expand(position.shape).gather(-1, position)
    return WeightedReads(values.double(), mass, scale, reads), position, scale


def _buckets(plan: Plan, like: Tensor, weighted: bool = False) -> Iterator[_Bucket]:
    num_slices, to = like.shape[1], {"device": like.device}
    exponents = np.frexp(np.maximum(plan.sizes - 1, 0))[1]
    for exponent in np.unique(exponents[plan.sizes > 0]):
        graphs = np.flatnonzero((exponents == exponent) & (plan.sizes > 0))
        width = int(plan.sizes[graphs].max())
        num_bytes = _bytes_of_a_slice(width, plan.reads, weighted)
        graph_step = max(1, _BUDGET // (num_bytes * max(1, num_slices)))
        slice_step = max(1, _BUDGET // num_bytes)
        for a in range(0, len(graphs), graph_step):
            part = graphs[a : a + graph_step]
            size = torch.as_tensor(plan.sizes[part], **to)
            place = torch.arange(width, **to)
            mask = place < size[:, None]
            index = torch.as_tensor(plan.ptr[:-1][part], **to)[:, None] + place
            index = index.where(mask, 0)
            graph = torch.as_tensor(part, **to)
            for b in range(0, num_slices, slice_step):
                slices = slice(b, min(b + slice_step, num_slices))
                yield _Bucket(graph, slices, index, mask, plan.rows[part])


def _bytes_of_a_slice(width: int, reads: Reads, weighted: bool) -> int:
    """About what one slice of one graph takes on its way."""
    if not weighted:
        return 32 * width + 32 * reads.max_terms(width)
    if reads.interpolation in HAS_WINDOWS:
        return 48 * width * (reads.num_reads + 1)
    return 64 * (width + reads.num_reads)


def _sort(dense: Tensor, bucket: _Bucket) -> tuple[Tensor, Tensor]:
    """Sorted values and their origin, ``[b, l, P]``; padding is last, and zero."""
    # NaN sorts behind everything, and a stable sort keeps real ones before the padding.
    values = dense.mT.where(bucket.mask[:, None], torch.nan)
    values, position = values.sort(dim=-1, stable=True)
    return values.where(bucket.mask[:, None], 0), position


def _unsort(values: Tensor, position: Tensor) -> Tensor:
    return torch.empty_like(values).scatter_(-1, position, values)


def _interpolate(values: Tensor, bucket: _Bucket, plan: Plan) -> Tensor:
    dtype, values = values.dtype, _accurate(values)
    if plan.reads.in_double and values.device.type != "mps":
        values = values.double()  # sums of many values
    terms = _dense_terms(bucket, plan, values)
    picked = values.gather(-1, _over_slices(terms.column, values))
    weight = terms.weight[:, None]
    picked = (picked * weight).where(weight != 0, 0)  # also where it is infinite
    num_reads = plan.reads.num_reads
    if not plan.reads.in_double:
        return (picked[..., :num_reads] + picked[..., num_reads:]).to(dtype)
    out = picked.new_zeros(*values.shape[:2], num_reads)
    out.scatter_add_(-1, _over_slices(terms.point, values), picked)
    return out.to(dtype)


def _dense_terms(bucket: _Bucket, plan: Plan, like: Tensor) -> _DenseTerms:
    terms, num_reads = plan.terms, plan.reads.num_reads
    first = terms.first[bucket.rows[:, None] * num_reads + np.arange(num_reads + 1)]
    if plan.reads.in_double:
        count = first[:, -1] - first[:, 0]
        at = first[:, :1] + np.arange(count.max())
        present = at < first[:, -1:]
        at = np.where(present, at, first[:, :1])
        # Of each term, the last point that begins before it or with it.
        begins = np.zeros((len(at), at.shape[1] + 1), np.int64)
        np.add.at(begins, (np.arange(len(at))[:, None], first[:, 1:] - first[:, :1]), 1)
        point = np.where(present, begins[:, :-1].cumsum(-1), 0)
    else:
        at = np.concatenate([first[:, :-1], first[:, 1:] - 1], axis=-1)
        present = np.ones(at.shape, bool)
        present[:, num_reads:] = at[:, num_reads:] > at[:, :num_reads]
        point = np.tile(np.arange(num_reads), (len(at), 2))
    used = terms.first_used[bucket.rows][:, None] + terms.position[at]
    weight = np.where(present, terms.weight[at], 0)
    # Rounded before it is moved: not every device knows float64.
    return _DenseTerms(
        torch.as_tensor(terms.used[used], device=like.device).long(),
        torch.as_tensor(point, device=like.device),
        torch.as_tensor(weight, device="cpu").to(like.dtype).to(like.device),
    )


def _over_slices(index: Tensor, values: Tensor) -> Tensor:
    return index[:, None].expand(-1, values.shape[1], -1)


def _accurate(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.half, torch.bfloat16) else values
