"""The tables and the figure of the graph benchmark."""

import math
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean, mean, median, stdev

from benchmarks.graph_data import METRICS
from benchmarks.graph_readouts import READOUTS
from benchmarks.ranks import average_ranks, critical_difference, draw_ranks
from benchmarks.records import Record
from benchmarks.tables import markdown

LABELS = {
    "deep_sets": "Deep Sets",
    "set_transformer": "Set Transformer",
    "gswe_linear": "GSWE, linear",
    "gswe_linear_size": "GSWE, linear, size",
    "gswe_barycentric": "GSWE, barycentric",
    "gswe_barycentric_size": "GSWE, barycentric, size",
}
METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}

AXES = ("dataset", "readout", "seed")
#: If a grid has several values, the one that is best on the validation part is taken,
#: for each readout and seed.
HYPER_PARAMETERS = ("learning_rate", "dropout", "points")


class Cells:
    """The records to show: of each data set, by readout and seed."""

    def __init__(self, records: list[Record]) -> None:
        by_protocol = defaultdict(list)
        for record in records:
            by_protocol[record["config"]["dataset"], _protocol(record)].append(record)
        largest: dict[str, list[Record]] = {}
        for (dataset, _), group in by_protocol.items():
            if len(group) > len(largest.get(dataset, [])):
                largest[dataset] = group
        self.num_left_out = len(records) - sum(map(len, largest.values()))
        self.datasets = [name for name in METRICS if name in largest]
        found = {r["config"]["readout"] for group in largest.values() for r in group}
        self.readouts = [name for name in READOUTS if name in found]
        self.chosen: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
        for dataset, group in largest.items():
            for record in group:
                self._choose(dataset, record)

    def _choose(self, dataset: str, record: Record) -> None:
        by_seed = self.chosen[dataset, record["config"]["readout"]]
        rival = by_seed.get(record["seed"])
        if rival is None or is_better(
            dataset, record["metrics"]["valid"], rival["metrics"]["valid"]
        ):
            by_seed[record["seed"]] = record

    def seeds(self, dataset: str) -> list[int]:
        """Those that every readout has: others would compare different folds."""
        found = [set(self.chosen.get((dataset, name), ())) for name in self.readouts]
        return sorted(set.intersection(*found))

    def values(self, dataset: str, readout: str, metric: str) -> list[float]:
        by_seed = self.chosen.get((dataset, readout), {})
        return [by_seed[seed]["metrics"][metric] for seed in self.seeds(dataset)]

    def any_record(self, dataset: str, readout: str) -> Record:
        return next(iter(self.chosen[dataset, readout].values()))

    @property
    def ranked(self) -> list[str]:
        return [dataset for dataset in self.datasets if self.seeds(dataset)]


def is_better(dataset: str, one: float, other: float) -> bool:
    return one < other if METRICS[dataset] == "rmse" else one > other


def report(name: str, records: list[Record], folder: Path) -> str:
    cells = Cells(records)
    parts = [_origin(cells, records)]
    if not cells.ranked:
        return "\n\n".join([*parts, "No data set has been run with every readout yet."])
    parts += [
        "Test scores, mean ± standard deviation over folds or seeds; the best of a "
        "data set in bold:",
        _scores(cells),
    ]
    ranks = average_ranks(
        {
            readout: [_goodness(cells, dataset, readout) for dataset in cells.ranked]
            for readout in cells.readouts
        }
    )
    parts += [
        "Average rank over the data sets (1 is best), parameters (median over data "
        "sets), and processor seconds of a training epoch relative to mean pooling "
        "(geometric mean over data sets):",
        _summary(cells, ranks),
    ]
    if len(cells.ranked) > 1 and len(cells.readouts) > 1:
        difference = critical_difference(len(cells.readouts), len(cells.ranked))
        figure = f"{name}.png"
        labels = {_label(readout): rank for readout, rank in ranks.items()}
        draw_ranks(labels, difference, folder / figure)
        parts += [
            f"![Average ranks](results/{figure})",
            f"Readouts under one bar do not differ at the 5 % level (Nemenyi's test, "
            f"{len(cells.ranked)} data sets: their ranks are less than "
            f"{difference:.2f} apart).",
        ]
    parts += ["Processor seconds of a training epoch (median):", _seconds(cells)]
    parts += ["What was run:", _protocols(cells)]
    return "\n\n".join(parts)


def _protocol(record: Record) -> tuple:
    config = record["config"]
    skipped = (*AXES, *HYPER_PARAMETERS)
    return tuple(sorted((k, str(v)) for k, v in config.items() if k not in skipped))


def _label(readout: str) -> str:
    return LABELS.get(readout, readout)


def _origin(cells: Cells, records: list[Record]) -> str:
    commits = sorted({str(record["commit"]) for record in records})
    text = f"{len(records)} runs, commit {', '.join(commits)}."
    if cells.num_left_out:
        text += (
            f" {cells.num_left_out} of them follow another protocol than most of their "
            f"data set, and are not shown."
        )
    return text


def _goodness(cells: Cells, dataset: str, readout: str) -> float:
    """The mean score, as it is printed, so that what looks equal shares a rank."""
    score = mean(cells.values(dataset, readout, "test"))
    return -round(score, 3) if METRICS[dataset] == "rmse" else round(score, 4)


def _score(dataset: str, values: list[float]) -> str:
    scale, digits = (1, 3) if METRICS[dataset] == "rmse" else (100, 2)
    text = f"{scale * mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {scale * stdev(values):.{digits}f}"
    return text


def _scores(cells: Cells) -> str:
    rows = []
    for dataset in cells.ranked:
        goodness = {r: _goodness(cells, dataset, r) for r in cells.readouts}
        row = [f"{dataset} ({METRIC_LABELS[METRICS[dataset]]})"]
        for readout in cells.readouts:
            text = _score(dataset, cells.values(dataset, readout, "test"))
            is_best = goodness[readout] == max(goodness.values())
            row.append(f"**{text}**" if is_best else text)
        rows.append(row)
    return markdown(["data set", *map(_label, cells.readouts)], rows)


def _epoch_seconds(cells: Cells, dataset: str, readout: str) -> float:
    return median(cells.values(dataset, readout, "epoch_seconds"))


def _summary(cells: Cells, ranks: dict[str, float]) -> str:
    rows = []
    for readout in sorted(cells.readouts, key=ranks.__getitem__):
        parameters = median(
            cells.any_record(dataset, readout)["parameters"] for dataset in cells.ranked
        )
        time = ""
        if "mean" in cells.readouts:
            ratios = [
                _epoch_seconds(cells, dataset, readout)
                / max(_epoch_seconds(cells, dataset, "mean"), 1e-9)
                for dataset in cells.ranked
            ]
            if all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
                time = f"{geometric_mean(ratios):.2f}x"
        rows.append(
            [_label(readout), f"{ranks[readout]:.2f}", f"{parameters:,.0f}", time]
        )
    return markdown(["readout", "average rank", "parameters", "epoch"], rows)


def _seconds(cells: Cells) -> str:
    rows = [
        [
            dataset,
            *(f"{_epoch_seconds(cells, dataset, r):.3g}" for r in cells.readouts),
        ]
        for dataset in cells.ranked
    ]
    return markdown(["data set", *map(_label, cells.readouts)], rows)


def _protocols(cells: Cells) -> str:
    keys = ("epochs", "batch_size", "hidden", "layers", "elements", "train_graphs")
    rows = []
    for dataset in cells.ranked:
        records = [
            record
            for readout in cells.readouts
            for record in cells.chosen[dataset, readout].values()
        ]
        config = records[0]["config"]
        values = ("" if config[key] is None else str(config[key]) for key in keys)
        rows.append([dataset, str(len(cells.seeds(dataset))), *values])
    header = [key.replace("_", " ") for key in keys]
    return markdown(["data set", "folds or seeds", *header], rows)
