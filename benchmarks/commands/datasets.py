"""Statistics of the set data sets beside the paper's table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from benchmarks.engine.arguments import option, parse
from benchmarks.engine.tables import markdown

if TYPE_CHECKING:
    from gswe_pyg.datasets import SetDataset

COLUMNS = ("training sets", "mean size", "features", "classes")
PAPER = {
    "Set-Circles": ("400", "14.6", "2", "2"),
    "Point Cloud MNIST": ("60,000", "149.9", "2", "10"),
    "twitter": ("2,176", "9.9", "300", "3"),
    "bbcsport": ("517", "117.4", "300", "5"),
    "classic": ("4,965", "38.6", "300", "4"),
    "amazon": ("5,600", "45.0", "300", "4"),
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


def main(arguments: list[str]) -> int:
    options = parse(Options, arguments, "datasets")

    import pandas as pd

    rows = [_row(name, dataset) for name, dataset in open_datasets(options.data)]
    print(f"{markdown(pd.DataFrame(rows))}\n\n{fill(NOTE, 80)}")
    return 0


def open_datasets(root: Path) -> "Iterator[tuple[str, SetDataset]]":
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


def _row(name: str, dataset: "SetDataset") -> dict[str, str]:
    """Our statistics, each with the paper's in brackets, if it has them."""
    from gswe_pyg.datasets import WordSets

    share = 0.7 if isinstance(dataset, WordSets) else 1.0
    cells = [
        f"{round(share * len(dataset)):,}",
        f"{dataset.set_sizes.double().mean().item():.1f}",
        f"{dataset.num_features}",
        f"{dataset.num_classes}",
    ]
    if name in PAPER:
        pairs = zip(cells, PAPER[name], strict=True)
        cells = [f"{ours} ({theirs})" for ours, theirs in pairs]
    return {"data set": name} | dict(zip(COLUMNS, cells, strict=True))
