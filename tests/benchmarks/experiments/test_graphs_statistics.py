import numpy as np
import pytest
from scipy import stats

from benchmarks.experiments.graphs.statistics import (
    critical_difference,
    detectable,
    holm,
    paired,
)

SAMPLE = [0.3, -0.1, 0.4, 0.2, 0.6]


def test_paired_is_the_t_test_where_nothing_is_shared():
    effect, expected = paired(SAMPLE), stats.ttest_1samp(SAMPLE, 0)
    interval = expected.confidence_interval(0.95)
    assert effect.p == pytest.approx(expected.pvalue)
    assert effect.mean - effect.half == pytest.approx(interval.low)
    # Ten folds, each tested on a ninth of what it was trained on.
    wider = paired(SAMPLE, overlap=1 / 9).half / effect.half
    assert wider == pytest.approx(((1 / 5 + 1 / 9) / (1 / 5)) ** 0.5)
    assert paired(SAMPLE[:2]) is None
    assert paired([0.5] * 3).p == 0
    assert paired([0.0] * 3).p == 1


def test_detectable_differences_are_found_four_times_out_of_five():
    deviation = np.std(SAMPLE, ddof=1)
    shift = detectable(SAMPLE) / deviation * np.sqrt(len(SAMPLE))
    critical = stats.t.ppf(0.975, len(SAMPLE) - 1)
    power = stats.nct.sf(critical, len(SAMPLE) - 1, shift)
    assert power == pytest.approx(0.8, abs=0.03)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("num_names", "num_datasets", "expected"),
    # Critical values as tabulated for the test: 2.569 for four, 1.960 for two.
    [(4, 14, 2.569 * (20 / 84) ** 0.5), (2, 10, 1.960 * (6 / 60) ** 0.5)],
)
def test_critical_difference(num_names, num_datasets, expected):
    found = critical_difference(num_names, num_datasets)
    assert found == pytest.approx(expected, abs=1e-3)
