"""``python -m benchmarks run CONFIG [key=value ...]``: does what is not done yet."""

import os
import sys

from benchmarks import config
from benchmarks.work import work_off

USAGE = """usage: python -m benchmarks run CONFIG [key=value ...]

CONFIG     a name from `python -m benchmarks list`, or the path of a YAML file
key=value  a setting; a list in brackets, as in points=[1,4], is an axis of the grid

  preset=small|paper          which of the config's presets (default: small)
  seeds=N                     the seeds 0 to N - 1
  workers=N threads=N         processes that share the grid, threads of each
  accelerator=.. devices=N num_nodes=N strategy=.. precision=..   as in Fabric
  data=DIR results=DIR        where the data sets are, where the records go

Finished runs are on file: the same command again goes on where it was stopped."""


def main(argv: list[str]) -> int:
    if not argv or argv[0] in {"-h", "--help"}:
        print(USAGE)
        return 0 if argv else 2
    name, *overrides = argv
    try:
        plan = config.load(name, overrides)
        _announce(plan)
        missing = work_off(plan, name, overrides)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    if missing:
        print(
            f"{missing} of {len(plan.runs)} runs are still missing; "
            f"the same command goes on from here",
            file=sys.stderr,
        )
        return 1
    return 0


def _announce(plan: config.Plan) -> None:
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return  # another process of the same run
    seeds = sorted({run.seed for run in plan.runs})
    spread = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else seeds[0]
    print(f"{plan.name}: {len(plan.runs)} runs, seeds {spread}")
    print(f"records: {plan.results}", flush=True)
