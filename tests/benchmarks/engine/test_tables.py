import pandas as pd
import pytest

from benchmarks.engine.pages import LEGEND, Claim, claims_table
from benchmarks.engine.tables import (
    Difference,
    difference,
    markdown,
    mean_and_deviation,
)
from tests.benchmarks.markdown import rows


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


def test_the_sign_test_leaves_ties_out():
    ours = pd.Series([0.1] * 6 + [0.0] * 94)
    assert difference(ours, ours * 0).sign_test() == pytest.approx(2 / 2**6)
    assert difference(ours[1:], ours[1:] * 0).sign_test() is None


def test_claims_by_data():
    gain = Difference(2.0, 1.0, 6, 0, 0)
    claims = [Claim("a beats b", "one", gain), Claim("a beats c", "one", None)]
    claims += [Claim("a beats b", "two", Difference(0.0, 1.0, 1, 0, 1))]
    text = claims_table(claims)
    assert text.startswith(LEGEND)
    head, _, *found = rows(text)
    assert [head, *found] == [
        ["data", "a beats b"],
        ["one", "+2.0 ± 1.0 (6/0/0, p .031) **holds**"],
        ["two", "+0.0 ± 1.0 (1/0/1)"],
    ]
    assert claims_table([]) == ""


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
