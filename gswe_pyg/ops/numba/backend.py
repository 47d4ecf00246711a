"""Segment quantiles on the CPU by compiled loops, where numba is installed.

A row of the slice matrix has an element's values in all slices, side by side: a sorting
network, which compares rows with rows, sorts many slices at once. It takes graphs up to
:obj:`~gswe_pyg.ops.numba.batch.NETWORK_NODES` nodes; larger ones are transposed, some
slices at a time, for numpy's SIMD sort. Nothing is padded.

A kernel has addresses and trusts them: each array behind one is a local variable of a
function here that returns after the kernel. Boundaries, rows and terms belong to the
plan, which is one, too: what is remembered may be dropped meanwhile. Their dtypes are
those that :mod:`~gswe_pyg.ops.plan` makes, and ``ptr`` is int64 from
:meth:`~gswe_pyg.ops.segment_quantile`; :func:`as_floats` makes those of values; orders,
points and outputs are made here, and contiguous. The job that is remembered with a plan
is copied by :func:`new_job`, and never written to.
"""

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.memory import empty
from gswe_pyg.ops.numba import batch as limits
from gswe_pyg.ops.numba import interpolate, large
from gswe_pyg.ops.numba.batch import check_room, num_threads_for, prepare
from gswe_pyg.ops.numba.compiling import Kernel
from gswe_pyg.ops.numba.job import Job, Part, give_scratch
from gswe_pyg.ops.numba.simd import LANES
from gswe_pyg.ops.numba.sort import num_key_rows
from gswe_pyg.ops.plan import Plan, Reads, check_ptr
from gswe_pyg.ops.threads import for_each

# Also where another device is the default.
_CPU = torch.device("cpu")


def quantile(
    src: Tensor, ptr: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """The points ``[B, L, R]`` of each graph, and what the adjoint needs to know.

    The first rows of the order of each graph hold the place that each used sorted value
    came from, for each slice. Memory that is not needed is not touched.
    """
    plan, job = new_job(ptr, reads, *src.shape)
    out = new_floats(plan.num_sets, src.shape[1], reads.num_reads)
    job.out = address_of(out)
    order = _sort(src, plan, job, with_order, out)
    return cast_like(out, src), order


def heads(
    src: Tensor,
    ptr: Tensor,
    head_weight: Tensor,
    reads: Reads,
    with_order: bool,
    with_points: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Combinations ``[B, H * L]`` of the points by weights ``[H, L, R]``; the order;
    and the points ``[B, R, L]``, which the gradient of the weights needs."""
    plan, job = new_job(ptr, reads, *src.shape)
    weight = _rows_of_heads(head_weight)
    num_heads, num_slices, _ = head_weight.shape
    out = new_floats(plan.num_sets, num_heads * num_slices)
    points = new_floats(0)
    if with_points:
        points = new_floats(plan.num_sets, reads.num_reads, num_slices)
        job.points = address_of(points)
    job.num_heads, job.head_weight = num_heads, weight.ctypes.data
    job.out = address_of(out)
    order = _sort(src, plan, job, with_order, out, points)
    if src.dtype != torch.float32 or head_weight.dtype != torch.float32:
        out = out.to(torch.promote_types(src.dtype, head_weight.dtype))
    return out, order, points


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    plan, job = new_job(ptr, reads, *src.shape)
    out = new_floats(plan.num_sets, src.shape[1], reads.num_reads)
    if src.numel() == 0:
        return src.new_zeros(out.shape)
    values, order = as_floats(src), order.contiguous()
    job.src, job.order, job.out = address_of(values), address_of(order), address_of(out)
    run(interpolate.apply, job, _max_used(reads, plan.largest), src.numel())
    return cast_like(out, src)


def adjoint(grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    plan, job = new_job(ptr, reads, *order.shape)
    out = new_floats(*order.shape)
    if out.numel() > 0:
        values, order = as_floats(grad), order.contiguous()
        job.out, job.order = address_of(values), address_of(order)
        job.grad_src = address_of(out)
        run(interpolate.adjoint, job, _num_placed(plan), out.numel())
    return cast_like(out, grad)


def heads_adjoint(
    grad: Tensor,
    head_weight: Tensor,
    order: Tensor,
    points: Tensor,
    ptr: Tensor,
    reads: Reads,
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`heads` for the values ``[N, L]``, if there is an order,
    and for the weights ``[H, L, R]``, if there are points."""
    num_heads, num_slices, num_reads = head_weight.shape
    num_elements = order.shape[0] if order.dim() == 2 else None  # nothing is written
    plan, job = new_job(ptr, reads, num_elements, num_slices)
    grad_src = new_floats(*order.shape)
    with_weight = points.dim() == 3
    chunks = () if job.num_chunks == 1 else (job.num_chunks,)
    shape = (*chunks, num_heads, num_reads, num_slices) if with_weight else (0,)
    sums = torch.zeros(shape, dtype=torch.float64, device=_CPU)
    if plan.num_elements > 0 and num_slices > 0:
        values, weight = as_floats(grad), _rows_of_heads(head_weight)
        order, points = order.contiguous(), points.contiguous()
        job.num_heads, job.head_weight = num_heads, weight.ctypes.data
        job.out = address_of(values)
        if grad_src.dim() == 2:
            job.order, job.grad_src = address_of(order), address_of(grad_src)
        if with_weight:
            job.points, job.grad_head_weight = address_of(points), address_of(sums)
        num_elements = plan.num_elements * num_slices
        run(interpolate.heads_adjoint, job, _num_placed(plan), num_elements)
    if with_weight:
        sums = (sums.sum(0) if chunks else sums).mT
    return cast_like(grad_src, grad), sums.to(head_weight.dtype)


def _rows_of_heads(head_weight: Tensor) -> np.ndarray:
    """Weights as ``[H, R, L]``, with a row of lanes behind them: the last may be read
    in full."""
    num_heads, num_slices, num_reads = head_weight.shape
    rows = np.empty(head_weight.numel() + LANES, np.float32)
    rows[-LANES:] = 0
    weight = rows[:-LANES].reshape(num_heads, num_reads, num_slices)
    weight[...] = as_floats(head_weight).detach().numpy().transpose(0, 2, 1)
    return rows


def new_job(
    ptr: Tensor, reads: Reads, num_elements: int | None, num_slices: int
) -> tuple[Plan, Job]:
    plan, template = prepare(ptr, reads)
    if num_elements is not None and plan.num_elements != num_elements:
        check_ptr(num_elements, plan.ptr)
    job = Job.from_buffer_copy(template)
    job.num_slices = num_slices
    return plan, job


def _sort(
    src: Tensor, plan: Plan, job: Job, with_order: bool, *outputs: Tensor
) -> Tensor:
    """Fills the outputs; returns the order."""
    if with_order:
        check_room(plan.largest)
    shape = src.shape if with_order else (0,)
    order = empty(shape, torch.int32)
    if src.numel() == 0:
        for output in outputs:
            output.zero_()
        return order
    values = as_floats(src)
    job.src, job.order = address_of(values), address_of(order)
    job.largest = limits.NETWORK_NODES
    if plan.largest > job.largest:
        finish = (
            (large.quantile_of_sorted, large.quantile_and_order_of_sorted),
            (large.heads_of_sorted, large.heads_and_order_of_sorted),
        )[job.num_heads > 0][with_order]
        dtype = np.int64 if with_order else np.int32
        sort_large(plan, job, finish, dtype)
    if plan.largest <= job.largest or (plan.sizes <= job.largest).any():
        kernel = (
            (interpolate.quantile, interpolate.quantile_and_order),
            (interpolate.heads, interpolate.heads_and_order),
        )[job.num_heads > 0][with_order]
        num_rows = num_key_rows(min(plan.largest, job.largest))
        run(kernel, job, num_rows, src.numel())
    return order


def sort_large(plan: Plan, job: Job, finish: Kernel, dtype: type) -> None:
    """By numpy: the graphs that are too large for the network, one by one, and some
    slices of them at a time. Keys have places if they are long."""
    num_threads = num_threads_for(plan.num_elements * job.num_slices)

    def work(part: Part) -> None:
        own, size = Job.from_buffer_copy(job), int(plan.sizes[part.first_graph])
        own.graph, own.first_slice = part.first_graph, part.first_slice
        own.width = part.last_slice - part.first_slice
        keys = large.sorted_keys(own, size, dtype)
        num_rows = size if job.mass != 0 else _max_used(plan.reads, size)
        scratch = give_scratch(own, num_rows, 1)
        finish(own)
        del keys, scratch  # not before

    for_each(work, _parts_of_large(plan, job, num_threads), num_threads)


def _parts_of_large(plan: Plan, job: Job, num_threads: int) -> list[Part]:
    parts = []
    for graph in np.flatnonzero(plan.sizes > job.largest).tolist():
        # A line of memory at least, unless the keys would exceed the slice matrix.
        step = max(limits.BLOCK // int(plan.sizes[graph]), LANES)
        step = max(1, min(step, job.num_slices // (2 * num_threads)))
        parts += [
            Part(graph, graph + 1, first, min(first + step, job.num_slices))
            for first in range(0, job.num_slices, step)
        ]
    return parts


def run(kernel: Kernel, job: Job, num_rows: int, num_elements: int) -> None:
    num_threads = num_threads_for(num_elements)
    job.num_cuts = 1
    if num_threads > 1 and job.num_chunks < limits.NUM_CHUNKS:
        # A few graphs are cut by slices.
        num_cuts = -(-4 * num_threads // job.num_chunks)
        job.num_cuts = max(1, min(num_cuts, job.num_slices // LANES))
    scratch = give_scratch(job, num_rows, num_threads)
    kernel(job, num_threads)
    del scratch  # not before


def _max_used(reads: Reads, size: int) -> int:
    """At most so many sorted values of a set occur in its terms."""
    return min(size, reads.max_terms(size))


def _num_placed(plan: Plan) -> int:
    """Rows of the largest set that is written at once: of others, used ones only."""
    num_rows = min(plan.largest, limits.NETWORK_NODES)
    return max(num_rows, _max_used(plan.reads, plan.largest))


def new_floats(*shape: int) -> Tensor:
    return empty(shape, torch.float32)


def as_floats(x: Tensor) -> Tensor:
    """What a kernel takes for values: single precision, in rows, and of their own sign,
    which views of complex numbers leave to the reader. Keep it until then."""
    if x.dtype == torch.float32 and x.is_contiguous() and not x.is_neg():
        return x
    return x.detach().to(torch.float32).contiguous().resolve_neg()


def address_of(x: Tensor) -> int:
    try:
        return x.data_ptr()
    except RuntimeError:  # inside of torch.func, where numpy finds the values beneath
        return x.numpy().ctypes.data


def cast_like(x: Tensor, like: Tensor) -> Tensor:
    return x if x.dtype == like.dtype else x.to(like.dtype)
