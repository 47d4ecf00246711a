"""``python -m benchmarks speed``: readouts against each other and the floor."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import provenance, speed_report
from benchmarks.speed_contenders import (
    CONTENDERS,
    FLOORS,
    OURS,
    OURS_BY_SLICES,
    PADDED,
    SORT_FLOOR,
)
from benchmarks.speed_end_to_end import SETTINGS, Setting, time_epochs
from benchmarks.speed_memory import peak_memory
from benchmarks.speed_shapes import GROWTH, SIX, SKEWED, Shape
from benchmarks.speed_timing import Bystanders, Record, bar, time_shape

HERE = Path(__file__).resolve().parent
RESULTS, QUICK_RESULTS = HERE / "results", Path("results-quick")
PAGES = (HERE / "README.md", HERE.parent / "README.md")

PARTS = ("shapes", "skewed", "growth", "memory")

GROWING = (OURS, PADDED, SORT_FLOOR)

#: The shape on which the memory of every contender is measured.
MEMORY_SHAPE = SIX[4]


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    default = QUICK_RESULTS if arguments.quick else RESULTS
    folder = arguments.output or default
    if arguments.report:
        return _report(folder)
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    path = folder / "speed.json"
    print(f"seed {arguments.seed}, {torch.get_num_threads()} threads, results: {path}")
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    for part, records in _parts(arguments):
        bystanders = Bystanders()
        records = list(records)
        _write(path, part, records, arguments.seed, bystanders.share())
    print(f"\n{speed_report.render(_read(path), folder)}\n")
    print(f"results: {path}, done in {time.perf_counter() - start:.0f} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks speed",
        description="Times segment quantiles, PyG's and other readouts and the floor "
        "below them, and measures their peak memory.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="six shapes, few rounds: a minute")
    add("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    add("--end-to-end", action="store_true", help="only epochs of a GIN on molhiv")
    add("--report", action="store_true", help="render what is on file, measure nothing")
    add("--output", type=Path, metavar="DIR", help="where the results are")
    add("--threads", type=int, metavar="N", help="threads of PyTorch and of the kernel")
    add("--seed", type=int, default=0, metavar="N", help="of sizes and values")
    add("--data", type=Path, metavar="DIR", help="of OGB (default: data/ogb)")
    add("--hidden", type=int, metavar="N", help="channels of the GIN")
    add("--batch-size", type=int, default=32, metavar="N", help="molecules at a time")
    add("--batches", type=int, default=40, metavar="N", help="timed for each readout")
    return parser


def _parts(arguments: argparse.Namespace) -> Iterator[tuple[str, Iterable[Record]]]:
    seed = arguments.seed
    if arguments.end_to_end:
        settings = SETTINGS
        if arguments.hidden is not None:
            settings = [Setting(arguments.hidden, arguments.batch_size)]
        data = arguments.data or HERE.parent / "data" / "ogb"
        yield "end_to_end", time_epochs(settings, data, arguments.batches, seed)
        return
    if arguments.quick:
        # Those that are not extra packages, which take most of the time.
        names = [name for name in CONTENDERS if CONTENDERS[name].requires is None]
        yield "shapes", _time_shapes("six shapes", SIX, names, 6, 0.1, seed)
        return
    growing = [shape for series in GROWTH.values() for shape in series]
    growing = list(dict.fromkeys(growing))  # they meet in the middle
    measure = {
        "shapes": lambda: _time_shapes("shapes", SIX, CONTENDERS, 32, 0.8, seed),
        "skewed": lambda: _time_shapes("skewed", [SKEWED], CONTENDERS, 16, 1.0, seed),
        "growth": lambda: _time_shapes("growth", growing, GROWING, 16, 0.5, seed),
        "memory": lambda: _measure_memory(torch.get_num_threads(), seed),
    }
    for part in arguments.only or PARTS:
        yield part, measure[part]()


def _time_shapes(
    label: str,
    shapes: Iterable[Shape],
    names: Iterable[str],
    rounds: int,
    budget: float,
    seed: int,
) -> Iterator[Record]:
    for shape in bar(list(shapes), label, "shape"):
        yield from time_shape(shape, names, rounds, budget, seed)


def _measure_memory(threads: int, seed: int) -> Iterator[Record]:
    names = [name for name in CONTENDERS if name not in (*FLOORS, OURS_BY_SLICES)]
    tasks = [(shape, name) for shape in (SKEWED, MEMORY_SHAPE) for name in names]
    for shape, name in bar(tasks, "memory", "process"):
        yield peak_memory(shape, name, threads, seed)


def _write(
    path: Path, part: str, records: list[Record], seed: int, busy: float
) -> None:
    """Replaces one part of the results, and leaves what other runs have measured."""
    results = _read(path) if path.exists() else {}
    results[part] = {
        "seed": seed,
        **provenance.of_measurement(busy),
        "versions": provenance.versions() | provenance.installed("fswlib", "POT"),
        "records": records,
    }
    path.write_text(json.dumps(results, indent=1) + "\n")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def _report(folder: Path) -> int:
    path = folder / "speed.json"
    if not path.exists():
        print(f"error: no results in {path}: measure first", file=sys.stderr)
        return 2
    results = _read(path)
    print(speed_report.render(results, folder))
    if folder.resolve() == RESULTS:
        for page in PAGES:
            speed_report.refresh(page, results, folder)
    return 0
