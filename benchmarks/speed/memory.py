"""Peak memory, each in a process of its own: what an earlier call has left to the
allocator would not be counted. Needs Linux."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.shapes import Shape, make_batch
from benchmarks.speed.timing import Record, record

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a fresh process, with as many threads as here."""
    context, threads = get_context("spawn"), torch.get_num_threads()
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (threads,)) as executor:
        return executor.submit(function, *arguments).result()


def status(field: str) -> int:
    """Bytes: ``VmRSS`` is what the process has now, ``VmHWM`` the peak."""
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(fields[field].split()[0])


@contextmanager
def peak(found: Record) -> Iterator[None]:
    """Adds the most extra bytes at any time of what is done inside."""
    CLEAR.write_text("5")  # the peak starts from here
    before = status("VmRSS")
    yield
    found["peak_bytes"] = status("VmHWM") - before


def peak_memory(shape: Shape, name: str) -> Record:
    """Of a forward and backward pass of a contender."""
    reason = CONTENDERS[name].obstacle(shape)
    found = {"skipped": reason} if reason else alone(_measure, shape, name)
    return record(shape, name, "training", **found)


def _measure(shape: Shape, name: str) -> Record:
    contender = CONTENDERS[name]
    readout = contender.build(shape.slices, shape.points)
    # Threads, and what is imported late.
    small = make_batch(replace(shape, graphs=4, nodes=20, large=0))
    prepare(contender, readout, small, train=True)()
    batch = make_batch(shape)
    call = prepare(contender, readout, batch, train=True)
    found = {"slice_bytes": batch.x.nbytes}
    with peak(found):
        result = call()  # is alive when the peak is read
    del result
    return found
