"""``stress.md``, and the marked part of ``docs/scaling.md``, from ``stress.json``."""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.engine import provenance

RESULTS = Path(__file__).resolve().parents[1] / "results"
SCALING = RESULTS.parents[1] / "docs" / "scaling.md"

INTRODUCTION = """# Stress

What the package withstands, as measured by `python -m benchmarks stress`, which runs
the tests in `tests/stress` and writes this page from `stress.json`. Every check has a
number and the largest that is right; those without a limit are there to compare with.
`only=PART` measures one part again."""

Part = dict[str, Any]


def write(path: Path, name: str, part: Part, busy: float, checks: list[Part]) -> None:
    """Replaces one part of the results, and leaves what other runs have measured."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = part | provenance.of_measurement(busy) | {"checks": checks}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    temporary.replace(path)


def refresh(results: Path) -> None:
    """Renders what is on file in a folder; the extrapolation only from our own."""
    path = results / "stress.json"
    if not path.exists():
        return
    parts = json.loads(path.read_text())
    (results / "stress.md").write_text(render(parts))
    if results.resolve() == RESULTS and "costs" in parts:
        from benchmarks.stress import scaling

        begin, end = "<!-- begin:costs -->", "<!-- end:costs -->"
        before, _, rest = SCALING.read_text().partition(begin)
        after = rest.partition(end)[2]
        text = scaling.render(parts["costs"])
        SCALING.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def render(parts: dict[str, Part]) -> str:
    import pandas as pd

    from benchmarks.engine.tables import markdown

    summary, sections = [], []
    for name, part in parts.items():
        judged = [c["holds"] for c in part["checks"] if c["holds"] is not None]
        row = {"part": part["title"], "name": f"`{name}`"}
        row |= {"checks that hold": f"{sum(judged)} of {len(judged)}"}
        summary.append(row | {"took": f"{part['seconds']:.0f} s"})
        table = markdown(pd.DataFrame([_row(check) for check in part["checks"]]))
        texts = [_wrap(part["about"]), table, _wrap(_origin(part))]
        sections.append("\n\n".join([f"## {part['title']}", *texts]))
    return (
        "\n\n".join([INTRODUCTION, markdown(pd.DataFrame(summary)), *sections]) + "\n"
    )


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
