r"""Reads of sets whose elements have masses, with their derivatives.

Sorted by value, element :math:`j` fills :math:`(C_{j-1}, C_j)` with :math:`C` the
cumulative mass: this is the inverse of the distribution function. A read is its value
at one place, or its mean over a *window*. Means over windows move smoothly with the
masses, and an element whose mass goes to zero fades out of them. Nothing depends on the
order of equal values. With total :math:`W` and sum of squares :math:`S`, the window is

* ``"barycentric"``: from :math:`\frac{m}{M} W` to :math:`\frac{m + 1}{M} W`;
* ``"linear"``, on the grid: of width :math:`S / W` around
  :math:`\frac{m + 1/2}{M} W`, moved into :math:`(0, W)`. For equal masses this is one
  element, and the mean over it the line between two midpoints. In general,
  :math:`W^2 / S` is the effective number of elements (Kish);
* ``"linear"``, at a level :math:`q`: of width one from :math:`q (W - 1)`: masses are
  counts there.

``"step"`` is the value at :math:`\frac{m + 1/2}{M} W`; ``"lower"`` and ``"higher"`` are
those at the two ends of the window of a level, ``"midpoint"`` the mean of both, and
``"nearest"`` the value at the count that is nearest to its beginning.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gswe_pyg.ops.interpolation import level_as_fraction
from gswe_pyg.ops.plan import Reads

HAS_WINDOWS = ("linear", "barycentric")


def fractions(reads: Reads) -> tuple[list[int], list[int]]:
    """Numerators and denominators of the places that are read."""
    if reads.levels:
        levels = [level_as_fraction(level) for level in reads.levels]
        return [q.numerator for q in levels], [q.denominator for q in levels]
    num_points = reads.num_points
    if reads.interpolation == "barycentric":
        return list(range(num_points)), [num_points] * num_points
    return list(range(1, 2 * num_points, 2)), [2 * num_points] * num_points


def scale_masses(mass: Tensor) -> tuple[Tensor, Tensor]:
    """Masses ``[b, P]`` of which the largest is about one, and by what they were
    multiplied: sums of large ones must not overflow. A power of two, which changes no
    digit."""
    _, exponent = torch.frexp(mass.detach().amax(-1, keepdim=True))
    # In double precision: `torch.ldexp` takes powers in single precision.
    scale = torch.exp2(-exponent.double().clamp(-1000, 1000))
    return mass * scale, scale


class Windows(NamedTuple):
    """From ``left`` to ``right``, ``[b, l, R]``, times a factor, and how these change,
    without it, with the total and with the sum of squares."""

    left: Tensor
    right: Tensor
    left_by_total: Tensor
    right_by_total: Tensor
    left_by_squares: Tensor
    right_by_squares: Tensor


class WeightedReads:
    """The reads of sets in sorted order.

    Args:
        values (torch.Tensor): The sorted values, float64, shape :math:`(b, l, P)`.
        mass (torch.Tensor): Their masses, float64, zero for padding, same shape.
        unit (torch.Tensor): The mass of one count, shape :math:`(b, 1)`.
        reads (Reads): What is read.
    """

    def __init__(
        self, values: Tensor, mass: Tensor, unit: Tensor, reads: Reads
    ) -> None:
        self.values, self.mass, self.reads = values, mass, reads
        self.unit = unit[..., None]
        self.cumulative = mass.cumsum(-1)
        self.total = self.cumulative[..., -1:]
        numerators, denominators = fractions(reads)
        to = {"device": mass.device, "dtype": mass.dtype}
        self.numerator = torch.tensor(numerators, **to)
        self.denominator = torch.tensor(denominators, **to)
        # So that the ends of windows are whole numbers where the masses are.
        self.factor = torch.ones_like(self.total)
        if not reads.levels:
            self.factor = self.factor * denominators[0]
            if reads.interpolation == "linear":
                self.factor = self.factor * self.total
        self.cumulative = self.cumulative * self.factor
        place = torch.arange(mass.shape[-1], device=mass.device)
        has_mass = mass > 0
        self.last = place.where(has_mass, 0).amax(-1, keepdim=True)
        first = place.where(has_mass, mass.shape[-1] - 1).amin(-1, keepdim=True)
        self.extremes = torch.cat([first, self.last], dim=-1)
        self.windows = self.columns = None
        if reads.interpolation in HAS_WINDOWS:
            self.windows = self._make_windows()
            self.shares = self._make_shares()
        else:
            self.columns = self._make_columns()

    def points(self) -> Tensor:
        parts = []
        if self.windows is not None:
            picked = self.values[..., None, :] * self.shares
            # Also where a value without a share is infinite.
            parts.append(picked.where(self.shares != 0, 0).sum(-1))
        else:
            lower, upper = (self.values.gather(-1, column) for column in self.columns)
            is_same = self.columns[0] == self.columns[1]
            parts.append(lower.where(is_same, 0.5 * lower + 0.5 * upper))
        if self.reads.extremes:
            parts.append(self.values.gather(-1, self.extremes))
        return torch.cat(parts, dim=-1)

    def gradients(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the values and the masses, from that of the points."""
        num_inner = self.reads.num_inner
        inner = grad[..., :num_inner]
        if self.windows is not None:
            picked = inner[..., None] * self.shares
            grad_values = picked.where(self.shares != 0, 0).sum(-2)
            grad_mass = (inner[..., None] * self._by_mass()).sum(-2)
        else:
            grad_values = torch.zeros_like(self.values)
            for column in self.columns:
                grad_values = grad_values.scatter_add(-1, column, 0.5 * inner)
            grad_mass = torch.zeros_like(self.mass)
        if self.reads.extremes:
            grad_values = grad_values.scatter_add(
                -1, self.extremes, grad[..., num_inner:]
            )
        return grad_values, grad_mass

    def tangents(self, values: Tensor, mass: Tensor) -> Tensor:
        """That of the points, from those of the values and the masses."""
        if self.windows is not None:
            picked = values[..., None, :] * self.shares
            inner = picked.where(self.shares != 0, 0).sum(-1)
            parts = [inner + (mass[..., None, :] * self._by_mass()).sum(-1)]
        else:
            parts = [sum(0.5 * values.gather(-1, column) for column in self.columns)]
        if self.reads.extremes:
            parts.append(values.gather(-1, self.extremes))
        return torch.cat(parts, dim=-1)

    def _make_windows(self) -> Windows:
        total, numerator, denominator = self.total, self.numerator, self.denominator
        share = numerator / denominator
        zero = torch.zeros_like(total * share)
        if self.reads.levels:
            rest = (total - self.unit).clamp(min=0)
            left = numerator * rest / denominator
            width = total.minimum(self.unit)
            by_rest = (total > self.unit) * share
            by_width = zero + (total <= self.unit)
            right = (left + width).where(numerator < denominator, total)
            return Windows(left, right, by_rest, by_rest + by_width, zero, zero)
        if self.reads.interpolation == "barycentric":
            ends = numerator + 1
            return Windows(
                numerator * total,
                ends * total,
                zero + share,
                zero + ends / denominator,
                zero,
                zero,
            )
        squares = self.mass.square().sum(-1, keepdim=True)
        width_by_total, width_by_squares = -squares / total.square(), 1 / total
        width, whole = denominator * squares, self.factor * total
        left = numerator * total * total - width / 2
        left_by_total = share - width_by_total / 2
        left_by_squares = zero - width_by_squares / 2
        is_low = left < 0
        is_high = ~is_low & (left > whole - width)
        left = left.where(~is_high, whole - width).where(~is_low, 0)
        left_by_total = left_by_total.where(~is_high, 1 - width_by_total)
        left_by_total = left_by_total.where(~is_low, 0)
        left_by_squares = left_by_squares.where(~is_high, -width_by_squares)
        left_by_squares = left_by_squares.where(~is_low, 0)
        return Windows(
            left,
            (left + width).where(~is_high, whole),
            left_by_total,
            (left_by_total + width_by_total).where(~is_high, 1),
            left_by_squares,
            (left_by_squares + width_by_squares).where(~is_high, 0),
        )

    def _make_shares(self) -> Tensor:
        """How much of each window comes from each element, ``[b, l, R, P]``."""
        left, right = self.windows.left, self.windows.right
        self.lower = self._column_above(left)
        upper = torch.searchsorted(self.cumulative.contiguous(), right.contiguous())
        self.upper = upper.minimum(self.last).maximum(self.lower)
        place = torch.arange(self.mass.shape[-1], device=self.mass.device)
        place = place[None, None, None]
        ends = self.cumulative[..., None, :]
        begins = torch.nn.functional.pad(ends[..., :-1], (1, 0))
        ends = ends.where(place != self.upper[..., None], right[..., None])
        begins = begins.where(place != self.lower[..., None], left[..., None])
        self.is_inside = (place >= self.lower[..., None]) & (
            place <= self.upper[..., None]
        )
        width = right - left
        # None where one count vanishes beside the total: the value at that place.
        self.has_width = width > 0
        width = width.where(self.has_width, 1)
        self.width = width
        shares = (ends - begins).clamp(min=0) / width[..., None]
        shares = shares.where(
            self.has_width[..., None], (place == self.lower[..., None]).to(shares.dtype)
        )
        return shares.where(self.is_inside, 0)

    def _make_columns(self) -> tuple[Tensor, Tensor]:
        """The elements at certain places, of which the mean of two is read."""
        interpolation = self.reads.interpolation
        if interpolation == "step":
            # A little less, by what the sum may have lost: the last digits of equal
            # masses must not decide which element it is.
            slack = 4 * self.mass.shape[-1] * torch.finfo(self.mass.dtype).eps
            place = self.numerator * self.total * (1 - slack)
            column = self._column_at(place)
            return column, column
        rest = (self.total - self.unit).clamp(min=0)
        place = self.numerator * rest / self.denominator
        if interpolation == "nearest":
            place = (place / self.unit).round() * self.unit
        lower = self._column_above(place)
        if interpolation in ("lower", "nearest"):
            return lower, lower
        upper = self._column_at(place + self.total.minimum(self.unit)).maximum(lower)
        return (upper, upper) if interpolation == "higher" else (lower, upper)

    def _column_above(self, place: Tensor) -> Tensor:
        """The element that begins at or before this place and ends behind it."""
        column = torch.searchsorted(
            self.cumulative.contiguous(), place.contiguous(), right=True
        )
        return column.minimum(self.last)

    def _column_at(self, place: Tensor) -> Tensor:
        """The element that begins before this place and ends there or behind it."""
        column = torch.searchsorted(self.cumulative.contiguous(), place.contiguous())
        return column.minimum(self.last)

    def _by_mass(self) -> Tensor:
        """The derivatives of the points by the masses, ``[b, l, R, P]``.

        With a little more mass, an element inside of a window pushes out the value at
        its right end, and one before it moves the whole window. The ends themselves
        move with the total and the sum of squares.
        """
        windows, value = self.windows, self.values
        # Where an end meets that of an element, the mean of both sides: from there it
        # moves either way. Then neighbouring windows agree on what one hands the other.
        after_left, before_right = (
            value.gather(-1, column) for column in (self.lower, self.upper)
        )
        before_left = value.gather(-1, self._column_at(windows.left))
        before_left = before_left.where(windows.left > 0, after_left)
        after_right = value.gather(-1, self._column_above(windows.right))
        low = 0.5 * before_left + 0.5 * after_left
        high = 0.5 * before_right + 0.5 * after_right
        point = (value[..., None, :] * self.shares).where(self.shares != 0, 0).sum(-1)
        by_squares = (high - point) * windows.right_by_squares
        by_squares = by_squares + (point - low) * windows.left_by_squares
        # How far the ends move relative to the elements there.
        place = torch.arange(value.shape[-1], device=value.device)
        is_before = place < self.lower[..., None]
        is_after = place > self.upper[..., None]
        by_left, by_right = windows.left_by_total[..., None], windows.right_by_total
        by_right = by_right[..., None]
        left, right = by_left - is_before.to(value.dtype), by_right - 1
        right = right + is_after.to(value.dtype)
        # A mass of zero can only grow, so that for it one of the sides counts; and if
        # it lies at an end itself, as much of it as that leaves inside.
        is_zero, cumulative = (
            self.mass[..., None, :] == 0,
            self.cumulative[..., None, :],
        )
        value = value[..., None, :]
        low, high, after_left, before_left, after_right, before_right = (
            x[..., None]
            for x in (low, high, after_left, before_left, after_right, before_right)
        )
        one_sided = after_left.where(left > 0, before_left)
        lost = low.where(~is_zero, one_sided) * left
        own = (1 - by_left).clamp(min=0) * value
        own = after_left * (by_left - 1).clamp(min=0) - own
        lost = lost.where(~is_zero | (cumulative != windows.left[..., None]), own)
        one_sided = after_right.where(right > 0, before_right)
        gained = high.where(~is_zero, one_sided) * right
        own = value * by_right.clamp(0, 1) + after_right * (by_right - 1).clamp(min=0)
        own = own - before_right * (-by_right).clamp(min=0)
        gained = gained.where(~is_zero | (cumulative != windows.right[..., None]), own)
        by_mass = value.where(~(is_before | is_after), 0) + gained - lost
        by_mass = by_mass + point[..., None] * (by_left - by_right)
        by_mass = by_mass + 2 * self.mass[..., None, :] * by_squares[..., None]
        by_mass = by_mass * (self.factor / self.width)[..., None]
        # What has neither mass nor a number is left out altogether.
        is_there = ~is_zero | value.isfinite()
        return by_mass.where(self.has_width[..., None] & is_there, 0)
