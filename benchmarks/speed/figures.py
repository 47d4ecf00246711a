"""The figure of the speed page."""

from pathlib import Path
from statistics import geometric_mean

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.engine.tables import save
from benchmarks.speed.bars import OURS
from benchmarks.speed.parts import LABELS
from benchmarks.speed.timing import MODES

COLOURS = {"forward": "#3b6fb6", "training": "#d1702b"}
MODE_LABELS = {"forward": "forward", "training": "forward and backward"}


def draw_ratios(records: pd.DataFrame, path: Path) -> None:
    """On six shapes: a bar for each contender, the geometric mean, a dot per shape."""
    seconds = records[records["part"] == "shapes"].pivot(
        index="contender", columns=["mode", "case"], values="value"
    )
    names = [name for name in LABELS if name in seconds.index and name != OURS]
    ratios = (seconds / seconds.loc[OURS]).reindex(names).dropna(how="all")
    figure = Figure(figsize=(7.5, 0.45 * len(ratios) + 1.2), layout="constrained")
    axes = figure.subplots()
    for i, mode in enumerate(MODES):
        for row, (_, values) in enumerate(ratios[mode].iterrows()):
            values, y = values.dropna(), row + 0.4 * (i - 0.5)
            middle, label = (
                geometric_mean(values),
                MODE_LABELS[mode] if row == 0 else None,
            )
            axes.barh(y, middle - 1, 0.36, 1, color=COLOURS[mode], label=label)
            axes.plot(values, [y] * len(values), ".", color="black", markersize=3)
            edge = max(middle, *values, 1)
            axes.text(1.1 * edge, y, f"{middle:.3g}x", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yticks(range(len(ratios)), [LABELS[name] for name in ratios.index])
    axes.invert_yaxis()
    axes.set_xlabel("time in multiples of segment_quantile's (geometric mean, shapes)")
    axes.legend(loc="lower right", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
