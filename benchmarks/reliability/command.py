import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import provenance
from benchmarks.reliability import report
from benchmarks.reliability.check import Others
from benchmarks.speed_timing import bar

HERE = Path(__file__).resolve().parent
RESULTS, QUICK_RESULTS = HERE.parent / "results", Path("results-quick")
PAGE, SCALING = HERE.parent / "RELIABILITY.md", HERE.parents[1] / "docs" / "scaling.md"

PARTS = (
    "properties",
    "determinism",
    "drift",
    "processes",
    "data_parallel",
    "killed_grid",
    "loading",
    "endurance",
    "large_batch",
    "costs",
)

Results = dict[str, Any]


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    folder = arguments.output or (QUICK_RESULTS if arguments.quick else RESULTS)
    path = folder / "reliability.json"
    if arguments.report:
        if not path.exists():
            print(f"error: no results in {path}: measure first", file=sys.stderr)
            return 2
        return _report(_read(path), folder)
    print(f"seed {arguments.seed}, results: {path}")
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    names = list(arguments.only or PARTS)
    if arguments.resume:
        done = _read(path)
        names = [name for name in names if not _is_done(done.get(name), arguments)]
    for name in (progress := bar(names, "reliability", "part")):
        progress.set_description(name)
        part = _measure(part_of(name), arguments.quick, arguments.seed)
        _write(path, name, part)
    print(f"results: {path}, done in {time.perf_counter() - start:.0f} s\n")
    return _report(_read(path), folder)


def part_of(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.reliability.{name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks reliability",
        description="Measures what the package withstands, and writes RELIABILITY.md.",
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    add("--resume", action="store_true", help="skip what this commit has on file")
    add("--report", action="store_true", help="render what is on file, measure nothing")
    add("--quick", action="store_true", help="small settings: three minutes")
    add("--output", type=Path, metavar="DIR", help="where the results are")
    add("--seed", type=int, default=0, metavar="N", help="of all that is drawn")
    return parser


def _measure(part: ModuleType, quick: bool, seed: int) -> Results:
    config = part.SMALL if quick else part.FULL
    others, start = Others(), time.perf_counter()
    checks = list(part.measure(config, seed))
    seconds = time.perf_counter() - start
    return {
        "config": config,
        "seed": seed,
        "seconds": round(seconds, 1),
        **provenance.of_measurement(others.share()),
        "checks": checks,
    }


def _is_done(part: Results | None, arguments: argparse.Namespace) -> bool:
    commit = provenance.commit()
    return (
        part is not None
        and part["commit"] == commit
        and part["seed"] == arguments.seed
        and not str(commit).endswith("-dirty")
    )


def _read(path: Path) -> Results:
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, name: str, part: Results) -> None:
    """Replaces one part of the results, and leaves what other runs have measured."""
    results = _read(path) | {name: part}
    results = {name: results[name] for name in PARTS if name in results}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)


def _report(results: Results, folder: Path) -> int:
    parts = {name: part_of(name) for name in PARTS}
    text = report.render(results, parts)
    print(text)
    if folder.resolve() == RESULTS:
        PAGE.write_text(text)
        report.refresh(SCALING, results)
    return 0 if report.all_right(results) else 1
