"""Tests as a part of the records."""

import os
import re
import subprocess
import sys
from typing import NamedTuple

from benchmarks.reliability.check import ROOT


class TestRun(NamedTuple):
    passed: int
    failed: int  # or broken
    cases: int  # that hypothesis generated
    seconds: float
    tail: str


def run_tests(paths: list[str], options: list[str], timeout: float) -> TestRun:
    """Runs test files of the repository in a process of their own."""
    start = os.times().elapsed
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    text = process.stdout
    failed = _count(text, "failed") + _count(text, "error")
    if process.returncode != 0 and failed == 0:
        failed = 1  # nothing was collected, or worse
    # "25 passing, 0 failing, and 1 invalid test cases"; once, "25 passing examples".
    found = re.findall(r"(\d+) passing(?: \w+)?, (\d+) failing", text)
    cases = sum(int(number) for pair in found for number in pair)
    seconds = os.times().elapsed - start
    tail = text[-3000:] if failed else ""
    return TestRun(_count(text, "passed"), failed, cases, seconds, tail)


def _count(text: str, what: str) -> int:
    found = re.findall(rf"(\d+) {what}s?\b", text.splitlines()[-1] if text else "")
    return int(found[0]) if found else 0
