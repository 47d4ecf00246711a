import pandas as pd
import pytest

from benchmarks.engine.tables import difference, markdown, mean_and_deviation


def test_mean_and_deviation():
    assert mean_and_deviation([0.5, 0.7]) == "60.0 ± 14.1"
    assert mean_and_deviation(pd.Series([0.5])) == "50.0"
    assert mean_and_deviation([0.5, float("nan")]) == "nan"


def test_differences_are_paired():
    ours = pd.Series({0: 0.9, 1: 0.8, 2: 0.7, 5: 0.1})
    found = difference(ours, pd.Series({0: 0.8, 1: 0.8, 2: 0.5, 7: 0.9}))
    assert found.mean == pytest.approx(10)
    assert (found.better, found.equal, found.worse) == (2, 1, 0)
    assert str(found) == "+10.0 ± 24.8 (2/1/0)"
    assert str(difference(ours[:1], ours[:1] + 0.01)) == "-1.0 (0/0/1)"
    assert difference(ours[:1], ours[1:]) is None


def test_verdicts_follow_the_interval():
    ours = pd.Series([0.9, 0.91, 0.92])
    assert difference(ours, ours - 0.01).verdict() == "holds"
    assert difference(ours - 0.01, ours).verdict() == "fails"
    assert difference(ours - 0.01, ours).verdict(margin=2) == "holds"
    assert difference(ours, pd.Series([0.91, 0.91, 0.91])).verdict() == "open"
    assert difference(ours[:1], ours[:1] - 0.5).verdict() == "open"


def test_markdown():
    table = pd.DataFrame(
        {"readout": ["mean", "GSWE"], "2": ["1.0", None]}, index=[5, 3]
    )
    assert markdown(table).splitlines() == [
        "| readout   |   2 |",
        "|:----------|----:|",
        "| mean      | 1.0 |",
        "| GSWE      |     |",
    ]
