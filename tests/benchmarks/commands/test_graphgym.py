import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch_geometric.graphgym.config import cfg, load_cfg, set_cfg
from torch_geometric.graphgym.loader import create_loader
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model

from benchmarks.__main__ import main
from benchmarks.commands import graphgym
from gswe_pyg import GSWEAggregation


@pytest.fixture(autouse=True)
def unchanged():
    """GraphGym has one config and one logger for the whole process."""
    handlers = list(logging.root.handlers)
    yield
    for handler in logging.root.handlers:
        if handler not in handlers:
            handler.close()
    logging.root.handlers = handlers
    set_cfg(cfg)


@pytest.fixture
def data(tmp_path):
    """Twenty small graphs, laid out as MUTAG."""
    raw = tmp_path / "TUDataset" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    sizes = [3 + i % 4 for i in range(20)]
    owners = [i for i, size in enumerate(sizes, start=1) for _ in range(size)]
    pairs = [
        (i, j)
        for i, owner in enumerate(owners, start=1)
        for j in (i - 1, i + 1)
        if 1 <= j <= len(owners) and owners[j - 1] == owner
    ]
    files = {
        "A": [f"{i}, {j}" for i, j in pairs],
        "graph_indicator": owners,
        "graph_labels": [i % 2 for i in range(20)],
        "node_labels": [i % 3 for i in range(len(owners))],
    }
    for key, lines in files.items():
        text = "\n".join(map(str, lines)) + "\n"
        (raw / f"MUTAG_{key}.txt").write_text(text)
    return tmp_path


def arguments(folder: Path) -> list[str]:
    return [f"dataset.dir={folder}", f"out_dir={folder / 'out'}", "accelerator=cpu"]


@pytest.mark.parametrize(("head", "found"), [("gswe", "gswe"), ("default", "graph")])
def test_from_config_to_test_scores(data, capsys, head, found):
    options = [*arguments(data), "optim.max_epoch=2", f"gnn.head={head}"]
    assert main(["graphgym", "mutag", *options]) == 0
    folder = data / "out" / f"mutag-{found}" / "0"
    assert str(folder) in capsys.readouterr().out
    for part, epochs in (("train", 2), ("val", 2), ("test", 1)):
        lines = (folder / part / "stats.json").read_text().splitlines()
        assert len(lines) == epochs
        assert 0 <= json.loads(lines[-1])["accuracy"] <= 1


@pytest.mark.parametrize("name", graphgym.available())
def test_configs_are_stock_but_for_two_lines(name):
    content = yaml.safe_load((graphgym.CONFIGS / f"{name}.yaml").read_text())
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
def test_bad_arguments(data, capsys, argument, message):
    assert main(["graphgym", "mutag", *arguments(data), argument]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_records_of_another_seed_or_head_stay(data, capsys):
    options = [*arguments(data), "optim.max_epoch=1"]
    for more in ([], ["seed=1"], ["gnn.head=default"]):
        assert main(["graphgym", "mutag", *options, *more]) == 0
    assert main(["graphgym", "mutag", *options, "gswe.points=0"]) == 2
    found = sorted(p.parent.parent for p in data.glob("out/*/*/test/stats.json"))
    assert [str(path.relative_to(data / "out")) for path in found] == [
        "mutag-graph/0",
        "mutag-gswe/0",
        "mutag-gswe/1",
    ]


def test_usage_and_unknown_config(capsys):
    assert main(["graphgym", "--help"]) == 0
    assert main(["graphgym"]) == 2
    out = capsys.readouterr().out
    assert "usage: python -m benchmarks graphgym" in out
    assert "mutag, ogbg_molhiv, proteins" in out
    assert main(["graphgym", "nowhere"]) == 2
    assert "unknown config 'nowhere'" in capsys.readouterr().err


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
    path = str(graphgym.CONFIGS / f"{name}.yaml")
    options = ["dataset.dir", str(tmp_path), "accelerator", "cpu"]
    set_cfg(cfg)
    load_cfg(cfg, SimpleNamespace(cfg_file=path, opts=options))
    loaders = create_loader()
    assert len(loaders) == 3
    torch.manual_seed(0)
    model = create_model()
    assert isinstance(model.post_mp.readout, GSWEAggregation)
    batch = next(iter(loaders[0]))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(100):
        loss, _ = compute_loss(*model(batch.clone()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses) < 0.8 * losses[0]  # less than half, as it happens
