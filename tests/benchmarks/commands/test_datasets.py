import numpy as np
import pytest

from benchmarks.commands import datasets
from gswe_pyg.datasets import WordSets
from tests.benchmarks.made import rows


def test_what_is_there_beside_the_paper(capsys, tmp_path):
    assert datasets.main([f"data={tmp_path}"]) == 0
    output = capsys.readouterr().out
    circles = ["Set-Circles", "400 (400)", "14.5 (14.6)", "2 (2)", "2 (2)"]
    assert rows(output)[2:] == [circles]
    for name in ("Point Cloud MNIST", "ModelNet10", *WordSets.names):
        assert f"{name} is left out: " in output
    assert max(map(len, output.splitlines())) <= 80


def test_of_word_sets_the_training_part_counts():
    texts = ["a " * (n % 3) + "b" for n in range(100)]
    vectors = {"a": np.zeros(300), "b": np.ones(300)}
    made = WordSets.from_documents(texts, [n % 4 for n in range(100)], vectors)
    row = ["amazon", "70 (5,600)", "1.7 (45.0)", "300 (300)", "4 (4)"]
    assert list(datasets._row("amazon", made).values()) == row


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_table(capsys, real_data):
    real_data("MNIST")
    real_data("ModelNet10")
    assert datasets.main([f"data={real_data('text').parent}"]) == 0
    found = {name: numbers for name, *numbers in rows(capsys.readouterr().out)}
    mnist = ["60,000 (60,000)", "149.9 (149.9)", "2 (2)", "10 (10)"]
    assert found["Point Cloud MNIST"] == mnist
    assert found["amazon"][0] == "5,600 (5,600)"
    assert {found[name][2] for name in WordSets.names} == {"300 (300)"}
