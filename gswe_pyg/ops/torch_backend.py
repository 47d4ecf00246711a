"""Segment quantiles in plain PyTorch, for every device and dtype.

Values are sorted in dense batches of sets of similar size, as integers of the same
order, their *keys*: this is faster, and leaves room for padding behind NaN.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.buckets import Bucket, cut, make_buckets
from gswe_pyg.ops.plan import Plan, Reads
from gswe_pyg.ops.threads import for_each
from gswe_pyg.ops.weighted import HAS_WINDOWS, WeightedReads, scale_masses

# Fewer keys than this are not worth a second thread.
_WORTH_THREADS = 1 << 16

_KEY_DTYPES = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def quantile(
    src: Tensor, ptr: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]``, and the sorting permutation ``[N, L]`` if wanted."""
    plan = Plan(ptr.cpu().numpy(), reads)
    values, order = _sort(src, ptr, with_order)
    return _interpolate(values, plan), order


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    plan = Plan(ptr.cpu().numpy(), reads)
    return _interpolate(src.gather(0, _elements(order, plan)), plan)


def adjoint(grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    plan = Plan(ptr.cpu().numpy(), reads)
    dtype = torch.promote_types(grad.dtype, torch.float32)
    sums = order.new_zeros(order.shape, dtype=dtype)
    for terms in _terms(plan, dtype, order):
        points = grad[terms.sets, terms.slices].to(dtype).mT.flatten(0, 1)
        picked = points.index_select(0, terms.point).mul_(terms.weight)
        _add_rows(picked, terms.row, sums[:, terms.slices])
    out = torch.empty_like(sums)
    column = torch.arange(sums.shape[1], device=sums.device)
    out[_elements(order, plan), column] = sums  # 'scatter_' is slow with few columns
    return out.to(grad.dtype)


def weighted_quantile(
    src: Tensor,
    ptr: Tensor,
    weight: Tensor,
    reads: Reads,
    with_order: bool,
    max_num_elements: int | None = None,
) -> tuple[Tensor, Tensor]:
    """As :func:`quantile`, with a mass for each element. If no set may be larger than
    ``max_num_elements``, nothing is read from a device; the points of those that are
    larger are NaN."""
    out = src.new_zeros(len(ptr) - 1, src.shape[1], reads.num_reads)
    order = _new_rows(src, torch.int32)
    for bucket in _weighted_buckets(ptr, src, reads, max_num_elements):
        position = _sort_dense(src, bucket)
        weighted, _ = _weighted_reads(src, weight, bucket, position, reads)
        _write_points(weighted.points(), bucket, out)
        if with_order:
            bucket.write_rows(position.int(), order)
    if max_num_elements is not None:
        sizes = ptr.diff()[:, None, None]
        out = out.masked_fill(sizes == 0, 0)  # of which nothing is known before
        out = out.masked_fill(sizes > max_num_elements, torch.nan)
    return out, order[:-1] if with_order else order.new_empty(0)


def weighted_adjoint(
    grad: Tensor,
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    weight: Tensor,
    reads: Reads,
    with_mass: bool,
    max_num_elements: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src``, and for ``weight`` if
    wanted. PyTorch can differentiate this once more."""
    grad_src = _new_rows(src, src.dtype)
    grad_weight = weight.new_zeros(len(src) + 1)
    for bucket in _weighted_buckets(ptr, src, reads, max_num_elements):
        position = _dense_order(order, bucket)
        weighted, scale = _weighted_reads(src, weight, bucket, position, reads)
        points = grad[:, bucket.slices].index_select(0, bucket.sets).double()
        values, mass = weighted.gradients(points)
        bucket.write_rows(_unsort(values, position).to(src.dtype), grad_src)
        if with_mass:
            mass = (_unsort(mass, position).sum(1) * scale).to(weight.dtype)
            grad_weight.index_add_(0, bucket.target, mass.flatten())
    grad_src, grad_weight = grad_src[:-1], grad_weight[: -1 if with_mass else 0]
    if max_num_elements is not None:
        is_larger = ptr.diff() > max_num_elements
        is_larger = is_larger.repeat_interleave(ptr.diff(), output_size=len(src))
        grad_src = grad_src.masked_fill(is_larger[:, None], torch.nan)
        if with_mass:
            grad_weight = grad_weight.masked_fill(is_larger, torch.nan)
    return grad_src, grad_weight


def weighted_tangent(
    src_tangent: Tensor,
    weight_tangent: Tensor,
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    weight: Tensor,
    reads: Reads,
    max_num_elements: int | None = None,
) -> Tensor:
    """The transpose of :func:`weighted_adjoint`: how the points change."""
    out = src.new_zeros(len(ptr) - 1, src.shape[1], reads.num_reads)
    for bucket in _weighted_buckets(ptr, src, reads, max_num_elements):
        position = _dense_order(order, bucket)
        weighted, scale = _weighted_reads(src, weight, bucket, position, reads)
        values = bucket.dense(src_tangent, bucket.index).double()
        mass = _dense_masses(weight_tangent, bucket) * scale
        mass = mass[:, None].expand(position.shape).gather(-1, position)
        points = weighted.tangents(values.gather(-1, position), mass)
        _write_points(points, bucket, out)
    return out


# Sort #################################################################################


def _sort(src: Tensor, ptr: Tensor, with_order: bool) -> tuple[Tensor, Tensor]:
    """The values in sorted order, ``[N, L]``, and this order if wanted."""
    keys = _keys(src)
    keys = torch.cat([keys, keys.new_full((1, src.shape[1]), _behind_all(src))])
    sorted_keys = torch.empty_like(keys)
    order = keys.new_empty(keys.shape if with_order else (0,), dtype=torch.int32)
    for bucket in make_buckets(ptr, src, lambda width: 48 * width):
        dense, position = _sort_keys(bucket.dense(keys, bucket.target), with_order)
        bucket.write_rows(dense, sorted_keys)
        if with_order:
            bucket.write_rows(position, order)
    return _flip_negative(sorted_keys[:-1]).view(src.dtype), order[:-1]


def _sort_keys(keys: Tensor, with_order: bool) -> tuple[Tensor, Tensor]:
    """Along the last dimension: the keys, and where they stood if wanted. Ties go by
    place; without an order they are all the same."""
    if not _is_on_host(keys) or (with_order and keys.itemsize == 8):
        keys, position = keys.sort(dim=-1, stable=with_order)
        return keys, position.int()
    # NumPy is much faster than PyTorch, and sorts places along with their keys.
    if not with_order:
        _sort_rows(keys)
        return keys, keys.new_empty(0)
    place = torch.arange(keys.shape[-1], device=keys.device)
    joined = (keys.long() << 32).add_(place)
    _sort_rows(joined)
    return (joined >> 32).to(keys.dtype), joined.int()


def _is_on_host(keys: Tensor) -> bool:
    return keys.device.type == "cpu"


def _sort_rows(keys: Tensor) -> None:
    rows = keys.numpy().reshape(-1, keys.shape[-1])
    num_threads = torch.get_num_threads() if keys.numel() >= _WORTH_THREADS else 1
    for_each(np.ndarray.sort, np.array_split(rows, num_threads), num_threads)


def _new_rows(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Room for ``[N, L]`` and a row behind it, where buckets write their padding."""
    return like.new_zeros(like.shape[0] + 1, like.shape[1], dtype=dtype)


def _keys(values: Tensor) -> Tensor:
    """Integers in the order of the values: NaN is last, and -0 is 0."""
    values = (values + 0.0).masked_fill_(values.isnan(), torch.nan)  # of one sign
    return _flip_negative(values.view(_KEY_DTYPES[values.itemsize]))


def _flip_negative(bits: Tensor) -> Tensor:
    """From sign and magnitude to two's complement, or back."""
    sign = bits >> (8 * bits.itemsize - 1)
    return sign.bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)


def _behind_all(values: Tensor) -> int:
    """The key of padding, which is greater than that of NaN."""
    return torch.iinfo(_KEY_DTYPES[values.itemsize]).max


# Sums #################################################################################


class _Terms(NamedTuple):
    """The terms of some sets in some slices: the sorted value in row ``row``, times
    ``weight``, is added to point ``point`` of these sets."""

    sets: slice
    slices: slice
    row: Tensor  # [T]
    point: Tensor  # [T]
    weight: Tensor  # [T, 1]


def _terms(plan: Plan, dtype: torch.dtype, like: Tensor) -> Iterator[_Terms]:
    """All terms, in some parts, for rows like these."""
    terms, num_reads = plan.terms, plan.reads.num_reads
    reads = plan.rows[:, None] * num_reads + np.arange(num_reads)
    counts = np.diff(terms.first)[reads] * (plan.sizes > 0)[:, None]
    num_terms = counts.sum(1)
    for sets, slices in cut(32 * num_terms + 16 * num_reads, like.shape[1]):
        count = counts[sets].reshape(-1)
        owner = np.repeat(np.arange(sets.start, sets.stop), num_terms[sets])
        shift = terms.first[reads[sets]].reshape(-1) - (np.cumsum(count) - count)
        at = np.arange(len(owner)) + np.repeat(shift, count)
        used = terms.first_used[plan.rows[owner]] + terms.position[at]
        row = plan.ptr[owner] + terms.used[used]
        point = np.repeat(np.arange(len(count)), count)
        # Rounded before it is moved: not every device knows float64.
        weight = torch.from_numpy(terms.weight[at]).to(dtype)
        row, point, weight = (
            torch.as_tensor(x, device=like.device) for x in (row, point, weight)
        )
        yield _Terms(sets, slices, row, point, weight[:, None])


def _interpolate(values: Tensor, plan: Plan) -> Tensor:
    """The points of sorted values."""
    dtype = torch.promote_types(values.dtype, torch.float32)
    if plan.reads.in_double and values.device.type != "mps":
        dtype = torch.float64  # sums of many values
    out = values.new_empty(plan.num_sets, values.shape[1], plan.reads.num_reads)
    for terms in _terms(plan, dtype, values):
        picked = values[:, terms.slices].index_select(0, terms.row)
        points = out[terms.sets, terms.slices].mT
        sums = picked.new_zeros(points.shape, dtype=dtype)
        picked = picked.to(dtype).mul_(terms.weight)
        _add_rows(picked, terms.point, sums.flatten(0, 1))
        points.copy_(sums)
    return out


def _add_rows(values: Tensor, rows: Tensor, out: Tensor) -> None:
    out.scatter_add_(0, rows[:, None].expand_as(values), values)


def _elements(order: Tensor, plan: Plan) -> Tensor:
    """The rows that sorted values came from, ``[N, L]``."""
    start = torch.from_numpy(np.repeat(plan.ptr[:-1], plan.sizes)).to(order.device)
    return order.long().add_(start[:, None])


# Masses ###############################################################################


def _weighted_buckets(
    ptr: Tensor, like: Tensor, reads: Reads, width: int | None
) -> Iterator[Bucket]:
    def num_bytes(width: int) -> int:
        if reads.interpolation in HAS_WINDOWS:
            return 48 * width * (reads.num_reads + 1)
        return 64 * (width + reads.num_reads)

    return make_buckets(ptr, like, num_bytes, width)


def _sort_dense(src: Tensor, bucket: Bucket) -> Tensor:
    """The order of the elements, ``[b, l, P]``; padding is last."""
    keys = _keys(bucket.dense(src.detach(), bucket.index))
    keys = keys.where(bucket.mask[:, None], _behind_all(src))
    return _sort_keys(keys, with_order=True)[1].long()


def _dense_order(order: Tensor, bucket: Bucket) -> Tensor:
    """The same, from an order that is known."""
    position = bucket.dense(order, bucket.index).long()
    own = torch.arange(position.shape[-1], device=order.device)
    return position.where(bucket.mask[:, None], own)


def _weighted_reads(
    src: Tensor, weight: Tensor, bucket: Bucket, position: Tensor, reads: Reads
) -> tuple[WeightedReads, Tensor]:
    values = bucket.dense(src, bucket.index).gather(-1, position)
    values = values.where(bucket.mask[:, None], 0)
    mass, scale = scale_masses(_dense_masses(weight, bucket))
    mass = mass[:, None].expand(position.shape).gather(-1, position)
    return WeightedReads(values.double(), mass, scale, reads), scale


def _dense_masses(weight: Tensor, bucket: Bucket) -> Tensor:
    rows = weight.index_select(0, bucket.index).view(bucket.mask.shape)
    return rows.where(bucket.mask, 0).double()


def _unsort(values: Tensor, position: Tensor) -> Tensor:
    return torch.empty_like(values).scatter_(-1, position, values)


def _write_points(points: Tensor, bucket: Bucket, out: Tensor) -> None:
    out[:, bucket.slices].index_copy_(0, bucket.sets, points.to(out.dtype))
