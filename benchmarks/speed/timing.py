"""Timing that is fair on a machine that is not quiet.

All contenders take turns in one process, in an order that is drawn anew every round:
what disturbs one disturbs all.
"""

import gc
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.benchmark import timer  # waits for what a GPU still has to do

from benchmarks.speed.contenders import CONTENDERS, Call, prepare
from benchmarks.speed.shapes import SEED, Shape, make_batch

#: More than the kernel remembers layouts of, as in training on shuffled data.
NUM_BATCHES = 16

MODES = ("forward", "training")

Record = dict[str, Any]
Turn = Callable[[int], Call]


def take_turns(
    turns: Mapping[Any, Turn], rounds: int, budget: float = math.inf
) -> dict[Any, list[float]]:
    """The seconds of each; a turn makes the call of a round, which is not timed.

    Slow ones sit out rounds, so as to fit into the budget of seconds, but take part in
    at least three.
    """
    every = {}
    for key, turn in turns.items():
        warm_up = min(_time(turn(-i)) for i in (1, 2))  # the first one may compile
        wanted = math.ceil(rounds * warm_up / budget)
        every[key] = max(1, min(wanted, math.ceil(rounds / 3)))
    seconds: dict[Any, list[float]] = {key: [] for key in turns}
    order = random.Random(0)
    for i in range(rounds):
        keys = [key for key in turns if i % every[key] == 0]
        order.shuffle(keys)
        for key in keys:
            seconds[key].append(_time(turns[key](i)))
    return seconds


def _time(call: Call) -> float:
    gc.disable()
    start = timer()
    result = call()
    seconds = timer() - start
    gc.enable()
    del result  # freeing it is not timed
    return seconds


def time_shape(
    shape: Shape, names: Iterable[str], rounds: int, budget: float, device: str
) -> Iterator[Record]:
    """The median time of each contender on a shape, in both modes."""
    batches = [make_batch(shape, SEED + i, device) for i in range(NUM_BATCHES)]
    torch.manual_seed(SEED)
    readouts: dict[str, Any] = {}
    for name in names:
        if reason := CONTENDERS[name].obstacle(shape):
            yield from (record(shape, name, mode, skipped=reason) for mode in MODES)
            continue
        readouts[name] = CONTENDERS[name].build(shape.slices, shape.points)
        if isinstance(readouts[name], torch.nn.Module):
            readouts[name].to(device)

    def turn(number: int, name: str, train: bool, i: int) -> Call:
        # The kernel must not meet a layout again that its neighbour has just made.
        batch = batches[(i + 5 * number) % NUM_BATCHES]
        return prepare(CONTENDERS[name], readouts[name], batch, train)

    for mode in MODES:
        train = mode == "training"
        turns = {name: partial(turn, k, name, train) for k, name in enumerate(readouts)}
        for name, seconds in take_turns(turns, rounds, budget).items():
            yield record(shape, name, mode, seconds)


def record(
    case: object, contender: str, mode: str, seconds: Sequence[float] = (), **more: Any
) -> Record:
    """One line of the results; all parts have these columns."""
    line = {"case": str(case), "contender": contender, "mode": mode}
    if seconds:
        low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
        line |= {"seconds": middle, "quartiles": [low, high]}
        line["repetitions"] = len(seconds)
    return line | more
