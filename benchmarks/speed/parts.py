"""The parts of the benchmark: what each measures, and what it is compared with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed import networks, sets
from benchmarks.speed.contenders import CONTENDERS
from benchmarks.speed.memory import peak_memory
from benchmarks.speed.shapes import GROWTH, SIX, SKEWED, SMALL, Shape
from benchmarks.speed.timing import Record, time_shape

OURS, ALL = ("operator", "readout"), ("operator", "readout", "other", "floor")
CPU_ONLY = ("numpy_sort", "fsw")


@dataclass(frozen=True)
class Setting:
    """Where a run takes place."""

    device: str = "cpu"
    data: Path = Path("data")

    def names(self, *groups: str) -> list[str]:
        """The contenders of some groups that run on the device."""
        left_out = () if self.device == "cpu" else CPU_ONLY
        names = (name for name, c in CONTENDERS.items() if c.group in groups)
        return [name for name in names if name not in left_out]

    def time(
        self, shapes: Iterable[Shape], names: list[str], rounds: int, budget: float
    ) -> Iterator[Record]:
        """The budget is for each contender, shape and mode, in seconds."""
        for shape in shapes:
            yield from time_shape(shape, names, rounds, budget, self.device)


def _one_thread(setting: Setting) -> Iterator[Record]:
    names = [*setting.names(*OURS, "floor"), "padded", "sort", "mean"]
    return setting.time(SIX, names, rounds=12, budget=0.2)


def _growth(setting: Setting) -> Iterator[Record]:
    names = ["segment_quantile", "padded", *setting.names("floor")]
    shapes = dict.fromkeys(shape for series in GROWTH.values() for shape in series)
    return setting.time(shapes, names, rounds=12, budget=0.25)


def _memory(setting: Setting) -> Iterator[Record]:
    ours = ["segment_quantile", "gswe_linear", "gswe_heads1", "fast_quantile"]
    for shape in (SKEWED, SIX[4]):
        for name in [*ours, *setting.names("other")]:
            yield peak_memory(shape, name)


@dataclass(frozen=True)
class Part:
    title: str
    about: str
    measure: Callable[[Setting], Iterator[Record]]
    #: The contender that the others are given in multiples of, if not in themselves.
    baseline: str | None = "segment_quantile"
    on_device: bool = False


_SHAPE = "Columns are graphs, mean nodes, slices and points."

PARTS = {
    "shapes": Part(
        "Six shapes",
        f"{_SHAPE} `segment_quantile` is the operator alone; *GSWE* is "
        "`GSWEAggregation` as a model calls it, *raw* without heads.",
        lambda s: s.time(SIX, s.names(*ALL), rounds=24, budget=0.4),
        on_device=True,
    ),
    "one_thread": Part("One thread", _SHAPE, _one_thread),
    "skewed": Part(
        "One large graph",
        "Many small graphs and one large one, which padding is worst at.",
        lambda s: s.time([SKEWED], s.names(*ALL), rounds=8, budget=0.6),
        on_device=True,
    ),
    "small": Part(
        "One graph at a time",
        f"{_SHAPE} A call is all overhead here.",
        lambda s: s.time([SMALL], [*s.names(*OURS), "sort", "mean"], 400, budget=2.0),
        baseline="mean",
        on_device=True,
    ),
    "growth": Part(
        "Growth",
        "Of 64 graphs, 100 nodes, 64 slices and 16 points, one grows at a time: how "
        "much more the time grows than N L log n does, step by step.",
        _growth,
        baseline=None,
        on_device=True,
    ),
    "memory": Part(
        "Memory",
        "The peak of the extra memory of a forward and backward pass, in multiples of "
        "the slice matrix, each in a process of its own.",
        _memory,
        baseline=None,
    ),
    "gin": Part(
        "A GIN on ogbg-molhiv",
        "A step of training of five layers. The networks take turns step by step, and "
        "collating is not timed.",
        lambda s: networks.gin(s.data / "ogb"),
        baseline="mean",
    ),
    "neighbourhoods": Part(
        "Neighbourhoods",
        "`SAGEConv(32, 32)` on one graph of 100,000 nodes and 500,000 edges: tiny "
        "sets, most of them smaller than a reference of four points.",
        lambda s: networks.neighbourhoods(),
        baseline="mean",
    ),
    "documents": Part(
        "An epoch on documents",
        "The paper's network on amazon with 64 points.",
        lambda s: networks.documents(s.data / "text"),
        baseline="padded_batches",
    ),
    "sets": Part(
        "Sets to vectors",
        "`gswe_pyg.sets.SetEmbedder`, which trains nothing.",
        lambda s: sets.measure(s.data),
    ),
}
