"""Checks of values: what can be looked at only where there are values."""

import torch
from torch import Tensor

from gswe_pyg.ops import plan


def check_ptr(src: Tensor, ptr: Tensor) -> None:
    plan.check_ptr(src.shape[0], ptr.cpu().numpy())


def check_weight(ptr: Tensor, weight: Tensor, name: str = "weight") -> None:
    if weight.numel() > 0:
        low, high = weight.detach().aminmax()  # NaN if there is one
        if low > 0 and high < torch.inf:
            return
    if not bool(((weight >= 0) & weight.isfinite()).all()):
        worst = weight[~((weight >= 0) & weight.isfinite())][0].item()
        raise ValueError(
            f"'{name}' must be finite and not negative (got {worst}): pass counts or "
            f"probabilities, e.g., '{name}.relu()' or '{name}.softmax(0)'"
        )
    positive = _count_positive(ptr, weight)
    starved = ((positive == 0) & (ptr.diff() > 0)).nonzero()
    if starved.numel() > 0:
        raise ValueError(
            f"'{name}' must be positive for some element of each graph that has any "
            f"(got only zeros in graph {starved[0].item()}): remove its elements to "
            f"leave it empty"
        )


def check_counts(ptr: Tensor, weight: Tensor) -> None:
    """Levels take masses as counts. Probabilities are none, and would go unnoticed."""
    graph = torch.repeat_interleave(ptr.diff(), output_size=len(weight))
    zeros = torch.zeros(len(ptr) - 1, dtype=torch.float64, device=weight.device)
    total = zeros.index_add(0, graph, weight.detach().double())
    is_share = (total < 1.001) & (_count_positive(ptr, weight) > 1)
    if bool(is_share.any()):
        worst = int(is_share.nonzero()[0])
        raise ValueError(
            f"'weight' must count how often each element is there, for quantiles at "
            f"given levels (got a total of {total[worst].item():.6g} for several "
            f"elements of graph {worst}): multiply probabilities by the number of "
            f"elements"
        )


def _count_positive(ptr: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.pad((weight > 0).cumsum(0), (1, 0))[ptr].diff()


def read_masses(src: Tensor, ptr: Tensor, weight: Tensor, as_counts: bool) -> int:
    """All of these checks, and the size of the largest set, in one read from a device.
    What is wrong is looked for afterwards."""
    bounds, weight = ptr.clamp(0, len(src)), weight.detach()
    sizes = ptr.diff()
    is_wrong = (sizes < 0).any() | (ptr[0] != 0) | (ptr[-1] != len(src))
    is_wrong |= ~((weight >= 0) & weight.isfinite()).all()
    positive = _count_positive(bounds, weight)
    is_wrong |= ((positive == 0) & (sizes > 0)).any()
    if as_counts:
        # From double sums, which may be a little less than what is asked for.
        total = torch.nn.functional.pad(weight.double().cumsum(0), (1, 0))[bounds]
        is_wrong |= ((total.diff() < 1.002) & (positive > 1)).any()
    largest = sizes.max() if len(sizes) > 0 else torch.zeros_like(ptr[0])
    is_wrong, largest = torch.stack([is_wrong.long(), largest]).tolist()
    if is_wrong:
        check_ptr(src, ptr)
        check_weight(ptr, weight)
        if as_counts:
            check_counts(ptr, weight)
    return largest
