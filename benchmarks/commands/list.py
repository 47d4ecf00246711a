"""The experiments, their presets, and how much of them is done."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from benchmarks.engine import config, records
from benchmarks.engine.arguments import Registry, option, parse


@dataclass(frozen=True)
class Options:
    """Shows the configs with their presets (runs done / runs in all), and the names
    that a config may use."""

    results: Path = option(config.RESULTS, "the folder with the records")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "list")
    print("configs: python -m benchmarks run CONFIG preset=PRESET")
    for name, path in config.available().items():
        content = config.read_yaml(path)
        done = {r["id"] for r in records.read(options.results / f"{name}.jsonl")}
        print(f"\n{_indented(f'{name}: ' + content['description'], 2)}")
        for preset in content["presets"]:
            runs = config.load(name, [f"preset={preset}"]).runs
            finished = sum(run.identifier() in done for run in runs)
            print(f"    preset={preset:<8} {finished} / {len(runs)} runs")
    print("\nnames that a config may use:")
    shown: list[Registry] = []
    for experiment in config.experiments():
        found = vars(config.module(experiment, "run")).values()
        new = [r for r in found if isinstance(r, Registry) and r not in shown]
        shown += new
        if new:
            print(f"  in {experiment}:")
        for names in new:
            print(_indented(f"{names.kind:<13} {', '.join(names)}", 4, hanging=14))
    return 0


def _indented(text: str, indent: int, hanging: int = 2) -> str:
    first, others = " " * indent, " " * (indent + hanging)
    return fill(
        text, 80, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )
