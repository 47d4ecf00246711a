"""From a YAML file and ``key=value`` arguments to a list of runs."""

import dataclasses
import importlib
import itertools
from argparse import ArgumentError
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import yaml
from jsonargparse import ArgumentParser, Namespace

from benchmarks.records import identifier
from benchmarks.registry import EXPERIMENTS, unknown

HERE = Path(__file__).resolve().parent
CONFIGS = HERE / "configs"


@dataclass(frozen=True)
class RunSettings:
    """What determines the outcome of one run; each experiment adds its own.

    In a config every field is a value or a list of values, and the grid is the
    product of the lists.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        """Raises a ``ValueError`` for names that are not registered."""

    def canonical(self) -> "RunSettings":
        """The run that stands for all runs which only differ in idle settings."""
        return self


@dataclass(frozen=True)
class EngineSettings:
    """How and where the runs are done; their outcome does not depend on it."""

    seeds: int | None = None  # short for seed: [0, ..., seeds - 1]
    workers: int = 1  # processes that share the grid
    threads: int = 1  # of each process
    accelerator: str = "cpu"  # these five are Fabric's
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    data: str = "data"  # the folder with the data sets
    results: str = str(HERE / "results")

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "devices", "num_nodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError("seeds must be at least 1")
        if self.workers > 1 and self.devices * self.num_nodes > 1:
            raise ValueError(
                "workers and devices cannot both be above 1: either several runs at "
                "once or several processes on one run"
            )


@dataclass(frozen=True)
class Plan:
    """A config after all its defaults, its preset and the arguments."""

    name: str
    description: str
    preset: str
    experiment: ModuleType
    engine: EngineSettings
    runs: list[RunSettings]

    @property
    def results(self) -> Path:
        return Path(self.engine.results) / f"{self.name}.jsonl"

    def settings(self, run: RunSettings) -> dict[str, Any]:
        """What is written down about a run, and what gives it its name."""
        settings = dataclasses.asdict(run)
        if self.engine.precision != "32-true":
            settings["precision"] = self.engine.precision
        return settings

    def identifier(self, run: RunSettings) -> str:
        return identifier(self.settings(run))


class ConfigError(ValueError):
    """A config that cannot be used, with a message for whoever wrote it."""


def available() -> list[str]:
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def load(config: str, overrides: list[str] | tuple[str, ...] = ()) -> Plan:
    """Reads a config by name (``set_circles``) or by path, and expands its grid.

    Later settings win: those of the file, of its preset, of one of its ``grids``, of
    the arguments.
    """
    path = _find(config)
    content = read_yaml(path)
    arguments = dict(_split(argument) for argument in overrides)
    presets, description = content.pop("presets"), content.pop("description")
    preset = arguments.pop("preset", "small")
    if preset not in presets:
        raise ConfigError(unknown(f"preset of {path.name}", preset, presets))
    try:
        experiment = importlib.import_module(EXPERIMENTS[content.pop("experiment")])
        settings = {**content, **(presets[preset] or {})}
        grids = settings.pop("grids", None)
        values = _parse(experiment.Run, settings, arguments)
        engine = EngineSettings(**_pick(values, EngineSettings))
        if grids is None:
            runs = expand(experiment.Run, _axes(experiment.Run, settings, arguments))
        else:
            runs = _expand_grids(experiment.Run, settings, grids, arguments)
    except ValueError as error:
        raise ConfigError(f"{path.name}: {error}") from error
    return Plan(path.stem, description, preset, experiment, engine, runs)


def expand(run_type: type[RunSettings], axes: dict[str, Any]) -> list[RunSettings]:
    """The product of all settings that are lists, seed by seed, without repeats.

    Seeds vary slowest, so that a grid that was stopped early is even.
    """
    lists = {
        name: value if isinstance(value, list) else [value]
        for name, value in axes.items()
    }
    for name, values in lists.items():
        if not values:
            raise ValueError(f"{name} must have at least one value")
    names = sorted(lists, key=lambda name: name != "seed")
    runs = (
        run_type(**dict(zip(names, values, strict=True))).canonical()
        for values in itertools.product(*(lists[name] for name in names))
    )
    return list(dict.fromkeys(runs))


def _axes(
    run_type: type[RunSettings], settings: dict[str, Any], arguments: dict[str, str]
) -> dict[str, Any]:
    if "seed" in arguments:
        settings = {key: settings[key] for key in settings if key != "seeds"}
    values = _parse(run_type, settings, arguments)
    axes = _pick(values, run_type)
    if values["seeds"] is not None:
        axes["seed"] = list(range(values["seeds"]))
    return axes


def _expand_grids(
    run_type: type[RunSettings],
    settings: dict[str, Any],
    grids: Any,
    arguments: dict[str, str],
) -> list[RunSettings]:
    """One grid after the other, seed by seed over all of them.

    A grid says what differs for some of the data sets, so that the argument
    ``dataset`` picks from what the grids have, while others hold for all of them.
    """
    others = {key: value for key, value in arguments.items() if key != "dataset"}
    runs = []
    for grid in grids if isinstance(grids, list) else [None]:
        if not isinstance(grid, dict) or "dataset" not in grid:
            raise ValueError("grids must be a list of mappings with a key 'dataset'")
        for key in grid:
            if key != "seeds" and key not in get_type_hints(run_type):
                raise ValueError(
                    unknown("key of a grid", key, [*get_type_hints(run_type), "seeds"])
                )
        runs += expand(run_type, _axes(run_type, {**settings, **grid}, others))
    if "dataset" in arguments:
        picked = _parse(run_type, {}, {"dataset": arguments["dataset"]})["dataset"]
        picked = picked if isinstance(picked, list) else [picked]
        known = list(dict.fromkeys(run.dataset for run in runs))
        for name in picked:
            if name not in known:
                raise ValueError(unknown("dataset of the grids", name, known))
        runs = [run for run in runs if run.dataset in picked]
    return sorted(dict.fromkeys(runs), key=lambda run: run.seed)


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigError(f"{path.name} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path.name} must be a mapping of settings to values")
    for key in ("description", "experiment", "presets"):
        if not content.get(key):
            raise ConfigError(f"{path.name} lacks the key {key!r}")
    if not isinstance(content["presets"], dict):
        raise ConfigError(f"'presets' of {path.name} must map names to settings")
    return content


def keys(run_type: type[RunSettings]) -> dict[str, Any]:
    """Every key of a config of this experiment with its type."""
    of_runs = {
        name: hint | list[hint] for name, hint in get_type_hints(run_type).items()
    }
    return {**of_runs, **get_type_hints(EngineSettings)}


def _parse(
    run_type: type[RunSettings], settings: dict[str, Any], arguments: dict[str, str]
) -> Namespace:
    known = keys(run_type)
    for key in (*settings, *arguments):
        if key not in known:
            raise ValueError(unknown("key", key, [*known, "preset"]))
    defaults = {
        field.name: field.default
        for kind in (run_type, EngineSettings)
        for field in dataclasses.fields(kind)
    }
    parser = ArgumentParser(exit_on_error=False)
    for key, hint in known.items():
        parser.add_argument(f"--{key}", type=hint, default=defaults[key])
    try:
        values = parser.parse_object(settings)
        given = [f"--{key}={value}" for key, value in arguments.items()]
        return parser.parse_args(given, namespace=values)
    except ArgumentError as error:
        raise ValueError(str(error)) from error


def _pick(values: Namespace, kind: type) -> dict[str, Any]:
    return {field.name: values[field.name] for field in dataclasses.fields(kind)}


def _split(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals or not key:
        raise ConfigError(f"arguments have the form key=value (got {argument!r})")
    return key.lstrip("-"), value


def _find(config: str) -> Path:
    path = Path(config)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise ConfigError(f"there is no file {config}")
        return path
    if config not in available():
        raise ConfigError(unknown("config", config, available()))
    return CONFIGS / f"{config}.yaml"
