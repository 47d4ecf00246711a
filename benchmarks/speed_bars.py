"""The bars that the engine has to reach, judged from results on file."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.speed_contenders import (
    OURS,
    PADDED,
    QUANTILE,
    SET_TRANSFORMER,
    SORT_FLOOR,
)
from benchmarks.speed_shapes import GROWTH, Shape
from benchmarks.speed_timing import MODES, Record

#: How many times as long the others take at least, forward and in training.
FASTER = {
    QUANTILE: ("PyG QuantileAggregation", 20, 10),
    PADDED: ("padded torch.sort", 6, 3),
    SET_TRANSFORMER: ("PyG SetTransformerAggregation", 20, 20),
}

#: How many times as long as the floor we take at most.
ABOVE_FLOOR = (2, 5)

#: What a median on a busy machine is trusted with.
NOISE = 1.1


class Bar(NamedTuple):
    name: str
    demand: str
    result: str
    is_reached: bool


def bars(results: dict[str, Any]) -> Iterator[Bar]:
    """All bars that the results can be held against."""
    if "shapes" in results:
        for column, mode in enumerate(MODES):
            records = [r for r in results["shapes"]["records"] if r["mode"] == mode]
            yield from _time_bars(records, mode, column)
    if "memory" in results:
        for r in results["memory"]["records"]:
            if r["contender"] == OURS and r["shape"]["large"] and "skipped" not in r:
                extra = r["peak_bytes"] / r["slice_bytes"]
                name = "peak extra memory, skewed batch, training"
                yield Bar(name, "<= 6x slices", f"{extra:.1f}x", extra <= 6)
    if "growth" in results:
        for mode in MODES:
            records = [r for r in results["growth"]["records"] if r["mode"] == mode]
            worst = max(
                growth(records, GROWTH[axis]) for axis in ("nodes", "graphs", "slices")
            )
            name = f"worst step against N L log n, {mode}"
            yield Bar(name, f"<= {NOISE}x", f"{worst:.2f}x", worst <= NOISE)
    if "end_to_end" in results:
        yield from _epoch_bars(results["end_to_end"]["records"])


def _time_bars(records: list[Record], mode: str, column: int) -> Iterator[Bar]:
    for other, (label, *least) in FASTER.items():
        ratio = geometric_mean(ratios(records, other))
        demand = f">= {least[column]}x faster"
        yield Bar(f"{label}, {mode}", demand, f"{ratio:.1f}x", ratio >= least[column])
    above = 1 / geometric_mean(ratios(records, SORT_FLOOR))
    most = ABOVE_FLOOR[column]
    name = f"floor (numpy.sort, one thread), {mode}"
    yield Bar(name, f"<= {most}x of it", f"{above:.2f}x", above <= most)
    slowest = min(ratios(records, PADDED))
    name = f"padded torch.sort, worst shape, {mode}"
    yield Bar(name, ">= 1x faster", f"{slowest:.1f}x", slowest >= 1)


def _epoch_bars(records: list[Record]) -> Iterator[Bar]:
    epochs = {
        (r["hidden"], r["batch_size"], r["readout"]): r["epoch_seconds"]
        for r in records
    }
    for (hidden, batch_size, readout), seconds in epochs.items():
        if readout == "gswe":
            ratio = seconds / epochs[hidden, batch_size, "mean"]
            name = f"GIN epoch, {hidden} channels, batches of {batch_size}"
            yield Bar(name, "<= 1.15x of mean", f"{ratio:.3f}x", ratio <= 1.15)


def ratios(records: list[Record], name: str) -> list[float]:
    """How many times as long as ours another takes, on each shape that it can do."""
    seconds = {
        (Shape(**r["shape"]), r["contender"]): r["seconds"]
        for r in records
        if "skipped" not in r
    }
    shapes = [shape for shape, contender in seconds if contender == name]
    return [seconds[shape, name] / seconds[shape, OURS] for shape in shapes]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def growth(records: list[Record], shapes: Sequence[Shape]) -> float:
    """The step of a series at which our time outgrows the sort's own work the most.

    From end to end, what a call costs at least would hide how the rest grows.
    """
    seconds = {
        Shape(**r["shape"]): r["seconds"] for r in records if r["contender"] == OURS
    }
    return max(
        seconds[after] / seconds[before] / (_work(after) / _work(before))
        for before, after in pairwise(shapes)
    )


def _work(shape: Shape) -> float:
    return shape.graphs * shape.nodes * shape.slices * math.log2(shape.nodes)
