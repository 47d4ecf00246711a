import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.engine.statistics import (
    best_cells,
    critical_difference,
    difference,
    holm,
)


def against_zero(values, overlap=0.0):
    return difference(pd.Series(values), pd.Series(values) * 0, 1, overlap)


def test_differences_are_paired():
    ours = pd.Series({0: 0.9, 1: 0.8, 2: 0.7, 5: 0.1})
    found = difference(ours, pd.Series({0: 0.8, 1: 0.8, 2: 0.5, 7: 0.9}))
    assert str(found) == "+10.0 ± 24.8 (2/1/0)"
    assert str(difference(ours[:1], ours[:1] + 0.01)) == "-1.0 (0/0/1)"
    assert difference(ours[:1], ours[1:]) is None


@pytest.mark.parametrize(
    ("values", "margin", "verdict"),
    [
        ([1, 1, 1.1], 0, "holds"),
        ([-1, -1, -1.1], 0, "fails"),
        ([-1, -1, -1.1], 2, "holds"),
        ([-1, 0, 1], 0, "open"),
        ([1, 1], 0, "open"),
    ],
)
def test_verdicts_follow_the_interval(values, margin, verdict):
    assert against_zero(values).verdict(margin) == verdict


def test_the_sign_test_leaves_ties_out():
    assert against_zero([1] * 6 + [0] * 94).sign_test() == pytest.approx(2 / 2**6)
    assert against_zero([1] * 5 + [0] * 94).sign_test() is None


def test_a_difference_is_the_t_test_where_nothing_is_shared():
    sample = [0.3, -0.1, 0.4, 0.2, 0.6]
    found, expected = against_zero(sample), stats.ttest_1samp(sample, 0)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.mean - found.half == pytest.approx(interval.low)
    # Ten folds, each tested on a ninth of what it was trained on.
    wider = against_zero(sample, overlap=1 / 9).half / found.half
    assert wider == pytest.approx(((1 / 5 + 1 / 9) / (1 / 5)) ** 0.5)
    assert against_zero([0.5] * 3).p == 0
    assert against_zero([0.0] * 3).p == 1


def test_best_cells():
    runs = [("a", 0.1, 0, 0.5), ("a", 0.1, 1, 0.5), ("a", 0.2, 1, 0.6)]
    # Better in a seed that the other lacks only; and one that has no choice.
    runs += [("a", 0.1, 2, 0.9), ("a", 0.2, 3, 0.1), ("b", 0.1, 0, 0.1)]
    # No seed in common: that with the most runs.
    runs += [("c", 0.1, 0, 0.1), ("c", 0.1, 1, 0.1), ("c", 0.2, 2, 0.9)]
    # Better, and only tried.
    runs += [("d", 0.1, seed, 0.5) for seed in range(3)] + [("d", 0.2, 0, 0.9)]
    table = pd.DataFrame(runs, columns=["task", "rate", "seed", "valid"])
    found = best_cells(table, ["task"], ["rate"])
    cells = found.groupby("task")["cell"].unique().explode().to_dict()
    assert cells == {"a": "rate 0.2", "b": "", "c": "rate 0.1", "d": "rate 0.1"}
    assert len(found) == 8


def test_holm():
    found = holm(pd.Series([0.01, 0.04, 0.03])).tolist()
    assert found == pytest.approx([0.03, 0.06, 0.06])
    assert holm(pd.Series([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_detectable_differences_are_found_four_times_out_of_five():
    sample = pd.Series([0.3, -0.1, 0.4, 0.2, 0.6])
    shift = against_zero(sample).detectable() / sample.std() * np.sqrt(len(sample))
    critical = stats.t.ppf(0.975, len(sample) - 1)
    power = stats.nct.sf(critical, len(sample) - 1, shift)
    assert power == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("num_names", "num_datasets", "expected"),
    # Values of Demšar's table 5.
    [(4, 14, 2.569 * (20 / 84) ** 0.5), (2, 10, 1.960 * (6 / 60) ** 0.5)],
)
def test_critical_difference(num_names, num_datasets, expected):
    found = critical_difference(num_names, num_datasets)
    assert found == pytest.approx(expected, abs=1e-3)
