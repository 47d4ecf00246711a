"""The first call in a process: kernels are compiled, or come from the disk."""

import os
from collections.abc import Iterator
from itertools import product
from tempfile import TemporaryDirectory
from time import perf_counter
from unittest.mock import patch

from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.memory import alone
from benchmarks.speed.shapes import SMALL, make_batch
from benchmarks.speed.timing import MODES, Record, record

NAMES = ("segment_quantile", "segment_quantile_weights", "gswe_heads1")


def first_call() -> Iterator[Record]:
    for name, mode in product(NAMES, MODES):
        with TemporaryDirectory() as folder:
            there = {"NUMBA_CACHE_DIR": folder}  # numba looks when it is imported
            for case in ("nothing compiled", "compiled before"):
                with patch.dict(os.environ, there):
                    seconds = alone(_measure, name, mode)
                yield record(case, name, mode, [seconds])


def _measure(name: str, mode: str) -> float:
    """The seconds of a call in a fresh process, without those of importing PyTorch."""
    readout = CONTENDERS[name].build(SMALL.slices, SMALL.points)
    batch = make_batch(SMALL)
    call = prepare(CONTENDERS[name], readout, batch, train=mode == "training")
    start = perf_counter()
    call()
    return perf_counter() - start
