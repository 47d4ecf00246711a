"""Ranks of many contenders over many data sets, and how far apart they have to be."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy.stats import studentized_range

from benchmarks.engine.tables import save


def critical_difference(
    num_names: int, num_datasets: int, level: float = 0.05
) -> float:
    """Of average ranks, by Nemenyi's test (Demšar, "Statistical comparisons of
    classifiers over multiple data sets", 2006, section 3.2.2)."""
    quantile = studentized_range.ppf(1 - level, num_names, math.inf) / math.sqrt(2)
    spread = math.sqrt(num_names * (num_names + 1) / (6 * num_datasets))
    return float(quantile * spread)


def groups(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """First and last of each longest run of ascending ranks that do not differ."""
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(
            i for i in range(len(ranks)) if ranks[i] - ranks[first] <= difference
        )
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def draw_ranks(ranks: Mapping[str, float], difference: float, path: Path) -> None:
    """Names along an axis of ranks, and a bar over those that do not differ."""
    from matplotlib.figure import Figure

    names = sorted(ranks, key=ranks.__getitem__)
    values = [ranks[name] for name in names]
    bars = groups(values, difference)
    left = math.ceil(len(names) / 2)
    height = 1.2 + 0.22 * (len(bars) + left)
    figure = Figure(figsize=(7.5, height))
    panel = figure.add_axes((0.01, 0.02, 0.98, 0.96))
    low, high = math.floor(min(values)), math.ceil(max(values))
    high = max(high, low + 1)
    margin = 0.45 * (high - low)
    panel.set_xlim(low - margin, high + margin)
    panel.axis("off")
    panel.plot([low, high], [0, 0], color="black", linewidth=1)
    for tick in range(low, high + 1):
        panel.plot([tick, tick], [0, 0.25], color="black", linewidth=1)
        panel.text(tick, 0.4, str(tick), ha="center", va="bottom", fontsize=8)
    panel.plot([low, low + difference], [1.7, 1.7], color="black", linewidth=1.5)
    panel.text(
        low + difference / 2,
        1.8,
        f"critical difference {difference:.2f}",
        ha="center",
        va="bottom",
        fontsize=8,
    )
    for level, (first, last) in enumerate(bars, start=1):
        ends = [values[first] - 0.05, values[last] + 0.05]
        panel.plot(ends, [-0.4 * level] * 2, color="0.3", linewidth=3)
    below = 0.4 * len(bars)
    for i, name in enumerate(names):
        is_left = i < left
        depth = below + 0.8 * (1 + (i if is_left else len(names) - 1 - i))
        edge = low - 0.05 * (high - low) if is_left else high + 0.05 * (high - low)
        color = "tab:blue" if name.startswith("GSWE") else "black"
        line = {"color": color, "linewidth": 0.8}
        panel.plot([values[i], values[i], edge], [0, -depth, -depth], **line)
        panel.text(
            edge,
            -depth,
            f" {name} ({values[i]:.2f}) ",
            ha="right" if is_left else "left",
            va="center",
            fontsize=8,
            color=color,
        )
    # Tight, because names may be longer than the margins.
    save(figure, path, bbox_inches="tight")
