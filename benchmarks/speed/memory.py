"""Peak memory, each in a process of its own: what an earlier call has left to the
allocator would not be counted. Needs Linux."""

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.speed.contenders import CONTENDERS, Call, prepare
from benchmarks.speed.shapes import Shape, make_batch
from benchmarks.speed.timing import Record, record

PROCESS = Path("/proc/self")


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a fresh process, with as many threads as here."""
    context, threads = get_context("spawn"), torch.get_num_threads()
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (threads,)) as executor:
        return executor.submit(function, *arguments).result()


def peak_bytes(call: Call) -> int:
    """The most extra bytes at any time of a call."""
    (PROCESS / "clear_refs").write_text("5")  # the peak starts from here
    before = psutil.Process().memory_info().rss
    result = call()  # is alive when the peak is read
    status = (PROCESS / "status").read_text()
    del result
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) - before


def peak_memory(shape: Shape, name: str) -> Record:
    """Of a forward and backward pass of a contender."""
    return record(shape, name, "training", **alone(_measure, shape, name))


def _measure(shape: Shape, name: str) -> Record:
    contender = CONTENDERS[name]
    readout = contender.build(shape.slices, shape.points)
    # Threads, and what is imported late.
    small = make_batch(replace(shape, graphs=4, nodes=20, large=0))
    prepare(contender, readout, small, train=True)()
    batch = make_batch(shape)
    call = prepare(contender, readout, batch, train=True)
    return {"slice_bytes": batch.x.nbytes, "peak_bytes": peak_bytes(call)}
