"""From a YAML file and ``key=value`` arguments to a list of runs."""

import dataclasses
import importlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_type_hints

from benchmarks.engine.arguments import UsageError, convert, option, split, unknown
from benchmarks.engine.records import identifier

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).resolve().parents[1]
EXPERIMENTS = HERE / "experiments"
RESULTS = HERE / "results"
BACKENDS = ("loky", "ray", "dask")


@dataclass(frozen=True)
class RunSettings:
    """What determines the outcome of one run; each experiment adds its own.

    In a config every field is a value or a list of values, and the grid is the
    product of the lists.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        """Raises a ``ValueError`` for names that are not registered."""

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


def added(default: Any) -> Any:
    """A field of settings that older records lack: they had what is its default, which
    is not written down, so that their runs keep their names."""
    return dataclasses.field(default=default, metadata={"added": True})


def fill_added(table: "pd.DataFrame", run_type: type[RunSettings]) -> "pd.DataFrame":
    """A frame of records with the settings that were not written down."""
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(run_type)
        if field.metadata.get("added") and field.default is not None
    }
    missing = {name: default for name, default in defaults.items() if name not in table}
    return table.assign(**missing).fillna(defaults)


def check_positive(run: RunSettings, *names: str) -> None:
    for name in names:
        if getattr(run, name) < 1:
            raise UsageError(
                f"{name} must be at least 1 (got {name}={getattr(run, name)})"
            )


def check_choices(run: RunSettings, **choices: Iterable[str]) -> None:
    """Raises for settings of a run that are none of the choices."""
    for name, known in choices.items():
        if getattr(run, name) not in known:
            raise UsageError(unknown(name, getattr(run, name), known))


@dataclass(frozen=True)
class EngineSettings:
    """How and where the runs are done; their outcome does not depend on it."""

    seeds: int | None = option(None, "short for seed=[0, ..., N - 1]")
    workers: int = option(1, "runs that are done at the same time")
    threads: int = option(1, "of each worker")
    backend: str = option("loky", "of joblib: loky (processes here), ray or dask")
    accelerator: str = option("cpu", "the torch device: cpu, cuda, mps")
    data: str = option("data", "the folder with the data sets")
    results: str = option(str(RESULTS), "the folder for the records")

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "seeds"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        if self.backend not in BACKENDS:
            raise UsageError(unknown("backend", self.backend, BACKENDS))


@dataclass(frozen=True)
class Plan:
    """A config after all its defaults, its preset and the arguments."""

    name: str
    description: str
    preset: str
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
    if config not in available():
        raise UsageError(unknown("config", config, available()))
    return available()[config]


def read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path.name} is not YAML: {reason}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path.name} must be a mapping of settings to values")
    for key in ("description", "experiment", "presets"):
        if not content.get(key):
            raise UsageError(f"{path.name} lacks the key {key!r}")
    if content["experiment"] not in experiments():
        known = experiments()
        message = unknown("experiment", content["experiment"], known)
        raise UsageError(f"{path.name}: {message}")
    presets = content["presets"]
    if not isinstance(presets, dict):
        raise UsageError(f"'presets' of {path.name} must map names to settings")
    for name, preset in presets.items():
        if not isinstance(preset, dict | None):
            raise UsageError(
                f"preset {name!r} of {path.name} must map settings to values "
                f"(got {preset!r})"
            )
    return content


def load(config: str, arguments: Sequence[str] = ()) -> Plan:
    """Reads a config by name (``set_circles``) or by path, and expands its grid.

    Later settings win: those of the file, of its preset, of one of its ``grids``, of
    the arguments.
    """
    path = find(config)
    content = read_yaml(path)
    given = dict(split(argument) for argument in arguments)
    presets, description = content.pop("presets"), content.pop("description")
    experiment, preset = content.pop("experiment"), given.pop("preset", "small")
    if preset not in presets:
        raise UsageError(unknown(f"preset of {path.name}", preset, presets))
    settings = {**content, **(presets[preset] or {})}
    grids = settings.pop("grids", None)
    try:
        run_type = module(experiment, "run").Run
        known = {**get_type_hints(run_type), **get_type_hints(EngineSettings)}
        for key in (*settings, *given):
            if key not in known:
                raise UsageError(unknown("key", key, [*known, "preset"]))
        engine = EngineSettings(**_convert({**settings, **given}, EngineSettings))
        if grids is None:
            runs = _expand(run_type, settings, given)
        else:
            runs = _expand_grids(run_type, settings, grids, given)
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}") from error
    return Plan(path.stem, description, preset, experiment, engine, runs)


def _convert(settings: dict[str, Any], kind: type, axes: bool = False) -> dict:
    """The settings that are fields of ``kind``, in the order of its fields."""
    hints = get_type_hints(kind)
    return {
        name: convert(name, settings[name], hint | list[hint] if axes else hint)
        for name, hint in hints.items()
        if name in settings
    }


def _expand(
    run_type: type[RunSettings], settings: dict[str, Any], given: dict[str, str]
) -> list[RunSettings]:
    """The product of all settings that are lists, seed by seed, without repeats."""
    if "seed" in given:
        settings = {key: settings[key] for key in settings if key != "seeds"}
    merged = {**settings, **given}
    axes = _convert(merged, run_type, axes=True)
    if (seeds := merged.get("seeds")) is not None:
        axes["seed"] = list(range(convert("seeds", seeds, int)))
    lists = {
        name: value if isinstance(value, list) else [value]
        for name, value in axes.items()
    }
    for name, values in lists.items():
        if not values:
            raise UsageError(f"{name} must have at least one value")
    names = sorted(lists, key=lambda name: name != "seed")
    runs = (
        run_type(**dict(zip(names, values, strict=True))).canonical()
        for values in itertools.product(*(lists[name] for name in names))
    )
    return list(dict.fromkeys(runs))


def _expand_grids(
    run_type: type[RunSettings],
    settings: dict[str, Any],
    grids: Any,
    given: dict[str, str],
) -> list[RunSettings]:
    """One grid after the other, seed by seed over all of them.

    A grid says what differs for some of the data sets, so that the argument
    ``dataset`` picks from what the grids have, while others hold for all of them.
    """
    known = [*get_type_hints(run_type), "seeds"]
    others = {key: value for key, value in given.items() if key != "dataset"}
    runs = []
    for grid in grids if isinstance(grids, list) else [None]:
        if not isinstance(grid, dict) or "dataset" not in grid:
            raise UsageError("grids must be a list of mappings with a key 'dataset'")
        for key in grid:
            if key not in known:
                raise UsageError(unknown("key of a grid", key, known))
        runs += _expand(run_type, {**settings, **grid}, others)
    if "dataset" in given:
        picked = convert("dataset", given["dataset"], str | list[str])
        picked = picked if isinstance(picked, list) else [picked]
        present = list(dict.fromkeys(run.dataset for run in runs))
        for name in picked:
            if name not in present:
                raise UsageError(unknown("dataset of the grids", name, present))
        runs = [run for run in runs if run.dataset in picked]
    return sorted(dict.fromkeys(runs), key=lambda run: run.repetition)
