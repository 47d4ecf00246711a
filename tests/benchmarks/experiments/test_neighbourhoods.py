import pytest
import torch

from benchmarks.experiments.neighbourhoods.report import message, part
from benchmarks.experiments.neighbourhoods.run import TASKS, Run, make_graph
from tests.benchmarks.made import record, rows


@pytest.mark.parametrize("task", TASKS)
def test_labels_follow_from_the_neighbours_and_not_from_the_degree(task):
    x, (start, end), y = make_graph(task, seed=0)
    values = x[:, 0] - x[:, 1]
    degrees = end.bincount()
    assert degrees.unique().tolist() == list(range(3, 13))
    for degree in (3, 12):
        nodes = (degrees == degree).nonzero().flatten()
        assert 0.4 <= y[nodes].double().mean() <= 0.5  # some share their largest one
        found = torch.stack(
            [TASKS[task](values[start[end == node]][None])[0] for node in nodes]
        )
        assert found[y[nodes] == 1].min() > found[y[nodes] == 0].max()


def test_report(tmp_path):
    """The learning rate is chosen by validation; the first sentence is computed."""
    found = [
        record(
            Run(task=task, readout=readout, learning_rate=rate, points=1),
            valid=valid,
            test=test,
            step_seconds=0.1 if readout == "mean" else 0.25,
        )
        for task, readout, rate, valid, test in (
            ("mean", "mean", 0.01, 0.9, 0.97),
            ("mean", "mean", 0.003, 0.8, 0.99),
            ("mean", "gswe_heads1", 0.01, 0.9, 0.95),
            ("spread", "mean", 0.01, 0.9, 0.8),
            ("spread", "gswe_heads1", 0.01, 0.9, 0.9),
        )
    ]
    table = rows(part("neighbourhoods", found, tmp_path))
    assert ["mean", "1", "97.0", "80.0", "10.0", "1.00x"] in table
    assert ["GSWE, 1 head", "1", "95.0", "90.0", "2.0", "2.50x"] in table
    assert message({"neighbourhoods": found}) == (
        "**GSWE, 1 head: at most 2.0 points behind the best aggregation, whichever of "
        "the 2 questions is asked. The nearest of the others, mean, is up to 10.0 "
        "points behind, in 0.4 times the time.**"
    )
