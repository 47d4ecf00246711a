"""The terms of a plan on a device, for all sizes that a batch may have.

Up to the largest class of the sort there is a table with a row for each size: which
sizes occur need not be known, so that nothing has to be read from the device.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gswe_pyg.ops.plan import Reads, make_terms
from gswe_pyg.ops.triton.sort import CLASSES


class DeviceTerms(NamedTuple):
    """What is summed up, and where each sum begins.

    Sums are over ranks for each point of each row, or, transposed, over points for each
    rank of each row, and those of a row begin at ``start``. The row of a set is its
    size, less one, if ``rows`` is None.
    """

    rows: Tensor | None  # [B]
    start: Tensor  # of each row in `first`
    first: Tensor  # of each sum in `index` and `weight`
    index: Tensor
    weight: Tensor


def terms_for(
    ptr: Tensor, reads: Reads, largest: int, transposed: bool = False
) -> DeviceTerms:
    """The terms of sets of at most ``largest`` elements.

    Above the largest class, the sizes are read from the device.
    """
    if largest <= CLASSES[-1]:
        num_rows = 1 << max(0, largest - 1).bit_length()
        return _table(num_rows, reads, transposed, ptr.device)
    sizes = np.maximum(np.diff(ptr.cpu().numpy()), 1)
    distinct, rows = np.unique(sizes, return_inverse=True)
    terms = _terms_of(distinct, reads, transposed, ptr.device)
    return terms._replace(rows=torch.as_tensor(rows, device=ptr.device))


@lru_cache(maxsize=16)
def _table(
    num_rows: int, reads: Reads, transposed: bool, device: torch.device
) -> DeviceTerms:
    return _terms_of(np.arange(1, num_rows + 1), reads, transposed, device)


def _terms_of(
    sizes: np.ndarray, reads: Reads, transposed: bool, device: torch.device
) -> DeviceTerms:
    terms, num_rows, num_reads = make_terms(sizes, reads), len(sizes), reads.num_reads
    total = np.repeat(np.arange(num_rows * num_reads), np.diff(terms.first))
    row, point = np.divmod(total, num_reads)
    rank = terms.used[terms.first_used[row] + terms.position]
    # Many values are added up in double precision, as on the CPU.
    dtype = np.float64 if reads.in_double and not transposed else np.float32
    if transposed:
        start = np.cumsum(sizes) - sizes
        order = np.argsort(start[row] + rank, kind="stable")
        counts = np.bincount(start[row] + rank, minlength=int(sizes.sum()))
        first = np.concatenate([[0], np.cumsum(counts)])
        index, weight = point[order], terms.weight[order]
    else:
        start = np.arange(num_rows) * num_reads
        first, index, weight = terms.first, rank, terms.weight
    return DeviceTerms(
        None,
        torch.as_tensor(start.astype(np.int32), device=device),
        torch.as_tensor(first.astype(np.int32), device=device),
        torch.as_tensor(index.astype(np.int32), device=device),
        torch.as_tensor(weight.astype(dtype), device=device),
    )
