"""The tables of readouts in the project's README: accuracy, time and memory."""

import json
from pathlib import Path
from typing import Any

from benchmarks import records, speed_bars
from benchmarks.experiments import supervised_summary
from benchmarks.experiments.graphs_report import summary
from benchmarks.experiments.self_supervised_report import AXES, LOSS_LABELS, Cells
from benchmarks.tables import markdown, mean_and_deviation

#: Points of GSWE's reference, and seeds of PMA, of the accuracies shown.
POINTS = 4

#: The label of a readout, and its name in the records of accuracies.
LEARNED = {
    "mean": "mean",
    "PMA (Set Transformer)": "pma",
    "PMA that starts near the origin": "pma_near_origin",
    "**GSWE**": "gswe_linear",
}

#: The same for the readout alone, and for the training of a whole network.
TIMED = {
    "mean": ("mean", "mean"),
    "`SortAggregation`": ("sort", None),
    "`QuantileAggregation`": ("quantile", None),
    "`SetTransformerAggregation`": ("transformer", "transformer"),
    "**GSWE**": ("ours", "gswe"),
}

#: The names of data sets in the table, by the name of their records.
DATASETS = {
    "set_circles": "Set-Circles",
    "set_circles_noisy": "Noisy circles",
    "point_cloud_mnist": "Point Cloud MNIST",
}

NONE = "-"


def render(results: Path) -> str:
    """The tables, each with the sentences that say how to read it."""
    speed = json.loads((results / "speed.json").read_text())
    parts = [
        _accuracies(results),
        _documents(results),
        _graphs(results),
        _costs(speed),
    ]
    return "\n\n".join(part for part in parts if part)


def _documents(results: Path) -> str:
    """The best of each readout on documents, if there are any."""
    datasets = supervised_summary.load(results)
    if not datasets:
        return ""
    return (
        f"{supervised_summary.peaks(datasets)}\n\nDocuments as sets of word vectors, "
        f"with labels: accuracy in % of the last epoch "
        f"({supervised_summary.extent(datasets)}), mean ± standard deviation over "
        f"folds. Of the sizes tried (references or heads x points or seeds), the best "
        f"by these very accuracies is shown. The data is a reconstruction."
    )


def _graphs(results: Path) -> str:
    """The ranks of readouts behind graph networks, if there are any."""
    path = results / "graphs.jsonl"
    table, datasets = summary(records.read(path)) if path.exists() else ("", [])
    if not datasets:
        return ""
    return (
        f"{table}\n\nGraph networks with labels: average rank of the test score over "
        f"{len(datasets)} data sets ({', '.join(datasets)}; 1 is best), the same by "
        f"validation score and by training loss, median parameters of the whole "
        f"network, and the time of a training epoch in multiples of that with mean "
        f"pooling. *Size*: with `encode_size=True`."
    )


def _accuracies(results: Path) -> str:
    """A column for each data set and loss on which GSWE has records."""
    header, columns, notes = ["readout"], [list(LEARNED)], []
    for name, label in DATASETS.items():
        path = results / f"{name}.jsonl"
        found = records.read(path) if path.exists() else []
        if not found:
            continue
        cells = Cells(_largest_protocol(found))
        counts = []
        for loss in cells.losses:
            by_readout = {
                readout: cells.accuracies(
                    readout, loss, 1 if readout == "mean" else POINTS
                )
                for readout in LEARNED.values()
            }
            if not by_readout["gswe_linear"]:
                continue
            seeds = _common_seeds(by_readout)
            header.append(f"{label}, {LOSS_LABELS.get(loss, loss)}")
            columns.append([_cell(values, seeds) for values in by_readout.values()])
            counts.append(len(seeds))
        if counts:
            spread = "-".join(map(str, sorted({min(counts), max(counts)})))
            notes.append(f"{label} {spread}")
    legend = (
        f"Accuracy of the nearest neighbour in % after learning without labels, with "
        f"{POINTS} points or seeds: mean ± standard deviation over the seeds that all "
        f"readouts have, of which there are: {', '.join(notes)}. GSWE's reference "
        f"starts at zero there."
    )
    rows = [list(row) for row in zip(*columns, strict=True)]
    rows = [row for row in rows if set(row[1:]) != {NONE}]
    return f"{markdown(header, rows)}\n\n{legend}"


def _common_seeds(by_readout: dict[str, dict[int, float]]) -> set[int]:
    """Where some seeds are easier than others, only the same ones compare."""
    return set.intersection(*(set(found) for found in by_readout.values() if found))


def _cell(accuracies: dict[int, float], seeds: set[int]) -> str:
    values = [value for seed, value in accuracies.items() if seed in seeds]
    return mean_and_deviation(values) if values else NONE


def _costs(speed: dict[str, Any]) -> str:
    header = ["readout", "time alone", "time in a GIN", "memory", "memory, skewed"]
    columns = [
        list(TIMED),
        _times(speed),
        _epochs(speed),
        _memory(speed),
        _memory(speed, skewed=True),
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return f"{markdown(header, rows)}\n\n{_legend(speed)}"


def _largest_protocol(found: list[records.Record]) -> list[records.Record]:
    """What differs in more than readout, loss, points and seed is not averaged."""
    protocols: dict[str, list[records.Record]] = {}
    for record in found:
        fixed = {k: v for k, v in record["config"].items() if k not in AXES}
        protocols.setdefault(json.dumps(fixed, sort_keys=True), []).append(record)
    return max(protocols.values(), key=len)


def _times(speed: dict[str, Any]) -> list[str]:
    """Forward and backward in multiples of ours, geometric mean over the shapes."""
    training = [r for r in speed["shapes"]["records"] if r["mode"] == "training"]
    column = []
    for name, _ in TIMED.values():
        ratios = [1.0] if name == "ours" else speed_bars.ratios(training, name)
        column.append(f"{speed_bars.geometric_mean(ratios):.2g}x" if ratios else NONE)
    return column


def _epochs(speed: dict[str, Any]) -> list[str]:
    """An epoch of training in multiples of that with mean pooling, per setting."""
    epochs: dict[str, list[float]] = {}
    for record in speed["end_to_end"]["records"]:
        epochs.setdefault(record["readout"], []).append(record["epoch_seconds"])
    column = []
    for _, name in TIMED.values():
        pairs = zip(epochs.get(str(name), []), epochs["mean"], strict=False)
        column.append(", ".join(f"{own / mean:.2f}x" for own, mean in pairs) or NONE)
    return column


def _memory(speed: dict[str, Any], skewed: bool = False) -> list[str]:
    """Peak of the extra memory in multiples of the input, forward and backward."""
    peaks = {}
    for record in speed["memory"]["records"]:
        if bool(record["shape"]["large"]) == skewed:
            peaks[record["contender"]] = record.get("skipped") or (
                f"{record['peak_bytes'] / record['slice_bytes']:.1f}x"
            )
    return [peaks.get(name, NONE) for name, _ in TIMED.values()]


def _legend(speed: dict[str, Any]) -> str:
    threads = speed["shapes"]["threads"]
    settings = dict.fromkeys(
        f"{record['hidden']} channels, batches of {record['batch_size']}"
        for record in speed["end_to_end"]["records"]
    )
    data = speed["end_to_end"]["records"][0]["data"]
    shapes = {bool(r["shape"]["large"]): r["shape"] for r in speed["memory"]["records"]}
    even, skewed = shapes[False], shapes[True]
    return (
        f"Times are on a CPU with {threads} threads, forward and backward. *Alone*: of "
        f"GSWE's quantiles, mean over {_num_shapes(speed)} shapes. *In a GIN*: of an "
        f"epoch on {data} with mean pooling ({'; '.join(settings)}). Memory is the "
        f"peak on top of the input, in its multiples: {even['graphs']} graphs of about "
        f"{even['nodes']} nodes with {even['slices']} channels, and *skewed*: "
        f"{skewed['graphs']} of {skewed['nodes']} nodes beside one of "
        f"{skewed['large']:,}, where what pads was not run."
    )


def _num_shapes(speed: dict[str, Any]) -> int:
    shapes = [json.dumps(record["shape"]) for record in speed["shapes"]["records"]]
    return len(set(shapes))
