"""Tables and figures of learning with labels (paper, figures 4 and 5)."""

from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median, stdev
from typing import NamedTuple

from benchmarks.records import Record
from benchmarks.tables import markdown, mean_and_deviation, paired_difference

RECONSTRUCTION = (
    "The documents and word vectors are a reconstruction from public copies, with "
    "vectors for fewer words than the authors had: accuracies are not comparable with "
    "published ones digit by digit."
)

LABELS = {
    "logistic": "mean word vector, logistic regression",
    "mean": "mean",
    "pma": "PMA",
    "gswe_linear": "GSWE, linear",
    "gswe_barycentric": "GSWE, barycentric",
    "repset": "RepSet",
    "approx_repset": "ApproxRepSet",
}
COLORS = {
    "logistic": "0.8",
    "mean": "0.6",
    "pma": "tab:orange",
    "gswe_linear": "tab:blue",
    "gswe_barycentric": "tab:green",
    "repset": "tab:red",
    "approx_repset": "tab:purple",
}

#: Settings that make a line of a figure, and those along it or averaged over.
VARIANTS = ("weighted", "start", "slicer", "scale")
AXES = ("readout", "points", "references", "fold", "seed", *VARIANTS)
REPETITIONS = ("fold", "seed")
NOT_TRIED = (*REPETITIONS, "dataset")

#: What has no size is a level in the figures, not a line.
LEVELS = ("logistic", "mean")


class Series(NamedTuple):
    """What is one line of a figure: a readout in one of its variants."""

    readout: str
    variant: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return ", ".join([LABELS.get(self.readout, self.readout), *self.variant])


class Size(NamedTuple):
    """Elements of a reference, seeds; and references, hidden sets, heads."""

    points: int
    references: int


def in_order(found: Iterable[Series]) -> list[Series]:
    """As the labels stand, then by variant."""
    order = list(LABELS)

    def key(series: Series) -> tuple:
        is_known = series.readout in order
        place = order.index(series.readout) if is_known else len(order)
        return place, series.readout, series.variant

    return sorted(found, key=key)


def repetition(record: Record) -> tuple:
    """Which fold and seed it is of."""
    return tuple(record["config"][name] for name in REPETITIONS)


class Cells:
    """Records of one protocol by series and size."""

    def __init__(self, records: list[Record]) -> None:
        self.records: dict[tuple[Series, Size], list[Record]] = {}
        differing = _differing([r["config"] for r in records if _is_gswe(r)], VARIANTS)
        for record in records:
            config = record["config"]
            series = Series(config["readout"], _variant(config, differing))
            size = Size(config["points"], config["references"])
            self.records.setdefault((series, size), []).append(record)
        self.series = in_order({series for series, _ in self.records})
        sizes = sorted({size for _, size in self.records})
        self.by_points = [size for size in sizes if size.references == 1]
        fixed = {size.points for size in sizes if size.references > 1}
        self.by_references = [size for size in sizes if size.points in fixed]

    @property
    def epochs(self) -> int:
        return next(iter(self.records.values()))[0]["config"]["epochs"]

    @property
    def num_folds(self) -> int:
        return max(len(records) for records in self.records.values())

    def sizes(self, series: Series) -> list[Size]:
        return [size for other, size in self.records if other == series]

    def of(self, series: Series, size: Size) -> list[Record]:
        return self.records.get((series, size), [])

    def accuracies(self, series: Series, size: Size) -> list[float]:
        return [record["metrics"]["accuracy"] for record in self.of(series, size)]

    def by_fold(self, series: Series, size: Size) -> dict[tuple, float]:
        return {
            repetition(record): record["metrics"]["accuracy"]
            for record in self.of(series, size)
        }

    def best(self, series: Series) -> Size:
        """The size with the highest mean, among those with the most folds."""
        return max(
            self.sizes(series),
            key=lambda size: (
                len(self.of(series, size)),
                mean(self.accuracies(series, size)),
            ),
        )


def report(name: str, records: list[Record], folder: Path) -> str:
    """One part per protocol: what differs in epochs or data is not averaged."""
    trials = [r for r in records if r["config"]["evaluate"] == "validation"]
    parts = []
    for number, (protocol, group) in enumerate(protocols(records), start=1):
        figure = f"{name}.png" if number == 1 else f"{name}-{number}.png"
        parts.append(_part(name, protocol, group, folder / figure))
    parts += [_trials(group) for group in _comparable(trials)]
    return "\n\n".join(parts)


def protocols(records: list[Record]) -> list[tuple[str, list[Record]]]:
    """Records on test parts by what is the same for all readouts, most first."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record["config"]["evaluate"] == "test":
            groups.setdefault(_protocol(record), []).append(record)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _is_gswe(record: Record) -> bool:
    return record["config"]["readout"].startswith("gswe")


def _differing(configs: list[Record], names: Iterable[str]) -> list[str]:
    return [name for name in names if len({config[name] for config in configs}) > 1]


def _variant(config: Record, differing: list[str]) -> tuple[str, ...]:
    if not config["readout"].startswith("gswe"):
        return ()
    words = []
    for name in differing:
        if name == "weighted":
            words += ["word counts"] if config[name] else []
        else:
            words.append(f"{name} {config[name]}")
    return tuple(words)


def _protocol(record: Record) -> str:
    fixed = (
        f"{key}={value}" for key, value in record["config"].items() if key not in AXES
    )
    return ", ".join(fixed)


def _commits(records: list[Record]) -> str:
    return ", ".join(sorted({str(record["commit"]) for record in records}))


def _part(name: str, protocol: str, group: list[Record], figure: Path) -> str:
    cells = Cells(group)
    draw(cells, name, figure)
    folds = sorted({len(records) for records in cells.records.values()})
    spread = str(folds[0]) if len(folds) == 1 else f"{folds[0]}-{folds[-1]}"
    gswe = [record["config"] for record in group if _is_gswe(record)]
    same = [f for f in VARIANTS if gswe and f not in _differing(gswe, VARIANTS)]
    fixed = "".join(f", {key}={gswe[0][key]}" for key in same)
    fixed = f"; GSWE{fixed[1:]}" if fixed else ""
    parts = [
        f"{len(group)} runs, {spread} folds per cell ({protocol}{fixed}; "
        f"commit {_commits(group)}). {RECONSTRUCTION}",
        f"![Accuracy on {name} over the elements of one reference, and over the number "
        f"of references](results/{figure.name})",
        "Accuracy in % of the last epoch, mean ± standard deviation over folds, one "
        "reference set (head, hidden set) of a growing number of elements (seeds):",
        _table(cells, cells.by_points, "elements", _accuracy),
    ]
    if len(cells.by_references) > 1:
        points = cells.by_references[0].points
        parts += [
            f"The same with {points} elements and a growing number of references "
            f"(heads, hidden sets):",
            _table(cells, cells.by_references, "references", _accuracy),
        ]
    parts += [
        "The best cell of each, chosen by these very accuracies, with its parameters, "
        "the training loss of its last epoch and, fold by fold, its difference to the "
        "best of PMA in percentage points (mean ± half-width of its 95 % t-interval, "
        "folds better / equal / worse):",
        _best(cells),
        "Parameters / processor seconds per training epoch (median):",
        _table(cells, cells.by_points, "elements", _cost),
    ]
    if len(cells.by_references) > 1:
        parts.append(_table(cells, cells.by_references, "references", _cost))
    return "\n\n".join(parts)


def _table(cells: Cells, sizes: list[Size], axis: str, show) -> str:
    values = [getattr(size, "points" if axis == "elements" else axis) for size in sizes]
    rows = []
    for series in cells.series:
        found = [cells.of(series, size) for size in sizes]
        if any(found):
            rows.append([series.label, *(show(r) if r else "" for r in found)])
    return markdown([f"readout \\ {axis}", *map(str, values)], rows)


def _accuracy(records: list[Record]) -> str:
    return mean_and_deviation([record["metrics"]["accuracy"] for record in records])


def _cost(records: list[Record]) -> str:
    parameters = f"{records[0]['parameters']:,}"
    if records[0]["config"]["readout"] == "logistic":
        return parameters  # there are no epochs
    seconds = median(record["metrics"]["epoch_seconds"] for record in records)
    return f"{parameters} / {seconds:.2f}"


def _best(cells: Cells) -> str:
    pma = Series("pma")
    rival = cells.by_fold(pma, cells.best(pma)) if pma in cells.series else {}
    rows = []
    for series in cells.series:
        size = cells.best(series)
        records = cells.of(series, size)
        rows.append(
            [
                series.label,
                str(size.points),
                str(size.references),
                _accuracy(records),
                f"{records[0]['parameters']:,}",
                f"{mean(record['metrics']['train_loss'] for record in records):.3f}",
                ""
                if series == pma
                else paired_difference(cells.by_fold(series, size), rival),
            ]
        )
    header = ["readout", "elements", "references", "accuracy", "parameters"]
    return markdown([*header, "training loss", "difference to PMA"], rows)


def _comparable(trials: list[Record]) -> list[list[Record]]:
    """Apart, what data sets with no setting in common were tried for."""
    groups: list[tuple[set[str], set[tuple]]] = []
    for record in trials:
        config = record["config"]
        setting = tuple(v for k, v in config.items() if k not in NOT_TRIED)
        group = ({config["dataset"]}, {setting})
        for other in [g for g in groups if g[0] & group[0] or g[1] & group[1]]:
            groups.remove(other)
            group = (other[0] | group[0], other[1] | group[1])
        groups.append(group)
    return [[r for r in trials if r["config"]["dataset"] in g[0]] for g in groups]


def _trials(records: list[Record]) -> str:
    """Validation accuracy by all settings that differ, a column for each data set."""
    configs = [record["config"] for record in records]
    kept = [name for name in configs[0] if name not in NOT_TRIED]
    differing = _differing(configs, kept)
    datasets = list(dict.fromkeys(config["dataset"] for config in configs))
    found: dict[tuple, dict[str, list[float]]] = {}
    for record in records:
        config = record["config"]
        row = found.setdefault(tuple(str(config[name]) for name in differing), {})
        accuracies = row.setdefault(config["dataset"], [])
        accuracies.append(record["metrics"]["accuracy"])
    rows = [
        [
            *(key if key else ("-",)),
            *(mean_and_deviation(row[d]) if d in row else "" for d in datasets),
            _mean_over(row, datasets),
        ]
        for key, row in found.items()
    ]
    fixed = ", ".join(f"{k}={configs[0][k]}" for k in kept if k not in differing)
    text = (
        f"{len(records)} trials on training documents only: a fifth of the training "
        f"part of a fold is held out, and no test part is looked at. Accuracy on these "
        f"held-out documents in %, mean ± standard deviation over folds and seeds "
        f"({fixed}; commit {_commits(records)}). {RECONSTRUCTION}"
    )
    header = [*(differing or ["setting"]), *datasets, "mean"]
    return f"{text}\n\n{markdown(header, rows)}"


def _mean_over(row: dict[str, list[float]], datasets: list[str]) -> str:
    """Over the data sets, of rows that have all of them."""
    if any(dataset not in row for dataset in datasets):
        return ""
    return f"{100 * mean(mean(row[dataset]) for dataset in datasets):.1f}"


def draw(cells: Cells, name: str, path: Path) -> None:
    """The paper's two figures for one data set, side by side."""
    from matplotlib.figure import Figure  # slow to import, and workers do not draw

    panels = [(cells.by_points, "points", "elements of one reference (seeds)")]
    if len(cells.by_references) > 1:
        points = cells.by_references[0].points
        title = f"references of {points} elements (heads, hidden sets)"
        panels.append((cells.by_references, "references", title))
    figure = Figure(figsize=(5 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for panel, (sizes, axis, title) in zip(axes, panels, strict=True):
        for series in cells.series:
            _draw_line(panel, cells, series, sizes, axis)
        values = sorted({getattr(size, axis) for size in sizes})
        panel.set_xscale("log", base=2)
        panel.set_xticks(values, list(map(str, values)))
        panel.set_xlabel(title)
        panel.set_title(name)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy in %")
    handles = {
        label: handle
        for panel in axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", fontsize="small"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _draw_line(panel, cells: Cells, series: Series, sizes: list[Size], axis: str):
    style = {
        "label": series.label,
        "color": COLORS.get(series.readout),
        "linestyle": ("-", "--", ":", "-.")[len(series.variant) % 4],
    }
    if series.readout in LEVELS:
        size = cells.best(series)
        panel.axhline(100 * mean(cells.accuracies(series, size)), **style)
        return
    found = {
        getattr(size, axis): [100 * a for a in cells.accuracies(series, size)]
        for size in sizes
        if cells.of(series, size)
    }
    if not found:
        return
    middles = [mean(values) for values in found.values()]
    spreads = [stdev(values) if len(values) > 1 else 0.0 for values in found.values()]
    panel.errorbar(
        list(found), middles, spreads, marker="o", markersize=4, capsize=2, **style
    )
