"""Draws the pictures of the guide: ``python docs/figures.py``, into ``docs/images``."""

from pathlib import Path

import matplotlib
import torch
from torch import Tensor

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import segment_quantile

IMAGES = Path(__file__).resolve().parent / "images"
SET, REFERENCE = "tab:blue", "0.4"
SEED, POINTS = 4, 5


@torch.no_grad()
def draw_idea() -> None:
    """From a set over two slices and their quantiles to a vector."""
    torch.manual_seed(SEED)
    angle = 3.5 * torch.rand(9)
    x = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.15 * torch.randn(9, 2)
    readout = GSWEAggregation(2, num_slices=2, num_points=POINTS)
    readout.points.mul_(0.6)
    slices = readout.slicer(x)
    directions = torch.nn.functional.normalize(readout.slicer.weight, dim=-1)
    reference = readout._sorted_reference()[0]
    ptr = torch.tensor([0, len(x)])
    quantiles = segment_quantile(slices, ptr, POINTS)[0]

    figure = plt.figure(figsize=(11, 3.4), layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=[1.25, 1, 1.1, 0.55])
    axis = figure.add_subplot(grid[:, 0])
    axis.scatter(*x.t(), color=SET, zorder=3)
    for direction, name in zip(directions, ("slice 1", "slice 2"), strict=True):
        end = 1.5 * direction
        axis.annotate(
            "", end.tolist(), (-end).tolist(), arrowprops={"arrowstyle": "->"}
        )
        axis.annotate(name, (1.08 * end).tolist(), ha="center", va="center")
    axis.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal")
    axis.set(xticks=[], yticks=[], title="1. a set of nodes")

    for i in range(2):
        axis = figure.add_subplot(grid[i, 1])
        draw_slice(axis, slices[:, i], f"slice {i + 1}")
        axis.set_title("2. sliced and sorted" if i == 0 else "")
        axis = figure.add_subplot(grid[i, 2])
        draw_quantiles(axis, slices[:, i], quantiles[i], reference[i])
        axis.set_title("3. quantiles - reference" if i == 0 else "")
    axis = figure.add_subplot(grid[:, 3])
    vector = readout(x, ptr=ptr)[0]
    limit = float(vector.abs().max())
    axis.imshow(
        vector[:, None], cmap="coolwarm", aspect="auto", vmin=-limit, vmax=limit
    )
    for row, value in enumerate(vector.tolist()):
        axis.text(0, row, f"{value:+.2f}", ha="center", va="center", fontsize=8)
    axis.axhline(POINTS - 0.5, color="white", linewidth=2)
    axis.set(xticks=[], yticks=[], title="4. the vector")
    save(figure, "idea")


def draw_slice(axis, values: Tensor, label: str) -> None:
    axis.axhline(0, color="0.8", zorder=0)
    values = values.sort().values
    axis.scatter(values, torch.zeros_like(values), color=SET, zorder=3)
    for rank, value in enumerate(values.tolist(), start=1):
        height = 0.35 if rank % 2 else -0.35
        axis.text(value, height, str(rank), fontsize=7, ha="center", va="center")
    axis.set(ylim=(-1, 1), xlim=(-1.9, 1.9), yticks=[], ylabel=label)


def draw_quantiles(axis, values: Tensor, quantiles: Tensor, reference: Tensor) -> None:
    """The quantile function of the set, read where the reference has its points."""
    rank = (torch.arange(POINTS) + 0.5) / POINTS
    ends = torch.linspace(0, 1, len(values) + 1)
    values = values.sort().values
    axis.stairs(values.tolist(), ends.tolist(), baseline=None, color=SET, alpha=0.4)
    axis.vlines(rank, reference, quantiles, color="tab:red", linewidth=1.5)
    axis.plot(rank, quantiles, "o", color=SET, markersize=5, label="set")
    axis.plot(rank, reference, "o", color=REFERENCE, markersize=5, label="reference")
    axis.set(xlim=(0, 1), xticks=[0, 0.5, 1], yticks=[])
    axis.legend(fontsize=7, loc="upper left")


def draw_interpolations() -> None:
    """The same set, read in four ways."""
    values = torch.tensor([-1.3, -0.4, -0.1, 0.9])
    ptr = torch.tensor([0, len(values)])
    rank = (torch.arange(POINTS) + 0.5) / POINTS
    ends = torch.linspace(0, 1, len(values) + 1)
    names = ("linear", "step", "barycentric", "pswe")
    figure, axes = plt.subplots(
        1, 4, figsize=(11, 2.6), layout="constrained", sharey=True
    )
    for axis, name in zip(axes, names, strict=True):
        out = segment_quantile(values[:, None], ptr, POINTS, name).flatten()
        axis.stairs(values.tolist(), ends.tolist(), baseline=None, color=SET, alpha=0.4)
        axis.plot(rank, out, "o", color="tab:red", markersize=5)
        axis.set(title=f'"{name}"', xlabel="rank", xlim=(0, 1), xticks=[0, 0.5, 1])
    axes[0].set_ylabel("value of the slice")
    save(figure, "interpolations")


@torch.no_grad()
def draw_mean_is_blind() -> None:
    """Two sets with the same mean, and their embeddings."""
    torch.manual_seed(0)
    angle = torch.linspace(0, 2 * torch.pi, 13)[:-1]
    ring = torch.stack([angle.cos(), angle.sin()], dim=1)
    sets = (0.4 * ring, 1.2 * ring)
    readout = GSWEAggregation(2, num_slices=4, num_points=6)
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.8), layout="constrained")
    for i, points in enumerate(sets):
        color = ("tab:blue", "tab:orange")[i]
        axes[0].scatter(*points.t(), color=color, s=14)
        vector = readout(points, ptr=torch.tensor([0, len(points)]))[0]
        axes[1].plot(vector, "o-", color=color, markersize=3, linewidth=0.8)
    mean = torch.cat(sets).mean(dim=0)
    axes[0].plot(*mean, "x", color="black", label="the mean of both")
    axes[0].set(aspect="equal", xticks=[], yticks=[], title="two sets")
    axes[0].set(xlim=(-2.2, 2.2), ylim=(-1.5, 1.9))
    axes[0].legend(fontsize="small", loc="upper center")
    axes[1].set(title="their embeddings", xlabel="entry", yticks=[])
    save(figure, "same_mean")


def save(figure, name: str) -> None:
    path = IMAGES / f"{name}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    print(f"seed {SEED}, picture: {path}")


if __name__ == "__main__":
    draw_idea()
    draw_interpolations()
    draw_mean_is_blind()
