"""A grid that is killed.

Both workers of `python -m benchmarks run` are killed (SIGKILL) at random moments: every
other time while they start, otherwise after a run was recorded; every fourth time with
their parent. Then the same command is started again, at last without killing anybody.
"""

import itertools
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress

import psutil
import pytest
from terminal import start_python

from benchmarks.engine import records

FULL = {"kills": 20, "seeds": 100, "epochs": 8}
FULL |= {"start_window": 6.0, "work_window": 1.5}
SMALL = {"kills": 2, "seeds": 6, "epochs": 2, "start_window": 1.0, "work_window": 0.1}

READOUTS = ("mean", "gswe_linear")

#: What a command without kills may take.
MAX_SECONDS = 900


@pytest.mark.filterwarnings("ignore:left out the damaged last line")
def test_nothing_is_lost_and_nothing_done_twice(sizes, seed, measure, tmp_path):
    expected = set(itertools.product(READOUTS, range(sizes["seeds"])))
    moments = random.Random(seed)
    kills = starts = lost = 0
    on_file = Counter()
    while kills < sizes["kills"] and len(on_file) < len(expected):
        process = start_grid(sizes, tmp_path)
        workers = wait(process, lambda p=process: workers_of(p)) or []
        at_work = starts % 2 == 1
        if at_work:
            number = on_file.total()
            wait(process, lambda n=number: runs(tmp_path).total() > n)
        window = sizes["work_window" if at_work else "start_window"]
        kills += kill(process, workers, window, moments, with_parent=starts % 4 == 3)
        starts += 1
        before, on_file = on_file, runs(tmp_path)
        lost += len(before.keys() - on_file.keys())
    start_grid(sizes, tmp_path).wait(MAX_SECONDS)
    found = runs(tmp_path)
    of = f"of {len(expected)}"
    measure("kills", kills, None, f"in {starts} starts")
    measure("runs on file before the last start", len(on_file), None, of)
    measure("kills short of the plan", max(0, sizes["kills"] - kills), 0)
    measure("runs that were on file and no longer are", lost, 0)
    measure("runs recorded twice", found.total() - len(found), 0)
    measure("runs missing", len(expected - found.keys()), 0, of)
    measure("runs that nobody asked for", len(found.keys() - expected), 0)


def start_grid(sizes, folder):
    arguments = [f"readout=[{','.join(READOUTS)}]", "loss=simsiam", "points=2"]
    arguments += [f"{name}={sizes[name]}" for name in ("seeds", "epochs")]
    arguments += ["train_sets=60", "test_sets=40", f"results={folder}", "workers=2"]
    options = {"stdout": subprocess.DEVNULL, "OMP_NUM_THREADS": "1"}
    return start_python("-m", "benchmarks", "run", "set_circles", *arguments, **options)


def runs(folder):
    """How often each run is on file, but for one that is just being written."""
    found = records.read(folder / "set_circles.jsonl")
    return Counter((record["config"]["readout"], record["seed"]) for record in found)


def wait(process, condition):
    """What a condition gives as soon as it gives something, or the process ends."""
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if found := condition():
            return found
        time.sleep(0.02)
    return None


def workers_of(process):
    """Both workers, or none; joblib also starts processes that track resources."""
    found = []
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.Error):
            if "LokyProcess" in " ".join(child.cmdline()):
                found.append(child)
    return found if len(found) == 2 else []


def kill(process, workers, window, moments, with_parent):
    """Kills the workers at moments of their own; returns how many it met alive."""
    start, killed = time.monotonic(), 0
    for moment in sorted(moments.uniform(0, window) for _ in workers):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        alive = [worker for worker in workers if is_alive(worker)]
        if alive and with_parent:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return killed + len(alive)
        for worker in alive[:1]:
            worker.kill()
            killed += 1
    process.wait(MAX_SECONDS)
    return killed


def is_alive(process):
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
