"""Processes of their own: for one function, or for a run of pytest."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

ROOT = Path(__file__).parents[2]


def call(
    function: Callable, *arguments: Any, threads: int = 1, timeout: float = 900
) -> Any:
    """What a function returns in a fresh process; one that hangs is killed."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_answer, args=(sender, threads, function, arguments)
    )
    process.start()
    sender.close()  # the child's end; ours would hide that it has ended
    try:
        if not receiver.poll(timeout):
            raise TimeoutError(f"{function.__name__} hangs: no answer in {timeout} s")
        return receiver.recv()
    except EOFError as error:
        raise RuntimeError(f"{function.__name__} failed in its process") from error
    finally:
        process.kill()
        process.join()


def _answer(
    sender: Connection, threads: int, function: Callable, arguments: tuple
) -> None:
    torch.set_num_threads(threads)
    sender.send(function(*arguments))


def run_tests(folder: Path, *arguments: str) -> ElementTree.Element:
    """The JUnit report of test files of the repository."""
    path = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *arguments]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=3600)
    return ElementTree.parse(path).getroot()


def count(report: ElementTree.Element) -> tuple[int, list[str]]:
    """How many tests passed, and the names of those that did not."""
    cases = report.findall(".//testcase")
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = len(report.findall(".//testcase/skipped"))
    return len(cases) - len(failed) - skipped, failed
