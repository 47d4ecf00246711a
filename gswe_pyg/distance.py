"""Exact sliced distances between sets of any sizes, without an embedding."""

import math
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.utils import scatter

from gswe_pyg._checks import norm_order, not_negative, tensor
from gswe_pyg.ops.segment_quantile import check_weight
from gswe_pyg.slicers import make_slicer


def gsw_distance(
    x: Tensor,
    y: Tensor,
    slicer: str | Module | None = None,
    p: float = 2.0,
    x_index: Tensor | None = None,
    y_index: Tensor | None = None,
    x_weight: Tensor | None = None,
    y_weight: Tensor | None = None,
) -> Tensor:
    r"""Computes the generalised sliced-Wasserstein distance

    .. math::
        \mathcal{GSW}_p(\mathcal{X}, \mathcal{Y}) = \left( \frac{1}{L} \sum_{l=1}^L
        \int_0^1 \left| F^{-1}_{g_l(\mathcal{X})}(u) - F^{-1}_{g_l(\mathcal{Y})}(u)
        \right|^p \mathrm{d}u \right)^{1/p}

    of two sets, or of many pairs of sets at once. The integral is exact: the quantile
    functions of both sets are cut where either of them steps.

    Args:
        x (torch.Tensor): The elements of the first set, or of the first ones of all
            pairs.
        y (torch.Tensor): The elements of the second set, or sets.
        slicer (str or torch.nn.Module, optional): The slices :math:`g_1, \dots, g_L`,
            e.g., the :obj:`slicer` of a :class:`~gswe_pyg.GSWEAggregation`. A name,
            such as :obj:`"mlp"`, draws 64 slices anew in every call; pass a module to
            measure several distances with the same slices. By default, directions of
            unit length are drawn. (default: :obj:`None`)
        p (float, optional): The order of the distance. With :obj:`math.inf` it is the
            largest difference of the quantile functions of any slice.
            (default: :obj:`2.0`)
        x_index (torch.Tensor, optional): The pair that each element of :obj:`x` belongs
            to, in any order. (default: :obj:`None`)
        y_index (torch.Tensor, optional): The same for :obj:`y`.
            (default: :obj:`None`)
        x_weight (torch.Tensor, optional): The mass of each element of :obj:`x`, not
            negative. (default: :obj:`None`)
        y_weight (torch.Tensor, optional): The same for :obj:`y`.
            (default: :obj:`None`)

    Shapes:
        - **input:** elements :math:`(N_x, d)` and :math:`(N_y, d)`, indices and weights
          :math:`(N_x)` and :math:`(N_y)`
        - **output:** distances :math:`(B)`, or a single value :math:`()` without
          indices. Two empty sets have distance zero.

    Example:
        >>> from gswe_pyg.slicers import IdentitySlicer
        >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [3.0], [4.0]])
        >>> gsw_distance(x, y, IdentitySlicer(1), p=1)
        tensor(2.8333)
    """
    _check_sets(x, y, p, x_index, y_index, x_weight, y_weight)
    slicer = _find_slicer(slicer, x, num_slices=64)
    of_slices = _slice_distances(x, y, slicer, p, x_index, y_index, x_weight, y_weight)
    distance = power_mean(of_slices, p).to(x.dtype)
    return distance[0] if x_index is None else distance


def max_gsw_distance(
    x: Tensor,
    y: Tensor,
    slicer: str | Module | None = None,
    p: float = 2.0,
    x_index: Tensor | None = None,
    y_index: Tensor | None = None,
    x_weight: Tensor | None = None,
    y_weight: Tensor | None = None,
    num_steps: int = 100,
    lr: float = 0.05,
) -> Tensor:
    r"""Computes the maximal generalised sliced-Wasserstein distance

    .. math::
        \max_{\theta} \mathcal{W}_p \left( g_{\theta}(\mathcal{X}),
        g_{\theta}(\mathcal{Y}) \right)

    by gradient ascent from all slices of :obj:`slicer`, separately for each pair of
    sets. It is a lower bound of the maximum, never less than the best initial slice.
    Every parameter tensor of the slicer keeps its norm, which bounds the search. The
    given slicer is left as it is.

    Args:
        x (torch.Tensor): The elements of the first set, or of the first ones of all
            pairs.
        y (torch.Tensor): The elements of the second set, or sets.
        slicer (str or torch.nn.Module, optional): The slices to start from: a module,
            or a name to draw 16 of them. By default, directions of unit length are
            drawn. (default: :obj:`None`)
        p (float, optional): The order of the distance. (default: :obj:`2.0`)
        x_index (torch.Tensor, optional): See :meth:`gsw_distance`.
        y_index (torch.Tensor, optional): See :meth:`gsw_distance`.
        x_weight (torch.Tensor, optional): See :meth:`gsw_distance`.
        y_weight (torch.Tensor, optional): See :meth:`gsw_distance`.
        num_steps (int, optional): The number of steps. (default: :obj:`100`)
        lr (float, optional): The learning rate of :class:`torch.optim.Adam`.
            (default: :obj:`0.05`)

    Shapes:
        - **input:** as for :meth:`gsw_distance`
        - **output:** distances :math:`(B)`, or a single value :math:`()` without
          indices; not differentiable

    Example:
        >>> x = torch.randn(50, 2)
        >>> shift = torch.tensor([3.0, 4.0])
        >>> round(max_gsw_distance(x, x + shift).item(), 2)
        5.0
    """
    not_negative("num_steps", num_steps)
    _check_sets(x, y, p, x_index, y_index, x_weight, y_weight)
    slicer = _find_slicer(slicer, x, num_slices=16)
    if x_index is None or y_index is None:
        return _ascend(x, y, slicer, p, x_weight, y_weight, num_steps, lr)

    distances = []
    for pair in range(_num_pairs(x_index, y_index)):
        in_x, in_y = x_index == pair, y_index == pair
        distances.append(
            _ascend(
                x[in_x],
                y[in_y],
                slicer,
                p,
                None if x_weight is None else x_weight[in_x],
                None if y_weight is None else y_weight[in_y],
                num_steps,
                lr,
            )
        )
    return torch.stack(distances) if distances else x.new_zeros(0)


# Ascent needs gradients, whatever mode the caller is in.
@torch.inference_mode(False)
@torch.enable_grad()
def _ascend(
    x: Tensor,
    y: Tensor,
    slicer: Module,
    p: float,
    x_weight: Tensor | None,
    y_weight: Tensor | None,
    num_steps: int,
    lr: float,
) -> Tensor:
    # Copies, since tensors of the inference mode cannot take part.
    x, y = x.detach().clone(), y.detach().clone()
    x_weight = None if x_weight is None else x_weight.detach().clone()
    y_weight = None if y_weight is None else y_weight.detach().clone()
    slicer = deepcopy(slicer).requires_grad_(True)
    parameters = list(slicer.parameters())
    norms = [parameter.detach().norm() for parameter in parameters]
    optimizer = torch.optim.Adam(parameters, lr, maximize=True) if parameters else None
    best = x.new_zeros((), dtype=torch.double)
    for step in range(num_steps + 1):
        of_slices = _slice_distances(
            x, y, slicer, p, x_weight=x_weight, y_weight=y_weight
        )
        largest = of_slices.detach().max()
        best = torch.maximum(best, largest)
        if optimizer is None or step == num_steps or not of_slices.requires_grad:
            break
        # Each slice climbs on its own: the sum's gradient is theirs. The gradients of
        # very small or large sets would vanish or overflow in the optimizer.
        optimizer.zero_grad()
        (of_slices / _scale(largest)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for parameter, norm in zip(parameters, norms, strict=True):
                parameter.mul_(norm / parameter.norm().clamp(min=1e-12))
    return best.to(x.dtype)


def power_mean(x: Tensor, p: float, dim: int = -1) -> Tensor:
    r"""Computes the norm of order :math:`p` of a mean instead of a sum

    .. math::
        \left( \frac{1}{n} \sum_{i=1}^n |x_i|^p \right)^{1/p}

    without overflow for large values and orders, and without vanishing for small ones.
    Its gradient is zero where all values are.

    Args:
        x (torch.Tensor): The values.
        p (float): The order, at least one, possibly infinite.
        dim (int, optional): The dimension to reduce. (default: :obj:`-1`)

    Example:
        >>> power_mean(torch.tensor([3e30, 4e30, 0.0]), p=2)
        tensor(2.8868e+30)
    """
    x = x.abs()
    if p == math.inf:
        return x.amax(dim)
    scale = _scale(x.detach().amax(dim, keepdim=True))
    return _root((x / scale).pow(p).mean(dim), p) * scale.squeeze(dim)


class _SortedSets(NamedTuple):
    """The slices of the first or the second sets of all pairs, sorted."""

    values: Tensor  # [N, L]
    ends: Tensor  # [N, L] or [N, 1], where the quantile function leaves each value
    pair: Tensor  # [N]
    ptr: Tensor  # [B + 1]


def _slice_distances(
    x: Tensor,
    y: Tensor,
    slicer: Module,
    p: float,
    x_index: Tensor | None = None,
    y_index: Tensor | None = None,
    x_weight: Tensor | None = None,
    y_weight: Tensor | None = None,
) -> Tensor:
    """The distances of all slices, ``[B, L]``, float64."""
    if x_index is None or y_index is None:
        x_index = torch.zeros(len(x), dtype=torch.long, device=x.device)
        y_index = torch.zeros(len(y), dtype=torch.long, device=y.device)
        num_pairs = 1
    else:
        num_pairs = _num_pairs(x_index, y_index)
    xs = _sort_sets(slicer(x), x_index, x_weight, num_pairs, "x_weight")
    ys = _sort_sets(slicer(y), y_index, y_weight, num_pairs, "y_weight")
    alone = (xs.ptr.diff() == 0) != (ys.ptr.diff() == 0)
    if bool(alone.any()):
        raise ValueError(
            f"'x' and 'y' must both be empty or neither (only one is in pair "
            f"{alone.nonzero()[0].item()}): remove that pair"
        )

    # The pieces on which both quantile functions are constant, pair by pair.
    num_columns = max(xs.ends.shape[1], ys.ends.shape[1])
    ends = torch.cat([s.ends.expand(-1, num_columns) for s in (xs, ys)])
    pair = torch.cat([xs.pair, ys.pair])
    order = _sort_by_pair(ends.detach(), pair)
    ends, pair = ends.gather(0, order), pair[order[:, 0]] if len(pair) else pair
    is_first = torch.ones_like(pair, dtype=torch.bool)
    is_first[1:] = pair[1:] != pair[:-1]
    width = ends - ends.roll(1, dims=0).masked_fill(is_first[:, None], 0)

    # A piece belongs to the elements that follow those which have ended before. One
    # without width may follow the last of its pair.
    is_x = (order < len(xs.pair)).long()
    of_x = is_x.cumsum(0) - is_x
    of_y = torch.arange(len(ends), device=ends.device)[:, None] - of_x
    gap = _values_at(xs, of_x, pair).double() - _values_at(ys, of_y, pair)
    gap = gap.where(width > 0, 0).abs()
    largest = scatter(gap, pair, dim=0, dim_size=num_pairs, reduce="max")
    if p == math.inf:
        return largest
    scale = _scale(largest.detach())
    power = (gap / scale[pair]) ** p * width
    return _root(scatter(power, pair, dim=0, dim_size=num_pairs), p) * scale


def _sort_sets(
    slices: Tensor, index: Tensor, weight: Tensor | None, num_pairs: int, name: str
) -> _SortedSets:
    order = _sort_by_pair(slices.detach(), index)
    values = slices.gather(0, order)
    pair = index.sort().values
    ptr = torch.searchsorted(pair, torch.arange(num_pairs + 1, device=pair.device))
    if weight is None:
        rank = torch.arange(len(pair), device=pair.device) - ptr[pair]
        ends = ((rank + 1).double() / ptr.diff()[pair])[:, None]
        return _SortedSets(values, ends, pair, ptr)
    check_weight(ptr, weight[index.argsort(stable=True)], name)
    weight = weight.double()
    # The sum of large masses would overflow.
    largest = scatter(weight.detach(), index, dim_size=num_pairs, reduce="max")
    cumulative = _cumsum_of_pairs((weight / largest[index])[order], ptr)
    return _SortedSets(values, cumulative / cumulative[ptr[pair + 1] - 1], pair, ptr)


def _cumsum_of_pairs(mass: Tensor, ptr: Tensor) -> Tensor:
    """Cumulative sums of each pair on its own: one over all of them would carry the
    rounding of large masses over to the next pair."""
    if len(mass) == 0:
        return mass
    sizes = ptr.diff()
    rows = [
        ptr[:-1][sizes == size, None] + torch.arange(size, device=ptr.device)
        for size in sizes.unique().tolist()
    ]
    cumulative = torch.cat([mass[these].cumsum(1).flatten(0, 1) for these in rows])
    return cumulative[torch.cat([these.flatten() for these in rows]).argsort()]


def _sort_by_pair(values: Tensor, pair: Tensor) -> Tensor:
    """The order of each column by pair, then by value, ``[N, L]``."""
    order = values.argsort(dim=0, stable=True)
    return order.gather(0, pair[order].argsort(dim=0, stable=True))


def _values_at(sets: _SortedSets, element: Tensor, pair: Tensor) -> Tensor:
    element = element.minimum(sets.ptr[pair + 1][:, None] - 1)
    return sets.values.gather(0, element.expand(-1, sets.values.shape[1]))


def _root(power: Tensor, p: float) -> Tensor:
    """The p-th root, with gradient zero at zero."""
    is_zero = power == 0
    return (power.masked_fill(is_zero, 1) ** (1 / p)).masked_fill(is_zero, 0)


def _scale(largest: Tensor) -> Tensor:
    """What to divide by before a power is taken."""
    return largest.where(largest.isfinite() & (largest > 0), 1)


def _find_slicer(slicer: str | Module | None, x: Tensor, num_slices: int) -> Module:
    if isinstance(slicer, Module):
        return slicer
    name = "linear" if slicer is None else slicer
    width = x.shape[1]
    made = make_slicer(name, width, width if name == "identity" else num_slices)
    return made.to(x).requires_grad_(False)


def _num_pairs(x_index: Tensor, y_index: Tensor) -> int:
    return 1 + max(
        (int(index.max()) for index in (x_index, y_index) if len(index) > 0),
        default=-1,
    )


def _check_sets(
    x: Tensor,
    y: Tensor,
    p: float,
    x_index: Tensor | None,
    y_index: Tensor | None,
    x_weight: Tensor | None,
    y_weight: Tensor | None,
) -> None:
    norm_order(p)
    if (x_index is None) != (y_index is None):
        raise ValueError("'x_index' and 'y_index' must be given together")
    for name, elements, index, weight in (
        ("x", x, x_index, x_weight),
        ("y", y, y_index, y_weight),
    ):
        tensor(name, elements)
        if index is not None:
            tensor(f"{name}_index", index)
        if weight is not None:
            tensor(f"{name}_weight", weight)
        if elements.dim() != 2 or not elements.is_floating_point():
            raise ValueError(
                f"'{name}' must be a floating point tensor [num_elements, "
                f"num_features] (got {elements.dtype} of shape {list(elements.shape)})"
            )
        if index is not None and (
            index.shape != elements.shape[:1] or index.dtype != torch.long
        ):
            raise ValueError(
                f"'{name}_index' must be of type torch.long, with one entry for each "
                f"of the {len(elements)} elements (got {index.dtype} of shape "
                f"{list(index.shape)})"
            )
        if index is not None and len(index) > 0 and int(index.min()) < 0:
            raise ValueError(
                f"'{name}_index' must not be negative (got {int(index.min())})"
            )
        if weight is not None and weight.shape != elements.shape[:1]:
            raise ValueError(
                f"'{name}_weight' must have one entry for each of the {len(elements)} "
                f"elements (got shape {list(weight.shape)})"
            )
    if x.dtype != y.dtype:
        raise ValueError(
            f"'x' and 'y' must be of the same dtype (got {x.dtype} and {y.dtype}): "
            f"convert one by 'y.to(x.dtype)'"
        )
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"'x' and 'y' must have the same number of features (got {x.shape[1]} and "
            f"{y.shape[1]})"
        )
