import pandas as pd
import pytest

from benchmarks.experiments.graphs.cells import average_ranks
from benchmarks.experiments.graphs.ranks import (
    critical_difference,
    draw_ranks,
    groups,
)


def test_average_ranks():
    scores = pd.DataFrame({"a": [0.9, 0.5], "b": [0.8, 0.7], "c": [0.1, 0.5]})
    assert average_ranks(scores).to_dict() == {"a": 1.75, "b": 1.5, "c": 2.75}
    scores.loc[1, "b"] = float("nan")  # diverged
    assert average_ranks(scores).to_dict() == {"a": 1.25, "b": 2.5, "c": 2.25}


@pytest.mark.parametrize(
    ("num_names", "num_datasets", "expected"),
    # Critical values as tabulated for the test: 2.569 for four, 1.960 for two.
    [(4, 14, 2.569 * (20 / 84) ** 0.5), (2, 10, 1.960 * (6 / 60) ** 0.5)],
)
def test_critical_difference(num_names, num_datasets, expected):
    found = critical_difference(num_names, num_datasets)
    assert found == pytest.approx(expected, abs=1e-3)


def test_groups():
    assert groups([1.0, 1.5, 2.5, 4.0], 1.0) == [(0, 1), (1, 2)]
    assert groups([1.0, 1.5, 1.9], 1.0) == [(0, 2)]
    assert groups([1.0, 3.0], 1.0) == []


def test_draw(tmp_path):
    draw_ranks({"mean": 2.5, "GSWE": 1.2, "max": 2.3}, 0.9, tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 1000
