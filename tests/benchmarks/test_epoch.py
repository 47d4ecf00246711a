import json

import pytest
import torch

from benchmarks import epoch
from benchmarks.registry import LABELLED_DATASETS
from gswe_pyg.datasets import WordSets
from gswe_pyg.models import StackedSAB


@pytest.fixture
def documents(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    vectors = {f"w{i}": torch.randn(5, generator=generator).tolist() for i in range(9)}
    texts = [[f"w{(i * j) % 9}" for j in range(1 + i % 7)] for i in range(90)]
    dataset = WordSets.from_documents(texts, [i % 2 for i in range(90)], vectors)
    monkeypatch.setitem(LABELLED_DATASETS, "amazon", lambda root: dataset)
    return dataset


@pytest.fixture(autouse=True)
def same_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_padded_backbone_is_the_same_function():
    torch.manual_seed(0)
    backbone = StackedSAB(5, (8, 8, 4), (2, 4, 1)).double()
    sizes = torch.tensor([3, 0, 7, 1, 4])
    index = torch.arange(5).repeat_interleave(sizes)
    ptr = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)])
    x = torch.randn(15, 5, dtype=torch.double)
    grads = []
    for model in (backbone, epoch.PaddedSAB(backbone)):
        out = model(x, index, ptr, 5)
        grads.append(
            [out, *torch.autograd.grad(out.square().sum(), backbone.parameters())]
        )
    torch.testing.assert_close(*grads)


def test_measure(documents):
    result = epoch.measure(documents, seed=0)
    assert result["documents"] == 72
    assert result["steps"] == result["steps_timed"] == 2
    ours, padded = (result["epoch_seconds"][n] for n in (epoch.OURS, epoch.PADDED))
    assert result["ratio"] == pytest.approx(ours / padded, rel=1e-3, abs=1e-3)
    assert epoch.measure(documents, seed=0, num_steps=1)["steps_timed"] == 1


def test_the_command_measures_and_reports(documents, tmp_path, capsys):
    assert epoch.main(["--output", str(tmp_path), "--report"]) == 2
    assert "measure first" in capsys.readouterr().err
    assert epoch.main(["--output", str(tmp_path), "--steps", "1"]) == 0
    result = json.loads((tmp_path / "epoch.json").read_text())
    assert result["versions"]["torch"]
    assert "commit" in result
    capsys.readouterr()
    assert epoch.main(["--output", str(tmp_path), "--report"]) == 0
    assert "share of the padded epoch" in capsys.readouterr().out


def test_verdicts():
    result = {
        "dataset": "amazon",
        "documents": 6400,
        "points": 64,
        "batch_size": 64,
        "steps": 100,
        "steps_timed": 100,
        "threads": 2,
        "seed": 0,
        "busy": 0.0,
        "commit": "abc",
        "versions": {"torch": "2"},
        "epoch_seconds": {epoch.OURS: 16.0, epoch.PADDED: 64.0},
        "ratio": 0.25,
    }
    lines = epoch.render(result).splitlines()
    seconds, share = lines[-2:]
    assert "16.0" in seconds
    assert "**no**" in seconds
    assert "0.250" in share
    assert "yes" in share


def test_missing_data_is_one_line(tmp_path, capsys):
    arguments = ["--data", str(tmp_path), "--output", str(tmp_path / "results")]
    assert epoch.main(arguments) == 2
    assert "amazon.npz" in capsys.readouterr().err
