"""An experiment: its grid of runs, or what is left of it."""

from benchmarks.engine import config
from benchmarks.engine.arguments import asks_for_help, describe
from benchmarks.engine.grid import work_off
from benchmarks.engine.pages import diverged
from benchmarks.engine.records import Record

USAGE = """usage: python -m benchmarks run CONFIG [key=value ...]

CONFIG     a name from `python -m benchmarks list`, or the path of a YAML file
key=value  a setting of the runs; a list in brackets, as in points=[1,4], is an axis of
           the grid; or one of:

  preset=small               which of the config's presets: small, paper
{settings}

Finished runs are on file: the same command again goes on where it was stopped."""


def main(arguments: list[str]) -> int:
    if not arguments or asks_for_help(arguments):
        print(USAGE.format(settings=describe(config.EngineSettings)))
        return 0 if arguments else 2
    plan = config.load(arguments[0], arguments[1:])
    seeds = sorted({run.seed for run in plan.runs})
    spread = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else seeds[0]
    print(f"{plan.name}: {len(plan.runs)} runs, seeds {spread}")
    print(f"records: {plan.path}", flush=True)
    print(f"\n{summary(plan, work_off(plan))}")
    return 0


def summary(plan: config.Plan, records: list[Record]) -> str:
    """The table of the runs, and how many diverged, if some did."""
    table = config.module(plan.experiment, "report").summary(records)
    return "\n\n".join(part for part in (table, diverged(records)) if part)
