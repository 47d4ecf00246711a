"""Records of the graph benchmark by data set, readout and seed, and their scores."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean, stdev

from benchmarks.graph_data import METRICS
from benchmarks.graph_readouts import READOUTS
from benchmarks.records import Record

METRIC_LABELS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE"}

AXES = ("dataset", "readout", "seed")
#: If a grid has several values, the one that is best on the validation part is taken,
#: for each readout and seed.
HYPER_PARAMETERS = ("learning_rate", "dropout", "points")


class Cells:
    """The records to show: of each data set, by readout and seed."""

    def __init__(self, records: list[Record]) -> None:
        largest = largest_protocols(records, (*AXES, *HYPER_PARAMETERS))
        self.num_left_out = len(records) - sum(map(len, largest.values()))
        self.datasets = [name for name in METRICS if name in largest]
        self.readouts = _compared(largest)
        self.chosen: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
        for dataset, group in largest.items():
            for record in sorted(group, key=lambda record: record["id"]):
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


def largest_protocols(
    records: list[Record], axes: Sequence[str]
) -> dict[str, list[Record]]:
    """The most records of each data set that differ in nothing but some settings."""
    groups = defaultdict(list)
    for record in records:
        config = record["config"]
        fixed = tuple(sorted((k, str(v)) for k, v in config.items() if k not in axes))
        groups[config["dataset"], fixed].append(record)
    largest: dict[str, list[Record]] = {}
    for (dataset, _), group in groups.items():
        if len(group) > len(largest.get(dataset, [])):
            largest[dataset] = group
    return largest


def _compared(by_dataset: dict[str, list[Record]]) -> list[str]:
    """The readouts but for those tried on few data sets, which would keep all others
    out of the comparison."""
    counts = Counter(
        readout
        for group in by_dataset.values()
        for readout in {record["config"]["readout"] for record in group}
    )
    most = max(counts.values(), default=0)
    return [name for name in READOUTS if 2 * counts[name] >= most > 0]


def goodness(dataset: str, values: Sequence[float]) -> float:
    """The mean score, as it is printed, so that what looks equal shares a rank."""
    if METRICS[dataset] == "rmse":
        return -round(mean(values), 3)
    return round(mean(values), 4)


def score(dataset: str, values: Sequence[float]) -> str:
    scale, digits = (1, 3) if METRICS[dataset] == "rmse" else (100, 2)
    text = f"{scale * mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {scale * stdev(values):.{digits}f}"
    return text
