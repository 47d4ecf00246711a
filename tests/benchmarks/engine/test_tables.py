import pandas as pd

from benchmarks.engine.pages import LEGEND, Claim, claims_table
from benchmarks.engine.statistics import Difference
from benchmarks.engine.tables import cells, markdown, mean_and_deviation
from tests.benchmarks.made import rows


def test_mean_and_deviation():
    assert mean_and_deviation([0.5, 0.7]) == "60.0 ± 14.1"
    assert mean_and_deviation(pd.Series([0.5]), 1, 3) == "0.500"
    assert mean_and_deviation([0.5, float("nan")]) == "nan"


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
    # As many better as worse, so that the sign test does not agree.
    assert Claim("", "", Difference(2.0, 1.0, 4, 0, 4)).verdict == "open"


def test_cells_and_markdown():
    runs = pd.DataFrame({"readout": ["sum", "mean", "sum"], "task": ["b", "a", "b"]})
    table = cells(runs.assign(test=[0.5, 0.25, 0.7]), "readout", "task", "test")
    assert markdown(table, "readout").splitlines() == [
        "| readout   |           b |    a |",
        "|:----------|------------:|-----:|",
        "| sum       | 60.0 ± 14.1 |      |",
        "| mean      |             | 25.0 |",
    ]
