"""What the pages name exists: commands, extras, files, links, versions, figures."""

import re
from pathlib import Path

import pytest

import gswe_pyg
from benchmarks.__main__ import COMMANDS
from benchmarks.commands import report
from benchmarks.engine import config
from benchmarks.engine.pages import replace_part

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    *(config.RESULTS / f"{name}.md" for name in config.experiments()),
    *sorted((ROOT / "docs").glob("*.md")),
]
FOLDERS = "benchmarks|docs|examples|gswe_pyg|tests"

pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def slugs(page: Path) -> set[str]:
    """The anchors that GitHub and the site give to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}


@pages
def test_commands(page):
    text = page.read_text()
    for command in re.findall(r"python -m\s+benchmarks (\w+)", text):
        assert command in COMMANDS
    for name in re.findall(r"benchmarks run (\w+)", text):
        assert name in [*config.available(), "CONFIG"]


@pages
def test_extras(page):
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"\.\[([\w,-]+)\]", page.read_text()):
        for extra in extras.split(","):
            assert extra in project["optional-dependencies"]


def test_the_readme_names_every_extra():
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "README.md").read_text().partition("## Extras")[2]
    named = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", table, re.MULTILINE)[1:]
    extras = re.findall(r"`(\w+)`", " ".join(named))
    assert sorted(extras) == sorted(project["optional-dependencies"])


@pages
def test_files(page):
    for name in re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w/.-]*\w", page.read_text()):
        if not name.startswith("docs/_"):  # made by the site
            assert (ROOT / name).exists(), name


@pages
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        path = page.parent / path if path else page
        assert path.exists(), target
        if anchor:
            assert anchor in slugs(path), target


def test_parts_of_other_pages_are_those_of_the_records():
    for page, name, text in report.parts_elsewhere(report.load(config.RESULTS)):
        assert page.read_text() == replace_part(page, name, text), (
            f"{page.name} is outdated: run python -m benchmarks report"
        )


@pytest.mark.parametrize("experiment", config.experiments())
def test_the_pages_of_the_experiments_are_those_of_the_records(experiment, tmp_path):
    found = report.load(config.RESULTS)[experiment]
    page = config.RESULTS / f"{experiment}.md"
    assert page.read_text() == report.render(experiment, found, tmp_path), (
        f"{page.name} is outdated: run python -m benchmarks report"
    )


def test_the_commands_that_ci_takes_from_the_readme():
    page = (ROOT / "README.md").read_text()
    for name, end in {"quick": "-m benchmarks quick", "test": "-m pytest"}.items():
        assert re.search(rf"<!-- ci: {name} -->\n```bash\n[^\n]+{end}\n```\n", page)


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [
        gswe_pyg.__version__
    ]


def test_citation_is_valid_yaml():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "preferred-citation"} <= set(citation)


def test_the_workflow_runs_what_we_run():
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    text = (ROOT / ".ci/run").read_text()
    steps = set(re.search(r"^steps=\((.*)\)$", text, re.MULTILINE).group(1).split())
    jobs = workflow["jobs"]
    assert {"lint", "types", "tests", "docs", "package"} <= set(jobs)
    run = {job for job in jobs if jobs[job]["steps"][-1]["run"] == f".ci/run {job}"}
    # The tests run once more on other versions of Python.
    assert run | {"tests", *jobs["more"]["strategy"]["matrix"]["step"]} == steps
    assert all(f"\n{step}() {{" in text for step in steps)
