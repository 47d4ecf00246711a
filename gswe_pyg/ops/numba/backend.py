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
    plan, job = _new_job(ptr, reads, src.shape[1], len(src))
    out = _empty(plan.num_sets, src.shape[1], reads.num_reads)
    job.out = _address(out)
    order = _sort(src, plan, job, with_order, out)
    return _as(out, src), order


def heads(
    src: Tensor,
    ptr: Tensor,
    head_weight: Tensor,
    reads: Reads,
    with_order: bool,
    with_points: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Combinations ``[B, H, L]`` of the points by weights ``[H, L, R]``; the order; and
    the points ``[B, R, L]``, which the gradient of the weights needs."""
    plan, job = _new_job(ptr, reads, src.shape[1], len(src))
    weight = _ready(head_weight)
    out = _empty(plan.num_sets, len(weight), src.shape[1])
    points = _empty(0)
    if with_points:
        points = _empty(plan.num_sets, reads.num_reads, src.shape[1])
        job.points = _address(points)
    job.num_heads, job.head_weight = len(weight), _address(weight)
    job.out = _address(out)
    order = _sort(src, plan, job, with_order, out, points)
    if src.dtype != torch.float32 or head_weight.dtype != torch.float32:
        out = out.to(torch.promote_types(src.dtype, head_weight.dtype))
    return out, order, points


def apply(src: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """Interpolates the values of ``src`` in a given order instead of a sorted one."""
    plan, job = _new_job(ptr, reads, src.shape[1], len(src))
    out = _empty(plan.num_sets, src.shape[1], reads.num_reads)
    if src.numel() == 0:
        return src.new_zeros(out.shape)
    values, order = _ready(src), order.contiguous()
    job.src, job.order, job.out = _address(values), _address(order), _address(out)
    _run(interpolate.apply, job, _max_used(plan), src.numel())
    return _as(out, src)


def adjoint(grad: Tensor, order: Tensor, ptr: Tensor, reads: Reads) -> Tensor:
    """The transpose of :func:`apply`: from ``[B, L, R]`` to ``[N, L]``."""
    plan, job = _new_job(ptr, reads, order.shape[1], len(order))
    out = _empty(*order.shape)
    if out.numel() > 0:
        values, order = _ready(grad), order.contiguous()
        job.out, job.order = _address(values), _address(order)
        job.grad_src = _address(out)
        _run(interpolate.adjoint, job, _max_used(plan), out.numel())
    return _as(out, grad)


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
    plan, job = _new_job(ptr, reads, grad.shape[2], None)
    num_heads, num_slices, num_reads = head_weight.shape
    grad_src = _empty(*order.shape)
    sums = torch.zeros(
        (job.num_chunks, num_heads, num_reads, num_slices) if points.dim() == 3 else 0,
        dtype=torch.float64,
        device=_CPU,
    )
    if plan.num_elements > 0 and num_slices > 0:
        values, weight = _ready(grad), _ready(head_weight)
        order, points = order.contiguous(), points.contiguous()
        job.num_heads, job.head_weight = num_heads, _address(weight)
        job.out = _address(values)
        if grad_src.dim() == 2:
            job.order, job.grad_src = _address(order), _address(grad_src)
        if points.dim() == 3:
            job.points, job.grad_head_weight = _address(points), _address(sums)
        num_elements = plan.num_elements * num_slices
        _run(interpolate.heads_adjoint, job, _max_used(plan), num_elements)
    if points.dim() == 3:
        sums = (sums[0] if len(sums) == 1 else sums.sum(0)).mT
    return _as(grad_src, grad), sums.to(head_weight.dtype)


def _new_job(
    ptr: Tensor, reads: Reads, num_slices: int, num_elements: int | None
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
    order = torch.empty(shape, dtype=torch.int32, device=_CPU)
    if src.numel() == 0:
        for output in outputs:
            output.zero_()
        return order
    values = _ready(src)
    job.src, job.order = _address(values), _address(order)
    job.largest = limits.NETWORK_NODES
    if plan.largest > job.largest:
        _sort_large(values, plan, job, with_order)
    if plan.largest <= job.largest or (plan.sizes <= job.largest).any():
        kernel = (
            (interpolate.quantile, interpolate.quantile_and_order),
            (interpolate.heads, interpolate.heads_and_order),
        )[job.num_heads > 0][with_order]
        num_rows = num_key_rows(min(plan.largest, job.largest))
        _run(kernel, job, num_rows, src.numel())
    return order


def _sort_large(src: Tensor, plan: Plan, job: Job, with_order: bool) -> None:
    """By numpy: the graphs that are too large for the network, one by one, and some
    slices of them at a time."""
    finish = (
        (large.quantile_of_sorted, large.quantile_and_order_of_sorted),
        (large.heads_of_sorted, large.heads_and_order_of_sorted),
    )[job.num_heads > 0][with_order]
    bits, num_slices = src.detach().numpy().reshape(-1).view(np.int32), job.num_slices
    num_threads = num_threads_for(src.numel())

    def work(part: Part) -> None:
        graph, _, first, last = part
        start, size = int(plan.ptr[graph]), int(plan.sizes[graph])
        dtype = np.int64 if with_order else np.int32
        keys = large.sorted_keys(bits, num_slices, start, size, first, last, dtype)
        own = Job.from_buffer_copy(job)
        own.graph, own.keys = graph, keys.ctypes.data
        own.first_slice, own.width = first, last - first
        scratch = give_scratch(own, _max_used(plan), 1)
        finish(own)
        del scratch  # not before

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


def _run(kernel: Kernel, job: Job, num_rows: int, num_elements: int) -> None:
    num_threads = num_threads_for(num_elements)
    job.num_cuts = 1
    if num_threads > 1 and job.num_chunks < limits.NUM_CHUNKS:
        # A few graphs are cut by slices.
        num_cuts = -(-4 * num_threads // job.num_chunks)
        job.num_cuts = max(1, min(num_cuts, job.num_slices // LANES))
    scratch = give_scratch(job, num_rows, num_threads)
    kernel(job, num_threads)
    del scratch  # not before


def _max_used(plan: Plan) -> int:
    """At most so many sorted values of a set occur in its terms."""
    return min(plan.largest, plan.reads.max_terms(plan.largest))


def _empty(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=_CPU)


def _ready(x: Tensor) -> Tensor:
    """For a kernel."""
    if x.dtype == torch.float32 and x.is_contiguous():
        return x
    return x.detach().to(torch.float32).contiguous()


def _address(x: Tensor) -> int:
    try:
        return x.data_ptr()
    except RuntimeError:  # inside of torch.func, where numpy finds the values beneath
        return x.numpy().ctypes.data


def _as(x: Tensor, like: Tensor) -> Tensor:
    return x if x.dtype == like.dtype else x.to(like.dtype)
