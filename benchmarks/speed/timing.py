"""Timing that is fair on a machine that is not quiet.

All contenders take turns in one process, in an order that is drawn anew every round:
what disturbs one disturbs all.
"""

import gc
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


def take_turns(turns: Mapping[Any, Turn], rounds: int) -> dict[Any, list[float]]:
    """The seconds of each; a turn makes the call of a round, which is not timed."""
    for turn in turns.values():
        _time(turn(-1))  # may compile
    seconds: dict[Any, list[float]] = {key: [] for key in turns}
    order = random.Random(0)
    for i in range(rounds):
        for key in order.sample(list(turns), len(turns)):
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
    shape: Shape, names: Iterable[str], rounds: int, device: str
) -> Iterator[Record]:
    """The median time of each contender on a shape, in both modes."""
    batches = [make_batch(shape, SEED + i, device) for i in range(NUM_BATCHES)]
    torch.manual_seed(SEED)
    readouts: dict[str, Any] = {}
    for name in names:
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
        for name, seconds in take_turns(turns, rounds).items():
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
