"""``python -m benchmarks quick``: mean, PMA and GSWE side by side, in a minute."""

import os
import time

from benchmarks.commands.run import summary, work_off
from benchmarks.engine import config

SUMMARY = "a small comparison of readouts on Set-Circles: two minutes, no download"

USAGE = """usage: python -m benchmarks quick [key=value ...]

Trains each readout on Set-Circles without labels, a few seeds each, and prints the
1-NN accuracies. Nothing is downloaded. Settings are those of `run set_circles`, for
example results=DIR for the records and the figure."""


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    workers = min(2, os.cpu_count() or 1)
    defaults = ["preset=quick", "results=results-quick", f"workers={workers}"]
    start = time.perf_counter()
    plan = config.load("set_circles", [*defaults, *arguments])
    seeds = sorted({run.seed for run in plan.runs})
    print(f"Set-Circles: {len(plan.runs)} runs, seeds {seeds}", flush=True)
    records = work_off(plan)
    if not records:
        return 0
    report = config.module(plan.experiment, "report")
    report.part(plan.name, records, plan.path.parent)  # draws
    print(f"\n{summary(plan, records)}\n")
    print(f"records: {plan.path}")
    print(f"figure:  {plan.path.with_suffix('.png')}")
    print(f"done in {time.perf_counter() - start:.0f} s")
    return 0
