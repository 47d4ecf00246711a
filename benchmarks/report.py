"""``python -m benchmarks report``: tables and figures from the records on file."""

import importlib
import re
import sys
from pathlib import Path

from benchmarks import config, overview, records
from benchmarks.experiments import supervised_summary
from benchmarks.registry import EXPERIMENTS

USAGE = """usage: python -m benchmarks report

Draws the figures under benchmarks/results/ and refreshes the marked parts of
benchmarks/README.md, and of README.md, from the records beside them."""

README = config.HERE / "README.md"
FRONT_PAGE = config.HERE.parent / "README.md"
RESULTS = config.HERE / "results"


def main(argv: list[str]) -> int:
    if argv:
        print(USAGE)
        return 0 if argv[0] in {"-h", "--help"} else 2
    try:
        refresh(README, RESULTS)
        page = FRONT_PAGE.read_text()
        table = overview.render(RESULTS)
        FRONT_PAGE.write_text(replace_part(page, "readouts", table))
        print("readouts: reported")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def refresh(readme: Path, results: Path) -> None:
    """Rewrites the part of the page that belongs to each config with records."""
    page = readme.read_text()
    for name in config.available():
        path = results / f"{name}.jsonl"
        if path.exists():
            page = replace_part(page, name, render(name, path, results))
            print(f"{name}: reported")
        else:
            print(f"{name}: no records in {path.name}")
    if documents := supervised_summary.render(results):
        page = replace_part(page, "documents", documents)
        print("documents: reported")
    readme.write_text(page)


def render(name: str, path: Path, figures: Path) -> str:
    """The Markdown for one file of records; figures go to the folder given."""
    content = config.read_yaml(config.CONFIGS / f"{name}.yaml")
    experiment = importlib.import_module(EXPERIMENTS[content["experiment"]])
    return experiment.report(name, records.read(path), figures)


def replace_part(page: str, name: str, text: str) -> str:
    """Puts text between ``<!-- begin:name -->`` and ``<!-- end:name -->``."""
    begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page needs exactly one part {begin} ... {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", page)
