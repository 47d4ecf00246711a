"""The tables and the figure of the graph benchmark."""

from pathlib import Path
from statistics import geometric_mean, mean, median

from benchmarks.experiments.graphs_cells import (
    METRIC_LABELS,
    Cells,
    goodness,
    score,
)
from benchmarks.experiments.graphs_trials import trials
from benchmarks.graph_data import METRICS
from benchmarks.graph_readouts import GSWE
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


#: An epoch with GSWE, in multiples of one with mean pooling, at most.
MOST_EPOCH = 1.15


def report(name: str, records: list[Record], folder: Path) -> str:
    tried = [r for r in records if r["config"]["evaluate"] == "validation"]
    if tried and len(tried) == len(records):
        return trials(tried)
    records = _tested(records)
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
        "Average rank over the data sets (1 is best), the same by the score on "
        "validation parts and by the training loss of the last epoch, parameters "
        "(median over data sets), and processor seconds of a training epoch relative "
        "to mean pooling (geometric mean over data sets):",
        _summary(cells, ranks),
        _bars(cells, ranks),
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
    return "\n\n".join(part for part in parts if part)


def summary(records: list[Record]) -> tuple[str, list[str]]:
    """Rank, parameters and time of each readout, and the data sets behind them."""
    cells = Cells(_tested(records))
    return (_summary(cells, _ranks(cells)) if cells.ranked else ""), cells.ranked


def _tested(records: list[Record]) -> list[Record]:
    return [r for r in records if r["config"]["evaluate"] == "test"]


def _ranks(cells: Cells, metric: str = "test") -> dict[str, float]:
    """The average rank of each readout: 1 for the best score, or the least loss."""

    def good(dataset: str, values: list[float]) -> float:
        return -mean(values) if metric == "train_loss" else goodness(dataset, values)

    return average_ranks(
        {
            readout: [
                good(dataset, cells.values(dataset, readout, metric))
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


def _epoch_ratio(cells: Cells, readout: str) -> float:
    """The time of an epoch in multiples of that with mean pooling."""
    return geometric_mean(
        _epoch_seconds(cells, dataset, readout) / _epoch_seconds(cells, dataset, "mean")
        for dataset in cells.ranked
    )


def _bars(cells: Cells, ranks: dict[str, float]) -> str:
    """What the project demands of itself, for the GSWE that ranks best."""
    ours = [readout for readout in cells.readouts if readout in GSWE]
    others = [readout for readout in cells.readouts if readout not in GSWE]
    if not ours or "mean" not in others:
        return ""
    best, rival = (min(names, key=ranks.__getitem__) for names in (ours, others))
    ratio = _epoch_ratio(cells, best)
    rows = [
        [
            f"average rank of {_label(best)}",
            f"< {ranks[rival]:.2f} ({_label(rival)})",
            f"{ranks[best]:.2f}",
            "yes" if ranks[best] < ranks[rival] else "**no**",
        ],
        [
            f"epoch of {_label(best)}",
            f"<= {MOST_EPOCH}x of mean",
            f"{ratio:.2f}x",
            "yes" if ratio <= MOST_EPOCH else "**no**",
        ],
    ]
    return markdown(["bar", "demanded", "measured", "reached"], rows)


def _summary(cells: Cells, ranks: dict[str, float]) -> str:
    rows = []
    valid, fit = _ranks(cells, "valid"), _ranks(cells, "train_loss")
    for readout in sorted(cells.readouts, key=ranks.__getitem__):
        parameters = median(
            cells.any_record(dataset, readout)["parameters"] for dataset in cells.ranked
        )
        time = ""
        if "mean" in cells.readouts:
            time = f"{_epoch_ratio(cells, readout):.2f}x"
        found = (f"{rank[readout]:.2f}" for rank in (ranks, valid, fit))
        rows.append([_label(readout), *found, f"{parameters:,.0f}", time])
    header = ["readout", "average rank", "validation", "training loss"]
    return markdown([*header, "parameters", "epoch"], rows)


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
    keys = ("epochs", "batch_size", "learning_rate", "hidden", "layers", "elements")
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
