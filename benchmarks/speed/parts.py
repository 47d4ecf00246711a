"""The parts of the benchmark: what each measures; ``parts.yaml`` says what it means."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.speed import networks, sets
from benchmarks.speed.contenders import CONTENDERS
from benchmarks.speed.first_call import first_call
from benchmarks.speed.memory import peak_memory
from benchmarks.speed.shapes import GROWTH, SIX, SKEWED, SMALL, Shape
from benchmarks.speed.timing import Record, time_shape

OURS, ALL = ("operator", "readout"), ("operator", "readout", "other", "floor")
CPU_ONLY = ("numpy_sort",)


class Setting(NamedTuple):
    """Where a run takes place."""

    device: str
    data: Path

    def names(self, *groups: str) -> list[str]:
        """The contenders of some groups that run on the device."""
        left_out = () if self.device == "cpu" else CPU_ONLY
        names = (name for name, c in CONTENDERS.items() if c.group in groups)
        return [name for name in names if name not in left_out]

    def time(
        self, shapes: Iterable[Shape], names: list[str], rounds: int
    ) -> Iterator[Record]:
        for shape in shapes:
            yield from time_shape(shape, names, rounds, self.device)


def _one_thread(setting: Setting) -> Iterator[Record]:
    names = [*setting.names(*OURS, "floor"), "padded", "sort", "mean"]
    return setting.time(SIX, names, rounds=12)


def _growth(setting: Setting) -> Iterator[Record]:
    names = ["segment_quantile", "padded", *setting.names("floor")]
    return setting.time(GROWTH, names, rounds=12)


def _memory(setting: Setting) -> Iterator[Record]:
    ours = ["segment_quantile", "gswe_linear", "gswe_heads1", "fast_quantile"]
    names = [*ours, *setting.names("other")]
    for shape in (SKEWED, SIX[4]):
        for name in _without_padding(names) if shape is SKEWED else names:
            yield peak_memory(shape, name)


def _without_padding(names: list[str]) -> list[str]:
    return [name for name in names if not CONTENDERS[name].pads]


class Part(NamedTuple):
    title: str
    about: str
    baseline: str | None = None
    on_device: bool = False


TEXTS = yaml.safe_load(Path(__file__).with_name("parts.yaml").read_text())
PARTS = {name: Part(**text) for name, text in TEXTS.items()}

MEASURES: dict[str, Callable[[Setting], Iterator[Record]]] = {
    "shapes": lambda s: s.time(SIX, s.names(*ALL), rounds=24),
    "one_thread": _one_thread,
    "skewed": lambda s: s.time([SKEWED], _without_padding(s.names(*ALL)), rounds=8),
    "small": lambda s: s.time([SMALL], [*s.names(*OURS), "sort", "mean"], 400),
    "first_call": lambda s: first_call(),
    "growth": _growth,
    "memory": _memory,
    "gin": lambda s: networks.gin(s.data / "ogb"),
    "neighbourhoods": lambda s: networks.neighbourhoods(),
    "sets": lambda s: sets.measure(s.data),
}
