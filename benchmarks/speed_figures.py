"""The figures of ``python -m benchmarks speed``."""

import math
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.speed_bars import geometric_mean, ratios
from benchmarks.speed_contenders import CONTENDERS, FLOORS, OURS, VARIANTS
from benchmarks.speed_shapes import GROWTH, Shape
from benchmarks.speed_timing import MODES, Record

COLOURS = {"forward": "#3b6fb6", "training": "#d1702b"}
MODE_LABELS = {"forward": "forward", "training": "forward and backward"}


def draw_ratios(records: list[Record], path: Path) -> None:
    """A bar for each contender: the geometric mean; a dot for each shape."""
    names = [name for name in CONTENDERS if name not in (OURS, *VARIANTS)]
    names = [name for name in names if ratios(records, name)]
    figure = Figure(figsize=(7.5, 0.55 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    for i, mode in enumerate(MODES):
        of_mode = [record for record in records if record["mode"] == mode]
        for row, name in enumerate(names):
            values = ratios(of_mode, name)
            mean, y = geometric_mean(values), row + 0.4 * (i - 0.5)
            label = MODE_LABELS[mode] if row == 0 else None
            axes.barh(y, mean - 1, 0.36, 1, color=COLOURS[mode], label=label, alpha=0.8)
            axes.plot(values, [y] * len(values), ".", color="black", markersize=3)
            edge = max(mean, *values, 1)
            axes.text(1.1 * edge, y, f"{mean:.3g}x", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yticks(range(len(names)), [CONTENDERS[name].label for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("time in multiples of segment_quantile's (geometric mean, shapes)")
    axes.legend(loc="lower right", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def draw_growth(records: list[Record], path: Path) -> None:
    """Time along each series, beside a line of the sort's own growth."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    panels = figure.subplots(2, 4, sharey="row")
    markers = dict(zip(_names(records), "osd", strict=False))
    for row, mode in enumerate(MODES):
        for panel, (axis, shapes) in zip(panels[row], GROWTH.items(), strict=True):
            x = [getattr(shape, axis) for shape in shapes]
            for name, marker in markers.items():
                times = _series(records, shapes, name, mode)
                label = CONTENDERS[name].label
                panel.loglog(x, times, f"{marker}-", markersize=4, label=label)
            if axis != "points":
                guide = _guide(shapes, _series(records, shapes, OURS, mode)[-1])
                panel.loglog(x, guide, ":", color="grey", label="N L log n")
            panel.set_xlabel(axis)
            panel.set_xticks(x, [str(value) for value in x])
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        panels[row][0].set_ylabel(f"ms, {MODE_LABELS[mode]}")
    # Beside the lines, which leave room only there.
    handles, labels = panels[0][0].get_legend_handles_labels()
    panels[0][-1].legend(handles, labels, fontsize=7, loc="upper left")
    figure.savefig(path, dpi=150)


def _names(records: list[Record]) -> list[str]:
    present = {record["contender"] for record in records}
    floors = [name for name in FLOORS if name in present]
    return [name for name in CONTENDERS if name in present - set(floors)] + floors


def _series(
    records: list[Record], shapes: list[Shape], name: str, mode: str
) -> list[float]:
    milliseconds = {
        Shape(**record["shape"]): 1e3 * record.get("seconds", math.nan)
        for record in records
        if record["contender"] == name and record["mode"] == mode
    }
    return [milliseconds[shape] for shape in shapes]


def _guide(shapes: list[Shape], last: float) -> list[float]:
    work = [s.graphs * s.nodes * s.slices * math.log2(s.nodes) for s in shapes]
    return [last * value / work[-1] for value in work]
