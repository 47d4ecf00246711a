"""``python -m benchmarks datasets``: the set data sets beside the paper's table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine.arguments import option, parse
from benchmarks.engine.tables import markdown, save

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from gswe_pyg.datasets import SetDataset, WordSets

SUMMARY = "statistics of the set data sets beside the paper's table"

TRAIN_SHARE = 0.7  # of the documents, in the published splits of the word sets
BATCH_SIZE = 64  # of the paper's experiments on the word sets


@dataclass(frozen=True)
class Statistics:
    """A row of the paper's table of data sets."""

    num_sets: int
    mean_size: float
    num_features: int
    num_classes: int

    def cells(self) -> list[str]:
        numbers = (self.num_features, self.num_classes)
        return [f"{self.num_sets:,}", f"{self.mean_size:.1f}", *map(str, numbers)]


PAPER = {
    "Set-Circles": Statistics(400, 14.6, 2, 2),
    "Point Cloud MNIST": Statistics(60_000, 149.9, 2, 10),
    "twitter": Statistics(2_176, 9.9, 300, 3),
    "bbcsport": Statistics(517, 117.4, 300, 5),
    "classic": Statistics(4_965, 38.6, 300, 4),
    "amazon": Statistics(5_600, 45.0, 300, 4),
}
NOT_IN_PAPER = ["-"] * 4
WORD_SETS_NOTE = """\
Training sets of the word sets are 70 % of the documents, as in the published splits;
mean sizes are over all documents. Word sets read from npz files were rebuilt from
public copies of the documents, with vectors for fewer words than the authors had."""


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
    print(markdown(table(opened)))
    if any(map(is_of_words, opened.values())):
        print(f"\n{WORD_SETS_NOTE}")
    if "amazon" in opened:
        print(f"\n{padding_report('amazon', opened['amazon'])}")
    return 0


def open_datasets(root: Path) -> "Iterable[tuple[str, SetDataset]]":
    """The data sets that are laid out, and a line about each one that is not."""
    from gswe_pyg.datasets import (
        ModelNet10Points,
        PointCloudMNIST,
        SetCircles,
        WordSets,
    )

    makers: dict[str, Callable[[], SetDataset]] = {
        "Set-Circles": SetCircles,
        "Point Cloud MNIST": lambda: PointCloudMNIST(root / "MNIST"),
        **{name: lambda name=name: word_sets(root, name) for name in WordSets.names},
        "ModelNet10": lambda: ModelNet10Points(root / "ModelNet10"),
    }
    for name, make in makers.items():
        try:
            yield name, make()
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}\n")


def is_of_words(dataset: "SetDataset") -> bool:
    from gswe_pyg.datasets import WordSets

    return isinstance(dataset, WordSets)


def word_sets(root: Path, name: str) -> "WordSets":
    from gswe_pyg.datasets import WordSets

    return WordSets(root / "text", name)


def statistics(dataset: "SetDataset") -> Statistics:
    share = TRAIN_SHARE if is_of_words(dataset) else 1.0
    return Statistics(
        num_sets=round(share * len(dataset)),
        mean_size=dataset.set_sizes.double().mean().item(),
        num_features=dataset.num_features,
        num_classes=dataset.num_classes,
    )


def table(datasets: "dict[str, SetDataset]") -> "pd.DataFrame":
    """Our statistics, each followed by the paper's, if it has them."""
    import pandas as pd

    rows = []
    for name, dataset in datasets.items():
        ours = statistics(dataset).cells()
        theirs = PAPER[name].cells() if name in PAPER else NOT_IN_PAPER
        pairs = zip(ours, theirs, strict=True)
        rows.append([name, *(cell for pair in pairs for cell in pair)])
    columns = ["data set"]
    for column in ("training sets", "mean size", "features", "classes"):
        columns += [column, "paper"]
    return pd.DataFrame(rows, columns=columns)


def padded(sizes: "Tensor", batches: "Iterable[list[int] | Tensor]") -> tuple[int, int]:
    """The rows of all padded batches, and the pairs of rows that attention sees."""
    longest = [(len(batch), int(sizes[batch].max())) for batch in batches]
    return sum(b * n for b, n in longest), sum(b * n * n for b, n in longest)


def padding_report(name: str, dataset: "SetDataset") -> str:
    import torch

    from gswe_pyg.loader import BucketBatchSampler

    sizes = dataset.set_sizes
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(len(sizes), generator=generator).split(BATCH_SIZE)
    rows, pairs = padded(sizes, shuffled)
    fewer_rows, fewer_pairs = padded(sizes, BucketBatchSampler(dataset, BATCH_SIZE))
    elements = int(sizes.sum())
    return (
        f"{name} padded in batches of {BATCH_SIZE}: {rows / elements:.2f} rows per "
        f"element when shuffled,\n{fewer_rows / elements:.2f} with "
        f"BucketBatchSampler. That is {1 - fewer_rows / rows:.0%} fewer rows, and "
        f"{1 - fewer_pairs / pairs:.0%} fewer pairs for attention."
    )


def draw_set_circles(path: Path, num_columns: int = 5) -> None:
    """Draws sets of both classes, one class per row."""
    import torch
    from matplotlib.figure import Figure

    from gswe_pyg.datasets import SetCircles

    dataset = SetCircles()
    radii = (1.0, 2.0)
    angle = torch.linspace(0, 2 * torch.pi, 200)
    figure = Figure(figsize=(2 * num_columns, 4.2))
    axes = figure.subplots(2, num_columns, sharex=True, sharey=True)
    for label, row in enumerate(axes):
        chosen = dataset[dataset.y == label][:num_columns]
        for axis, data in zip(row, chosen, strict=True):
            circle = radii[label] * torch.stack([angle.cos(), angle.sin()])
            axis.plot(*circle, color="0.85", linewidth=1, zorder=1)
            axis.scatter(*data.pos.T, s=14, color=f"C{label}", zorder=2)
            axis.set_aspect("equal")
            axis.set_title(f"{data.num_nodes} elements", fontsize=9)
            axis.tick_params(labelsize=7)
        row[0].set_ylabel(f"class {label}, radius {radii[label]:g}", fontsize=9)
    figure.tight_layout()
    save(figure, path)
