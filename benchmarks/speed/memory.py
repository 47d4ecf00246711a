"""The peak memory of one call of a readout, in a process of its own: memory that an
earlier call has left to the allocator would not be counted."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.shapes import Shape, make_batch
from benchmarks.speed.timing import Record, record

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(shape: Shape, name: str, seed: int) -> Record:
    """A record with the most extra bytes at any time of a forward and backward pass."""
    reason = CONTENDERS[name].obstacle(make_batch(shape, seed), shape)
    if not CLEAR.exists():
        reason = "needs Linux"
    if reason is not None:
        return record(shape, name, "training", skipped=reason)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        threads = torch.get_num_threads()
        found = executor.submit(_measure, shape, name, threads, seed).result()
    return record(shape, name, "training", **found)


def _measure(shape: Shape, name: str, threads: int, seed: int) -> dict[str, int]:
    torch.set_num_threads(threads)
    contender = CONTENDERS[name]
    readout = contender.build(shape)
    # Threads, and what is imported late.
    small = make_batch(replace(shape, graphs=4, nodes=20, large=0), seed)
    prepare(contender, readout, small, train=True)()
    batch = make_batch(shape, seed)
    call = prepare(contender, readout, batch, train=True)
    CLEAR.write_text("5")  # the peak starts from here
    before = status("VmRSS")
    result = call()
    peak = status("VmHWM") - before
    del result
    return {"peak_bytes": peak, "slice_bytes": batch.x.nbytes}


def status(field: str) -> int:
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(fields[field].split()[0])
