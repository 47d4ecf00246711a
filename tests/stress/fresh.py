"""Processes of their own: for one function, or for a run of pytest."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import torch
import torch.distributed as dist
from joblib.externals.loky import ProcessPoolExecutor
from torch.utils.benchmark import Timer

ROOT = Path(__file__).parents[2]


def call(function, *arguments, threads=1, timeout=900):
    """What a function returns in a fresh process; one that hangs is killed."""
    spawn = get_context("spawn")
    executor = ProcessPoolExecutor(
        1, context=spawn, initializer=torch.set_num_threads, initargs=(threads,)
    )
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


def run_tests(folder, *arguments):
    """Of test files of the repository: how many tests passed, the names of those that
    did not, and the JUnit report."""
    path = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *arguments]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=3600)
    report = ElementTree.parse(path).getroot()
    cases = report.findall(".//testcase")
    wrong = [c for c in cases if {"failure", "error"} & {child.tag for child in c}]
    failed = [f"{case.get('classname')}.{case.get('name')}" for case in wrong]
    skipped = len(report.findall(".//testcase/skipped"))
    return len(cases) - len(failed) - skipped, failed, report
