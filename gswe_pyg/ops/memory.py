"""Memory for results on the CPU."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# From here on, numpy asks Linux for huge pages.
_LARGE = 1 << 22

# Of a vector register, and of a line of the cache.
_ALIGNMENT = 64

_CPU = torch.device("cpu")


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """As :func:`torch.empty`, by numpy if it is large: the first touch of ordinary
    pages takes several times as long as to fill them."""
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes < _LARGE:
        return torch.empty(shape, dtype=dtype, device=_CPU)
    room = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return torch.from_numpy(room[start : start + num_bytes]).view(dtype).view(shape)
