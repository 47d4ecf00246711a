"""``results/speed.md``: tables, figures and verdicts from ``results/speed.json``."""

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.engine.tables import markdown, save
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
    """Writes the page beside each file of results that there is, and its figure."""
    for path in sorted(results.glob("speed*.json")):
        page = path.with_suffix(".md")
        page.write_text(render(json.loads(path.read_text()), path) + "\n")
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


def render(results: Results, path: Path) -> str:
    """The whole page as Markdown; the figure goes beside the file of results."""
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
        if name == "shapes":
            _draw(chosen, path.with_suffix(".png"))
            sections.append(f"![Times beside segment_quantile's]({path.stem}.png)")
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
        text["geometric mean"] = multiples.T.apply(_mean).map(_short)
    text.insert(0, "contender", [LABELS[name] for name in names])
    return text


def _mean(values: pd.Series) -> float:
    return geometric_mean(values.dropna())


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _short(value: float) -> str:
    """Three digits, or as many as the number has before the point."""
    return f"{value:.0f}x" if value >= 100 else f"{value:#.3g}x"


def _draw(records: pd.DataFrame, path: Path) -> None:
    """A bar for each contender and mode: the geometric mean over the shapes."""
    columns = ["mode", "case"]
    seconds = records.pivot(index="contender", columns=columns, values="value")
    seconds = seconds.rename(columns={"training": "forward and backward"})
    names = [name for name in LABELS if name in seconds.index and name != bars.OURS]
    ratios = (seconds / seconds.loc[bars.OURS]).reindex(names).dropna(how="all")
    means = ratios.T.groupby(level="mode").agg(_mean).T
    figure = Figure(figsize=(7.5, 0.45 * len(means) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = ["#3b6fb6", "#d1702b"]
    means.rename(LABELS).plot.barh(ax=axes, logx=True, width=0.8, color=colours)
    for bar in axes.containers:
        axes.bar_label(bar, fmt=lambda x: f"{x:.3g}x", padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    label = "time in multiples of segment_quantile's (geometric mean, shapes)"
    axes.set(xlabel=label, ylabel="")
    axes.legend(loc="lower right", fontsize=8)
    save(figure, path)
