"""The kernels without masses: sort, then a linear map, or its transpose.

Graphs are taken in blocks of :obj:`~gswe_pyg.ops.numba.simd.LANES` slices. All
matrices are flat arrays here.
"""

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
    terms_of,
)
from gswe_pyg.ops.numba.simd import (
    LANES,
    TILE,
    converted,
    in_double,
    load,
    product,
    scatter_lanes,
    splat,
    store,
    transpose,
    transpose_back,
)
from gswe_pyg.ops.numba.sort import lanes_of_block, pack_block, sort_rows, unpack_row

# Rows ################################################################################


@inlined
def read_row(values, at, width, rows, to):
    if width == LANES:
        store(load(values, at), rows, to)
    else:
        for lane in range(width):
            rows[to + lane] = values[at + lane]


@inlined
def write_row(rows, at, width, out, to):
    if width == LANES:
        store(load(rows, at), out, to)
    else:
        for lane in range(width):
            out[to + lane] = rows[at + lane]


@inlined
def fill_with_zeros(out, start, count):
    for i in range(start, start + count):
        out[i] = 0


# From used values to points ###########################################################


@inlined
def interpolate(values, terms, row, num_points, points):
    """From used values ``[num_used, LANES]`` to points ``[num_points, LANES]``."""
    like = load(points, 0)
    for m in range(num_points):
        start = terms.first[row * num_points + m]
        end = terms.first[row * num_points + m + 1]
        total = _term(terms, start, values, terms.position[start], like)
        for t in range(start + 1, end):
            total = total + _term(terms, t, values, terms.position[t], like)
        store(total, points, m * LANES)


@inlined
def _term(terms, t, rows, row, like):
    """The weight of a term times a row, in the precision of another one."""
    value = converted(load(rows, row * LANES), like)
    return product(converted(splat(terms.weight[t]), like), value)


@inlined
def write_points(points, num_points, width, out, at):
    """Points ``[num_points, LANES]`` to ``[width, num_points]``."""
    num_tiled = num_points // TILE * TILE if width == LANES else 0
    for m in range(0, num_tiled, TILE):
        transpose(points, m * LANES, out, at + m, num_points)
    for lane in range(width):
        for m in range(num_tiled, num_points):
            out[at + lane * num_points + m] = points[m * LANES + lane]


@inlined
def finish(job, terms, row, graph, first, width, values, room):
    """From used values to points in the output."""
    num_reads = job.num_reads
    out, to = floats_at(job.out), (graph * job.num_slices + first) * num_reads
    if job.in_double:
        sums = doubles_at(room)
        interpolate(values, terms, row, num_reads, sums)
        write_points(sums, num_reads, width, out, to)
    else:
        points = floats_at(room)
        interpolate(values, terms, row, num_reads, points)
        write_points(points, num_reads, width, out, to)


@inlined
def read_points(points, at, num_points, width, rows):
    """Points ``[width, num_points]`` to ``[num_points, LANES]``."""
    num_tiled = num_points // TILE * TILE if width == LANES else 0
    for m in range(0, num_tiled, TILE):
        transpose_back(points, at + m, num_points, rows, m * LANES)
    for lane in range(width):
        for m in range(num_tiled, num_points):
            rows[m * LANES + lane] = points[at + lane * num_points + m]


@inlined
def finish_heads(job, terms, row, graph, first, width, values, room):
    """From used values to combinations of points in the output."""
    num_slices, num_reads, num_heads = job.num_slices, job.num_reads, job.num_heads
    sums, line = doubles_at(room), floats_at(room + 8 * LANES * num_reads)
    weight, out = floats_at(job.head_weight), floats_at(job.out)
    interpolate(values, terms, row, num_reads, sums)
    if job.points != 0:
        points = floats_at(job.points)
        for r in range(num_reads):
            to = (graph * num_reads + r) * num_slices + first
            write_row(sums, r * LANES, width, points, to)
    for h in range(num_heads):
        total, at = splat(0.0), h * num_reads * num_slices + first
        for r in range(num_reads):
            own = in_double(load(weight, at + r * num_slices))
            total = total + own * load(sums, r * LANES)
        store(total, line, 0)
        to = (graph * num_heads + h) * num_slices + first
        write_row(line, 0, width, out, to)


@inlined
def row_of_zeros(job, graph, first, width):
    """For an empty set."""
    if job.num_heads == 0:
        to = (graph * job.num_slices + first) * job.num_reads
        fill_with_zeros(floats_at(job.out), to, width * job.num_reads)
        return
    for h in range(job.num_heads):
        to = (graph * job.num_heads + h) * job.num_slices + first
        fill_with_zeros(floats_at(job.out), to, width)
    if job.points != 0:
        for r in range(job.num_reads):
            to = (graph * job.num_reads + r) * job.num_slices + first
            fill_with_zeros(floats_at(job.points), to, width)


# Kernels ##############################################################################


@inlined
def sort_and_finish(pointer, keys_at, finish):
    """Of the graphs that are not too large; keys of twice the width give the order."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, largest = job.num_slices, job.largest
    bits, order = bits_at(job.src), bits_at(job.order)
    ptr, rows, terms = longs_at(job.ptr), longs_at(job.rows), terms_of(job)
    scratch = own_scratch(pointer, job)
    keys = keys_at(scratch)
    used_at = scratch + 8 * LANES * job.num_rows
    used_bits, values = bits_at(used_at), floats_at(used_at)
    room = used_at + 4 * LANES * job.num_rows
    line = bits_at(room + LANES * (16 * job.num_reads + 32))
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start, row = ptr[graph], rows[graph]
            size = ptr[graph + 1] - start
            if size > largest:
                continue
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                if size == 0:
                    row_of_zeros(job, graph, first, width)
                    continue
                at = start * num_slices + first
                pack_block(bits, at, num_slices, size, width, keys, line)
                sort_rows(keys, size)
                begin, end = terms.first_used[row], terms.first_used[row + 1]
                for i in range(end - begin):
                    key_at = terms.used[begin + i] * LANES
                    to = at + i * num_slices
                    unpack_row(
                        keys, key_at, used_bits, i * LANES, order, to, width, line
                    )
                finish(job, terms, row, graph, first, width, values, room)
        item = next_item(pointer)


# Without closures, for which numba does not find compiled code again.


@Kernel
def quantile(pointer):
    sort_and_finish(pointer, bits_at, finish)


@Kernel
def quantile_and_order(pointer):
    sort_and_finish(pointer, longs_at, finish)


@Kernel
def heads(pointer):
    sort_and_finish(pointer, bits_at, finish_heads)


@Kernel
def heads_and_order(pointer):
    sort_and_finish(pointer, longs_at, finish_heads)


@Kernel
def apply(pointer):
    """The points of values in a given order."""
    job = carray(pointer, 1, JOB)[0]
    num_slices = job.num_slices
    src, order = floats_at(job.src), bits_at(job.order)
    ptr, rows, terms = longs_at(job.ptr), longs_at(job.rows), terms_of(job)
    scratch = own_scratch(pointer, job)
    values = floats_at(scratch)
    room = scratch + 12 * LANES * job.num_rows
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start, row = ptr[graph], rows[graph]
            is_empty = ptr[graph + 1] == start
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                if is_empty:
                    row_of_zeros(job, graph, first, width)
                    continue
                for i in range(terms.first_used[row + 1] - terms.first_used[row]):
                    at = (start + i) * num_slices + first
                    for lane in range(width):
                        place = (start + order[at + lane]) * num_slices + first + lane
                        values[i * LANES + lane] = src[place]
                finish(job, terms, row, graph, first, width, values, room)
        item = next_item(pointer)


@inlined
def read_gradients(job, item, graph, first, width, skipped, points, room):
    """Gradients of points ``[num_reads, LANES]``."""
    at = (graph * job.num_slices + first) * job.num_reads
    read_points(floats_at(job.out), at, job.num_reads, width, points)


@inlined
def read_gradients_of_heads(job, item, graph, first, width, skipped, points, room):
    """The same, from those of heads; those of the weights are added up."""
    num_slices, num_reads, num_heads = job.num_slices, job.num_reads, job.num_heads
    weight, grad = floats_at(job.head_weight), floats_at(room)
    for h in range(num_heads):
        at = (graph * num_heads + h) * num_slices + first
        read_row(floats_at(job.out), at, width, grad, 0)
        for r in range(num_reads):
            own = load(weight, (h * num_reads + r) * num_slices + first)
            own = product(load(grad, 0), own)
            if h > 0:
                own = load(points, r * LANES) + own
            store(own, points, r * LANES)
        if job.grad_head_weight == 0:
            continue
        kept, sums = floats_at(job.points), doubles_at(job.grad_head_weight)
        chunk = item // job.num_cuts
        for r in range(num_reads):
            at = (graph * num_reads + r) * num_slices + first
            to = ((chunk * num_heads + h) * num_reads + r) * num_slices + first
            if width == LANES and skipped == 0:
                own = product(in_double(load(grad, 0)), in_double(load(kept, at)))
                store(load(sums, to) + own, sums, to)
            else:
                for lane in range(skipped, width):
                    sums[to + lane] += np.float64(grad[lane]) * kept[at + lane]


@inlined
def scatter(used, stride, num_used, size, order, base, job, width, placed, out):
    """Brings gradients of used values, in rows ``stride`` apart, to their places."""
    num_slices = job.num_slices
    if size > job.num_rows:
        for place in range(size):
            fill_with_zeros(out, base + place * num_slices, width)
        for i in range(num_used):
            at = base + i * num_slices
            scatter_row(used, i * stride, order, at, width, out, base, num_slices)
        return
    # Side by side at first: the rows of the output are far from each other, and would
    # drive each other out of the cache.
    if num_used < size:
        fill_with_zeros(placed, 0, size * LANES)
    for i in range(num_used):
        at = base + i * num_slices
        scatter_row(used, i * stride, order, at, width, placed, 0, LANES)
    for place in range(size):
        write_row(placed, place * LANES, width, out, base + place * num_slices)


@inlined
def scatter_row(used, start, order, at, width, out, to, stride):
    """Writes the lanes of a row to the rows that an order says."""
    if width == LANES:
        scatter_lanes(used, start, order, at, out, to, stride)
    else:
        for lane in range(width):
            out[to + order[at + lane] * stride + lane] = used[start + lane]


@inlined
def read_and_scatter(pointer, read_gradients):
    """The transpose of :obj:`apply`, from gradients to those of the values."""
    job = carray(pointer, 1, JOB)[0]
    num_slices, num_reads = job.num_slices, job.num_reads
    out, order = floats_at(job.grad_src), bits_at(job.order)
    ptr, rows, terms = longs_at(job.ptr), longs_at(job.rows), terms_of(job)
    scratch = own_scratch(pointer, job)
    used = floats_at(scratch)
    placed = floats_at(scratch + 4 * LANES * job.num_rows)
    points = floats_at(scratch + 12 * LANES * job.num_rows)
    room = scratch + LANES * (12 * job.num_rows + 8 * num_reads)
    fill_with_zeros(points, 0, num_reads * LANES)  # lanes that are not there
    item = next_item(pointer)
    while item < job.num_chunks * job.num_cuts:
        part = part_of(item, job.num_sets, job.num_chunks, num_slices, job.num_cuts)
        for graph in range(part.first_graph, part.last_graph):
            start, row = ptr[graph], rows[graph]
            size = ptr[graph + 1] - start
            if size == 0:
                continue
            num_used = terms.first_used[row + 1] - terms.first_used[row]
            for block in range(part.first_slice, part.last_slice, LANES):
                first, width = lanes_of_block(block, part)
                read_gradients(
                    job, item, graph, first, width, block - first, points, room
                )
                if job.grad_src == 0:
                    continue
                for i in range(num_used * LANES):
                    used[i] = 0
                for m in range(num_reads):
                    begin = terms.first[row * num_reads + m]
                    end = terms.first[row * num_reads + m + 1]
                    for t in range(begin, end):
                        to = terms.position[t] * LANES
                        own = _term(terms, t, points, m, load(used, to))
                        store(load(used, to) + own, used, to)
                base = start * num_slices + first
                scatter(
                    used, LANES, num_used, size, order, base, job, width, placed, out
                )
        item = next_item(pointer)


@Kernel
def adjoint(pointer):
    read_and_scatter(pointer, read_gradients)


@Kernel
def heads_adjoint(pointer):
    read_and_scatter(pointer, read_gradients_of_heads)
