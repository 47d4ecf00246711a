"""From a YAML file and ``key=value`` arguments to a list of runs."""

import dataclasses
import importlib
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from benchmarks.engine.arguments import (
    Checked,
    UsageError,
    check_known,
    convert,
    option,
    split,
)
from benchmarks.engine.records import identifier

HERE = Path(__file__).resolve().parents[1]
EXPERIMENTS = HERE / "experiments"
RESULTS = HERE / "results"

#: What results are on; choices that must not see the test part look at validation.
PARTS = ("test", "validation")
BACKENDS = ("loky", "ray", "dask")


@dataclass(frozen=True)
class RunSettings(Checked):
    """What determines the outcome of one run; each experiment adds its own.

    In a config every field is a value or a list of values, and the grid is the
    product of the lists.
    """

    seed: int = 0

    @property
    def repetition(self) -> tuple[int, ...]:
        """What varies slowest in a grid, so that one that was stopped is even."""
        return (self.seed,)

    def canonical(self) -> "RunSettings":
        """The run that stands for all runs which only differ in idle settings."""
        return self

    def settings(self) -> dict[str, Any]:
        """What is written down about a run, and what gives it its name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if not field.metadata.get("added")
            or getattr(self, field.name) != field.default
        }

    def identifier(self) -> str:
        return identifier(self.settings())


def setting(
    default: Any,
    choices: Collection[str] | None = None,
    least: int | None = None,
    added: bool = False,
) -> Any:
    """A field of settings.

    Older records lack a field that was ``added``: they had what is its default, which
    is not written down, so that their runs keep their names.
    """
    return option(default, choices=choices, least=least, added=added)


@dataclass(frozen=True)
class EngineSettings(Checked):
    """How and where the runs are done; their outcome does not depend on it."""

    seeds: int | None = option(None, "short for seed=[0, ..., N - 1]", least=1)
    workers: int = option(1, "runs that are done at the same time", least=1)
    threads: int = option(1, "of each worker", least=1)
    backend: str = option(
        "loky", "of joblib: loky (processes here), ray or dask", BACKENDS
    )
    accelerator: str = option("cpu", "the torch device: cpu, cuda, mps")
    data: str = option("data", "the folder with the data sets")
    results: str = option(str(RESULTS), "the folder for the records")


@dataclass(frozen=True)
class Plan:
    """A config after all its defaults, its preset and the arguments."""

    name: str
    experiment: str
    engine: EngineSettings
    runs: list[RunSettings]

    @property
    def path(self) -> Path:
        return Path(self.engine.results) / f"{self.name}.jsonl"


def experiments() -> list[str]:
    return sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.py"))


def module(experiment: str, part: str) -> ModuleType:
    """``run`` or ``report`` of an experiment."""
    return importlib.import_module(f"benchmarks.experiments.{experiment}.{part}")


def available() -> dict[str, Path]:
    """The shipped configs by name."""
    return {path.stem: path for path in sorted(EXPERIMENTS.glob("*/configs/*.yaml"))}


def find(config: str) -> Path:
    path = Path(config)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise UsageError(f"there is no file {config}")
        return path
    check_known("config", [config], available())
    return available()[config]


def read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise UsageError("must be a mapping of settings to values")
        for key in ("description", "experiment", "presets"):
            if not content.get(key):
                raise UsageError(f"lacks the key {key!r}")
        check_known("experiment", [content["experiment"]], experiments())
        convert("presets", content["presets"], dict[str, dict | None])
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path.name}: {' '.join(str(error).split())}") from error
    return content


def load(config: str, arguments: Sequence[str] = ()) -> Plan:
    """Reads a config by name (``set_circles``) or by path, and expands its grid.

    Later settings win: those of the file, of its preset, of one of its ``grids``, of
    the arguments. A grid says what differs for some of the data sets, so that the
    argument ``dataset`` picks from what the grids have.
    """
    path = find(config)
    content = read_yaml(path)
    given = dict(split(argument) for argument in arguments)
    content.pop("description")
    presets, experiment = content.pop("presets"), content.pop("experiment")
    preset = given.pop("preset", "small")
    check_known(f"preset of {path.name}", [preset], presets)
    settings = content | (presets[preset] or {})
    grids = settings.pop("grids", None)
    run_type = module(experiment, "run").Run
    axes = [*get_type_hints(run_type), "seeds"]
    try:
        known = [*axes, *get_type_hints(EngineSettings), "preset"]
        check_known("key", (*settings, *given), known)
        engine = EngineSettings(**_convert(settings | given, EngineSettings))
        picked = given.pop("dataset", None) if grids is not None else None
        grids = convert("grids", grids or [{}], list[dict])
        check_known("key of a grid", itertools.chain(*grids), axes)
        if "seed" in given:
            given["seeds"] = None  # those of the file do not count
        runs = [r for grid in grids for r in _expand(run_type, settings | grid | given)]
        if picked is not None:
            wanted = _as_list(convert("dataset", picked, str | list[str]))
            check_known("dataset of the grids", wanted, [run.dataset for run in runs])
            runs = [run for run in runs if run.dataset in wanted]
        runs = sorted(dict.fromkeys(runs), key=lambda run: run.repetition)
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}") from error
    return Plan(path.stem, experiment, engine, runs)


def _convert(settings: dict[str, Any], kind: type, axes: bool = False) -> dict:
    """The settings that are fields of ``kind``, in the order of its fields."""
    return {
        name: convert(name, settings[name], hint | list[hint] if axes else hint)
        for name, hint in get_type_hints(kind).items()
        if name in settings
    }


def _expand(run_type: type[RunSettings], settings: dict[str, Any]) -> list[RunSettings]:
    """The product of all settings that are lists."""
    axes = _convert(settings, run_type, axes=True)
    if settings.get("seeds") is not None:
        axes["seed"] = list(range(convert("seeds", settings["seeds"], int)))
    for name, values in axes.items():
        if values == []:
            raise UsageError(f"{name} must have at least one value")
    return [
        run_type(**dict(zip(axes, values, strict=True))).canonical()
        for values in itertools.product(*map(_as_list, axes.values()))
    ]


def _as_list(value: Any) -> list:
    return value if isinstance(value, list) else [value]
