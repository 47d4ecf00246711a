"""A grid of experiments whose workers are killed again and again."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks import config as configs
from benchmarks import records
from benchmarks.reliability.check import ROOT, Check, Others, check
from benchmarks.speed_timing import bar

TITLE = "A grid that is killed"
ABOUT = (
    "`python -m benchmarks run` with two workers on a grid of small runs. Each worker "
    "is killed (SIGKILL) at a random moment of its own, every fourth time together with "
    "the process that started it; then the same command is started again, at last "
    "without killing anybody."
)
FULL = {"kills": 20, "seeds": 60, "epochs": 8, "window": 9.0}
SMALL = {"kills": 2, "seeds": 6, "epochs": 2, "window": 6.0}

#: What the last, undisturbed command may take.
MAX_SECONDS = 900


def measure(config: dict, seed: int) -> Iterator[Check]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _checks(config, seed, Path(folder))


def _checks(config: dict, seed: int, folder: Path) -> Iterator[Check]:
    arguments = ["readout=[mean,gswe_linear]", "loss=simsiam", "points=2"]
    arguments += [f"seeds={config['seeds']}", f"epochs={config['epochs']}"]
    arguments += ["train_sets=60", "test_sets=40", f"results={folder}", "workers=2"]
    plan = configs.load("set_circles", arguments)
    moments = random.Random(seed)
    kills, before, at_work = 0, 0, 0
    progress = bar(range(config["kills"]), "killed_grid", "kill")
    while kills < config["kills"]:
        process = _start(arguments)
        with_parent = kills % 4 == 3
        killed = _kill_workers(process, config["window"], moments, with_parent)
        kills += killed
        progress.update(killed)
        done = len(_ids(plan.results))
        at_work += done > before
        before = done
    progress.close()
    process = _start(arguments)
    process.wait(timeout=MAX_SECONDS)
    found = _ids(plan.results)
    expected = {plan.identifier(run) for run in plan.runs}
    yield check("kills", kills)
    yield check("starts that had recorded runs when they were killed", at_work)
    yield check(
        "runs on file before the last start", before, None, f"of {len(expected)}"
    )
    yield check("runs recorded twice", len(found) - len(set(found)), 0)
    yield check("runs missing", len(expected - set(found)), 0, f"of {len(expected)}")
    yield check("runs that nobody asked for", len(set(found) - expected), 0)


def _start(arguments: list[str]) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "run", "set_circles", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def _kill_workers(
    process: subprocess.Popen, window: float, moments: random.Random, with_parent: bool
) -> int:
    """Kills both workers at moments of their own; returns how many it met alive."""
    workers = _wait_for_workers(process)
    start, killed = time.monotonic(), 0
    schedule = sorted((moments.uniform(0, window), i) for i in range(len(workers)))
    for moment, i in schedule:
        time.sleep(max(0.0, start + moment - time.monotonic()))
        if not workers[i].is_running():
            continue
        if with_parent:
            Others.orphaned_seconds += _processor_seconds(workers)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return killed + len(workers)
        workers[i].send_signal(signal.SIGKILL)
        killed += 1
    process.wait(timeout=MAX_SECONDS)
    return killed


def _wait_for_workers(process: subprocess.Popen) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        # Beside the workers, Python starts a process that tracks their resources.
        workers = [
            child
            for child in parent.children()
            if any("spawn_main" in word for word in _words(child))
        ]
        if len(workers) == 2:
            return workers
        time.sleep(0.05)
    return []


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _processor_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        if process.is_running():
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _ids(path: Path) -> list[str]:
    return [record["id"] for record in records.read(path)]
