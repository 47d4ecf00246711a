"""``RELIABILITY.md`` and the marked part of ``docs/scaling.md``, from the records."""

from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any

from benchmarks.reliability import scaling
from benchmarks.report import replace_part
from benchmarks.tables import markdown

Results = dict[str, Any]

INTRODUCTION = """# Reliability

What the package withstands, as measured by `python -m benchmarks reliability`, which
writes this page from `results/reliability.json`. Every check has a number and the
largest that is right; those without a limit are there to compare with. `--only PART`
measures one part again, `--resume` those that an interrupted command has left."""


def render(results: Results, parts: dict[str, ModuleType]) -> str:
    sections = [INTRODUCTION, _summary(results, parts)]
    sections += [_section(results[name], parts[name]) for name in results]
    return "\n\n".join(sections) + "\n"


def refresh(page: Path, results: Results) -> None:
    """Rewrites the part of the page on scaling that comes from the costs."""
    if "costs" in results and page.exists():
        text = scaling.render(results["costs"])
        page.write_text(replace_part(page.read_text(), "costs", text))


def all_right(results: Results) -> bool:
    return all(
        check["verdict"] is not False
        for part in results.values()
        for check in part["checks"]
    )


def _summary(results: Results, parts: dict[str, ModuleType]) -> str:
    rows = []
    for name, part in results.items():
        verdicts = [check["verdict"] for check in part["checks"]]
        judged = [verdict for verdict in verdicts if verdict is not None]
        right = f"{sum(judged)} of {len(judged)}"
        rows.append([parts[name].TITLE, f"`{name}`", right, f"{part['seconds']:.0f} s"])
    return markdown(["part", "name", "checks that hold", "took"], rows)


def _section(part: Results, module: ModuleType) -> str:
    rows = [
        [
            check["check"],
            _number(check["measured"], check["unit"]),
            "" if check["limit"] is None else _number(check["limit"], check["unit"]),
            {None: "", True: "yes", False: "**no**"}[check["verdict"]],
        ]
        for check in part["checks"]
    ]
    table = markdown(["check", "measured", "at most", "holds"], rows)
    about, origin = _wrap(module.ABOUT), _wrap(_origin(part))
    return f"## {module.TITLE}\n\n{about}\n\n{table}\n\n{origin}"


def _origin(part: Results) -> str:
    settings = ", ".join(f"{key} {value}" for key, value in part["config"].items())
    versions = ", ".join(f"{name} {v}" for name, v in part["versions"].items())
    return (
        f"Settings: {settings}; seed {part['seed']}, commit {part['commit']}, "
        f"{part['time']}, {part['busy']:.0%} of the processors taken by others, "
        f"{versions}."
    )


def _wrap(text: str) -> str:
    return fill(text, 88, break_long_words=False, break_on_hyphens=False)


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.2%}"
    is_whole = isinstance(value, int) or (abs(value) < 1e6 and value == int(value))
    text = f"{int(value):,}" if is_whole else f"{value:.3g}"
    return f"{text} {unit}".strip()
