import logging
import runpy
import sys
from pathlib import Path

import pytest
import torch_geometric.nn.aggr
from torch_geometric.graphgym.config import cfg, set_cfg

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs an example in this process, which has loaded PyG already."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    set_cfg(cfg)
    yield run
    set_cfg(cfg)
    logging.disable(logging.NOTSET)
    monkeypatch.undo()
    if hasattr(torch_geometric.nn.aggr, "GSWEAggregation"):
        del torch_geometric.nn.aggr.GSWEAggregation


def test_graphgym(run):
    out = run("graphgym.py", "--epochs", "2")
    assert out.startswith("GSWEAggregation(32, num_slices=32, num_points=8")
    assert "epoch   2: loss" in out


def test_gnn_with_readout(run):
    out = run("gnn_with_readout.py", "--epochs", "1")
    assert "(readout)GSWEAggregation" in out
    for name in ("GCN", "GIN", "GraphSAGE", "GAT", "PNA"):
        assert f"\n{name:<9} training loss" in out


def test_neighbourhood_aggregation(run):
    out = run("neighbourhood_aggregation.py", "--nodes", "600", "--steps", "150")
    mean, gswe = (float(line.split()[-1]) for line in out.splitlines())
    # The mean is zero for all classes, so that the same one is always guessed.
    assert gswe > mean + 0.2
