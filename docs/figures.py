"""Draws the pictures of the guide: ``python docs/figures.py``, into ``docs/images``.

Each is drawn twice, for light and for dark pages (``-dark.png``).
"""

from pathlib import Path

import matplotlib
import torch
from cycler import cycler
from torch import Tensor

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import SetCircles
from gswe_pyg.ops import segment_quantile

IMAGES = Path(__file__).resolve().parent / "images"
SET, OTHER, DIFFERENCE, REFERENCE = "C0", "C1", "C3", "0.55"
SEED, POINTS = 339, 5  # no two nodes on top of each other

QUESTIONS = {
    "Are there no labels to train with?": "SetEmbedder(...)\nvectors without training",
    "Do you need distances between sets?": "GSWEAggregation(d, L, M)\nand .distance",
    "Does the target add up over the nodes,\nor grow with their number?": (
        "sum pooling, alone\nor beside heads"
    ),
    "Does the mean tell all there is?": "mean pooling",
    "Is four times the width affordable?": "GSWEAggregation(d, heads=4)",
}
OTHERWISE = "GSWEAggregation(d, heads=1)"


@torch.no_grad()
def draw_idea():
    """From a set over two slices and their quantiles to a vector."""
    torch.manual_seed(SEED)
    angle = torch.linspace(0, 3.5, 7)
    x = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.15 * torch.randn(7, 2)
    readout = GSWEAggregation(2, num_slices=2, num_points=POINTS)
    readout.points.mul_(0.6)
    slices = readout.slicer(x)
    directions = torch.nn.functional.normalize(readout.slicer.weight, dim=-1)
    reference = readout._sorted_reference()[0]
    ptr = torch.tensor([0, len(x)])
    quantiles = segment_quantile(slices, ptr, POINTS)[0]

    figure = plt.figure(figsize=(10, 4.2))
    grid = figure.add_gridspec(2, 4, width_ratios=[1.3, 1.1, 1.1, 0.5])
    axis = figure.add_subplot(grid[:, 0])
    axis.scatter(*x.t(), color=SET, s=40, zorder=3)
    color = plt.rcParams["text.color"]
    for direction, name in zip(directions, ("slice 1", "slice 2"), strict=True):
        end = 1.5 * direction
        arrow = {"arrowstyle": "->", "color": color}
        axis.annotate("", end.tolist(), (-end).tolist(), arrowprops=arrow)
        axis.annotate(name, (1.15 * end).tolist(), ha="center", va="center")
    axis.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal")
    axis.set(xticks=[], yticks=[], title="1. the nodes of a graph")
    axis.spines[:].set_visible(False)

    for i in range(2):
        axis = figure.add_subplot(grid[i, 1])
        draw_slice(axis, slices[:, i], f"slice {i + 1}")
        axis.set_title("2. slice and sort" if i == 0 else "")
        axis = figure.add_subplot(grid[i, 2])
        draw_quantiles(axis, slices[:, i], quantiles[i], reference[i])
        axis.set_title("3. compare with a reference" if i == 0 else "")
        if i == 0:
            axis.legend(fontsize="small", loc="upper left", handletextpad=0.1)
        else:
            axis.set_xlabel("rank")
    axis = figure.add_subplot(grid[:, 3])
    vector = readout(x, ptr=ptr)[0]
    axis.barh(range(len(vector)), vector, color=DIFFERENCE, height=0.6)
    axis.axvline(0, color=color, linewidth=0.8)
    axis.axhline(POINTS - 0.5, color=REFERENCE, linewidth=0.8, linestyle=":")
    axis.invert_yaxis()
    axis.spines[:].set_visible(False)
    axis.set(xticks=[], yticks=[], title="4. the vector")
    return figure


def draw_slice(axis, values: Tensor, label: str) -> None:
    axis.axhline(0, color=REFERENCE, linewidth=0.8, zorder=0)
    values = values.sort().values
    axis.scatter(values, torch.zeros_like(values), color=SET, s=30, zorder=3)
    for rank, value in enumerate(values.tolist(), start=1):
        height = 0.4 if rank % 2 else -0.4
        axis.text(value, height, str(rank), fontsize=9, ha="center", va="center")
    axis.set(ylim=(-1, 1), xlim=(-1.7, 1.7), yticks=[], xticks=[], ylabel=label)
    axis.spines[:].set_visible(False)


def draw_quantiles(axis, values: Tensor, quantiles: Tensor, reference: Tensor) -> None:
    """The quantile function of the set, read where the reference has its points."""
    rank = (torch.arange(POINTS) + 0.5) / POINTS
    draw_stairs(axis, values)
    axis.vlines(rank, reference, quantiles, color=DIFFERENCE, linewidth=2.5)
    axis.plot(rank, quantiles, "o", color=SET, label="graph")
    axis.plot(rank, reference, "o", color=REFERENCE, label="reference")
    axis.set(xlim=(0, 1), xticks=[0, 0.5, 1], yticks=[])


def draw_stairs(axis, values: Tensor) -> None:
    ends = torch.linspace(0, 1, len(values) + 1)
    steps = values.sort().values.tolist()
    axis.stairs(steps, ends.tolist(), baseline=None, color=SET, alpha=0.5)


def draw_interpolations():
    """The same set, read in four ways."""
    values = torch.tensor([-1.3, -0.4, -0.1, 0.9])
    ptr = torch.tensor([0, len(values)])
    rank = (torch.arange(POINTS) + 0.5) / POINTS
    names = ("linear", "step", "barycentric", "pswe")
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        out = segment_quantile(values[:, None], ptr, POINTS, name).flatten()
        draw_stairs(axis, values)
        axis.plot(rank, out, "o", color=DIFFERENCE)
        axis.set(title=f'"{name}"', xlabel="rank", xlim=(0, 1), xticks=[0, 0.5, 1])
    axes[0].set_ylabel("value of the slice")
    return figure


@torch.no_grad()
def draw_same_mean():
    """Two sets with the same mean: which of the outputs tell them apart."""
    angle = torch.linspace(0, 2 * torch.pi, 13)[:-1]
    ring = torch.stack([angle.cos(), angle.sin()], dim=1)
    sets = (1 + 0.35 * ring, 1 + 0.9 * ring)
    readout = GSWEAggregation(2, heads=2)  # mean and spread
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), width_ratios=[1, 1.7])
    color = plt.rcParams["text.color"]
    for i, points in enumerate(sets):
        label = ("graph A", "graph B")[i]
        axes[0].scatter(*points.t(), color=(SET, OTHER)[i], s=25, label=label)
        vector = readout(points, ptr=torch.tensor([0, len(points)]))[0]
        places = torch.arange(4) + (0.2 if i else -0.2)
        axes[1].bar(places, vector, 0.36, color=(SET, OTHER)[i], label=label)
    axes[0].plot(1, 1, "x", color=color, markersize=8, markeredgewidth=2)
    arrow = {"arrowstyle": "-", "color": color, "shrinkB": 8}
    axes[0].annotate(
        "mean of both", (1, 1), (1, 1.5), ha="center", fontsize=9, arrowprops=arrow
    )
    axes[0].set(aspect="equal", xticks=[], yticks=[], title="two graphs, as nodes")
    axes[0].set(xlim=(-0.05, 2.05), ylim=(-0.05, 2.05))
    axes[0].spines[:].set_visible(False)
    names = ["mean,\nchannel 1", "mean,\nchannel 2"]
    names += ["spread,\nchannel 1", "spread,\nchannel 2"]
    axes[1].set_xticks(range(4), names)
    axes[1].axvline(1.5, color=REFERENCE, linestyle=":")
    axes[1].set(ylim=(0, 1.3), ylabel="output")
    axes[1].text(0.5, 1.18, "mean pooling: the same", ha="center")
    axes[1].text(2.5, 1.18, "GSWE's second head: not", ha="center")
    axes[1].legend(loc="center right", bbox_to_anchor=(1, 0.68), fontsize="small")
    return figure


def draw_decision():
    """Which readout to take: questions on the left, answers on the right."""
    figure, axis = plt.subplots(figsize=(8, 5.4))
    color = plt.rcParams["text.color"]
    box = {"boxstyle": "round,pad=0.5", "facecolor": "none"}
    arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 3, "shrinkB": 3}

    def put(x: float, y: float, text: str, edge: str, **options):
        frame = {**box, "edgecolor": edge, "linewidth": 1.5}
        return axis.text(x, y, text, va="center", ha="center", bbox=frame, **options)

    rows = [*QUESTIONS.items(), (None, OTHERWISE)]
    for i, (question, answer) in enumerate(rows):
        y = -float(i)
        put(0.76, y, answer, SET, family="monospace", fontsize=9)
        if question is None:
            axis.annotate("", (0.56, y), (0.24, y), arrowprops={**arrow, "shrinkA": 0})
            continue
        put(0.24, y, question, color)
        axis.annotate("", (0.56, y), (0.45, y), arrowprops=arrow)
        axis.text(0.505, y + 0.12, "yes", ha="center", fontsize=9)
        last = i == len(rows) - 2
        end = (0.24, y - 1) if last else (0.24, y - 0.68)
        straight = {**arrow, "arrowstyle": "-", "shrinkB": 0} if last else arrow
        axis.annotate("", end, (0.24, y - 0.28), arrowprops=straight)
        axis.text(0.25, y - 0.5, "no", va="center", fontsize=9)
    axis.set(xlim=(0, 1), ylim=(-len(rows) + 0.5, 0.5))
    axis.set_axis_off()
    return figure


def draw_set_circles():
    """Sets of both classes, one class per row."""
    dataset = SetCircles()
    equal = {"aspect": "equal"}
    figure, axes = plt.subplots(
        2, 5, figsize=(10, 4.2), sharex=True, sharey=True, subplot_kw=equal
    )
    for label, row in enumerate(axes):
        for axis, data in zip(row, dataset[dataset.y == label][:5], strict=True):
            axis.add_patch(plt.Circle((0, 0), label + 1, fill=False, color=REFERENCE))
            axis.scatter(*data.pos.T, s=14, color=(SET, OTHER)[label], zorder=3)
            axis.set_title(f"{data.num_nodes} elements", fontsize=9)
        row[0].set_ylabel(f"class {label}, radius {label + 1}", fontsize=9)
    return figure


DRAWINGS = {
    "idea": draw_idea,
    "interpolations": draw_interpolations,
    "same_mean": draw_same_mean,
    "decision": draw_decision,
    "set_circles": draw_set_circles,
}
BRIGHT = {"axes.prop_cycle": cycler(color=["#56B4E9", "#E69F00", "#009E73", "#D55E00"])}
THEMES = {
    "": ["gswe_pyg.style"],
    "-dark": ["dark_background", "gswe_pyg.style", BRIGHT],
}


if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        for ending, style in THEMES.items():
            with plt.style.context(style):
                path = IMAGES / f"{name}{ending}.png"
                draw().savefig(
                    path, transparent=bool(ending), metadata={"Software": None}
                )
            print(f"seed {SEED}, picture: {path}")
