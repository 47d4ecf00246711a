import re

import numpy as np
import pytest
import torch

from benchmarks.commands import datasets
from benchmarks.commands.datasets import main, padded
from gswe_pyg.datasets import WordSets
from tests.benchmarks.markdown import rows


def cells(output: str, name: str) -> list[str]:
    (row,) = [row for row in rows(output) if row[0] == name]
    return row


@pytest.fixture
def offline(monkeypatch):
    def unreachable(*args, **kwargs):
        raise FileNotFoundError("not here")

    for name in ("PointCloudMNIST", "ModelNet10Points"):
        monkeypatch.setattr(f"gswe_pyg.datasets.{name}", unreachable)
    monkeypatch.setattr(datasets, "word_sets", unreachable)


@pytest.mark.usefixtures("offline")
def test_table_of_what_is_there(capsys, tmp_path):
    assert main([f"data={tmp_path}"]) == 0
    output = capsys.readouterr().out
    ours = ["Set-Circles", "400", "400", "14.5", "14.6", "2", "2", "2", "2"]
    assert cells(output, "Set-Circles") == ours
    assert "Point Cloud MNIST is left out: not here" in output
    assert "amazon is left out: not here" in output
    assert "rebuilt" not in output


@pytest.mark.usefixtures("offline")
def test_word_sets_come_with_a_note_and_padding(capsys, tmp_path, monkeypatch):
    def word_sets(root, name):
        texts = ["a " * (n % 3) + "b" for n in range(100)]
        vectors = {"a": np.zeros(300), "b": np.ones(300)}
        return WordSets.from_documents(texts, [n % 4 for n in range(100)], vectors)

    monkeypatch.setattr(datasets, "word_sets", word_sets)
    main([f"data={tmp_path}"])
    output = capsys.readouterr().out
    row = ["amazon", "70", "5,600", "1.7", "45.0", "300", "300", "4", "4"]
    assert cells(output, "amazon") == row
    assert "rebuilt from" in output
    assert re.search(r"amazon padded .* 1\.\d\d rows per element when shuffled", output)


def test_padded():
    sizes = torch.tensor([1, 4, 2, 2])
    assert padded(sizes, [[0, 1], [2, 3]]) == (2 * 4 + 2 * 2, 2 * 16 + 2 * 4)


def test_picture(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "docs" / "circles.png"
    assert main([f"picture={path}"]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_table(capsys, real_data):
    root = real_data("text").parent
    real_data("MNIST")
    real_data("ModelNet10")
    assert main([f"data={root}"]) == 0
    output = capsys.readouterr().out
    mnist = ["60,000", "60,000", "149.9", "149.9", "2", "2", "10", "10"]
    assert cells(output, "Point Cloud MNIST")[1:] == mnist
    for name in WordSets.names:
        assert cells(output, name)[5:7] == ["300", "300"]
    assert cells(output, "amazon")[1:3] == ["5,600", "5,600"]
    saved = re.search(r"That is (\d+)% fewer rows", output)
    assert int(saved.group(1)) > 70
