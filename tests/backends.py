"""Batches, the backends at hand, and the operator with its gradient on one of them."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from gswe_pyg.ops import backend, segment_quantile
from gswe_pyg.ops.segment_quantile import BACKENDS
from gswe_pyg.testing import SIZES


@cache
def available(dtype: torch.dtype = torch.float32) -> tuple[str, ...]:
    """Those that run here: a package may be missing, or the precision unsupported."""
    names = []
    for name in BACKENDS:
        try:
            run(torch.zeros(1, 1, dtype=dtype), torch.tensor([0, 1]), 1, "step", name)
        except (ValueError, ImportError):
            continue
        names.append(name)
    return tuple(names)


def run(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    name: str,
    weight: Tensor | None = None,
    grad: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The points, and the gradient of their sum, weighted by ``grad`` if given."""
    with backend(name):
        src = src.detach().clone().requires_grad_()
        out = segment_quantile(src, ptr, num_points, interpolation, weight)
        grad = torch.ones_like(out) if grad is None else grad.to(out.dtype)
        (grad_src,) = torch.autograd.grad(out, src, grad)
    return out.detach(), grad_src


def ragged(
    channels: int = 4,
    sizes: Sequence[int] = SIZES,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    boundaries: bool = False,
) -> tuple[Tensor, Tensor]:
    """A batch of sets of the given sizes: the elements, and the set of each, or the
    boundaries of the sets. The values are the same in every precision."""
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(sizes), channels)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    index = torch.arange(len(sizes)).repeat_interleave(ptr.diff())
    return x, ptr if boundaries else index


def random_sizes(num_sets: int, largest: int, seed: int) -> list[int]:
    """From zero to ``largest``, with at least one of either."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, largest + 1, (num_sets,), generator=generator)
    sizes[0], sizes[-1] = 0, largest
    return sizes.tolist()
