"""The tables and the figure of the unsupervised experiments (paper, figure 3)."""

from pathlib import Path
from statistics import mean, median, stdev

from benchmarks.records import Record
from benchmarks.tables import markdown, mean_and_deviation, paired_difference

LABELS = {
    "mean": "mean",
    "pma": "PMA",
    "pma_near_origin": "PMA, near origin",
    "gswe_linear": "GSWE, linear",
    "gswe_barycentric": "GSWE, barycentric",
}
COLORS = {
    "mean": "0.6",
    "pma": "tab:orange",
    "pma_near_origin": "tab:red",
    "gswe_linear": "tab:blue",
    "gswe_barycentric": "tab:green",
}
# Lines that may lie on each other.
LINES = {"gswe_barycentric": "--", "pma_near_origin": ":"}
START_LINES = {"0": "-", "0.1": "--", "1": ":"}
RIVALS = ("pma", "pma_near_origin")
LOSS_LABELS = {"simclr": "SimCLR", "simsiam": "SimSiam"}
AXES = ("readout", "loss", "points", "start", "seed")


class Cells:
    """Records by readout, loss and number of points.

    Where a readout was tried with several starts, ``readout@start`` stands for it.
    """

    def __init__(self, records: list[Record]) -> None:
        starts: dict[str, set[float]] = {}
        for record in records:
            config = record["config"]
            starts.setdefault(config["readout"], set()).add(config.get("start"))
        self.records: dict[tuple[str, str, int], list[Record]] = {}
        for record in records:
            config = record["config"]
            readout = config["readout"]
            if len(starts[readout]) > 1:
                readout = f"{readout}@{config['start']:g}"
            key = readout, config["loss"], config["points"]
            self.records.setdefault(key, []).append(record)
        self.readouts = sorted({readout for readout, _, _ in self.records}, key=_rank)
        self.losses = sorted({loss for _, loss, _ in self.records})
        self.points = sorted({points for _, _, points in self.records})

    def accuracies(self, readout: str, loss: str, points: int) -> dict[int, float]:
        """By seed, none if there are no such runs."""
        return {
            record["seed"]: record["metrics"]["accuracy"]
            for record in self.records.get((readout, loss, points), [])
        }

    def of_readout(self, readout: str, points: int | None = None) -> list[Record]:
        return [
            record
            for (name, _, size), records in self.records.items()
            for record in records
            if name == readout and points in (None, size)
        ]


def _rank(readout: str) -> tuple[int, str]:
    name, _, start = readout.partition("@")
    order = list(LABELS)
    return (order.index(name) if name in order else len(order), start)


def report(name: str, records: list[Record], folder: Path) -> str:
    """One part per protocol: what differs in epochs or sets is not averaged."""
    protocols: dict[str, list[Record]] = {}
    for record in records:
        protocols.setdefault(_protocol(record), []).append(record)
    parts = []
    largest_first = sorted(protocols.items(), key=lambda item: -len(item[1]))
    for number, (protocol, group) in enumerate(largest_first, start=1):
        figure = f"{name}.png" if number == 1 else f"{name}-{number}.png"
        cells = Cells(group)
        draw(cells, folder / figure)
        parts.append(_part(protocol, group, cells, figure))
    return "\n\n".join(parts)


def _protocol(record: Record) -> str:
    fixed = (
        f"{key}={value}"
        for key, value in record["config"].items()
        if key not in AXES and value is not None
    )
    return ", ".join(fixed)


def _part(protocol: str, group: list[Record], cells: Cells, figure: str) -> str:
    seeds = [len(records) for records in cells.records.values()]
    spread = (
        f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)}-{max(seeds)}"
    )
    commits = sorted({str(record["commit"]) for record in group})
    parts = [
        f"{len(group)} runs, {spread} seeds per cell ({protocol}; "
        f"commit {', '.join(commits)}).",
        f"![1-NN accuracy over the number of points](results/{figure})",
    ]
    for loss in cells.losses:
        parts.append(
            f"1-NN accuracy in %, {LOSS_LABELS.get(loss, loss)}, mean ± standard "
            f"deviation over seeds:"
        )
        parts.append(_accuracies(cells, loss))
    differences = _differences(cells)
    if differences:
        parts.append(
            "Differences of accuracies with as many points and the same seed, in "
            "percentage points, mean ± half-width of its 95 % t-interval (seeds "
            "better / equal / worse):"
        )
        parts.append(differences)
    parts.append(
        "Parameters (backbone and readout), and processor seconds per run (median):"
    )
    parts.append(_costs(cells))
    return "\n\n".join(parts)


def _label(readout: str) -> str:
    name, _, start = readout.partition("@")
    label = LABELS.get(name, name)
    return f"{label}, start {start}" if start else label


def _accuracies(cells: Cells, loss: str) -> str:
    rows = []
    for readout in cells.readouts:
        values = [cells.accuracies(readout, loss, points) for points in cells.points]
        rows.append(
            [
                _label(readout),
                *(mean_and_deviation(list(v.values())) if v else "" for v in values),
            ]
        )
    return markdown(["readout \\ points", *map(str, cells.points)], rows)


def _differences(cells: Cells) -> str:
    rows = []
    for loss in cells.losses:
        for rival in RIVALS:
            for readout in cells.readouts:
                if not readout.startswith("gswe"):
                    continue
                row = [
                    paired_difference(
                        cells.accuracies(readout, loss, points),
                        cells.accuracies(rival, loss, points),
                    )
                    for points in cells.points
                ]
                if any(row):
                    pair = f"({_label(readout)}) - ({_label(rival)})"
                    rows.append([f"{LOSS_LABELS.get(loss, loss)}: {pair}", *row])
    if not rows:
        return ""
    return markdown(["difference \\ points", *map(str, cells.points)], rows)


def _costs(cells: Cells) -> str:
    rows = []
    for readout in cells.readouts:
        counts = []
        for points in cells.points:
            found = cells.of_readout(readout, points)
            counts.append(f"{found[0]['parameters']:,}" if found else "")
        seconds = median(record["cpu_seconds"] for record in cells.of_readout(readout))
        rows.append([_label(readout), *counts, f"{seconds:.2f}"])
    return markdown(["readout \\ points", *map(str, cells.points), "seconds"], rows)


def draw(cells: Cells, path: Path) -> None:
    """A panel per loss: accuracy over points, a line per readout."""
    from matplotlib.figure import Figure  # slow to import, and workers do not draw

    figure = Figure(figsize=(4.2 * len(cells.losses), 3.4), layout="constrained")
    panels = figure.subplots(1, len(cells.losses), squeeze=False)[0]
    for panel, loss in zip(panels, cells.losses, strict=True):
        for readout in cells.readouts:
            _draw_line(panel, cells, readout, loss)
        panel.set_title(LOSS_LABELS.get(loss, loss))
        panel.set_xscale("log", base=2)
        panel.set_xticks(cells.points, list(map(str, cells.points)))
        panel.set_xlabel("points of the reference (seeds of PMA)")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("1-NN accuracy in %")
    panels[-1].legend(loc="lower right", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _draw_line(panel, cells: Cells, readout: str, loss: str) -> None:
    name, _, start = readout.partition("@")
    style = {
        "label": _label(readout),
        "color": COLORS.get(name),
        "linestyle": START_LINES.get(start, LINES.get(name, "-")),
    }
    found = {
        points: [100 * a for a in cells.accuracies(readout, loss, points).values()]
        for points in cells.points
    }
    found = {points: values for points, values in found.items() if values}
    if not found:
        return
    middles = [mean(values) for values in found.values()]
    spreads = [stdev(values) if len(values) > 1 else 0.0 for values in found.values()]
    if readout == "mean":  # it has no points: a level for all of them
        panel.axhline(middles[0], **style)
        return
    lows = [middle - spread for middle, spread in zip(middles, spreads, strict=True)]
    # A deviation may reach beyond 100 %, an accuracy may not.
    highs = [min(100.0, m + s) for m, s in zip(middles, spreads, strict=True)]
    panel.plot(list(found), middles, marker="o", markersize=4, **style)
    panel.fill_between(list(found), lows, highs, alpha=0.15, color=style["color"])
