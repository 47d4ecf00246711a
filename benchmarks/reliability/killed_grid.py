"""A grid of experiments whose workers are killed again and again."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
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
    "is killed (SIGKILL) at a random moment of its own: every other time while it "
    "starts, otherwise after the first run was recorded; every fourth time together "
    "with the process that started it. Then the same command is started again, at "
    "last without killing anybody."
)
FULL = {"kills": 20, "seeds": 100, "epochs": 8, "start_window": 6.0, "work_window": 1.5}
SMALL = {"kills": 2, "seeds": 6, "epochs": 2, "start_window": 1.0, "work_window": 0.1}

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
    expected = {plan.identifier(run) for run in plan.runs}
    moments = random.Random(seed)
    kills, starts = 0, 0
    on_file = [0]
    with bar(range(config["kills"]), "killed_grid", "kill") as progress:
        while kills < config["kills"] and on_file[-1] < len(expected):
            process = _start(arguments)
            workers = _wait_for_workers(process)
            at_work = starts % 2 == 1
            if at_work:
                _wait_for_a_record(process, plan.results, on_file[-1])
            window = config["work_window" if at_work else "start_window"]
            killed = _kill(process, workers, window, moments, starts % 4 == 3)
            starts, kills = starts + 1, kills + killed
            progress.update(killed)
            on_file.append(len(_ids(plan.results)))
    _start(arguments).wait(timeout=MAX_SECONDS)
    found = _ids(plan.results)
    yield check("kills", kills, None, f"in {starts} starts")
    yield check("kills short of the plan", max(0, config["kills"] - kills), 0)
    before = f"of {len(expected)}"
    yield check("runs on file before the last start", on_file[-1], None, before)
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


def _kill(
    process: subprocess.Popen,
    workers: list[psutil.Process],
    window: float,
    moments: random.Random,
    with_parent: bool,
) -> int:
    """Kills the workers at moments of their own; returns how many it met alive."""
    start, killed = time.monotonic(), 0
    for moment, worker in sorted(
        ((moments.uniform(0, window), worker) for worker in workers),
        key=lambda pair: pair[0],
    ):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        if not _is_alive(worker):
            continue
        if with_parent:
            alive = [other for other in workers if _is_alive(other)]
            Others.orphaned_seconds += sum(map(_processor_seconds, alive))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return killed + len(alive)
        worker.send_signal(signal.SIGKILL)
        killed += 1
    process.wait(timeout=MAX_SECONDS)
    return killed


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _wait_for_a_record(process: subprocess.Popen, path: Path, before: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if len(_ids(path)) > before:
            return
        time.sleep(0.02)


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


def _processor_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


def _ids(path: Path) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a line that is just being written
        return [record["id"] for record in records.read(path)]
