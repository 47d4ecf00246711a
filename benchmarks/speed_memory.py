"""``python -m benchmarks.speed_memory``: the peak memory of one call of a readout.

In a process of its own, because memory that an earlier call has left to the allocator
would not be counted.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed_contenders import CONTENDERS, prepare
from benchmarks.speed_shapes import Shape, make_batch
from benchmarks.speed_timing import obstacle

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(shape: Shape, name: str, threads: int, seed: int) -> dict[str, Any]:
    """A record with the most extra bytes at any time of a forward and backward pass."""
    record = {"shape": shape.as_dict(), "contender": name, "mode": "training"}
    if not CLEAR.exists():
        return record | {"skipped": "needs Linux"}
    reason = obstacle(CONTENDERS[name], shape, make_batch(shape, seed))
    if reason is not None:
        return record | {"skipped": reason}
    request = {**record, "threads": threads, "seed": seed}
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed_memory", json.dumps(request)],
        cwd=Path(__file__).resolve().parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return record | json.loads(answer.stdout.splitlines()[-1])


def _measure(request: dict[str, Any]) -> dict[str, int]:
    torch.set_num_threads(request["threads"])
    shape, name = Shape(**request["shape"]), request["contender"]
    readout = CONTENDERS[name].build(shape)
    # Threads, and what is imported late.
    small = replace(shape, graphs=4, nodes=20, large=0)
    prepare(name, readout, make_batch(small, request["seed"]), train=True)()
    batch = make_batch(shape, request["seed"])
    call = prepare(name, readout, batch, train=True)
    CLEAR.write_text("5")  # the peak starts from here
    before = _status("VmRSS")
    result = call()
    peak = _status("VmHWM") - before
    del result
    return {"peak_bytes": peak, "slice_bytes": batch.x.nbytes}


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"{STATUS} has no {field}")


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
