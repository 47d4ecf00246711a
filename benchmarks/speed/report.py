"""``results/speed.md``: tables and verdicts from ``results/speed.json``."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import gmean

from benchmarks.engine.tables import markdown
from benchmarks.speed import bars, sets
from benchmarks.speed.contenders import LABELS
from benchmarks.speed.parts import PARTS

Results = dict[str, Any]

TITLES = {"forward": "Forward", "training": "Forward and backward"}

INTRODUCTION = (
    "# Speed and memory\n\nMade by `python -m benchmarks report speed` from what "
    "`python -m benchmarks speed` measured. All contenders take turns in one process, "
    "on batches that differ in sizes and values; times are medians. Where several runs "
    "differ little, take it for noise."
)


def refresh(results: Path) -> None:
    """Writes the page beside each file of results that there is."""
    for path in sorted(results.glob("speed*.json")):
        page = path.with_suffix(".md")
        page.write_text(render(json.loads(path.read_text())) + "\n")
        print(f"{path.stem}: {page}")


def cost_line(path: Path) -> str:
    """For the project's README: a step of training beside that with mean pooling."""
    records = frame(json.loads(path.read_text()))
    chosen = records[records["part"] == "gin"]
    seconds = chosen.pivot(index="contender", columns="case", values="value")
    times = seconds.loc["gswe_extremes"] / seconds.loc["mean"]
    return (
        f"**Cost**: a training step of a five-layer GIN on ogbg-molhiv takes "
        f"{times.min():.2f} to {times.max():.2f}\ntimes as long as with mean pooling, "
        f"on two CPU cores ([speed](benchmarks/results/speed.md))."
    )


def frame(results: Results) -> pd.DataFrame:
    """All records: part, case, contender, mode, and as value the seconds or, of memory,
    the multiple of the slice matrix."""
    parts = {name: pd.DataFrame(part["records"]) for name, part in results.items()}
    found = pd.concat(parts, names=["part", "line"]).reset_index("part")
    columns = ["part", "case", "contender", "mode", "seconds"]
    found = found.reindex(columns=[*columns, "peak_bytes", "slice_bytes"])
    found["value"] = found["seconds"].fillna(found["peak_bytes"] / found["slice_bytes"])
    found = pd.concat([found, bars.steps(found)], ignore_index=True)
    return found.astype({"value": float})


def render(results: Results) -> str:
    """The whole page as Markdown."""
    records = frame(results)
    sections = [
        INTRODUCTION,
        "## Bars\n\nWhat the project demands of itself, and what came out.",
        markdown(bars.verdicts(records)),
        "## Origin",
        markdown(_origin(results)),
    ]
    for name, part in PARTS.items():
        if name not in results:
            continue
        sections.append(f"## {part.title}\n\n{part.about}")
        if name == "sets":
            sections.append(sets.render(results[name]["records"]))
            continue
        chosen = records[records["part"] == ("steps" if name == "growth" else name)]
        for mode, of_mode in chosen.groupby("mode"):
            sections += [f"{TITLES[mode]}:", markdown(table(of_mode, part.baseline))]
    return "\n\n".join(sections)


def _origin(results: Results) -> pd.DataFrame:
    """Each part has its own: parts may be measured at different times."""
    return pd.DataFrame(
        {
            "part": name,
            "threads": part["threads"],
            "seed": part["seed"],
            # Its own processes are others here.
            "others took": "" if name == "memory" else f"{part['busy']:.0%}",
            "commit": part["commit"],
            **part["versions"],
        }
        for name, part in results.items()
    )


def table(records: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """A row for each contender: the milliseconds of the baseline, and how many times as
    long the others take; without a baseline, the values as they are."""
    names = [name for name in LABELS if name in set(records["contender"])]
    cases = list(dict.fromkeys(records["case"]))
    values = records.pivot(index="contender", columns="case", values="value")
    values = values.reindex(names)[cases]
    multiples = values / values.loc[baseline] if baseline else values
    text = multiples.map(_short, na_action="ignore").astype(object)
    if baseline:
        text.loc[baseline] = [_time(seconds) for seconds in values.loc[baseline]]
    if baseline and len(cases) > 1:
        means = gmean(multiples, axis=1, nan_policy="omit")
        text["geometric mean"] = list(map(_short, means))
    text.insert(0, "contender", [LABELS[name] for name in names])
    return text


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _short(value: float) -> str:
    """Three digits, or as many as the number has before the point."""
    return f"{value:.0f}x" if value >= 100 else f"{value:#.3g}x"
