"""The kernel of sets with masses.

Their order is another in each slice, so that this is done lane by lane. The formulas
are those of :mod:`gswe_pyg.ops.weighted`.
"""

import math
from typing import NamedTuple

import numpy as np

from gswe_pyg.ops.numba.compiling import inlined, kernel
from gswe_pyg.ops.numba.simd import LANES, PLACE_BITS
from gswe_pyg.ops.numba.sort import (
    lanes_of_block,
    num_key_rows,
    pack_block,
    sort_rows,
)

EPSILON = float(np.finfo(np.float64).eps)

STEP, BARYCENTRIC, LINEAR, LEVEL_LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST = range(8)


class WeightedReads(NamedTuple):
    """What is read from sets with masses, at places ``numerator / denominator``."""

    code: int
    extremes: bool
    numerator: np.ndarray
    denominator: np.ndarray


class Lane(NamedTuple):
    """A set in one slice, in sorted order, and room for its derivatives."""

    place: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    cumulative: np.ndarray
    grad_value: np.ndarray
    grad_mass: np.ndarray
    grad_before: np.ndarray


class Masses(NamedTuple):
    """Of all elements of a set; the first and the last are places in sorted order. The
    ends of windows are compared with the cumulative mass times ``factor``."""

    total: float
    squares: float
    unit: float
    factor: float
    first: int
    last: int
    has_zeros: bool


@inlined
def _load_lane(
    keys, at, stride, values, base, num_slices, mass, unit, size, reads, lane
):
    cumulative, squares = 0.0, 0.0
    first, last, num_zeros = size, 0, 0
    for j in range(size):
        place = keys[at + j * stride] & ((1 << PLACE_BITS) - 1)
        own = mass[place]
        cumulative += own
        squares += own * own
        if own > 0:
            first, last = min(first, j), j
        else:
            num_zeros += 1
        lane.place[j] = place
        lane.value[j] = values[base + place * num_slices]
        lane.mass[j] = own
        lane.cumulative[j] = cumulative
    # So that the ends of windows are whole numbers where the masses are.
    factor = 1.0
    if reads.code in (STEP, BARYCENTRIC, LINEAR):
        factor = reads.denominator[0]
        if reads.code == LINEAR:
            factor *= cumulative
        for j in range(size):
            lane.cumulative[j] *= factor
    return Masses(cumulative, squares, unit, factor, first, last, num_zeros > 0)


@inlined
def _window(reads, r, masses):
    """Its ends times the factor, and how they change, without it, with the total and
    the sum of squares."""
    total, unit = masses.total, masses.unit
    numerator, denominator = reads.numerator[r], reads.denominator[r]
    share = numerator / denominator
    if reads.code == BARYCENTRIC:
        left, right = numerator * total, (numerator + 1) * total
        return left, right, share, (numerator + 1) / denominator, 0.0, 0.0
    if reads.code == LINEAR:
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
    if reads.code == STEP:
        left = numerator * total
        return left, left, 0.0, 0.0, 0.0, 0.0
    left = numerator * max(total - unit, 0.0) / denominator
    if total > unit:
        return left, left + unit, share, share, 0.0, 0.0
    return left, left + total, 0.0, 1.0, 0.0, 0.0


@inlined
def _above(lane, masses, place, start):
    """The element that begins at or before this place and ends behind it."""
    while start < masses.last and lane.cumulative[start] <= place:
        start += 1
    return start


@inlined
def _at(lane, masses, place, start):
    """The element that begins before this place and ends there or behind it."""
    while start < masses.last and lane.cumulative[start] < place:
        start += 1
    return start


@inlined
def _ends_at(lane, place, column):
    """The element with mass that ends at this place, or the one that begins there."""
    j = column - 1
    while j >= 0 and lane.mass[j] == 0:
        j -= 1
    return j if j >= 0 and lane.cumulative[j] == place else column


@inlined
def _begins_at(lane, masses, place, column):
    """The element with mass that begins at this place, or the one that ends there."""
    if column == masses.last or lane.cumulative[column] != place:
        return column
    j = column + 1
    while j < masses.last and lane.mass[j] == 0:
        j += 1
    return j


@inlined
def _columns(lane, size, masses, code, left, right, start):
    """The two elements of which the mean is read."""
    if code == STEP:
        # A little less, by what the sum may have lost: the last digits of equal masses
        # must not decide which element it is.
        lower = _at(lane, masses, left * (1 - 4 * size * EPSILON), start)
        return lower, lower
    if code == NEAREST:
        # Half to even.
        lower = _above(lane, masses, np.rint(left / masses.unit) * masses.unit, start)
        return lower, lower
    lower = _above(lane, masses, left, start)
    if code == LOWER:
        return lower, lower
    upper = _at(lane, masses, right, lower)
    if code == HIGHER:
        return upper, upper
    return lower, upper


@inlined
def _has_windows(code):
    return code in (BARYCENTRIC, LINEAR, LEVEL_LINEAR)


@inlined
def _mean(lane, masses, left, right, lower):
    """The mean over a window that begins in element ``lower``, and its last one."""
    if right <= left:  # a count that vanishes beside the total
        return lane.value[lower], lower
    mean, begin, j = 0.0, left, lower
    while True:
        end = right
        if j < masses.last:
            end = min(lane.cumulative[j], right)
        share = (end - begin) / (right - left)
        if share > 0:  # also where a value without a share is infinite
            mean += lane.value[j] * share
        if end >= right:
            return mean, j
        begin = end
        j += 1


@inlined
def _points(lane, size, masses, reads, points, to):
    lower, before = 0, 0.0
    num_inner = len(reads.numerator)
    for r in range(num_inner):
        left, right, _, _, _, _ = _window(reads, r, masses)
        if left < before:  # levels come in any order
            lower = 0
        before = left
        if _has_windows(reads.code):
            lower = _above(lane, masses, left, lower)
            points[to + r], _ = _mean(lane, masses, left, right, lower)
        else:
            a, b = _columns(lane, size, masses, reads.code, left, right, 0)
            point = lane.value[a]
            if a != b:
                point = 0.5 * point + 0.5 * lane.value[b]
            points[to + r] = point
    if reads.extremes:
        points[to + num_inner] = lane.value[masses.first]
        points[to + num_inner + 1] = lane.value[masses.last]


@inlined
def _gradients(lane, size, masses, reads, grad_points, at):
    """Those of the values and masses, which are left in the lane."""
    lane.grad_value[:size] = 0
    lane.grad_mass[:size] = 0
    lane.grad_before[:size] = 0
    grad_total, grad_squares = 0.0, 0.0
    lower, before = 0, 0.0
    num_inner = len(reads.numerator)
    for r in range(num_inner):
        grad = np.float64(grad_points[at + r])
        (
            left,
            right,
            left_by_total,
            right_by_total,
            left_by_squares,
            right_by_squares,
        ) = _window(reads, r, masses)
        if left < before:
            lower = 0
        before = left
        if not _has_windows(reads.code):
            a, b = _columns(lane, size, masses, reads.code, left, right, 0)
            lane.grad_value[a] += 0.5 * grad
            lane.grad_value[b] += 0.5 * grad
            continue
        lower = _above(lane, masses, left, lower)
        point, upper = _mean(lane, masses, left, right, lower)
        if right <= left:
            lane.grad_value[lower] += grad
            continue
        begin = left
        for j in range(lower, upper + 1):
            end = right
            if j < masses.last:
                end = min(lane.cumulative[j], right)
            share = (end - begin) / (right - left)
            if share > 0:
                lane.grad_value[j] += grad * share
            begin = end
        # With a little more mass, an element inside of the window pushes out the value
        # at its right end, and one before it moves the whole window. Where an end meets
        # that of an element, the mean of both sides counts.
        grad *= masses.factor / (right - left)
        after_left, before_right = lane.value[lower], lane.value[upper]
        before_left = lane.value[_ends_at(lane, left, lower)]
        after_right = lane.value[_begins_at(lane, masses, right, upper)]
        low = 0.5 * before_left + 0.5 * after_left
        high = 0.5 * before_right + 0.5 * after_right
        for j in range(lower, upper + 1):
            lane.grad_mass[j] += grad * (lane.value[j] - high)
        lane.grad_before[lower] += grad * (low - high)
        # A mass of zero can only grow, so that for it one of the sides counts; and if
        # it lies at an end itself, as much of it as that leaves inside.
        for j in range(size * masses.has_zeros):
            if lane.mass[j] > 0:
                continue
            move = left_by_total - (j < lower)
            lost = (after_left if move > 0 else before_left) * move
            if lane.cumulative[j] == left:
                lost = after_left * max(left_by_total - 1, 0.0)
                lost -= lane.value[j] * max(1 - left_by_total, 0.0)
            correction = low * move - lost
            move = right_by_total - (j <= upper)
            gained = (after_right if move > 0 else before_right) * move
            if lane.cumulative[j] == right:
                gained = lane.value[j] * min(max(right_by_total, 0.0), 1.0)
                gained += after_right * max(right_by_total - 1, 0.0)
                gained -= before_right * max(-right_by_total, 0.0)
            correction += gained - high * move
            lane.grad_mass[j] += grad * correction
        grad_total += grad * (
            (high - point) * right_by_total + (point - low) * left_by_total
        )
        grad_squares += grad * (
            (high - point) * right_by_squares + (point - low) * left_by_squares
        )
    if reads.extremes:
        lane.grad_value[masses.first] += grad_points[at + num_inner]
        lane.grad_value[masses.last] += grad_points[at + num_inner + 1]
    for j in range(size - 1, -1, -1):
        lane.grad_mass[j] += grad_total + 2 * lane.mass[j] * grad_squares
        grad_total += lane.grad_before[j]
        if lane.mass[j] == 0 and not np.isfinite(lane.value[j]):
            lane.grad_mass[j] = 0  # left out altogether


@inlined
def _scale_masses(mass, start, size, scaled):
    """By a power of two, so that the largest is about one: sums must not overflow."""
    largest = 0.0
    for j in range(size):
        largest = max(largest, mass[start + j])
    exponent = math.frexp(largest)[1]
    scale = math.ldexp(1.0, -max(-1000, min(exponent, 1000)))
    for j in range(size):
        scaled[j] = mass[start + j] * scale
    return scale


@kernel
def weighted(
    bits,
    num_slices,
    ptr,
    mass,
    reads,
    part,
    keys,
    is_sorted,
    points,
    grad_src,
    grad_mass,
):
    """The points of sets with masses; given room for them, gradients from those of the
    points. Graphs that have no room in ``keys`` are left out, unless there is but one
    whose keys ``[width, size]`` are sorted already."""
    values, with_gradients = bits.view(np.float32), len(grad_src) > 0
    num_reads = len(reads.numerator) + 2 * reads.extremes
    largest = 0
    for graph in range(part.first_graph, part.last_graph):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
    if not is_sorted:
        largest = min(largest, len(keys) // LANES)
    room = np.empty((7, largest))
    lane = Lane(
        np.empty(largest, np.int64),
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
    )
    scaled = room[6]
    line = np.zeros(LANES, np.int32)
    for graph in range(part.first_graph, part.last_graph):
        start = ptr[graph]
        size = ptr[graph + 1] - start
        if not is_sorted and num_key_rows(size) * LANES > len(keys):
            continue
        unit = _scale_masses(mass, start, size, scaled)
        for block in range(part.first_slice, part.last_slice, LANES):
            first, width = lanes_of_block(block, part)
            base = start * num_slices + first
            if size == 0:
                if not with_gradients:
                    to = (graph * num_slices + first) * num_reads
                    points[to : to + width * num_reads] = 0
                continue
            if not is_sorted:
                pack_block(bits, base, num_slices, size, width, keys, line)
                sort_rows(keys, size)
            for i in range(block - first, width):
                at = (graph * num_slices + first + i) * num_reads
                key_at, stride = i, LANES
                if is_sorted:
                    key_at, stride = (first + i - part.first_slice) * size, 1
                masses = _load_lane(
                    keys,
                    key_at,
                    stride,
                    values,
                    base + i,
                    num_slices,
                    scaled,
                    unit,
                    size,
                    reads,
                    lane,
                )
                if not with_gradients:
                    _points(lane, size, masses, reads, points, at)
                    continue
                _gradients(lane, size, masses, reads, points, at)
                for j in range(size):
                    place = lane.place[j]
                    grad_src[base + i + place * num_slices] = lane.grad_value[j]
                    grad_mass[start + place] += lane.grad_mass[j] * unit
