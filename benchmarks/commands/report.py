"""Pages, tables and figures from the records on file."""

import dataclasses
import importlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import config, records
from benchmarks.engine.arguments import UsageError, check_known, option, parse
from benchmarks.engine.pages import claims_table, diverged, replace_part

Records = dict[str, list[records.Record]]  # by config

FRONT_PAGE = config.HERE.parent / "README.md"
DOCS = config.HERE.parent / "docs"

#: Pages of what is no experiment: each module has ``refresh(folder)``.
OTHERS = {"speed": "benchmarks.speed.report", "stress": "benchmarks.stress.page"}


@dataclass(frozen=True)
class Options:
    """Writes a page for each experiment beside its records, and draws its figures: all
    of them, speed and stress included, or the one that is named."""

    experiment: str | None = option(
        None, "one of them, or speed, stress", positional=True
    )
    results: Path = option(config.RESULTS, "the folder with the records")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "report")
    known = [*config.experiments(), *OTHERS]
    wanted = [options.experiment] if options.experiment else known
    check_known("experiment", wanted, known)
    if not options.results.is_dir():
        raise UsageError(f"there is no folder {options.results}")
    importlib.import_module("matplotlib.style").use("gswe_pyg.style")
    found = load(options.results)
    for name in wanted:
        if name in OTHERS:
            importlib.import_module(OTHERS[name]).refresh(options.results)
        elif name in found:
            page = options.results / f"{name}.md"
            page.write_text(render(name, found[name], options.results))
            print(f"{name}: {sum(map(len, found[name].values()))} runs, {page}")
        else:
            print(f"{name}: no records in {options.results}")
    if options.results.resolve() == config.RESULTS:
        for page, name, text in parts_elsewhere(found):
            page.write_text(replace_part(page, name, text))
    return 0


def load(folder: Path) -> dict[str, Records]:
    """The records of a folder, by experiment."""
    found: dict[str, Records] = {}
    for path in sorted(folder.glob("*.jsonl")):
        content = records.read(path)
        if content:
            found.setdefault(_experiment(path, content[0]), {})[path.stem] = content
    return found


def _experiment(path: Path, record: records.Record) -> str:
    """Whose settings these are: a config may have any name."""
    for name in config.experiments():
        fields = dataclasses.fields(config.module(name, "run").Run)
        needed = {field.name for field in fields if not field.metadata.get("added")}
        if needed <= set(record["config"]) <= {field.name for field in fields}:
            return name
    raise UsageError(f"the records in {path} are of no experiment")


def render(experiment: str, found: Records, folder: Path) -> str:
    """The page of an experiment, what it found first; its figures go to the folder."""
    report = config.module(experiment, "report")
    protocol = (config.EXPERIMENTS / experiment / "protocol.md").read_text().strip()
    parts = [protocol]
    if message := report.message(found):
        title, _, text = protocol.partition("\n")
        parts = [title, message, "## Protocol", text.strip()]
    made_by = f"`python -m benchmarks report {experiment}`"
    parts.append(f"Made by {made_by} from the records beside this page.")
    if hasattr(report, "claims") and (claims := claims_table(report.claims(found))):
        parts += ["## Claims", claims]
    for name, content in found.items():
        parts += [f"## {name}", report.part(name, content, folder)]
        if note := diverged(content):
            parts.append(f"{note}.")
    return "\n\n".join(parts) + "\n"


def parts_elsewhere(found: dict[str, Records]) -> list[tuple[Path, str, str]]:
    """Generated parts of pages that are written by hand: page, name, text."""
    report, content = config.module("when", "report"), found.get("when", {})
    documents, words = config.module("documents", "report"), found.get("documents", {})
    speed = importlib.import_module(OTHERS["speed"])
    return [
        (FRONT_PAGE, "readouts", report.front_table(content)),
        (FRONT_PAGE, "cost", speed.cost_line(config.RESULTS / "speed.json")),
        (DOCS / "choosing-options.md", "decision", report.decision_table(content)),
        (DOCS / "sets.md", "vectors", documents.vectors_table(words)),
    ]
