"""``stress.md``, and the marked part of ``docs/scaling.md``, from ``stress.json``."""

from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

from benchmarks.engine import measurements
from benchmarks.engine.config import RESULTS
from benchmarks.engine.pages import replace_part
from benchmarks.engine.tables import markdown

SCALING = RESULTS.parents[1] / "docs" / "scaling.md"

INTRODUCTION = """# Stress

What the package withstands, as measured by `python -m benchmarks stress`, which runs
the tests in `tests/stress` and writes this page from `stress.json`. Every check has a
number and the largest that is right; those without a limit are there to compare with.
`only=PART` measures one part again."""

Part = dict[str, Any]


def refresh(results: Path) -> None:
    """Renders what is on file in a folder; the extrapolation only from our own."""
    parts = measurements.read(results / "stress.json")
    if not parts:
        return
    (results / "stress.md").write_text(render(parts))
    print(f"stress: {results / 'stress.md'}")
    if results.resolve() == RESULTS and "costs" in parts:
        from benchmarks.stress import scaling

        text = scaling.render(parts["costs"])
        SCALING.write_text(replace_part(SCALING, "costs", text))


def render(parts: dict[str, Part]) -> str:
    summary, sections = [], []
    for name, part in sorted(parts.items()):
        judged = [c["holds"] for c in part["checks"] if c["holds"] is not None]
        summary.append(
            {
                "part": part["title"],
                "name": f"`{name}`",
                "checks that hold": f"{sum(judged)} of {len(judged)}",
                "sizes": part.get("scale"),
                "took": f"{part['seconds']:.0f} s",
            }
        )
        table = markdown(pd.DataFrame(map(_row, part["checks"])))
        sections += [f"## {part['title']}", _wrap(part["about"]), table]
        sections.append(_wrap(_origin(part)))
    table = markdown(pd.DataFrame(summary))
    return "\n\n".join([INTRODUCTION, table, *sections]) + "\n"


def _row(check: Part) -> dict[str, str]:
    limit, unit = check["limit"], check["unit"]
    return {
        "check": check["check"],
        "measured": number(check["measured"], unit),
        "at most": "" if limit is None else number(limit, unit),
        "holds": {None: "", True: "yes", False: "**no**"}[check["holds"]],
    }


def _origin(part: Part) -> str:
    sizes = ", ".join(f"{key} {value}" for key, value in part["sizes"].items())
    versions = ", ".join(f"{name} {v}" for name, v in part["versions"].items())
    return (
        f"Sizes: {sizes}; seed {part['seed']}, commit {part['commit']}, "
        f"{part['time']}, {part['busy']:.0%} of the processors taken by others, "
        f"{versions}."
    )


def _wrap(text: str) -> str:
    return fill(text, 88, break_long_words=False, break_on_hyphens=False)


def number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.2%}"
    is_whole = isinstance(value, int) or (abs(value) < 1e6 and value == int(value))
    text = f"{int(value):,}" if is_whole else f"{value:.3g}"
    return f"{text} {unit}".strip()
