"""``python -m benchmarks speed``: readouts against each other and the floor."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine import provenance
from benchmarks.engine.arguments import UsageError, option, parse, unknown

SUMMARY = "time and memory of the readouts and of the sort beneath them"

RESULTS, QUICK_RESULTS = Path(__file__).parents[1] / "results", Path("results-quick")


@dataclass
class Options:
    """Times readouts against each other and against the floor below them, and measures
    their memory. A part that is measured replaces what is on file of it. The parts:
    shapes, one_thread, skewed, small, growth, memory, gin, neighbourhoods, documents,
    sets.
    """

    only: str | None = option(None, "parts, with commas between")
    quick: bool = option(False, "few rounds of shapes and small: a minute or two")
    device: str = option("cpu", "cuda, for example; without one, says what it would do")
    threads: int | None = option(None, "of PyTorch and of the kernel")
    seed: int = option(0, "of sizes and values")
    data: str = option("data", "the folder of the data sets")
    results: str | None = option(None, "the folder of speed.json")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "speed")

    import torch
    from tqdm import tqdm

    from benchmarks.speed import bars, rehearsal, report
    from benchmarks.speed.parts import LABELS, PARTS, QUICK, Setting
    from benchmarks.speed.timing import Bystanders

    names = (options.only or ",".join(QUICK if options.quick else PARTS)).split(",")
    for name in names:
        if name not in PARTS:
            raise UsageError(unknown("part", name, PARTS))
    data = Path(options.data)
    setting = Setting(options.seed, options.device, options.quick, data)
    path = Path(options.results or (QUICK_RESULTS if options.quick else RESULTS))
    path /= "speed.json"
    if options.device != "cpu":
        names = [name for name in names if PARTS[name].on_device]
        path = path.with_stem(f"speed_{options.device.replace(':', '_')}")
        if not _is_available(options.device):
            print(rehearsal.render(setting, names))
            return 0
    threads, start = torch.get_num_threads(), time.perf_counter()
    for name in names:
        torch.set_num_threads(PARTS[name].threads or options.threads or threads)
        bystanders = Bystanders()
        records = list(tqdm(PARTS[name].measure(setting), name, unit=" records"))
        write(path, name, records, options.seed, bystanders.share())
    torch.set_num_threads(threads)
    report.refresh(path.parent)
    found = report.frame(json.loads(path.read_text()))
    print(report.markdown(bars.verdicts(found, LABELS)))
    seconds = time.perf_counter() - start
    print(f"\n{path} and {path.with_suffix('.md').name}, {seconds:.0f} s")
    return 0


def _is_available(device: str) -> bool:
    import torch

    try:
        torch.empty(1, device=device)
    except (AssertionError, RuntimeError, NotImplementedError):  # depends on the build
        return False
    return True


def write(
    path: Path, part: str, records: list[dict[str, Any]], seed: int, busy: float
) -> None:
    """Replaces one part of the results, and leaves what other runs have measured."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[part] = {
        "seed": seed,
        **provenance.of_measurement(busy),
        "versions": provenance.versions() | provenance.installed("fswlib", "triton"),
        "records": records,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
