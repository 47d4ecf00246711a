"""Timing that is fair on a machine that is not quiet.

All contenders take turns in one process, in an order that is drawn anew every round:
what disturbs one disturbs all.
"""

import gc
import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.speed.contenders import CONTENDERS, Call, prepare
from benchmarks.speed.shapes import SEED, Shape, make_batch

#: More than the kernel remembers layouts of, as in training on shuffled data.
NUM_BATCHES = 16

#: What takes longer is called no more than the two times that warm it up.
MAX_SECONDS = 5.0

MODES = ("forward", "training")

Record = dict[str, Any]
Turn = Callable[[int], Call]
Key = TypeVar("Key", bound=Hashable)


def take_turns(
    turns: Mapping[Key, Turn],
    rounds: int,
    budget: float = math.inf,
    device: str = "cpu",
) -> dict[Key, list[float]]:
    """The seconds of each; a turn makes the call of a round, which is not timed.

    Those that are slow take part in as many rounds, evenly spread, as fit into the
    budget of seconds, but in three at least.
    """
    seconds: dict[Key, list[float]] = {}
    counts: dict[Key, int] = {}
    for key, turn in turns.items():
        # The first call may have to compile.
        warm_up = min(_time(turn(-i), device) for i in (1, 2))
        seconds[key], counts[key] = [warm_up], 0
        if warm_up <= MAX_SECONDS:
            counts[key] = max(min(3, rounds), int(min(rounds, budget / warm_up)))
            seconds[key] = []
    order = random.Random(0)
    for i in range(rounds):
        keys = [k for k, n in counts.items() if (i + 1) * n // rounds > i * n // rounds]
        order.shuffle(keys)
        for key in keys:
            seconds[key].append(_time(turns[key](i), device))
    return seconds


def _time(call: Call, device: str) -> float:
    # A device works on after the call has come back.
    wait = torch.accelerator.synchronize if device != "cpu" else lambda: None
    gc.disable()
    try:
        wait()
        start = perf_counter()
        result = call()
        wait()
        seconds = perf_counter() - start
    finally:
        gc.enable()
    del result
    return seconds


def time_shape(
    shape: Shape, names: Iterable[str], rounds: int, budget: float, device: str
) -> Iterator[Record]:
    """The median time of each contender on a shape, in both modes."""
    seeds = range(1000 * SEED, 1000 * SEED + NUM_BATCHES)
    batches = [make_batch(shape, seed, device) for seed in seeds]
    torch.manual_seed(SEED)
    readouts: dict[str, Any] = {}
    for name in names:
        if reason := CONTENDERS[name].obstacle(shape):
            yield from (record(shape, name, mode, skipped=reason) for mode in MODES)
            continue
        readouts[name] = CONTENDERS[name].build(shape.slices, shape.points)
        if isinstance(readouts[name], torch.nn.Module):
            readouts[name].to(device)

    def make_turn(number: int, name: str, train: bool) -> Turn:
        # The kernel must not meet a layout again that its neighbour has just made.
        def turn(i: int) -> Call:
            batch = batches[(i + 5 * number) % NUM_BATCHES]
            return prepare(CONTENDERS[name], readouts[name], batch, train)

        return turn

    for mode in MODES:
        turns = {n: make_turn(i, n, mode == "training") for i, n in enumerate(readouts)}
        for name, values in take_turns(turns, rounds, budget, device).items():
            yield record(shape, name, mode, values)


def record(
    case: str | Shape,
    contender: str,
    mode: str,
    seconds: list[float] | None = None,
    **more: Any,
) -> Record:
    """One line of the results; all parts have these columns."""
    line = {"case": str(case), "contender": contender, "mode": mode}
    if seconds:
        low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
        line |= {"seconds": middle, "quartiles": [low, high]}
        line["repetitions"] = len(seconds)
    return line | more
