from itertools import pairwise

import pytest
import torch

from benchmarks.experiments.when import report, run
from benchmarks.experiments.when.data import LARGEST, SMALLEST, TASKS, make_sets
from tests.benchmarks.made import record


@pytest.mark.parametrize("task", TASKS)
def test_sets(task):
    x, ptr, y = make_sets(task, 500, seed=1)
    assert x.shape == (ptr[-1], 2)
    assert SMALLEST <= ptr.diff().min() < ptr.diff().max() <= LARGEST
    assert 0.4 < y.double().mean() < 0.6
    assert all(map(torch.equal, (x, ptr, y), make_sets(task, 500, seed=1)))
    assert not make_sets(task, 500, seed=2)[2].equal(y)


@pytest.mark.parametrize("task", ["tail", "shape", "spread"])
def test_mean_and_variance_tell_nothing_but_the_spread(task):
    x, ptr, y = make_sets(task, 3000, seed=0)
    sets = [x[a:b] for a, b in pairwise(ptr)]
    means = torch.stack([values.mean(0) for values in sets])
    variances = torch.stack([values.var(0).sum() for values in sets])
    for values in (*means.T, variances):
        one, other = values[y == 0], values[y == 1]
        error = (one.var() / len(one) + other.var() / len(other)).sqrt()
        differs = (one.mean() - other.mean()).abs() > 4 * error
        assert differs == (task == "spread" and values is variances)


def test_report_chooses_on_validation_sets(tmp_path):
    """The rate that is better on validation sets is not the better one on test sets."""
    records = [
        record(
            run.Run(seed, "tail", readout, learning_rate=rate, with_size=with_size),
            valid=valid,
            test=test + 0.05 * (readout == report.OURS) + 0.01 * seed,
        )
        for rate, valid, test in ((0.02, 0.9, 0.7), (0.005, 0.8, 0.99))
        for readout in report.FRONT
        for seed in (0, 1)
        for with_size in (False, True)
    ]
    text = report.part("when", records, tmp_path)
    assert "75.5" in text  # of four heads
    assert "75.5" in report.summary(records)
    assert "99" not in text
    assert (tmp_path / "when.png").exists()
    found = {"when": records}
    text = report.message(found)
    assert "+5.0 points where the classes differ in its tails" in text
    assert "mean 5.0" in text  # behind the best, at worst
    claim = report.claims(found)[0]
    assert claim.text == "GSWE, 4 heads beats mean"
    assert claim.effect.mean == pytest.approx(5)
    assert "**75.5**" in report.front_table(found)
    assert "| GSWE, 4 heads (75.5 %) | 70.5 % |" in report.decision_table(found)
    # The mean alone, with the size: nothing to draw, nothing to say.
    sized = [record(run.Run(readout="mean", with_size=True), valid=0.5, test=0.5)]
    assert "with the size" in report.part("sized", sized, tmp_path)
    assert not (tmp_path / "sized.png").exists()
    assert report.message({"sized": sized}) == ""
