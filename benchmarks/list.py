"""``python -m benchmarks list``: what can be run, and how much of it is done."""

from pathlib import Path

from benchmarks import config, registry
from benchmarks.records import read

USAGE = """usage: python -m benchmarks list

Shows the configs with their presets (runs done / runs in all), and the names that
a config may use."""


def main(argv: list[str]) -> int:
    if argv:
        print(USAGE)
        return 0 if argv[0] in {"-h", "--help"} else 2
    print("configs: python -m benchmarks run CONFIG preset=PRESET")
    for name in config.available():
        presets = config.read_yaml(config.CONFIGS / f"{name}.yaml")["presets"]
        plans = [config.load(name, [f"preset={preset}"]) for preset in presets]
        done = {record["id"] for record in read(Path(plans[0].results))}
        print(f"\n  {name}: {plans[0].description}")
        for plan in plans:
            finished = sum(plan.identifier(run) in done for run in plan.runs)
            print(f"    preset={plan.preset:<8} {finished} / {len(plan.runs)} runs")
    print("\nnames: see benchmarks/registry.py, one entry each")
    for names in vars(registry).values():
        if isinstance(names, registry.Registry):
            print(f"  {names.kind:<13} {', '.join(names)}")
    return 0
