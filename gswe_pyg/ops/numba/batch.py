"""A batch as the kernels see it, and how its work is shared by threads."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.numba.simd import LANES, PLACE_BITS
from gswe_pyg.ops.numba.sort import num_key_rows
from gswe_pyg.ops.plan import Plan, Reads

# Up to about here, a network is no slower than a sort that needs fewer comparisons. A
# multiple of eight, as the rows of its keys are.
NETWORK_NODES = 4096

# What a key has room for.
MAX_NODES = 1 << PLACE_BITS

# Fewer elements than this are not worth a second thread: where PyTorch's own threads
# have just been at work, somewhat fewer took longer with two than with one.
WORTH_THREADS = 1 << 19

# Elements of a block of a large graph that are sorted in one call.
BLOCK = 1 << 16


class Part(NamedTuple):
    """Some of the graphs, and some of the slices."""

    first_graph: int
    last_graph: int
    first_slice: int
    last_slice: int


class Batch(Plan):
    """A plan, and how its work is shared by threads."""

    def __init__(self, ptr: Tensor, num_slices: int, reads: Reads) -> None:
        super().__init__(ptr.numpy(), reads)
        self.num_slices = num_slices
        self.num_reads = reads.num_reads
        self.in_double = reads.in_double
        self.num_threads = 1
        if self.num_elements * num_slices >= WORTH_THREADS:
            self.num_threads = torch.get_num_threads()

    @property
    def is_empty(self) -> bool:
        return self.num_elements == 0 or self.num_slices == 0

    def parts(self) -> Iterator[Part]:
        """Graphs and slices in some parts of about equal work for each thread."""
        share = self._share
        for first, last, _, num_slices in self.parts_of_graphs():
            # A graph of many shares is cut by slices.
            num_elements = int(self.ptr[last] - self.ptr[first])
            num_cuts = max(1, -(-num_elements // (2 * share)))
            num_blocks = -(-num_slices // LANES)
            step = LANES * -(-num_blocks // num_cuts)
            for start in range(0, num_slices, step):
                yield Part(first, last, start, min(start + step, num_slices))

    def parts_of_graphs(self) -> Iterator[Part]:
        """The same, but a graph with all its slices is in one part."""
        if self.num_threads == 1:
            yield Part(0, self.num_sets, 0, self.num_slices)
            return
        shares = np.arange(self._share, self.num_elements, self._share)
        bounds = np.searchsorted(self.ptr, shares)
        bounds = np.unique([0, *bounds, self.num_sets]).tolist()
        for first, last in pairwise(bounds):
            yield Part(first, last, 0, self.num_slices)

    @property
    def _share(self) -> int:
        """How many elements make a part."""
        num_parts = 4 * self.num_threads if self.num_threads > 1 else 1
        return self.num_elements // num_parts + 1


def network_keys(batch: Batch, dtype: type) -> np.ndarray:
    num_rows = num_key_rows(min(batch.largest, NETWORK_NODES))
    return np.empty(LANES * num_rows, dtype)


def check_room(largest: int) -> None:
    if largest > MAX_NODES:
        raise ValueError(
            f"With gradients or weights, the 'numba' backend takes graphs of at most "
            f"{MAX_NODES} elements (got {largest}): use the 'torch' backend"
        )


def flat(x: Tensor) -> np.ndarray:
    return x.detach().float().contiguous().numpy().reshape(-1)


def new_points(batch: Batch) -> Tensor:
    shape = (batch.num_sets, batch.num_slices, batch.num_reads)
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def zeros(src: Tensor, batch: Batch) -> Tensor:
    return src.new_zeros(batch.num_sets, batch.num_slices, batch.num_reads)
