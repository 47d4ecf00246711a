"""A GraphGym config, trained and tested."""

import logging
import warnings
from pathlib import Path
from types import SimpleNamespace

from benchmarks.engine.arguments import UsageError, asks_for_help, check_known, split
from benchmarks.engine.config import HERE

CONFIGS = {path.stem: path for path in sorted((HERE / "graphgym").glob("*.yaml"))}

USAGE = """usage: python -m benchmarks graphgym CONFIG [key=value ...]

Trains and tests what a GraphGym config describes. CONFIG is the name of a file in
benchmarks/graphgym or the path of another one; arguments are keys of GraphGym and of
the group 'gswe', for example: gnn.head=default gswe.points=16 optim.max_epoch=10"""


def main(arguments: list[str]) -> int:
    if not arguments or asks_for_help(arguments):
        print(f"{USAGE}\n\nconfigs: {', '.join(CONFIGS)}")
        return 0 if arguments else 2
    path = Path(arguments[0])
    if path.suffix not in {".yaml", ".yml"}:
        check_known("config", arguments[:1], CONFIGS)
        path = CONFIGS[arguments[0]]
    pairs = dict(map(split, arguments[1:]))
    try:
        print(f"records: {run(path, pairs)}")
    except ImportError as error:
        hint = "" if "pip install" in str(error) else ': pip install ".[graphgym]"'
        raise UsageError(f"{error}{hint}") from error
    except (ValueError, KeyError, AssertionError) as error:  # the last one is yacs'
        raise UsageError(f"{path.name}: {error.args[0]}") from error
    return 0


def run(path: Path, overrides: dict[str, str]) -> Path:
    """Trains and tests, and returns the folder that GraphGym has logged to."""
    _silence_others()
    import pandas as pd
    from torch_geometric import graphgym, seed_everything
    from torch_geometric.graphgym.train import GraphGymDataModule

    import benchmarks.graphgym.loader  # noqa: F401
    import gswe_pyg.graphgym  # noqa: F401

    _silence_others()  # once more: some ask for their own warnings when imported
    cfg = graphgym.cfg
    graphgym.set_cfg(cfg)  # forget what an earlier config has set
    check_known("key", overrides, pd.json_normalize(cfg).columns)
    words = [word for pair in overrides.items() for word in pair]
    graphgym.load_cfg(cfg, SimpleNamespace(cfg_file=str(path), opts=words))
    check_known("gnn.head", [cfg.gnn.head], graphgym.register.head_dict)
    check_known("gnn.layer_type", [cfg.gnn.layer_type], graphgym.register.layer_dict)
    seed_everything(cfg.seed)
    graphgym.auto_select_device()
    data = GraphGymDataModule()
    model = graphgym.create_model()
    cfg.params = graphgym.params_count(model)

    # Not GraphGym's 'set_out_dir', which removes what other seeds and heads have left.
    cfg.out_dir = str(Path(cfg.out_dir) / f"{path.stem}-{cfg.gnn.head}")
    graphgym.set_run_dir(cfg.out_dir)
    graphgym.dump_cfg(cfg)
    graphgym.set_printing()
    logging.info(f"{cfg.params} parameters")
    quiet = ("logger", "enable_progress_bar", "enable_model_summary")
    options = dict.fromkeys(quiet, False) | {"num_sanity_val_steps": 0}
    graphgym.train(model, data, logger=True, trainer_config=options)
    return Path(cfg.run_dir)


def _silence_others() -> None:
    """GraphGym's own code makes PyG, torch and Lightning warn at every epoch."""
    warnings.filterwarnings("ignore", module=r"(?!gswe_pyg|benchmarks|__main__)")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
