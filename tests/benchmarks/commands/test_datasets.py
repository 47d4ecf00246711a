import re

import numpy as np
import pytest
import torch

from benchmarks.commands.datasets import main, padded
from gswe_pyg.datasets import WordSets
from tests.benchmarks.markdown import rows


def cells(output: str) -> dict[str, list[str]]:
    return {name: numbers for name, *numbers in rows(output)}


def unreachable(*args, **kwargs):
    raise FileNotFoundError("not here")


@pytest.fixture(autouse=True)
def offline(monkeypatch, request):
    if "real_data" not in request.fixturenames:
        for name in ("PointCloudMNIST", "ModelNet10Points"):
            monkeypatch.setattr(f"gswe_pyg.datasets.{name}", unreachable)


def test_table_of_what_is_there(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(WordSets, "__init__", unreachable)
    assert main([f"data={tmp_path}"]) == 0
    output = capsys.readouterr().out
    assert cells(output)["Set-Circles"] == ["400 (400)", "14.5 (14.6)", *["2 (2)"] * 2]
    for name in ("Point Cloud MNIST", "amazon"):
        assert f"{name} is left out: not here" in output


def test_word_sets_come_with_their_padding(capsys, tmp_path, monkeypatch):
    texts = ["a " * (n % 3) + "b" for n in range(100)]
    vectors = {"a": np.zeros(300), "b": np.ones(300)}
    made = WordSets.from_documents(texts, [n % 4 for n in range(100)], vectors)
    copy = lambda self, root, name: self.__dict__.update(made.__dict__)  # noqa: E731
    monkeypatch.setattr(WordSets, "__init__", copy)
    main([f"data={tmp_path}"])
    output = capsys.readouterr().out
    expected = ["70 (5,600)", "1.7 (45.0)", "300 (300)", "4 (4)"]
    assert cells(output)["amazon"] == expected
    assert re.search(r"amazon padded .* 1\.\d\d rows per element when shuffled", output)
    assert max(map(len, output.splitlines())) <= 80


def test_padded():
    sizes = torch.tensor([1, 4, 2, 2])
    assert padded(sizes, [[0, 1], [2, 3]]) == (2 * 4 + 2 * 2, 2 * 16 + 2 * 4)


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_table(capsys, real_data):
    root = real_data("text").parent
    real_data("MNIST")
    real_data("ModelNet10")
    assert main([f"data={root}"]) == 0
    output = capsys.readouterr().out
    mnist = ["60,000 (60,000)", "149.9 (149.9)", "2 (2)", "10 (10)"]
    assert cells(output)["Point Cloud MNIST"] == mnist
    for name in WordSets.names:
        assert cells(output)[name][2] == "300 (300)"
    assert cells(output)["amazon"][0] == "5,600 (5,600)"
    saved = re.search(r"That is (\d+)% fewer rows", output)
    assert int(saved.group(1)) > 70
