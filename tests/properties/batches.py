"""Strategies for ragged batches of all sizes, precisions and magnitudes."""

from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from gswe_pyg.ops.interpolation import INTERPOLATIONS

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

KINDS = ("normal", "ties", "huge", "tiny", "offset", "mixed", "equal", "infinite")

interpolations = st.sampled_from(INTERPOLATIONS)
weighted_interpolations = st.sampled_from(["linear", "step", "barycentric"])
num_points = st.one_of(st.integers(1, 9), st.integers(10, 70))
seeds = st.integers(0, 2**32 - 1)


class Batch(NamedTuple):
    src: Tensor
    ptr: Tensor

    @property
    def sizes(self) -> list[int]:
        return self.ptr.diff().tolist()

    def sets(self) -> list[np.ndarray]:
        """The sets ``[n, L]`` as they are, in double precision."""
        return [part.double().numpy() for part in self.src.split(self.sizes)]

    def grad(self, num_points: int, seed: int) -> Tensor:
        shape = (len(self.sizes), self.src.shape[1], num_points)
        grad = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        return grad.to(self.src.dtype)


def sizes(largest: int = 2000) -> st.SearchStrategy[list[int]]:
    """Mostly small sets, empty ones among them, and sometimes large ones."""
    size = st.one_of(
        st.integers(0, 6), st.integers(0, min(40, largest)), st.integers(0, largest)
    )
    return st.lists(size, min_size=1, max_size=6)


@st.composite
def batches(
    draw: st.DrawFn,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
    kinds: tuple[str, ...] = KINDS,
    largest: int = 2000,
) -> Batch:
    dtype = draw(st.sampled_from(dtypes))
    lengths = draw(sizes(largest))
    num_slices = draw(st.integers(1, 4))
    values = draw_values(
        draw(st.sampled_from(kinds)), sum(lengths), num_slices, dtype, draw(seeds)
    )
    return Batch(values, torch.tensor([0, *lengths]).cumsum(0))


def draw_values(
    kind: str, num_elements: int, num_slices: int, dtype: torch.dtype, seed: int
) -> Tensor:
    random = np.random.default_rng(seed)
    shape = (num_elements, num_slices)
    info = torch.finfo(dtype)
    values = random.standard_normal(shape)
    if kind in ("ties", "infinite"):
        values = np.round(values)  # zeros of both signs among them
    elif kind == "huge":
        values *= info.max / 64
    elif kind == "tiny":
        values *= info.tiny  # on both sides of the smallest normal number
    elif kind == "offset":
        values += min(1e6, info.max / 64)
    elif kind == "mixed":
        largest = np.log10(info.max) - 2
        values = np.sign(values) * 10 ** random.uniform(-largest, largest, shape)
    elif kind == "equal":
        values[:] = values[:1]
    if kind == "infinite":
        values[random.random(shape) < 0.2] = np.inf
        values[random.random(shape) < 0.2] = -np.inf
    return torch.from_numpy(values).to(dtype)
