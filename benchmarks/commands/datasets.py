"""``python -m benchmarks datasets``: the set data sets beside the paper's table."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from benchmarks.engine.arguments import option, parse
from benchmarks.engine.tables import markdown, save

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from gswe_pyg.datasets import SetDataset

SUMMARY = "statistics of the set data sets beside the paper's table"

TRAIN_SHARE = 0.7  # of the documents, in the published splits of the word sets
BATCH_SIZE = 64  # of the paper's experiments on the word sets

COLUMNS = ("training sets", "mean size", "features", "classes")
PAPER = {
    "Set-Circles": (400, 14.6, 2, 2),
    "Point Cloud MNIST": (60_000, 149.9, 2, 10),
    "twitter": (2_176, 9.9, 300, 3),
    "bbcsport": (517, 117.4, 300, 5),
    "classic": (4_965, 38.6, 300, 4),
    "amazon": (5_600, 45.0, 300, 4),
}
NOTE = """\
Each number is followed by the paper's in brackets. Training sets of the word sets are
70 % of the documents, as in the published splits; mean sizes are over all documents.
Word sets read from npz files were rebuilt from public copies of the documents, with
vectors for fewer words than the authors had."""


@dataclass(frozen=True)
class Options:
    """Prints statistics of the set data sets, from the data, beside the paper's."""

    data: Path = option(Path("data"), "where the data sets are")
    picture: Path | None = option(None, "draw some sets of Set-Circles into this file")


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "datasets")
    if options.picture is not None:
        draw_set_circles(options.picture)
        print(f"figure: {options.picture}")
        return 0
    opened = dict(open_datasets(options.data))
    print(f"{markdown(table(opened))}\n\n{fill(NOTE, 80)}")
    if "amazon" in opened:
        print(f"\n{padding_report(opened['amazon'])}")
    return 0


def open_datasets(root: Path) -> "Iterable[tuple[str, SetDataset]]":
    """The data sets that are laid out, and a line about each one that is not."""
    from gswe_pyg import datasets

    makers = {
        "Set-Circles": datasets.SetCircles,
        "Point Cloud MNIST": lambda: datasets.PointCloudMNIST(root / "MNIST"),
        "ModelNet10": lambda: datasets.ModelNet10Points(root / "ModelNet10"),
    }
    for name in datasets.WordSets.names:
        makers[name] = lambda name=name: datasets.WordSets(root / "text", name)
    for name, make in makers.items():
        try:
            yield name, make()
        except FileNotFoundError as error:
            print(f"{fill(f'{name} is left out: {error}', 80)}\n")


def table(found: "dict[str, SetDataset]") -> "pd.DataFrame":
    """Our statistics, each with the paper's in brackets, if it has them."""
    import pandas as pd

    from gswe_pyg.datasets import WordSets

    rows = {}
    for name, dataset in found.items():
        share = TRAIN_SHARE if isinstance(dataset, WordSets) else 1.0
        ours = (
            round(share * len(dataset)),
            dataset.set_sizes.double().mean().item(),
            dataset.num_features,
            dataset.num_classes,
        )
        rows[name] = [_short(number) for number in ours]
        if name in PAPER:
            pairs = zip(rows[name], PAPER[name], strict=True)
            rows[name] = [f"{our} ({_short(their)})" for our, their in pairs]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    return frame.reset_index(names="data set")


def _short(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.1f}"


def padded(sizes: "Tensor", batches: "Iterable[list[int] | Tensor]") -> tuple[int, int]:
    """The rows of all padded batches, and the pairs of rows that attention sees."""
    longest = [(len(batch), int(sizes[batch].max())) for batch in batches]
    return sum(b * n for b, n in longest), sum(b * n * n for b, n in longest)


def padding_report(dataset: "SetDataset") -> str:
    import torch

    from gswe_pyg.loader import BucketBatchSampler

    sizes = dataset.set_sizes
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(len(sizes), generator=generator).split(BATCH_SIZE)
    rows, pairs = padded(sizes, shuffled)
    fewer_rows, fewer_pairs = padded(sizes, BucketBatchSampler(dataset, BATCH_SIZE))
    elements = int(sizes.sum())
    return fill(
        f"amazon padded in batches of {BATCH_SIZE}: {rows / elements:.2f} rows per "
        f"element when shuffled, {fewer_rows / elements:.2f} with BucketBatchSampler. "
        f"That is {1 - fewer_rows / rows:.0%} fewer rows, and "
        f"{1 - fewer_pairs / pairs:.0%} fewer pairs for attention.",
        80,
    )


def draw_set_circles(path: Path, num_columns: int = 5) -> None:
    """Draws sets of both classes, one class per row."""
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    from gswe_pyg.datasets import SetCircles

    style.use("gswe_pyg.style")
    dataset = SetCircles()
    figure = Figure(figsize=(2 * num_columns, 4.2), layout="tight")
    axes = figure.subplots(2, num_columns, sharex=True, sharey=True)
    for label, (row, radius) in enumerate(zip(axes, (1, 2), strict=True)):
        chosen = dataset[dataset.y == label][:num_columns]
        for axis, data in zip(row, chosen, strict=True):
            axis.add_patch(Circle((0, 0), radius, fill=False, color="0.85"))
            axis.scatter(*data.pos.T, s=14, color=f"C{label}")
            axis.set_aspect("equal")
            axis.set_title(f"{data.num_nodes} elements", fontsize=9)
            axis.tick_params(labelsize=7)
        row[0].set_ylabel(f"class {label}, radius {radius}", fontsize=9)
    save(figure, path)
