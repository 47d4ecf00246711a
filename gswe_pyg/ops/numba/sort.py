"""A sorting network over rows: what is done to a row is done to all its lanes.

A block of a graph is a small matrix of keys in the cache, ``[num_rows, LANES]``, with a
row for each element and a lane for each slice.
"""

from gswe_pyg.ops.numba.compiling import optimized
from gswe_pyg.ops.numba.simd import (
    LANES,
    cross_4,
    exchange,
    halve_4,
    halve_8,
    last_key,
    pack_keys,
    sort_8,
    unpack_keys,
)

# Keys that fit into the first cache, with room beside them.
_RUN_BYTES = 1 << 15


@optimized
def sort_rows(keys, num_rows):
    """A bitonic sort of rows: the same comparisons for all lanes.

    Rows are added until there are eight in each run, and stay behind all others. Runs
    that fit into the first cache are sorted one by one, before they are merged.
    """
    end = _num_key_rows(num_rows)
    last = last_key(keys)
    for i in range(num_rows * LANES, end * LANES):
        keys[i] = last
    run = _RUN_BYTES // (LANES * keys.itemsize)
    num_runs = (end + run - 1) // run
    for i in range(num_runs + (num_runs > 1)):
        first, stop, length = i * run, min((i + 1) * run, end), 8
        if i < num_runs:
            for row in range(first, stop, 8):
                sort_8(keys, _eight_rows(row))
        else:
            first, stop, length = 0, end, run
        while length < stop - first:
            for start in range(first, stop - length, 2 * length):
                _merge(keys, start, length, min(start + 2 * length, stop), run)
            length *= 2


@optimized
def _merge(keys, start, length, stop, run):
    """Two sorted runs, of which the second may be shorter."""
    _cross(keys, start, length, stop)
    distance = length // 4 if length > 8 else 0
    while 2 * distance > run:
        _halve_twice(keys, start, distance, stop)
        distance //= 4
    for first in range(start, stop, run):
        end, own = min(first + run, stop), distance
        while own >= 16:
            _halve_twice(keys, first, own, end)
            own //= 4
        if own == 8:
            _halve(keys, first, end)
        for row in range(first, end, 8):
            halve_8(keys, _eight_rows(row))


@optimized
def _cross(keys, start, length, stop):
    """Compares two sorted runs, the second backwards, and halves of the results."""
    last = start + 2 * length - 1
    if length == 8:
        for row in range(last + 1 - stop, 8):
            exchange(keys, ((start + row) * LANES, (last - row) * LANES))
        return
    half = length // 2
    for i in range(half):
        a, b, c, d = start + i, start + i + half, last - i - half, last - i
        if d < stop:
            cross_4(keys, (a * LANES, b * LANES, c * LANES, d * LANES))
        else:
            if c < stop:
                exchange(keys, (b * LANES, c * LANES))
            exchange(keys, (a * LANES, b * LANES))


@optimized
def _halve_twice(keys, start, distance, stop):
    """Compares rows of this distance, and then of half of it."""
    half = distance // 2
    for first in range(start, stop, 2 * distance):
        for a in range(first, first + half):
            b, c, d = a + half, a + distance, a + distance + half
            if d < stop:
                halve_4(keys, (a * LANES, b * LANES, c * LANES, d * LANES))
            else:
                if c < stop:
                    exchange(keys, (a * LANES, c * LANES))
                if b < stop:
                    exchange(keys, (a * LANES, b * LANES))


@optimized
def _halve(keys, start, stop):
    """Compares rows of distance eight."""
    for first in range(start, stop - 8, 16):
        for row in range(first, first + 8):
            exchange(keys, (row * LANES, (row + 8) * LANES))


@optimized
def lanes_of_block(block, part):
    """The first slice and the width of a block: a full one, if need be by doing some
    slices of the block before it once more."""
    first = max(part.first_slice, min(block, part.last_slice - LANES))
    return first, min(LANES, part.last_slice - first)


@optimized
def fill_line(bits, at, width, line):
    """Lanes that are not there are those of the first one."""
    for lane in range(LANES):
        line[lane] = bits[at + (lane if lane < width else 0)]


@optimized
def pack_row(bits, at, keys, to, place, width, line):
    if width == LANES:
        pack_keys(bits, at, keys, to, place)
    else:
        fill_line(bits, at, width, line)
        pack_keys(line, 0, keys, to, place)


@optimized
def pack_block(bits, at, num_slices, size, width, keys, line):
    for place in range(size):
        source = at + place * num_slices
        pack_row(bits, source, keys, place * LANES, place, width, line)


@optimized
def unpack_row(keys, at, bits, to, order, place_to, width, line):
    if width == LANES:
        unpack_keys(keys, at, bits, to, order, place_to)
    else:
        unpack_keys(keys, at, bits, to, line, 0)
        if keys.itemsize == 8:
            for lane in range(width):
                order[place_to + lane] = line[lane]


def num_key_rows(num_rows):
    return (num_rows + 7) // 8 * 8


_num_key_rows = optimized(num_key_rows)  # for kernels


@optimized
def _eight_rows(row):
    at = row * LANES
    return (
        at,
        at + LANES,
        at + 2 * LANES,
        at + 3 * LANES,
        at + 4 * LANES,
        at + 5 * LANES,
        at + 6 * LANES,
        at + 7 * LANES,
    )
