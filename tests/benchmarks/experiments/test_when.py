import dataclasses
import itertools
from pathlib import Path

import pytest
import torch

from benchmarks.engine.grid import Context
from benchmarks.engine.records import identifier
from benchmarks.experiments.when import report, run
from benchmarks.experiments.when.data import LARGEST, SMALLEST, TASKS, make_sets

CONTEXT = Context(torch.device("cpu"), Path("data"))


def moments(task):
    """Mean and variance of the sets of each class, along the axis that tells."""
    x, ptr, y = make_sets(task, 3000, seed=0)
    sets = [x[a:b] for a, b in itertools.pairwise(ptr)]
    means = torch.stack([values.mean(0) for values in sets])
    variances = torch.stack([values.var(0).sum() for values in sets])
    return means, variances, y


@pytest.mark.parametrize("task", TASKS)
def test_sets(task):
    x, ptr, y = make_sets(task, 500, seed=1)
    sizes = ptr.diff()
    assert x.shape == (int(ptr[-1]), 2)
    assert int(sizes.min()) >= SMALLEST
    assert int(sizes.max()) <= LARGEST
    assert 0.4 < y.double().mean() < 0.6
    again = make_sets(task, 500, seed=1)
    assert all(a.equal(b) for a, b in zip((x, ptr, y), again, strict=True))
    assert not make_sets(task, 500, seed=2)[2].equal(y)


@pytest.mark.parametrize("task", ["tail", "shape"])
def test_mean_and_variance_tell_nothing(task):
    means, variances, y = moments(task)
    for values in (*means.T, variances):
        one, other = values[y == 0], values[y == 1]
        error = (one.var() / len(one) + other.var() / len(other)).sqrt()
        assert (one.mean() - other.mean()).abs() < 4 * error


def test_the_spread_tells():
    _, variances, y = moments("spread")
    assert variances[y == 1].mean() > 1.3 * variances[y == 0].mean()


@pytest.mark.parametrize("readout", ["mean", "gswe_heads4", "parameter_free"])
@pytest.mark.parametrize("with_size", [False, True])
def test_execute(readout, with_size, monkeypatch):
    monkeypatch.setattr(run, "NUM_TRAINING", 60)
    monkeypatch.setattr(run, "NUM_TEST", 50)
    settings = run.Run(
        readout=readout, train_sets=60, with_size=with_size, steps=3, hidden=8
    ).canonical()
    outcome = run.execute(settings, CONTEXT)
    assert 0 <= outcome.metrics["test"] <= 1
    assert outcome.parameters > 0
    assert run.execute(settings, CONTEXT).metrics == outcome.metrics


def test_a_readout_without_points_is_one_run():
    few, many = (run.Run(readout="mean", points=n).canonical() for n in (4, 8))
    assert few == many
    with pytest.raises(ValueError, match="unknown task 'shfit'; did you mean 'shift'"):
        run.Run(task="shfit")


def records():
    """Two rates and two seeds, where the better rate on validation is not on test."""
    found = []
    for rate, valid, test in ((0.02, 0.9, 0.7), (0.005, 0.8, 0.99)):
        for readout in ("mean", "gswe_heads4"):
            for seed in (0, 1):
                settings = run.Run(seed, "tail", readout, learning_rate=rate)
                config = dataclasses.asdict(settings)
                gain = 0.05 * (readout != "mean") + 0.01 * seed
                found.append(
                    {
                        "id": identifier(config),
                        "config": config,
                        "metrics": {"valid": valid, "test": test + gain},
                        "commit": "abc",
                    }
                )
    return found


def test_report_chooses_on_validation_sets(tmp_path):
    table = report.chosen(records())
    assert set(table["learning_rate"]) == {0.02}
    text = report.part("when", records(), tmp_path)
    assert "75.5" in text  # of four heads
    assert "99" not in text
    assert (tmp_path / "when.png").exists()
    text = report.message({"when": records()})
    assert "+5.0 points where the classes differ in its tails" in text
    assert "mean 5.0" in text  # behind the best, at worst
    (claim,) = report.claims({"when": records()})
    assert claim.text == "GSWE, 4 heads beats mean"
    assert claim.effect.mean == pytest.approx(5)
    assert "75.5" in report.summary(records())
    front = report.front_table({"when": records()})
    assert "its tails, at equal variance" in front
    assert "**75.5**" in front
    decision = report.decision_table({"when": records()})
    assert "| GSWE, 4 heads (75.5 %) | 70.5 % |" in decision
