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
from gswe_pyg.ops.numba.batch import check_room
from gswe_pyg.ops.numba.job import Job
from gswe_pyg.ops.numba.mass_gradients import mass_gradients
from gswe_pyg.ops.numba.sort import num_key_rows
from gswe_pyg.ops.numba.windows import CODES, LEVEL_LINEAR
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.weighted import HAS_WINDOWS, fractions


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
    values, mass = as_floats(src), _masses(weight)
    job.src, job.out = address_of(values), address_of(out)
    if with_order:
        job.order = address_of(order)
    _give_masses(job, mass, reads)
    job.largest = limits.NETWORK_NODES
    has_windows = reads.interpolation in HAS_WINDOWS
    if plan.largest > job.largest:
        finish = kernels.means_of_sorted if has_windows else kernels.places_of_sorted
        sort_large(plan, job, finish, np.int64)
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
    mass = _masses(weight)
    if src.numel() > 0:
        job.out, job.order, job.grad_src = map(address_of, (points, order, out))
        _give_masses(job, mass, reads)
        has_windows = reads.interpolation in HAS_WINDOWS
        kernel = kernels.means_adjoint if has_windows else kernels.places_adjoint
        run(kernel, job, plan.largest, src.numel())
    grad_mass = torch.zeros(len(src) * with_mass, dtype=torch.float64, device="cpu")
    if with_mass and src.numel() > 0 and reads.interpolation in HAS_WINDOWS:
        values = as_floats(src)
        job.src, job.grad_mass = address_of(values), address_of(grad_mass)
        job.next_item = job.next_thread = 0
        run(mass_gradients, job, plan.largest, src.numel())
    return cast_like(out, src), grad_mass.to(weight.dtype)


def _masses(weight: Tensor) -> Tensor:
    return weight.detach().double().contiguous().resolve_neg()


def _give_masses(job: Job, mass: Tensor, reads: Reads) -> None:
    is_level = bool(reads.levels) and reads.interpolation == "linear"
    job.code = LEVEL_LINEAR if is_level else CODES.index(reads.interpolation)
    job.mass, job.num_inner = address_of(mass), reads.num_inner
    numerator, denominator = _places(reads)
    job.numerator, job.denominator = numerator.ctypes.data, denominator.ctypes.data


@cache  # for good: a job has but the addresses
def _places(reads: Reads) -> tuple[np.ndarray, np.ndarray]:
    numerators, denominators = fractions(reads)
    return np.array(numerators, np.float64), np.array(denominators, np.float64)
