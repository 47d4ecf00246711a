"""Segment quantiles of sets with masses on the CPU, by compiled loops."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.memory import empty
from gswe_pyg.ops.numba import batch as limits
from gswe_pyg.ops.numba import weighted_kernels as kernels
from gswe_pyg.ops.numba.backend import (
    address_of,
    as_floats,
    cast_like,
    new_floats,
    new_job,
    run,
    sort_large,
)
from gswe_pyg.ops.numba.batch import check_room, num_threads_for, parts_of_graphs
from gswe_pyg.ops.numba.job import Job, Part
from gswe_pyg.ops.numba.mass_gradients import mass_gradients
from gswe_pyg.ops.numba.sort import num_key_rows
from gswe_pyg.ops.numba.windows import (
    BARYCENTRIC,
    HIGHER,
    LEVEL_LINEAR,
    LINEAR,
    LOWER,
    MIDPOINT,
    NEAREST,
    STEP,
    WeightedReads,
)
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.threads import for_each
from gswe_pyg.ops.weighted import HAS_WINDOWS, fractions

_CODES = {
    "step": STEP,
    "barycentric": BARYCENTRIC,
    "linear": LINEAR,
    "lower": LOWER,
    "higher": HIGHER,
    "midpoint": MIDPOINT,
    "nearest": NEAREST,
}


def code_of(reads: Reads) -> int:
    if reads.levels and reads.interpolation == "linear":
        return LEVEL_LINEAR
    return _CODES[reads.interpolation]


def weighted_quantile(
    src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads, with_order: bool
) -> tuple[Tensor, Tensor]:
    """As :func:`quantile`, with a mass for each element, and the whole order."""
    plan, job = new_job(ptr, reads, *src.shape)
    check_room(plan.largest)
    shape = src.shape if with_order else (0,)
    order = empty(shape, torch.int32)
    out = new_floats(plan.num_sets, src.shape[1], reads.num_reads)
    if src.numel() == 0:
        return cast_like(out.zero_(), src), order
    values, mass, places = as_floats(src), _masses(weight), _weighted_reads(reads)
    job.src, job.out = address_of(values), address_of(out)
    if with_order:
        job.order = address_of(order)
    _give_masses(job, mass, places)
    job.largest = limits.NETWORK_NODES
    has_windows = reads.interpolation in HAS_WINDOWS
    if plan.largest > job.largest:
        finish = kernels.means_of_sorted if has_windows else kernels.places_of_sorted
        sort_large(values, plan, job, finish, np.int64)
    if (plan.sizes <= job.largest).any():
        num_rows = num_key_rows(min(plan.largest, job.largest))
        kernel = kernels.means_and_order if has_windows else kernels.places_and_order
        if has_windows and not with_order and weight.dtype != torch.float64:
            kernel = kernels.means
        run(kernel, job, num_rows, src.numel())
    return cast_like(out, src), order


def weighted_adjoint(
    grad: Tensor,
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    weight: Tensor,
    reads: Reads,
    with_mass: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src``, and for ``weight`` if
    wanted."""
    plan, job = new_job(ptr, reads, *src.shape)
    out, points, order = new_floats(*src.shape), as_floats(grad), order.contiguous()
    mass, places = _masses(weight), _weighted_reads(reads)
    if src.numel() > 0:
        job.out, job.order, job.grad_src = map(address_of, (points, order, out))
        _give_masses(job, mass, places)
        has_windows = reads.interpolation in HAS_WINDOWS
        kernel = kernels.means_adjoint if has_windows else kernels.places_adjoint
        run(kernel, job, plan.largest, src.numel())
    grad_mass = torch.zeros(len(src) * with_mass, dtype=torch.float64, device="cpu")
    if with_mass and src.numel() > 0 and reads.interpolation in HAS_WINDOWS:
        flat = (x.numpy().reshape(-1) for x in (points, as_floats(src)))
        arrays = (*flat, src.shape[1], ptr.numpy(), mass.numpy(), places)
        rest = order.numpy().reshape(-1), grad_mass.numpy()

        # A sum over slices: each graph is done by one thread, so that it has the same
        # bits with any number of them.
        def work(part: Part) -> None:
            mass_gradients(*arrays, part, *rest)

        num_threads = num_threads_for(src.numel())
        parts = parts_of_graphs(plan, src.shape[1], num_threads)
        for_each(work, parts, num_threads)
    return cast_like(out, src), grad_mass.to(weight.dtype)


def _masses(weight: Tensor) -> Tensor:
    return weight.detach().double().contiguous().resolve_neg()


@cache
def _weighted_reads(reads: Reads) -> WeightedReads:
    numerators, denominators = fractions(reads)
    return WeightedReads(
        code_of(reads),
        reads.num_inner,
        reads.num_reads,
        np.array(numerators, np.float64),
        np.array(denominators, np.float64),
    )


def _give_masses(job: Job, mass: Tensor, reads: WeightedReads) -> None:
    job.mass, job.code, job.num_inner = address_of(mass), reads.code, reads.num_inner
    job.numerator = reads.numerator.ctypes.data
    job.denominator = reads.denominator.ctypes.data
