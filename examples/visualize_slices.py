"""Draws linear and polynomial slices of sets in the plane, and what GSWE keeps of them.

A slice is a function of the plane: lines of equal value are straight for a linear one
and curved for a polynomial one (the figure on slicing in the paper). What remains of a
set is how its values are distributed. GSWE sorts them and takes the displacement from
the sorted values of a reference.
"""

import argparse
import math
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

matplotlib.use("Agg")  # a file, whether or not there is a screen
from matplotlib import pyplot as plt

from gswe_pyg.ops import segment_quantile
from gswe_pyg.slicers import LinearSlicer, PolynomialSlicer

COLORS = ("C0", "C1", "0.35")


def half_moons(number: int, noise: float = 0.08) -> tuple[Tensor, Tensor]:
    """Two sets that hold each other, which no straight line separates."""
    angle = math.pi * torch.rand(2, number)
    upper = torch.stack([angle[0].cos() - 0.5, angle[0].sin() - 0.25], dim=1)
    lower = torch.stack([0.5 - angle[1].cos(), 0.25 - angle[1].sin()], dim=1)
    return (
        upper + noise * torch.randn_like(upper),
        lower + noise * torch.randn_like(lower),
    )


def most_different(slicer: torch.nn.Module, x: Tensor, y: Tensor) -> int:
    """The slice in which the means of two sets are farthest apart, in deviations."""
    gap = slicer(x).mean(dim=0) - slicer(y).mean(dim=0)
    spread = torch.cat([slicer(x), slicer(y)]).std(dim=0)
    return int((gap.abs() / spread).argmax())


def draw_plane(axis, slicer, chosen: int, sets: list[Tensor]) -> None:
    ticks = torch.linspace(-2, 2, 200)
    plane = torch.cartesian_prod(ticks, ticks)
    value = slicer(plane)[:, chosen].view(200, 200).t()
    axis.contour(ticks, ticks, value, levels=14, cmap="viridis", linewidths=0.8)
    for points, color in zip(sets, COLORS[:2], strict=True):
        axis.scatter(*points.t(), s=6, color=color, zorder=2)
    axis.set(aspect="equal", xticks=[], yticks=[])


def draw_values(axis, values: list[Tensor]) -> None:
    bins = torch.linspace(
        float(torch.cat(values).min()), float(torch.cat(values).max()), 31
    ).tolist()
    for value, color in zip(values, COLORS[:2], strict=True):
        axis.hist(value.tolist(), bins, color=color, alpha=0.6)
    axis.set(xlabel="value of the slice", yticks=[])


def draw_displacements(axis, values: list[Tensor], reference: Tensor) -> None:
    """Each entry of the embedding is the length of a line, upwards or downwards."""
    num_points = len(reference)
    rank = (torch.arange(num_points) + 0.5) / num_points
    axis.plot(rank, reference, "o", color=COLORS[-1], markersize=4, label="reference")
    for i, value in enumerate(values):
        ptr = torch.tensor([0, len(value)])
        quantiles = segment_quantile(value[:, None], ptr, num_points).flatten()
        beside = rank + (0.1 - 0.2 * i) / num_points
        axis.vlines(beside, reference, quantiles, color=COLORS[i], linewidth=1)
        axis.plot(beside, quantiles, "o", color=COLORS[i], ms=4, label=f"set {i + 1}")
    axis.set(xlabel="rank", xlim=(0, 1), ylabel="value of the slice")
    axis.legend(fontsize="small")


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("results-examples/slices.png")
    )
    parser.add_argument("--degree", type=int, default=3, help="of the polynomial")
    parser.add_argument("--num-points", type=int, default=12, help="of the reference")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="fewer elements, fewer dpi")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    sets = list(half_moons(40 if args.fast else 200))
    reference = 0.6 * torch.randn(args.num_points, 2)
    print(f"two half moons of {len(sets[0])} elements, seed {args.seed}")
    # Out of some random slices of each kind, the one that tells the sets apart best.
    slicers = {
        "linear": LinearSlicer(2, 64),
        f"polynomial, degree {args.degree}": PolynomialSlicer(2, 64, args.degree),
    }
    plt.style.use("gswe_pyg.style")
    figure, axes = plt.subplots(2, 3, figsize=(10, 6.2), layout="constrained")
    for (label, slicer), row in zip(slicers.items(), axes, strict=True):
        chosen = most_different(slicer, *sets)
        values = [slicer(points)[:, chosen] for points in sets]
        draw_plane(row[0], slicer, chosen, sets)
        draw_values(row[1], values)
        draw_displacements(row[2], values, slicer(reference)[:, chosen].sort().values)
        row[0].set_ylabel(label)
    titles = ("lines of equal value", "what is left of the sets", "what GSWE keeps")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.output, dpi=60 if args.fast else 110)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
