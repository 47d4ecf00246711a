import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock, Timeout

from benchmarks.engine import config
from benchmarks.engine.arguments import UsageError
from benchmarks.engine.training import num_parameters
from benchmarks.experiments.graphs import controls
from benchmarks.experiments.graphs import data as graph_data
from benchmarks.experiments.graphs import run as graphs
from benchmarks.experiments.graphs.data import METRICS
from benchmarks.experiments.graphs.run import Run, execute
from benchmarks.experiments.set_table import SetTable
from benchmarks.readouts import MAX_ATTENDED, READOUTS, Shape
from tests.benchmarks.made import CONTEXT

TINY = Run(dataset="MUTAG", epochs=2, hidden=8, layers=2, points=4, batch_size=16)
NUM_GRAPHS, NUM_CLASSES = 60, 2
OGB_GRAPHS = graph_data._ogb_graphs  # before it is replaced


def make_graphs(kind: str) -> SetTable:
    """Rings of three to nine nodes, the classes apart by what is on the nodes."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 10, (NUM_GRAPHS,), generator=generator)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    y = torch.arange(NUM_GRAPHS) % NUM_CLASSES
    owner = y.repeat_interleave(sizes)
    x = torch.randn(len(owner), 3, generator=generator) + 2 * owner[:, None]
    rings = [torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in sizes]
    edge_index = torch.cat(rings, dim=1)
    if kind == "features":
        return SetTable(x, ptr, y, edge_index, None, ptr)
    if kind == "sets":
        return SetTable(x, ptr, y)
    atoms = owner[:, None].expand(-1, 9).contiguous()
    bonds = torch.zeros(len(owner), 3, dtype=torch.long)
    target = y if kind == "binary" else y * 10.0 + 5
    return SetTable(atoms, ptr, target[:, None], edge_index, bonds, ptr)


@pytest.fixture(autouse=True)
def synthetic(monkeypatch):
    """Small graphs in place of all files."""

    def ogb(root, name):
        kind = "binary" if METRICS[name] == "rocauc" else "values"
        parts = torch.arange(NUM_GRAPHS).split(NUM_GRAPHS // 3)
        return make_graphs(kind), dict(
            zip(("train", "valid", "test"), parts, strict=True)
        )

    monkeypatch.setattr(graph_data, "_tu_graphs", lambda *_: make_graphs("features"))
    monkeypatch.setattr(graph_data, "_ogb_graphs", ogb)
    monkeypatch.setattr(
        graph_data, "_modelnet10_graphs", lambda *_: (make_graphs("sets"), 40)
    )


def without_time(outcome):
    metrics = {k: v for k, v in outcome.metrics.items() if k != "epoch_seconds"}
    return metrics, outcome.parameters


KINDS = pytest.mark.parametrize(
    "dataset", ["MUTAG", "ogbg-molhiv", "ogbg-molesol", "ModelNet10"]
)


def load(run=TINY, root=Path("data")):
    return graphs.DATASETS[run.dataset](root, run)


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


@KINDS
def test_training_lowers_the_loss_in_the_same_way_again(dataset):
    run = replace(TINY, dataset=dataset, epochs=40)
    outcome = execute(run, CONTEXT)
    curve = outcome.curves["train_loss"]
    assert curve[-1] < curve[0] / 2
    assert without_time(execute(run, CONTEXT)) == without_time(outcome)


def test_the_epoch_is_the_best_one_on_the_validation_part():
    run = replace(TINY, dataset="ogbg-molesol", epochs=8, learning_rate=0.05)
    outcomes = [execute(replace(run, epochs=n), CONTEXT).metrics for n in range(1, 9)]
    valid = [metrics["valid"] for metrics in outcomes]
    assert valid == sorted(valid, reverse=True)  # the best so far
    best = outcomes[-1]["best_epoch"]
    assert outcomes[best]["test"] == outcomes[-1]["test"]
    assert valid.index(valid[-1]) == best


@pytest.mark.parametrize("dataset", ["MUTAG", "ogbg-molhiv", "ModelNet10"])
def test_test_labels_decide_nothing(dataset, monkeypatch):
    run = replace(TINY, dataset=dataset, epochs=5)
    task, honest = load(run), execute(run, CONTEXT).metrics
    y = task.graphs.y.clone()
    y[task.test] = 1 - y[task.test]
    wrong = replace(task, graphs=replace(task.graphs, y=y))
    monkeypatch.setitem(graphs.DATASETS, dataset, lambda *_: wrong)
    other = execute(run, CONTEXT).metrics
    for key in ("valid", "best_epoch", "train_loss"):
        assert other[key] == honest[key]
    if METRICS[dataset] == "accuracy":
        assert other["test"] == pytest.approx(1 - honest["test"], abs=1e-5)
    # Trials do without.
    trial = execute(replace(run, evaluate="validation"), CONTEXT).metrics
    assert "test" not in trial
    assert trial["valid"] == honest["valid"]


def test_ten_seeds_are_one_cross_validation():
    tasks = [load(replace(TINY, seed=seed)) for seed in range(11)]
    tests = torch.cat([task.test for task in tasks[:10]])
    assert tests.sort().values.equal(torch.arange(NUM_GRAPHS))
    for task in tasks:
        parts = torch.cat([task.train, task.valid, task.test])
        assert parts.sort().values.equal(torch.arange(NUM_GRAPHS))
        assert len(task.valid) == len(task.test) == NUM_GRAPHS // 10
        assert task.graphs.y[task.valid].sum() == NUM_GRAPHS // 20
    assert not tasks[10].test.equal(tasks[0].test)


def test_targets_are_scaled_by_the_training_part_only():
    task = load(replace(TINY, dataset="ogbg-molesol"))
    y = task.graphs.y[task.train]
    shift, spread = y.mean(), y.std()
    assert task.loss((y - shift) / spread, y) == pytest.approx(0, abs=1e-10)
    out = torch.zeros(len(task.test), 1)
    truth = task.graphs.y[task.test]
    expected = (truth - shift).square().mean().sqrt().item()
    assert task.score(out, truth) == pytest.approx(expected, rel=1e-5)


@KINDS
def test_perfect_and_diverged_predictions(dataset, monkeypatch):
    task = load(replace(TINY, dataset=dataset))
    y = task.graphs.y[task.test]
    if METRICS[dataset] != "rmse":
        out = torch.eye(NUM_CLASSES)[y] if y.dim() == 1 else y.float()
        assert (task.score(out, y), task.score(-out, y)) == (1, 0)

    def nan(model, batch, device):
        return torch.full((len(batch), NUM_CLASSES), torch.nan)

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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("dataset=MUTAGG", "did you mean 'MUTAG'"),
        ("readout=gswe", "unknown readout 'gswe'"),
        ("points=2", "points must be at least 4 for the readout gswe_heads4"),
        ("hidden=6", "hidden must be a multiple of 4"),
        ("dropout=1.0", "dropout must be at least 0 and less than 1"),
        ("slicer=linar", "unknown slicer 'linar'; did you mean 'linear'"),
    ],
)
def test_bad_arguments(argument, message):
    with pytest.raises(UsageError, match=message):
        config.load("graphs", ["readout=[mean,gswe_heads4]", argument])


@pytest.mark.parametrize(
    "setting",
    [
        {"slicer": "linear"},
        {"slicer": "mlp"},
        {"schedule": "cosine"},
        {"with_size": True},
        {"dropout": 0.5},
        {"readout": "gswe_heads4", "extremes": False},
    ],
    ids=str,
)
def test_a_setting_makes_a_difference(setting):
    plain = {k: v for k, v in setting.items() if k == "readout"}
    one, other = (replace(TINY, epochs=3, **s) for s in (setting, plain))
    assert execute(one, CONTEXT).curves != execute(other, CONTEXT).curves
    # Of what a readout does not have, one run stands for all.
    idle = {k: v for k, v in setting.items() if k in ("slicer", "extremes")}
    run = replace(TINY, readout="max", **idle).canonical()
    assert run == replace(TINY, readout="max").canonical()


def test_size_and_width_for_any_readout():
    for readout in ("mean", "gswe_heads4"):
        run = replace(TINY, readout=readout, points=8)
        task = load(run)
        plain = graphs.build(run, task)
        sized = graphs.build(replace(run, with_size=True), task)
        assert sized.head.channel_list[0] == plain.head.channel_list[0] + 1
        batch = task.graphs.select(torch.arange(4))
        x = torch.randn(len(batch.x), 8)
        out = sized.readout(x, batch.index(), dim_size=4)
        torch.testing.assert_close(out[:, -1], batch.ptr.diff().log())
        assert out[:, :-1].equal(plain.readout(x, batch.index(), dim_size=4))


def test_wide_readouts_have_as_many_parameters_as_four_heads():
    run = replace(TINY, points=16, with_size=True)
    wide, heads = (
        num_parameters(graphs.build(replace(run, readout=name), load(run)))
        for name in ("max_wide", "gswe_heads4")
    )
    assert 0 <= heads - wide < run.hidden + 2 + NUM_CLASSES


def test_public_splits(tmp_path):
    run = replace(TINY, splits="public", seed=1)
    with pytest.raises(FileNotFoundError, match=r"splits=public needs .*MUTAG.json"):
        load(run, tmp_path)
    (tmp_path / "splits").mkdir()
    parts = [{}, {"train": [3, 4], "validation": [5], "test": [6, 7]}]
    (tmp_path / "splits" / "MUTAG.json").write_text(json.dumps(parts))
    task = load(run, tmp_path)
    found = [part.tolist() for part in (task.train, task.valid, task.test)]
    assert found == [[3, 4], [5], [6, 7]]


@pytest.mark.parametrize("readout", controls.NAMES)
@KINDS
def test_controls_learn_from_vectors_alone(dataset, readout, monkeypatch):
    run = replace(TINY, dataset=dataset, readout=readout).canonical()
    found, task = execute(run, CONTEXT).metrics, load(run)
    if METRICS[dataset] == "rmse":
        assert found["test"] < 2.5  # the mean of the targets has 5
    else:
        assert found["test"] > 0.8
    y = task.graphs.y.clone()
    y[task.test] = 1 - y[task.test]
    wrong = replace(task, graphs=replace(task.graphs, y=y))
    monkeypatch.setitem(graphs.DATASETS, dataset, lambda *_: wrong)
    assert execute(run, CONTEXT).metrics["valid"] == found["valid"]
    trial = execute(replace(run, evaluate="validation"), CONTEXT).metrics
    assert trial == {"valid": found["valid"]}


def test_another_worker_waits_while_raw_files_are_processed(tmp_path, monkeypatch):
    def load(*_):
        with pytest.raises(Timeout):
            FileLock(tmp_path / ".lock").acquire(timeout=0)
        return None, "split"

    monkeypatch.setattr(graph_data, "load_ogb", load)
    monkeypatch.setattr(graph_data.SetTable, "from_graphs", lambda _: None)
    assert OGB_GRAPHS(tmp_path, "ogbg-molesol") == (None, "split")
