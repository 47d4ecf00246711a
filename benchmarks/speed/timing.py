"""Timing that is fair on a machine that is not quiet.

All contenders take turns in one process, in an order that is drawn anew every round:
what disturbs one disturbs all.
"""

import gc
import math
import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.shapes import Shape, make_batch

#: More than the kernel remembers layouts of, as in training on shuffled data.
NUM_BATCHES = 16

#: What takes longer is called no more than the two times that warm it up.
MAX_SECONDS = 5.0

MODES = ("forward", "training")

Record = dict[str, Any]
Call = Callable[[], object]
Turn = Callable[[int], Call]
Key = TypeVar("Key", bound=Hashable)


def take_turns(
    turns: Mapping[Key, Turn],
    rounds: int,
    budget: float = math.inf,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Key, list[float]]:
    """The seconds of each; a turn makes the call of a round, which is not timed.

    Those that are slow take part in as many rounds, evenly spread, as fit into the
    budget of seconds, but in three at least.
    """
    seconds: dict[Key, list[float]] = {}
    counts: dict[Key, int] = {}
    for key, turn in turns.items():
        # The first call may have to compile.
        warm_up = min(_time(turn(-i), device, clock) for i in (1, 2))
        seconds[key], counts[key] = [warm_up], 0
        if warm_up <= MAX_SECONDS:
            counts[key] = max(min(3, rounds), int(min(rounds, budget / warm_up)))
            seconds[key] = []
    order = random.Random(0)
    for i in range(rounds):
        keys = [k for k, n in counts.items() if (i + 1) * n // rounds > i * n // rounds]
        order.shuffle(keys)
        for key in keys:
            seconds[key].append(_time(turns[key](i), device, clock))
    return seconds


def _time(call: Call, device: str, clock: Callable[[], float]) -> float:
    gc.disable()
    try:
        _synchronize(device)
        start = clock()
        result = call()
        _synchronize(device)
        end = clock()
    finally:
        gc.enable()
    del result
    return end - start


def _synchronize(device: str) -> None:
    """A device works on after the call has come back."""
    if device != "cpu":
        torch.accelerator.synchronize()


def time_shape(
    shape: Shape,
    names: Iterable[str],
    rounds: int,
    budget: float,
    seed: int,
    device: str = "cpu",
) -> Iterator[Record]:
    """The median time of each contender on a shape, in both modes."""
    seeds = range(1000 * seed, 1000 * seed + NUM_BATCHES)
    batches = [make_batch(shape, i).to(device) for i in seeds]
    torch.manual_seed(seed)
    readouts = {}
    for name in names:
        if reason := CONTENDERS[name].obstacle(batches[0], shape):
            for mode in MODES:
                yield record(shape, name, mode, skipped=reason)
            continue
        readouts[name] = CONTENDERS[name].build(shape)
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


def skipped(case: str, contenders: Iterable[str]) -> Iterator[Record]:
    """Records of what cannot be trained here."""
    for name in contenders:
        yield record(case, name, "training", skipped="no data")


def training_turn(
    model: torch.nn.Module,
    loss: Callable[[torch.nn.Module, Any], torch.Tensor],
    batches: Sequence[Any],
    **options: Any,
) -> Turn:
    """In each round a step of Adam on the next batch."""
    optimizer = torch.optim.Adam(model.parameters(), **options)

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()

    return lambda i: lambda: step(batches[i % len(batches)])
