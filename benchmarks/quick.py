"""``python -m benchmarks quick``: mean, PMA and GSWE side by side, in a minute."""

import os
import sys
import time
from pathlib import Path

from benchmarks import config, report
from benchmarks.work import work_off

USAGE = """usage: python -m benchmarks quick [key=value ...]

Trains each readout on Set-Circles without labels, a few seeds each, and prints the
1-NN accuracies. Nothing is downloaded. Settings are those of `run set_circles`."""

FOLDER = Path("results-quick")


def main(argv: list[str]) -> int:
    if argv and argv[0] in {"-h", "--help"}:
        print(USAGE)
        return 0
    workers = min(2, os.cpu_count() or 1)
    overrides = ["preset=quick", f"results={FOLDER}", f"workers={workers}", *argv]
    start = time.perf_counter()
    try:
        plan = config.load("set_circles", overrides)
    except config.ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    seeds = sorted({run.seed for run in plan.runs})
    print(f"Set-Circles: {len(plan.runs)} runs, seeds {seeds}")
    if work_off(plan, "set_circles", overrides):
        print("some runs are missing; the same command goes on", file=sys.stderr)
        return 1
    print(f"\n{report.render('set_circles', plan.results, FOLDER)}\n")
    print(f"records: {plan.results}")
    print(f"figure:  {FOLDER / 'set_circles.png'}")
    print(f"done in {time.perf_counter() - start:.0f} s")
    return 0
