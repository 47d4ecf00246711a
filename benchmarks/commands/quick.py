"""Sets to vectors, readouts that learn: a minute or two, no download."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.arguments import Checked, option, parse


@dataclass
class Options(Checked):
    """Looks for the nearest neighbours of point sets by several distances, without
    training; then trains readouts on sets whose classes have the same mean. Prints two
    tables and draws the neighbours. Nothing is downloaded."""

    sets: int = option(600, "to search in, by a sixth as many queries", least=1)
    steps: int = option(200, "of training", least=1)
    seeds: int = option(3, "of training", least=1)
    workers: int = option(min(2, os.cpu_count() or 1), "processes that train", least=1)
    results: str = option("results-quick", "folder of the records and of the figure")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "quick")
    start = time.perf_counter()

    from benchmarks.commands.run import summary, work_off
    from benchmarks.engine import config
    from benchmarks.neighbours import compare

    settings = ("steps", "seeds", "workers", "results")
    chosen = [f"{name}={getattr(options, name)}" for name in settings]
    plan = config.load("when", ["preset=quick", *chosen])
    figure = Path(options.results) / "neighbours.png"
    compare(options.sets, figure)
    print(f"\n2. Readouts that learn: {len(plan.runs)} runs, {options.seeds} seeds.")
    print("The classes differ in tails or in shape, not in their mean.\n", flush=True)
    print(f"\n{summary(plan, work_off(plan))}\n")
    print(f"figure:  {figure}")
    print(f"records: {plan.path}")
    print(f"done in {time.perf_counter() - start:.0f} s")
    return 0
