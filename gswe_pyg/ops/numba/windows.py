"""The masses of a set, and the windows that are read from it.

Windows depend on the total and on the sum of squares of the masses alone: they are the
same for all slices. The formulas are those of :mod:`gswe_pyg.ops.weighted`.
"""

import math
from typing import NamedTuple

import numpy as np

from gswe_pyg.ops.numba.compiling import inlined
from gswe_pyg.ops.numba.job import doubles_at

EPSILON = float(np.finfo(np.float64).eps)

STEP, BARYCENTRIC, LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, LEVEL_LINEAR = range(8)
CODES = ("step", "barycentric", "linear", "lower", "higher", "midpoint", "nearest")


class Masses(NamedTuple):
    """The ends of windows are compared with cumulative masses times ``factor``."""

    size: int
    total: float
    squares: float
    unit: float
    factor: float
    has_zeros: bool


@inlined
def has_windows(code):
    return code in (BARYCENTRIC, LINEAR, LEVEL_LINEAR)


@inlined
def load_masses(job, start, size, scaled):
    """Scaled by a power of two, so that the largest is about one: sums must not
    overflow."""
    mass, largest = doubles_at(job.mass), 0.0
    for j in range(size):
        largest = max(largest, mass[start + j])
    exponent = math.frexp(largest)[1]
    unit = math.ldexp(1.0, -max(-1000, min(exponent, 1000)))
    total, squares, num_zeros = 0.0, 0.0, 0
    for j in range(size):
        own = mass[start + j] * unit
        total += own
        squares += own * own
        num_zeros += own == 0
        scaled[j] = own
    # So that the ends of windows are whole numbers where the masses are.
    factor = 1.0
    if job.code in (STEP, BARYCENTRIC, LINEAR):
        factor = doubles_at(job.denominator)[0]
        if job.code == LINEAR:
            factor *= total
    return Masses(size, total, squares, unit, factor, num_zeros > 0)


@inlined
def window(job, r, masses):
    """Its ends times the factor, and how they change, without it, with the total and
    the sum of squares."""
    total, unit = masses.total, masses.unit
    numerator = doubles_at(job.numerator)[r]
    denominator = doubles_at(job.denominator)[r]
    share = numerator / denominator
    if job.code == BARYCENTRIC:
        left, right = numerator * total, (numerator + 1) * total
        return left, right, share, (numerator + 1) / denominator, 0.0, 0.0
    if job.code == LINEAR:
        by_total, by_squares = -masses.squares / (total * total), 1 / total
        width, whole = denominator * masses.squares, masses.factor * total
        left = numerator * total * total - width / 2
        if left < 0:
            return 0.0, width, 0.0, by_total, 0.0, by_squares
        if left > whole - width:
            return whole - width, whole, 1 - by_total, 1.0, -by_squares, 0.0
        return (
            left,
            left + width,
            share - by_total / 2,
            share - by_total / 2 + by_total,
            -by_squares / 2,
            -by_squares / 2 + by_squares,
        )
    if job.code == STEP:
        left = numerator * total
        return left, left, 0.0, 0.0, 0.0, 0.0
    left = numerator * max(total - unit, 0.0) / denominator
    if total > unit:
        right = total if numerator == denominator else left + unit
        return left, right, share, share, 0.0, 0.0
    return left, left + total, 0.0, 1.0, 0.0, 0.0


@inlined
def fill_windows(job, masses, left, right, scale):
    """What is summed up for each read, times a scale: what is between ``left`` and
    ``right``; or the elements at one or at both of them."""
    for r in range(job.num_inner):
        first, last, _, _, _, _ = window(job, r, masses)
        factor = 1.0
        if job.code == STEP:
            # A little less, by what the sum may have lost: the last digits of equal
            # masses must not decide which element it is.
            first, last = -1.0, last * (1 - 4 * masses.size * EPSILON)
        elif job.code == NEAREST:  # half to even
            first = np.rint(first / masses.unit) * masses.unit
        elif job.code == MIDPOINT and last > first:
            factor = 0.5
        elif has_windows(job.code):
            # A count may vanish beside the total: then the element at this place.
            last = max(last, np.nextafter(first, np.inf))
            factor = 1 / (last - first)
        left[r], right[r], scale[r] = first, last, factor
