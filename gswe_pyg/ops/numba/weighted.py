"""Segment quantiles of sets with masses on the CPU, by compiled loops."""

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.numba import batch as limits
from gswe_pyg.ops.numba.batch import (
    Batch,
    check_room,
    flat,
    network_keys,
    new_points,
    zeros,
)
from gswe_pyg.ops.numba.job import Part
from gswe_pyg.ops.numba.large import sorted_keys
from gswe_pyg.ops.numba.weighted_kernels import (
    BARYCENTRIC,
    HIGHER,
    LEVEL_LINEAR,
    LINEAR,
    LOWER,
    MIDPOINT,
    NEAREST,
    STEP,
    WeightedReads,
    weighted,
)
from gswe_pyg.ops.plan import Reads
from gswe_pyg.ops.threads import for_each
from gswe_pyg.ops.weighted import fractions

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


def weighted_quantile(src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads) -> Tensor:
    """As :func:`quantile`, with a mass for each element."""
    batch = Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return zeros(src, batch)
    out = new_points(batch)
    points = out.numpy().reshape(-1)
    nothing = np.empty(0, np.float32), np.empty(0)
    _run_weighted(batch, src, weight, points, *nothing)
    return out.to(src.dtype)


def weighted_adjoint(
    grad: Tensor, src: Tensor, ptr: Tensor, weight: Tensor, reads: Reads
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`weighted_quantile` for ``src`` and ``weight``, for which
    the sort is done once more."""
    batch = Batch(ptr, src.shape[1], reads)
    if batch.is_empty:
        return torch.zeros_like(src), torch.zeros_like(weight)
    values = src.new_empty(src.shape, dtype=torch.float32)
    mass = src.new_zeros(len(src), dtype=torch.float64)
    room = values.numpy().reshape(-1), mass.numpy()
    _run_weighted(batch, src, weight, flat(grad), *room)
    return values.to(src.dtype), mass.to(weight.dtype)


def _run_weighted(
    batch: Batch,
    src: Tensor,
    weight: Tensor,
    points: np.ndarray,
    grad_src: np.ndarray,
    grad_mass: np.ndarray,
) -> None:
    """The points or, if there is room for them, the gradients. The gradient of a mass
    is a sum over slices: each graph is done by one thread, so that it has the same bits
    with any number of them."""
    check_room(batch.largest)
    bits, mass = flat(src).view(np.int32), weight.detach().double().numpy()
    numerators, denominators = fractions(batch.reads)
    reads = WeightedReads(
        code_of(batch.reads),
        batch.reads.extremes,
        np.array(numerators, np.float64),
        np.array(denominators, np.float64),
    )

    def work(part: Part, keys: np.ndarray, is_sorted: bool) -> None:
        weighted(
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
        work(part, network_keys(batch, np.int64), is_sorted=False)

    def sort_by_numpy(graph: int) -> None:
        start, size = int(batch.ptr[graph]), int(batch.sizes[graph])
        step = max(limits.BLOCK // size, 1)
        for first in range(0, batch.num_slices, step):
            last = min(first + step, batch.num_slices)
            keys = sorted_keys(
                bits, batch.num_slices, start, size, first, last, np.int64
            )
            part = Part(graph, graph + 1, first, last)
            work(part, keys.reshape(-1), is_sorted=True)

    large = np.flatnonzero(batch.sizes > limits.NETWORK_NODES).tolist()
    if large:
        for_each(sort_by_numpy, large, batch.num_threads)
    if len(large) < batch.num_sets:
        parts = batch.parts_of_graphs()
        for_each(sort_by_network, parts, batch.num_threads)
