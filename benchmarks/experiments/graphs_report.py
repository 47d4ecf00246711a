"""The tables and the figure of the graph benchmark."""

import math
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.experiments.graphs_cells import (
    METRIC_LABELS,
    Cells,
    goodness,
    score,
)
from benchmarks.experiments.graphs_trials import trials
from benchmarks.graph_data import METRICS
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


def report(name: str, records: list[Record], folder: Path) -> str:
    if all(record["config"]["evaluate"] == "validation" for record in records):
        return trials(records)
    cells = Cells(records)
    parts = [_origin(cells, records)]
    if not cells.ranked:
        return "\n\n".join([*parts, "No data set has been run with every readout yet."])
    parts += [
        "Test scores, mean ± standard deviation over folds or seeds; the best of a "
        "data set in bold:",
        _scores(cells),
    ]
    ranks = _ranks(cells)
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


def summary(records: list[Record]) -> tuple[str, list[str]]:
    """Rank, parameters and time of each readout, and the data sets behind them."""
    cells = Cells(records)
    return (_summary(cells, _ranks(cells)) if cells.ranked else ""), cells.ranked


def _ranks(cells: Cells) -> dict[str, float]:
    return average_ranks(
        {
            readout: [
                goodness(dataset, cells.values(dataset, readout, "test"))
                for dataset in cells.ranked
            ]
            for readout in cells.readouts
        }
    )


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


def _scores(cells: Cells) -> str:
    rows = []
    for dataset in cells.ranked:
        found = {
            r: goodness(dataset, cells.values(dataset, r, "test"))
            for r in cells.readouts
        }
        row = [f"{dataset} ({METRIC_LABELS[METRICS[dataset]]})"]
        for readout in cells.readouts:
            text = score(dataset, cells.values(dataset, readout, "test"))
            is_best = found[readout] == max(found.values())
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
