"""Interpolation between elements of different mass, with its derivative.

Here the position of a point depends on the masses, and so on the order of the elements
in each slice: nothing can be computed ahead of the sort.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gswe_pyg.ops.merge import merge_breakpoints


class WeightedTerms(NamedTuple):
    """``weight`` times the sorted value ``column`` is added to point ``point``."""

    column: Tensor  # [b, l, T]
    point: Tensor  # [b, l, T]
    weight: Tensor  # [b, l, T]
    mass_gradient: Callable[[Tensor], Tensor]  # of weight, [b, l, T], to mass


def weighted_terms(
    mass: Tensor, sizes: Tensor, num_points: int, interpolation: str
) -> WeightedTerms:
    r"""The points of sets with masses as sums over their sorted values.

    Args:
        mass (torch.Tensor): The masses in the order of the sorted values, positive for
            the elements of a set and zero behind them, float64, shape
            :math:`(b, l, P)`.
        sizes (torch.Tensor): The number of elements of each set, shape :math:`(b)`.
        num_points (int): The number of points :math:`M`.
        interpolation (str): See :meth:`gswe_pyg.ops.segment_quantile`.
    """
    if interpolation == "barycentric":
        return _barycentric(mass, sizes, num_points)
    if interpolation == "step":
        return _step(mass, sizes, num_points)
    return _between(mass, sizes, num_points, interpolation)


def _step(mass: Tensor, sizes: Tensor, num_points: int) -> WeightedTerms:
    cumulative = mass.cumsum(-1)
    m = _ranks(mass, num_points)
    # Compared as products, so that whole masses are compared exactly.
    wanted = (2 * m + 1) * cumulative[..., -1:]
    column = torch.searchsorted(cumulative * (2 * num_points), wanted)
    column = column.minimum(_last(sizes))
    weight = torch.ones_like(wanted)
    return WeightedTerms(
        column, _points(column, num_points), weight, lambda _: torch.zeros_like(mass)
    )


def _between(
    mass: Tensor, sizes: Tensor, num_points: int, interpolation: str
) -> WeightedTerms:
    cumulative = mass.cumsum(-1)
    m = _ranks(mass, num_points)
    # knots = per_cumulative * cumulative + per_mass * mass; wanted = per_total * total.
    if interpolation == "linear":
        per_cumulative, per_mass = 2.0 * num_points, -1.0 * num_points
        per_total = 2 * m + 1
    else:
        size = sizes.to(mass.dtype)[:, None, None]
        per_cumulative, per_mass = size * (num_points + 1), 0.0
        per_total = (size + 1) * (m + 1)
    knots = per_cumulative * cumulative + per_mass * mass
    wanted = per_total * cumulative[..., -1:]

    last = _last(sizes)
    lower = torch.searchsorted(knots, wanted, right=True) - 1
    lower = lower.minimum(last - 1).clamp(min=0)
    upper = (lower + 1).minimum(last)
    low, high = knots.gather(-1, lower), knots.gather(-1, upper)
    # None for a single element, or where a mass vanishes beside the total.
    gap = (high - low).where(high > low, torch.inf)
    fraction, inverse_gap = (wanted - low) / gap, 1 / gap
    if interpolation == "linear":  # constant beyond the outer knots
        inverse_gap = inverse_gap.where((fraction >= 0) & (fraction <= 1), 0)
        fraction = fraction.clamp(0, 1)

    def mass_gradient(grad_weight: Tensor) -> Tensor:
        grad_lower, grad_upper = grad_weight.chunk(2, dim=-1)
        slope = (grad_upper - grad_lower) * inverse_gap
        grad_knots = torch.zeros_like(mass)
        grad_knots.scatter_add_(-1, lower, slope * (fraction - 1))
        grad_knots.scatter_add_(-1, upper, -slope * fraction)
        grad_cumulative = per_cumulative * grad_knots
        grad_cumulative[..., -1] += (slope * per_total).sum(-1)
        return per_mass * grad_knots + _reverse_cumsum(grad_cumulative)

    return WeightedTerms(
        torch.cat([lower, upper], dim=-1),
        _points(lower, num_points).repeat(1, 1, 2),
        torch.cat([1 - fraction, fraction], dim=-1),
        mass_gradient,
    )


def _barycentric(mass: Tensor, sizes: Tensor, num_points: int) -> WeightedTerms:
    cumulative = mass.cumsum(-1)
    total = cumulative[..., -1:]
    m = _ranks(mass, num_points)
    width, column, point, origin = merge_breakpoints(
        cumulative * num_points, (m + 1) * total
    )
    weight = width / total

    def mass_gradient(grad_weight: Tensor) -> Tensor:
        grad_width = grad_weight / total
        grad_ends = grad_width - torch.nn.functional.pad(grad_width[..., 1:], (0, 1))
        grad_ends = torch.empty_like(grad_ends).scatter_(-1, origin, grad_ends)
        grad_cumulative, grad_bins = grad_ends.split([mass.shape[-1], num_points], -1)
        grad_cumulative = grad_cumulative * num_points
        grad_cumulative[..., -1] += (grad_bins * (m + 1)).sum(-1)
        grad_cumulative[..., -1] -= (grad_width * weight).sum(-1)
        return _reverse_cumsum(grad_cumulative)

    return WeightedTerms(column.minimum(_last(sizes)), point, weight, mass_gradient)


def _ranks(mass: Tensor, num_points: int) -> Tensor:
    return torch.arange(num_points, device=mass.device, dtype=mass.dtype)


def _points(column: Tensor, num_points: int) -> Tensor:
    return torch.arange(num_points, device=column.device).expand_as(column)


def _last(sizes: Tensor) -> Tensor:
    return (sizes - 1)[:, None, None]


def _reverse_cumsum(x: Tensor) -> Tensor:
    return x.flip(-1).cumsum(-1).flip(-1)
