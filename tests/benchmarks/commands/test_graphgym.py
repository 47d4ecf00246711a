import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from torch_geometric.graphgym.config import cfg, load_cfg, set_cfg
from torch_geometric.graphgym.loader import create_loader
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model

import benchmarks.graphgym.loader  # noqa: F401
import gswe_pyg.graphgym  # noqa: F401
from benchmarks.__main__ import main
from benchmarks.commands.graphgym import CONFIGS
from benchmarks.engine.training import step
from gswe_pyg import GSWEAggregation


@pytest.fixture(autouse=True)
def unchanged():
    """GraphGym has one config and one logger for the whole process."""
    handlers = list(logging.root.handlers)
    yield
    for handler in set(logging.root.handlers) - set(handlers):
        handler.close()
    logging.root.handlers = handlers
    set_cfg(cfg)


@pytest.fixture
def mutag(tmp_path, capsys):
    """Trains on twenty paths of four nodes, laid out as MUTAG."""
    raw = tmp_path / "TUDataset" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    owners = np.repeat(np.arange(1, 21), 4)
    left = np.flatnonzero(owners[:-1] == owners[1:]) + 1
    pairs = np.stack([left, left + 1], axis=1)
    contents = {"A": np.concatenate([pairs, pairs[:, ::-1]]), "graph_indicator": owners}
    contents |= {"graph_labels": np.arange(20) % 2, "node_labels": np.arange(80) % 3}
    for name, numbers in contents.items():
        np.savetxt(raw / f"MUTAG_{name}.txt", numbers, fmt="%d", delimiter=", ")

    def train(*arguments):
        folders = [f"dataset.dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]
        code = main(["graphgym", "mutag", *folders, "accelerator=cpu", *arguments])
        return code, capsys.readouterr()

    return train


def test_from_config_to_test_scores(mutag, tmp_path):
    """Records of another seed or head stay."""
    runs = {"mutag-gswe/0": [], "mutag-gswe/1": ["seed=1"]}
    runs |= {"mutag-graph/0": ["gnn.head=default"]}
    for folder, arguments in runs.items():
        code, printed = mutag("optim.max_epoch=2", *arguments)
        assert code == 0
        assert str(tmp_path / "out" / folder) in printed.out
    for folder in runs:
        for part, epochs in (("train", 2), ("val", 2), ("test", 1)):
            path = tmp_path / "out" / folder / part / "stats.json"
            lines = path.read_text().splitlines()
            assert len(lines) == epochs
            assert 0 <= json.loads(lines[-1])["accuracy"] <= 1


@pytest.mark.parametrize("path", CONFIGS.values(), ids=CONFIGS)
def test_configs_are_stock_but_for_two_lines(path):
    content = yaml.safe_load(path.read_text())
    assert content["gnn"].pop("head") == "gswe"
    assert content.pop("gswe")
    set_cfg(cfg)
    del cfg["gswe"]  # GraphGym without us
    cfg.merge_from_other_cfg(type(cfg)(content))
    assert cfg.model.graph_pooling == "mean"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("gswe.points=0", "'gswe.points' must be a positive integer"),
        ("gswe.pionts=3", "unknown key 'gswe.pionts'; did you mean 'gswe.points'?"),
        ("gnn.head=gsew", "unknown gnn.head 'gsew'; did you mean 'gswe'?"),
        ("gnn.layer_type=ginconf", "unknown gnn.layer_type 'ginconf'; did you mean"),
        ("gswe.points=many", "Type mismatch"),
        ("gnn.head", "the form key=value"),
        ("dataset.split=[0.5,0.5]", "'dataset.split' must be three positive shares"),
    ],
)
def test_bad_arguments(mutag, argument, message):
    code, printed = mutag(argument)
    assert code == 2
    assert printed.err.startswith("error: ")
    assert message in printed.err


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mutag", "TUDataset/MUTAG"),
        ("proteins", "TUDataset/PROTEINS"),
        ("ogbg_molhiv", "ogb/ogbg_molhiv"),
    ],
)
def test_configs_train_on_real_data(real_data, tmp_path, name, folder):
    real_data(folder)
    options = ["dataset.dir", str(tmp_path), "accelerator", "cpu"]
    set_cfg(cfg)
    load_cfg(cfg, SimpleNamespace(cfg_file=str(CONFIGS[name]), opts=options))
    train, *others = create_loader()
    assert len(others) == 2
    torch.manual_seed(0)
    model = create_model()
    assert isinstance(model.post_mp.readout, GSWEAggregation)
    batch = next(iter(train))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = [
        step(optimizer, compute_loss(*model(batch.clone()))[0]).item()
        for _ in range(100)
    ]
    assert min(losses) < 0.8 * losses[0]  # less than half, as it happens
