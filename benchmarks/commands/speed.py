"""Time and memory of the readouts and of the sort beneath them."""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.arguments import check_known, option, parse
from benchmarks.engine.config import RESULTS


@dataclass
class Options:
    """Times readouts against each other and against the floor below them, and measures
    their memory. A part that is measured replaces what is on file of it. The parts:
    shapes, one_thread, skewed, small, first_call, growth, memory, gin, neighbourhoods,
    sets.
    """

    only: str | None = option(None, "parts, with commas between")
    device: str = option("cpu", "cuda, for example; without one, says what it would do")
    data: Path = option(Path("data"), "the folder of the data sets")
    results: Path = option(RESULTS, "the folder of speed.json")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "speed")

    import torch
    from tqdm import tqdm

    from benchmarks.engine import grid, measurements
    from benchmarks.speed import bars, rehearsal, report
    from benchmarks.speed.parts import MEASURES, PARTS, Setting
    from benchmarks.speed.shapes import SEED

    names = options.only.split(",") if options.only else list(PARTS)
    check_known("part", names, PARTS)
    setting = Setting(options.device, options.data)
    path = options.results / "speed.json"
    if options.device != "cpu":
        names = [name for name in names if PARTS[name].on_device]
        path = path.with_stem(f"speed_{options.device.replace(':', '_')}")
        if grid.lacks_device(options.device):
            print(rehearsal.render(setting, names))
            return 0
    threads, start = torch.get_num_threads(), time.perf_counter()
    for name in names:
        torch.set_num_threads(1 if name == "one_thread" else threads)
        bystanders = measurements.Bystanders()
        try:
            records = list(tqdm(MEASURES[name](setting), name, unit=" records"))
        except (FileNotFoundError, ModuleNotFoundError) as error:
            # What is on file stays.
            print(f"{name} is not measured: {error}")
            continue
        measurements.write(path, name, bystanders, seed=SEED, records=records)
    torch.set_num_threads(threads)
    report.refresh(options.results)
    found = report.frame(measurements.read(path))
    print(report.markdown(bars.verdicts(found)))
    print(f"\n{path}, {time.perf_counter() - start:.0f} s")
    return 0
