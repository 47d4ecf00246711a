"""What the package withstands: faults, abuse, scale."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.arguments import ROOT, Checked, check_known, option, parse
from benchmarks.engine.config import RESULTS

TESTS = ROOT / "tests" / "stress"
PARTS = sorted(path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py"))


@dataclass
class Options(Checked):
    """Runs the stress checks (`pytest -m stress`), one part after the other, and writes
    stress.md from stress.json, where each part stays until it is measured again. The
    parts are the files of tests/stress."""

    only: str | None = option(None, "parts, such as costs,drift; else all of them")
    sizes: str = option("full", "full, or small: two minutes", ("full", "small"))
    results: Path = option(RESULTS, "folder of stress.json and stress.md")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "stress")
    only = options.only.split(",") if options.only else PARTS
    check_known("part", only, PARTS)
    environment = {
        "STRESS_RESULTS": str(options.results.resolve() / "stress.json"),
        "STRESS_SIZES": options.sizes,
    }
    command = [sys.executable, "-m", "pytest", "-m", "stress", "-rxX"]
    command += [str(TESTS / f"test_{name}.py") for name in only]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode

    from benchmarks.stress.page import refresh

    refresh(options.results)
    return code
