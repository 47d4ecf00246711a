"""``python -m benchmarks graphgym``: from a GraphGym config to test scores."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.engine.arguments import UsageError, asks_for_help, check_known, split
from benchmarks.engine.config import HERE

SUMMARY = "a GraphGym config, trained and tested"
CONFIGS = HERE / "graphgym"

USAGE = """usage: python -m benchmarks graphgym CONFIG [key=value ...]

Trains and tests what a GraphGym config describes. CONFIG is the name of a file in
benchmarks/graphgym or the path of another one; arguments are keys of GraphGym and of
the group 'gswe', for example: gnn.head=default gswe.points=16 optim.max_epoch=10"""


def main(arguments: list[str]) -> int:
    if not arguments or asks_for_help(arguments):
        print(f"{USAGE}\n\nconfigs: {', '.join(available())}")
        return 0 if arguments else 2
    path = Path(arguments[0])
    if path.suffix not in {".yaml", ".yml"}:
        check_known("config", [arguments[0]], available())
        path = CONFIGS / f"{path}.yaml"
    try:
        folder = run(path, arguments[1:])
    except ImportError as error:
        hint = "" if "pip install" in str(error) else ': pip install ".[graphgym]"'
        raise UsageError(f"{error}{hint}") from error
    except (ValueError, KeyError) as error:
        raise UsageError(str(error.args[0])) from error
    print(f"records: {folder}")
    return 0


def available() -> list[str]:
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def run(path: Path, overrides: list[str]) -> Path:
    """Trains and tests, and returns the folder that GraphGym has logged to."""
    _silence_others()
    from torch_geometric import seed_everything
    from torch_geometric.graphgym.config import (
        cfg,
        dump_cfg,
        load_cfg,
        set_cfg,
        set_run_dir,
    )
    from torch_geometric.graphgym.logger import set_printing
    from torch_geometric.graphgym.model_builder import create_model
    from torch_geometric.graphgym.register import head_dict, layer_dict
    from torch_geometric.graphgym.train import GraphGymDataModule, train
    from torch_geometric.graphgym.utils.comp_budget import params_count
    from torch_geometric.graphgym.utils.device import auto_select_device

    import benchmarks.graphgym.loader  # noqa: F401
    import gswe_pyg.graphgym  # noqa: F401

    _silence_others()  # once more: some ask for their own warnings when imported
    set_cfg(cfg)  # forget what an earlier config has set
    pairs = [part for argument in overrides for part in split(argument)]
    check_known("key", pairs[::2], list(_keys(cfg)))
    try:
        load_cfg(cfg, SimpleNamespace(cfg_file=str(path), opts=pairs))
    except AssertionError as error:  # yacs' way to refuse a key or a value
        raise ValueError(f"{path.name}: {error}") from error
    check_known("gnn.head", [cfg.gnn.head], head_dict)
    check_known("gnn.layer_type", [cfg.gnn.layer_type], layer_dict)
    seed_everything(cfg.seed)
    auto_select_device()
    data = GraphGymDataModule()
    model = create_model()
    cfg.params = params_count(model)

    # Not GraphGym's 'set_out_dir', which removes what other seeds and heads have left.
    cfg.out_dir = str(Path(cfg.out_dir) / f"{path.stem}-{cfg.gnn.head}")
    set_run_dir(cfg.out_dir)
    dump_cfg(cfg)
    set_printing()
    logging.info(f"{cfg.params} parameters")
    quiet = ("logger", "enable_progress_bar", "enable_model_summary")
    options = dict.fromkeys(quiet, False) | {"num_sanity_val_steps": 0}
    train(model, data, logger=True, trainer_config=options)
    return Path(cfg.run_dir)


def _keys(group: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The keys of a config and of its groups, as they are written in arguments."""
    for key, value in group.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _silence_others() -> None:
    """GraphGym's own code makes PyG, torch and Lightning warn at every epoch."""
    warnings.filterwarnings("ignore", module=r"(?!gswe_pyg|benchmarks|__main__)")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
