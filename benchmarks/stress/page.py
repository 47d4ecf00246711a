"""``stress.md``, and the marked part of ``docs/scaling.md``, from ``stress.json``."""

from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

from benchmarks.engine import measurements
from benchmarks.engine.config import RESULTS
from benchmarks.engine.pages import replace_part
from benchmarks.engine.tables import markdown
from benchmarks.stress import scaling

SCALING = RESULTS.parents[1] / "docs" / "scaling.md"

INTRODUCTION = """# Stress

What the package withstands, as measured by `python -m benchmarks stress`, which runs
the tests in `tests/stress` and writes this page from `stress.json`. Every check has a
number and the largest that is right; those without a limit are there to compare with.
`only=PART` measures one part again."""

ORIGIN = (
    "Sizes: {sizes}; seed {seed}, commit {commit}, {time}, {busy:.0%} of the "
    "processors taken by others, {versions}."
)

Part = dict[str, Any]


def refresh(results: Path) -> None:
    """Renders what is on file in a folder; the extrapolation only from our own."""
    parts = measurements.read(results / "stress.json")
    if not parts:
        return
    (results / "stress.md").write_text(render(parts))
    print(f"stress: {results / 'stress.md'}")
    if results.resolve() == RESULTS and "costs" in parts:
        text = scaling.render(parts["costs"])
        SCALING.write_text(replace_part(SCALING, "costs", text))


def render(parts: dict[str, Part]) -> str:
    parts = dict(sorted(parts.items()))
    summary = pd.DataFrame(_summary(*item) for item in parts.items())
    sections = [INTRODUCTION, markdown(summary), *map(_section, parts.values())]
    return "\n\n".join(sections) + "\n"


def _summary(name: str, part: Part) -> dict[str, str]:
    judged = [c["holds"] for c in part["checks"] if c["holds"] is not None]
    return {
        "part": part["title"],
        "name": f"`{name}`",
        "checks that hold": f"{sum(judged)} of {len(judged)}",
        "sizes": part.get("scale"),
        "took": f"{part['seconds']:.0f} s",
    }


def _section(part: Part) -> str:
    texts = {key: _listed(part[key]) for key in ("sizes", "versions")}
    origin = ORIGIN.format(**part | texts)
    about, origin = (
        fill(t, 88, break_on_hyphens=False) for t in (part["about"], origin)
    )
    table = markdown(pd.DataFrame(map(_row, part["checks"])))
    return f"## {part['title']}\n\n{about}\n\n{table}\n\n{origin}"


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _row(check: Part) -> dict[str, str]:
    limit, unit = check["limit"], check["unit"]
    return {
        "check": check["check"],
        "measured": number(check["measured"], unit),
        "at most": "" if limit is None else number(limit, unit),
        "holds": {None: "", True: "yes", False: "**no**"}[check["holds"]],
    }


def number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.2%}"
    is_whole = isinstance(value, int) or (abs(value) < 1e6 and value == int(value))
    text = f"{int(value):,}" if is_whole else f"{value:.3g}"
    return f"{text} {unit}".strip()
