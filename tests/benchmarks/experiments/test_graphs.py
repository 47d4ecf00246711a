import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock, Timeout

from benchmarks.engine.training import num_parameters
from benchmarks.experiments.graphs import controls
from benchmarks.experiments.graphs import data as graph_data
from benchmarks.experiments.graphs import run as graphs
from benchmarks.experiments.graphs.data import DATASETS, METRICS
from benchmarks.experiments.graphs.run import execute
from benchmarks.readouts import MAX_ATTENDED, READOUTS, Shape
from tests.benchmarks.made import CONTEXT, TINY, outcome

TINY = TINY["graphs"]
KINDS = pytest.mark.parametrize(
    "dataset", ["MUTAG", "ogbg-molhiv", "ogbg-molesol", "ModelNet10"]
)


def load(root=Path("data"), **settings):
    run = replace(TINY, **settings)
    return DATASETS[run.dataset](root, run)


@pytest.mark.parametrize("readout", READOUTS)
@KINDS
def test_every_readout_on_every_kind_of_data(dataset, readout):
    run = replace(TINY, dataset=dataset, readout=readout, points=8)
    outcome = execute(run, CONTEXT)
    assert outcome.metrics["epoch_seconds"] > 0
    assert 0 <= outcome.metrics["best_epoch"] < run.epochs
    assert outcome.metrics["test"] >= 0
    assert METRICS[dataset] == "rmse" or outcome.metrics["test"] <= 1
    assert {len(curve) for curve in outcome.curves.values()} == {run.epochs}


def test_the_epoch_is_the_best_one_on_the_validation_part():
    run = "graphs dataset=ogbg-molesol learning_rate=0.05"
    outcomes = [outcome(f"{run} epochs={n}") for n in range(1, 9)]
    found = [outcome.metrics for outcome in outcomes]
    valid = [metrics["valid"] for metrics in found]
    assert valid == sorted(valid, reverse=True)  # the best so far
    assert valid[-1] == pytest.approx(min(outcomes[-1].curves["valid"]), abs=1e-4)
    best = found[-1]["best_epoch"]
    assert found[best]["test"] == found[-1]["test"]
    assert valid.index(valid[-1]) == best


@pytest.mark.parametrize(
    "readout", ["gswe_linear", *controls.NAMES, "parameter_free directions=5"]
)
@KINDS
def test_test_labels_decide_nothing(dataset, readout, monkeypatch):
    run = f"graphs dataset={dataset} readout={readout} epochs=5"
    honest = outcome(run).metrics
    if readout != "gswe_linear":  # controls learn from vectors alone
        is_error = METRICS[dataset] == "rmse"  # the mean of the targets has 5
        assert honest["test"] < 2.5 if is_error else honest["test"] > 0.8
    task = load(dataset=dataset)
    y = task.graphs.y.clone()
    y[task.test] = 1 - y[task.test]
    wrong = replace(task, graphs=replace(task.graphs, y=y))
    monkeypatch.setitem(DATASETS, dataset, lambda *_: wrong)
    other = outcome(run).metrics
    assert other | {"test": 0} == honest | {"test": 0}
    if METRICS[dataset] == "accuracy":
        assert other["test"] == pytest.approx(1 - honest["test"], abs=1e-5)
    # Trials do without.
    trial = outcome(f"{run} evaluate=validation").metrics
    assert honest == trial | {"test": honest["test"]}
    assert "test" not in trial


def test_heads_start_where_the_run_says():
    x = torch.randn(40, 8)
    for start, points, reads in (
        ("extremes", 4, (x.amax(0), x.amin(0))),
        ("bins", 40, (x.amax(0), x.amin(0))),  # of one node each
    ):
        shape = Shape(8, points, head_start=start)
        readout = READOUTS["gswe_heads4"].build(shape)
        out = readout(x, torch.zeros(40, dtype=torch.long)).view(4, 8)
        torch.testing.assert_close(out[2:], torch.stack(reads))
        torch.testing.assert_close(out[0], x.mean(0))


def test_ten_seeds_are_one_cross_validation():
    tasks = [load(seed=seed) for seed in range(11)]
    everything = torch.arange(len(tasks[0].graphs))
    tests = torch.cat([task.test for task in tasks[:10]])
    assert tests.sort().values.equal(everything)
    for task in tasks:
        parts = torch.cat([task.train, task.valid, task.test])
        assert parts.sort().values.equal(everything)
        assert len(task.valid) == len(task.test) == len(everything) // 10
        assert task.graphs.y[task.valid].sum() == len(everything) // 20
    assert not tasks[10].test.equal(tasks[0].test)


def test_targets_are_scaled_by_the_training_part_only():
    task = load(dataset="ogbg-molesol")
    y = task.graphs.y[task.train]
    shift, spread = y.mean(), y.std()
    assert task.loss((y - shift) / spread, y) == pytest.approx(0, abs=1e-10)
    out = torch.zeros(len(task.test), 1)
    truth = task.graphs.y[task.test]
    expected = (truth - shift).square().mean().sqrt().item()
    assert task.score(out, truth) == pytest.approx(expected, rel=1e-5)


@KINDS
def test_perfect_and_diverged_predictions(dataset, monkeypatch):
    task = load(dataset=dataset)
    y = task.graphs.y[task.test]
    if METRICS[dataset] != "rmse":
        out = torch.eye(2)[y] if y.dim() == 1 else y.float()
        assert (task.score(out, y), task.score(-out, y)) == (1, 0)

    def nan(model, batch, device):
        return torch.full((len(batch), 2), torch.nan)

    monkeypatch.setattr(graphs, "predict", nan)
    model, worst = torch.nn.Identity(), 1e6 if METRICS[dataset] == "rmse" else 0
    found = graphs.evaluate(task, model, task.valid, 4, CONTEXT.device)
    assert found == (worst, float("inf"))


def test_the_set_transformer_goes_without_its_encoder_on_large_graphs():
    build = READOUTS["set_transformer"].build
    assert len(build(Shape(8, max_nodes=MAX_ATTENDED)).encoders) == 1
    assert len(build(Shape(8, max_nodes=MAX_ATTENDED + 1)).encoders) == 0


@pytest.mark.real_data
def test_elements_of_modelnet10(real_data, monkeypatch):
    monkeypatch.undo()  # the files themselves
    root = real_data("ModelNet10").parent
    load = graph_data._modelnet10_graphs.__wrapped__
    sets, num_train = load(root, 16)
    assert num_train == 3991
    assert sets.ptr.diff().unique().tolist() == [16]
    whole, _ = load(root, None)
    assert sets.x[:16].equal(whole.x[:16])
    assert sets.x[-16:].equal(whole.x[-1024:-1008])
    with pytest.raises(ValueError, match="elements must be between 1 and 1024"):
        load(root, 1025)


@pytest.mark.parametrize("readout", ["mean", "gswe_heads4"])
def test_size_for_any_readout(readout):
    run, task = replace(TINY, readout=readout, points=8), load()
    plain, sized = (
        graphs.build(replace(run, with_size=with_size), task)
        for with_size in (False, True)
    )
    assert sized.head.channel_list[0] == plain.head.channel_list[0] + 1
    batch = task.graphs.select(torch.arange(4))
    x = torch.randn(len(batch.x), 8)
    out = sized.readout(x, batch.index(), dim_size=4)
    torch.testing.assert_close(out[:, -1], batch.ptr.diff().log())
    assert out[:, :-1].equal(plain.readout(x, batch.index(), dim_size=4))


def test_wide_readouts_have_as_many_parameters_as_four_heads():
    run, task = replace(TINY, points=16, with_size=True), load()
    wide, heads = (
        num_parameters(graphs.build(replace(run, readout=name), task))
        for name in ("max_wide", "gswe_heads4")
    )
    assert 0 <= heads - wide < run.hidden + 2 + task.num_outputs


def test_public_splits(tmp_path):
    settings = {"splits": "public", "seed": 1}
    with pytest.raises(FileNotFoundError, match=r"splits=public needs .*MUTAG.json"):
        load(tmp_path, **settings)
    (tmp_path / "splits").mkdir()
    parts = [{}, {"train": [3, 4], "validation": [5], "test": [6, 7]}]
    (tmp_path / "splits" / "MUTAG.json").write_text(json.dumps(parts))
    task = load(tmp_path, **settings)
    found = [part.tolist() for part in (task.train, task.valid, task.test)]
    assert found == [[3, 4], [5], [6, 7]]


def test_another_worker_waits_while_raw_files_are_processed(tmp_path, monkeypatch):
    def load(*_):
        with pytest.raises(Timeout):
            FileLock(tmp_path / ".lock").acquire(timeout=0)
        return None, "split"

    monkeypatch.undo()  # what opens the files
    monkeypatch.setattr(graph_data, "load_ogb", load)
    monkeypatch.setattr(graph_data.SetTable, "from_graphs", lambda _: None)
    assert graph_data._ogb_graphs(tmp_path, "ogbg-molesol") == (None, "split")
