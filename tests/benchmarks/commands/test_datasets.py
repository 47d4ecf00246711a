import numpy as np
import pytest

from benchmarks.commands.datasets import main
from gswe_pyg.datasets import WordSets
from tests.benchmarks.markdown import rows


def cells(output):
    return {name: numbers for name, *numbers in rows(output)}


def test_what_is_there_beside_the_paper(capsys, tmp_path, monkeypatch):
    def open_amazon(self, root, name):
        if name != "amazon":
            raise FileNotFoundError("not here")
        self.__dict__.update(made.__dict__)

    def not_here(*args, **kwargs):
        raise FileNotFoundError("not here")

    texts = ["a " * (n % 3) + "b" for n in range(100)]
    vectors = {"a": np.zeros(300), "b": np.ones(300)}
    made = WordSets.from_documents(texts, [n % 4 for n in range(100)], vectors)
    monkeypatch.setattr(WordSets, "__init__", open_amazon)
    for name in ("PointCloudMNIST", "ModelNet10Points"):
        monkeypatch.setattr(f"gswe_pyg.datasets.{name}", not_here)
    assert main([f"data={tmp_path}"]) == 0
    output = capsys.readouterr().out
    found = cells(output)
    assert found["Set-Circles"] == ["400 (400)", "14.5 (14.6)", "2 (2)", "2 (2)"]
    assert found["amazon"] == ["70 (5,600)", "1.7 (45.0)", "300 (300)", "4 (4)"]
    for name in ("Point Cloud MNIST", "twitter"):
        assert f"{name} is left out: not here" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_table(capsys, real_data):
    real_data("MNIST")
    real_data("ModelNet10")
    assert main([f"data={real_data('text').parent}"]) == 0
    found = cells(capsys.readouterr().out)
    mnist = ["60,000 (60,000)", "149.9 (149.9)", "2 (2)", "10 (10)"]
    assert found["Point Cloud MNIST"] == mnist
    assert found["amazon"][0] == "5,600 (5,600)"
    assert {found[name][2] for name in WordSets.names} == {"300 (300)"}
