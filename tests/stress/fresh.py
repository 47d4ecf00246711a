"""Processes of their own: for one function, or for a run of pytest."""

import gc
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import torch
import torch.distributed as dist
from joblib.externals.loky import ProcessPoolExecutor

ROOT = Path(__file__).parents[2]


def call(
    function: Callable, *arguments: Any, threads: int = 1, timeout: float = 900
) -> Any:
    """What a function returns in a fresh process; one that hangs is killed."""
    executor = ProcessPoolExecutor(
        max_workers=1,
        context=get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(threads,),
    )
    try:
        return executor.submit(function, *arguments).result(timeout)
    finally:
        executor.shutdown(kill_workers=True)


def call_together(function: Callable, *arguments: Any, threads: int = 1) -> list[Any]:
    """What it returns in each of two processes of a gloo group, at the same time."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
        jobs = [
            executor.submit(
                call, _in_group, rank, folder, function, *arguments, threads=threads
            )
            for rank in range(2)
        ]
        return [job.result() for job in jobs]


def _in_group(rank: int, folder: str, function: Callable, *arguments: Any) -> Any:
    meeting_point = f"file://{folder}/processes"
    dist.init_process_group("gloo", meeting_point, rank=rank, world_size=2)
    try:
        return function(*arguments)
    finally:
        # What outlives the group waits for a thread that may wait for the interpreter.
        gc.collect()
        dist.destroy_process_group()


def run_tests(
    folder: Path, *arguments: str
) -> tuple[int, list[str], ElementTree.Element]:
    """Of test files of the repository: how many tests passed, the names of those that
    did not, and the JUnit report."""
    path = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *arguments]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=3600)
    report = ElementTree.parse(path).getroot()
    cases = report.findall(".//testcase")
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = len(report.findall(".//testcase/skipped"))
    return len(cases) - len(failed) - skipped, failed, report
