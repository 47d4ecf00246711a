"""``python -m benchmarks run CONFIG [key=value ...]``: does what is not done yet."""

import dataclasses
import sys
from pathlib import Path

from benchmarks.engine import config, grid
from benchmarks.engine.arguments import UsageError
from benchmarks.engine.pages import diverged

SUMMARY = "an experiment: its grid of runs, or what is left of it"

USAGE = """usage: python -m benchmarks run CONFIG [key=value ...]

CONFIG     a name from `python -m benchmarks list`, or the path of a YAML file
key=value  a setting of the runs; a list in brackets, as in points=[1,4], is an axis of
           the grid; or one of:

  preset=small           which of the config's presets: small, paper
{settings}

Finished runs are on file: the same command again goes on where it was stopped."""


def main(arguments: list[str]) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(USAGE.format(settings="\n".join(_settings())))
        return 0 if arguments else 2
    plan = config.load(arguments[0], arguments[1:])
    seeds = sorted({run.seed for run in plan.runs})
    spread = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else seeds[0]
    print(f"{plan.name}: {len(plan.runs)} runs, seeds {spread}")
    print(f"records: {plan.path}", flush=True)
    records = work_off(plan)
    if records:
        print(f"\n{summary(plan, records)}")
    return 0


def summary(plan: config.Plan, records: list[grid.Record]) -> str:
    """The table of the runs, and how many diverged, if some did."""
    table = config.module(plan.experiment, "report").summary(records)
    return "\n\n".join(part for part in (table, diverged(records)) if part)


def work_off(plan: config.Plan) -> list[grid.Record]:
    """The records of the plan; none, and a word about it, if others are at work."""
    try:
        return grid.work_off(plan)
    except grid.Busy as error:
        print(error)
        return []
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
    except ValueError as error:  # of a run: settings that the data does not fit
        raise UsageError(str(error)) from error


def _settings() -> list[str]:
    lines = []
    for field in dataclasses.fields(config.EngineSettings):
        default = "" if field.default is None else field.default
        if field.name == "results":
            default = Path(default).relative_to(config.HERE.parent)
        lines.append(f"  {f'{field.name}={default}':<22} {field.metadata['help']}")
    return lines
