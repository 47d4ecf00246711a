"""Runs the tests in ``tests/stress`` and writes the page from what they record."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.arguments import UsageError, option, parse, unknown
from benchmarks.stress.page import RESULTS, refresh

SUMMARY = "what the package withstands: faults, abuse, scale"

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "stress"


@dataclass
class Options:
    """Runs the stress checks (`pytest -m stress`), one part after the other, and writes
    stress.md from stress.json, where each part stays until it is measured again."""

    only: str = option("", "parts, such as only=costs,drift; all of them by default")
    sizes: str = option("full", "full, or small: two minutes")
    results: str = option(str(RESULTS), "folder of stress.json and stress.md")

    def __post_init__(self) -> None:
        if self.sizes not in ("full", "small"):
            raise UsageError(f"sizes must be full or small (got {self.sizes!r})")


def main(arguments: list[str]) -> int:
    parts = sorted(path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py"))
    more = f"parts: {', '.join(parts)}"
    options = parse(Options, arguments, "stress", more)
    only = options.only.split(",") if options.only else parts
    for name in only:
        if name not in parts:
            raise UsageError(unknown("part", name, parts))
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    environment = {
        "STRESS_RESULTS": str(results.resolve() / "stress.json"),
        "STRESS_SIZES": options.sizes,
    }
    command = [sys.executable, "-m", "pytest", "-m", "stress", "-rxX"]
    command += [str(TESTS / f"test_{name}.py") for name in only]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode
    refresh(results)
    print(f"page: {results / 'stress.md'}")
    return code
