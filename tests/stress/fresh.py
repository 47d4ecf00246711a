"""Processes of their own: for one function, or for a run of pytest."""

import gc
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from joblib.externals.loky import ProcessPoolExecutor
from torch.utils.benchmark import Timer

ROOT = Path(__file__).parents[2]


def call(function, *arguments, threads=1, timeout=900):
    """What a function returns in a fresh process; one that hangs is killed."""
    options = {"initializer": torch.set_num_threads, "initargs": (threads,)}
    executor = ProcessPoolExecutor(1, context=get_context("spawn"), **options)
    try:
        return executor.submit(function, *arguments).result(timeout)
    finally:
        executor.shutdown(kill_workers=True)


def call_together(function, *arguments, threads=1):
    """What it returns in each of two processes of a gloo group, at the same time."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
        start = partial(call, _in_group, folder, function, arguments, threads=threads)
        return list(executor.map(start, range(2)))


def _in_group(folder, function, arguments, rank):
    meeting_point = f"file://{folder}/processes"
    dist.init_process_group("gloo", meeting_point, rank=rank, world_size=2)
    try:
        return function(*arguments)
    finally:
        # What outlives the group waits for a thread that may wait for the interpreter.
        gc.collect()
        dist.destroy_process_group()


def median_seconds(call, budget):
    """Of a call, with as many threads as there are."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=budget).median


def run_tests(*arguments):
    """How many tests of the repository passed, which did not, and all that is shown."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", *arguments]
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 3600}
    shown = subprocess.run(command, **options).stdout
    passed = re.search(r"(\d+) passed", shown.splitlines()[-1])
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", shown, re.MULTILINE)
    return int(passed[1]) if passed else 0, failed, shown
