"""The gradients of masses.

They are sums over all slices of what each window does. This is done lane by lane: which
elements meet the ends of a window is another question in each.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from gswe_pyg.ops.numba.compiling import Kernel, inlined
from gswe_pyg.ops.numba.job import (
    JOB,
    bits_at,
    doubles_at,
    floats_at,
    longs_at,
    next_item,
    own_scratch,
    part_of,
)
from gswe_pyg.ops.numba.windows import load_masses, window


class Lane(NamedTuple):
    """A set in one slice, in sorted order, and room for its derivatives."""

    place: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    cumulative: np.ndarray
    grad_mass: np.ndarray
    grad_before: np.ndarray


@inlined
def _room(scratch, num_rows):
    """A lane, and the masses of a set in the order of its elements."""
    step = 8 * num_rows
    lane = Lane(
        longs_at(scratch),
        doubles_at(scratch + step),
        doubles_at(scratch + 2 * step),
        doubles_at(scratch + 3 * step),
        doubles_at(scratch + 4 * step),
        doubles_at(scratch + 5 * step),
    )
    return lane, doubles_at(scratch + 6 * step)


@inlined
def _load_lane(order, num_slices, values, base, mass, masses, size, lane):
    """Returns the last element that has a mass."""
    cumulative, last = 0.0, 0
    for j in range(size):
        place = order[base + j * num_slices]
        own = mass[place]
        cumulative += own
        if own > 0:
            last = j
        lane.place[j] = place
        lane.value[j] = values[base + place * num_slices]
        lane.mass[j] = own
        lane.cumulative[j] = cumulative * masses.factor
        lane.grad_mass[j] = lane.grad_before[j] = 0
    # Not up to what another order of the sum has lost: an end is compared with these.
    for j in range(last, size):
        lane.cumulative[j] = masses.total * masses.factor
    return last


@inlined
def _above(lane, last, place, start):
    """The element that begins at or before this place and ends behind it."""
    while start < last and lane.cumulative[start] <= place:
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
def _begins_at(lane, last, place, column):
    """The element with mass that begins at this place, or the one that ends there."""
    if column == last or lane.cumulative[column] != place:
        return column
    j = column + 1
    while j < last and lane.mass[j] == 0:
        j += 1
    return j


@inlined
def _mean(lane, last, left, right, lower):
    """The mean over a window that begins in element ``lower``, and its last one."""
    mean, begin, j = 0.0, left, lower
    while True:
        end = right
        if j < last:
            end = min(lane.cumulative[j], right)
        share = (end - begin) / (right - left)
        if share > 0:  # also where a value without a share is infinite
            mean += lane.value[j] * share
        if end >= right:
            return mean, j
        begin = end
        j += 1


@inlined
def _add_gradients(job, lane, size, last, masses, grad_points, at):
    grad_total, grad_squares = 0.0, 0.0
    lower, before = 0, 0.0
    for r in range(job.num_inner):
        (
            left,
            right,
            left_by_total,
            right_by_total,
            left_by_squares,
            right_by_squares,
        ) = window(job, r, masses)
        if right <= left:  # a count that vanishes beside the total
            continue
        if left < before:  # levels come in any order
            lower = 0
        before = left
        lower = _above(lane, last, left, lower)
        point, upper = _mean(lane, last, left, right, lower)
        # With a little more mass, an element inside of the window pushes out the value
        # at its right end, and one before it moves the whole window. Where an end meets
        # that of an element, the mean of both sides counts.
        grad = grad_points[at + r] * masses.factor / (right - left)
        after_left, before_right = lane.value[lower], lane.value[upper]
        before_left = lane.value[_ends_at(lane, left, lower)]
        after_right = lane.value[_begins_at(lane, last, right, upper)]
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
    for j in range(size - 1, -1, -1):
        lane.grad_mass[j] += grad_total + 2 * lane.mass[j] * grad_squares
        grad_total += lane.grad_before[j]
        if lane.mass[j] == 0 and not np.isfinite(lane.value[j]):
            lane.grad_mass[j] = 0  # left out altogether


@Kernel
def mass_gradients(pointer):
    """Added up for reads that are means over windows. Each graph is done by one thread,
    with all its slices: sums have the same bits with any number of threads."""
    job = carray(pointer, 1, JOB)[0]
    ptr, order, values = longs_at(job.ptr), bits_at(job.order), floats_at(job.src)
    num_slices, grad, out = (
        job.num_slices,
        floats_at(job.out),
        doubles_at(job.grad_mass),
    )
    lane, scaled = _room(own_scratch(pointer, job), job.num_rows)
    item = next_item(pointer)
    while item < job.num_chunks:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, 1)
        for graph in range(part.first_graph, part.last_graph):
            start = ptr[graph]
            size = ptr[graph + 1] - start
            if size == 0:
                continue
            masses = load_masses(job, start, size, scaled)
            for i in range(num_slices):
                base = start * num_slices + i
                last = _load_lane(
                    order, num_slices, values, base, scaled, masses, size, lane
                )
                at = (graph * num_slices + i) * job.num_reads
                _add_gradients(job, lane, size, last, masses, grad, at)
                for j in range(size):
                    out[start + lane.place[j]] += lane.grad_mass[j] * masses.unit
        item = next_item(pointer)
