"""Timing that is fair on a machine that is not quiet.

All contenders take turns in one process, in an order that is drawn anew every round:
what disturbs one disturbs all. Each round has another batch, of which there are more
than the kernel remembers layouts of, as in training on shuffled data.
"""

import gc
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any

import psutil
import torch
from tqdm import tqdm

from benchmarks.speed_contenders import CONTENDERS, FLOORS, Contender, prepare
from benchmarks.speed_shapes import Batch, Shape, make_batch

NUM_BATCHES = 16

#: No contender gets more memory than this, nor more rounds once it took so long.
MAX_BYTES = 8 << 30
MAX_SECONDS = 5.0

MODES = ("forward", "training")

Record = dict[str, Any]


def time_shape(
    shape: Shape, names: Iterable[str], rounds: int, budget: float, seed: int
) -> Iterator[Record]:
    """The median time of each contender, in both modes.

    Those that are slow take part in as many rounds, evenly spread, as fit into the
    budget of seconds, but in three at least.
    """
    batches = [make_batch(shape, 1000 * seed + i) for i in range(NUM_BATCHES)]
    torch.manual_seed(seed)
    readouts = {}
    for name in names:
        reason = obstacle(CONTENDERS[name], shape, batches[0])
        if reason is None:
            build = CONTENDERS[name].build
            readouts[name] = None if name in FLOORS else build(shape)
        else:
            for mode in MODES:
                yield _record(shape, name, mode, skipped=reason)
    for mode in MODES:
        seconds = _time_rounds(readouts, batches, mode == "training", rounds, budget)
        for name, values in seconds.items():
            yield _record(shape, name, mode, **_summary(values))


def obstacle(contender: Contender, shape: Shape, batch: Batch) -> str | None:
    """Why a contender cannot be timed on a shape."""
    if not contender.is_installed:
        return "not installed"
    num_bytes = contender.num_bytes(batch)
    if num_bytes > MAX_BYTES:
        return f"needs {num_bytes / 2**30:.0f} GB"
    if contender.is_too_slow(shape):
        return f"not run, estimated over {MAX_SECONDS:.0f} s"
    return None


def _time_rounds(
    readouts: dict[str, Any],
    batches: list[Batch],
    train: bool,
    rounds: int,
    budget: float,
) -> dict[str, list[float]]:
    turns, seconds = {}, {}
    for name, readout in readouts.items():
        # The first call may have to compile.
        warm_up = min(_time(name, readout, batch, train) for batch in batches[-2:])
        turns[name] = max(min(3, rounds), min(rounds, int(budget / warm_up)))
        seconds[name] = []
        if warm_up > MAX_SECONDS:
            turns[name], seconds[name] = 0, [warm_up]
    # The kernel must not meet a layout again that its neighbour has just made.
    shifts = {name: i % 2 * len(batches) // 2 for i, name in enumerate(readouts)}
    order = random.Random(0)
    for i in range(rounds):
        names = [
            name
            for name, count in turns.items()
            if (i + 1) * count // rounds > i * count // rounds
        ]
        order.shuffle(names)
        for name in names:
            batch = batches[(i + shifts[name]) % len(batches)]
            seconds[name].append(_time(name, readouts[name], batch, train))
    return seconds


def _time(name: str, readout: Any, batch: Batch, train: bool) -> float:
    call = prepare(name, readout, batch, train)
    with no_garbage_collection():
        start = time.perf_counter()
        result = call()
        end = time.perf_counter()
    del result
    return end - start


def bar(items: Sequence[Any], label: str, unit: str) -> Iterable[Any]:
    """A progress bar; in a log file it is written seldom."""
    interval = 0.2 if sys.stderr.isatty() else 30
    return tqdm(items, desc=label, unit=unit, mininterval=interval)


class Bystanders:
    """How much of the processors other processes take, from now on.

    Where that is much, those that use many threads suffer more than those that use
    one: better to measure again.
    """

    def __init__(self) -> None:
        self.start, self.busy = time.perf_counter(), self._busy_seconds()

    def share(self) -> float:
        busy = self._busy_seconds() - self.busy
        wall = time.perf_counter() - self.start
        return max(0.0, busy / (wall * psutil.cpu_count()))

    @staticmethod
    def _busy_seconds() -> float:
        everyone = psutil.cpu_times()
        idle = everyone.idle + getattr(everyone, "iowait", 0.0)
        return sum(everyone) - idle - time.process_time()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _summary(seconds: list[float]) -> Record:
    low = high = seconds[0]
    if len(seconds) > 1:
        low, _, high = quantiles(seconds, n=4, method="inclusive")
    return {
        "seconds": median(seconds),
        "quartiles": [low, high],
        "repetitions": len(seconds),
    }


def _record(shape: Shape, name: str, mode: str, **result: Any) -> Record:
    return {"shape": shape.as_dict(), "contender": name, "mode": mode, **result}
