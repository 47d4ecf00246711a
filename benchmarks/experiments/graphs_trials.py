"""The table of settings that were tried on validation parts of graphs."""

from collections import defaultdict
from itertools import chain

from benchmarks.experiments.graphs_cells import (
    AXES,
    METRIC_LABELS,
    goodness,
    largest_protocols,
    score,
)
from benchmarks.graph_data import METRICS
from benchmarks.ranks import average_ranks
from benchmarks.records import Record
from benchmarks.tables import markdown

#: What a row of the table is.
SETTINGS = ("readout", "slicer", "points", "dropout")


def trials(records: list[Record]) -> str:
    """A row for each setting, on the data sets and seeds that all settings have."""
    cells: dict[tuple, dict[tuple[str, int], float]] = defaultdict(dict)
    shown = largest_protocols(records, (*AXES, *SETTINGS))
    for record in chain.from_iterable(shown.values()):
        config = record["config"]
        setting = tuple(str(config[name]) for name in SETTINGS)
        place = config["dataset"], record["seed"]
        cells[setting][place] = record["metrics"]["valid"]
    common = set.intersection(*(set(found) for found in cells.values()))
    values: dict[tuple, dict[str, list[float]]] = {
        setting: {
            dataset: [found[place] for place in sorted(common) if place[0] == dataset]
            for dataset in METRICS
            if any(place[0] == dataset for place in common)
        }
        for setting, found in cells.items()
    }
    seeds = sorted({seed for _, seed in common})
    commits = sorted({str(record["commit"]) for record in records})
    origin = (
        f"{len(records)} trials, commit {', '.join(commits)}; seeds or folds "
        f"{', '.join(map(str, seeds))}, which no result is made of. Scores of the "
        f"best epoch on validation parts, mean ± standard deviation; the test parts "
        f"of these folds were not looked at."
    )
    if not common:
        return f"{origin}\n\nNo data set has been run with every setting yet."
    datasets = list(next(iter(values.values())))
    ranks = average_ranks(
        {
            setting: [goodness(dataset, found[dataset]) for dataset in datasets]
            for setting, found in values.items()
        }
    )
    rows = [
        [
            *setting,
            *(score(dataset, found[dataset]) for dataset in datasets),
            f"{ranks[setting]:.2f}",
        ]
        for setting, found in sorted(values.items(), key=lambda item: ranks[item[0]])
    ]
    columns = [f"{name} ({METRIC_LABELS[METRICS[name]]})" for name in datasets]
    return f"{origin}\n\n{markdown([*SETTINGS, *columns, 'average rank'], rows)}"
