import json

import numpy as np
import pytest
import torch

from benchmarks import speed, speed_bars, speed_report
from benchmarks.speed_contenders import CONTENDERS, OURS, PADDED, QUANTILE, gradients
from benchmarks.speed_end_to_end import generated_molecule
from benchmarks.speed_memory import peak_memory
from benchmarks.speed_shapes import GROWTH, SIX, SKEWED, Shape, make_batch
from benchmarks.speed_timing import obstacle, time_shape

SHAPES = [Shape(5, 7, 4, 3), Shape(3, 9, 8, 16), Shape(4, 5, 4, 2, large=40)]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", SHAPES)
def test_batches(shape):
    batch = make_batch(shape, seed=3)
    sizes = batch.ptr.diff()
    assert batch.num_graphs == shape.graphs + bool(shape.large)
    assert batch.x.shape == (len(batch.index), shape.slices)
    assert torch.equal(batch.index.bincount(), sizes)
    assert batch.max_nodes == max(sizes)
    assert sizes.max() <= max(3 * shape.nodes // 2, shape.large)
    assert sizes.min() >= shape.nodes // 2
    assert torch.equal(make_batch(shape, seed=3).x, batch.x)
    columns = np.concatenate(batch.columns(), axis=1)
    assert np.array_equal(columns.T, batch.x.numpy())


@pytest.mark.parametrize("shape", SHAPES)
def test_same_operator_same_numbers(shape):
    batch = make_batch(shape, seed=0)
    ours, padded = (CONTENDERS[name].build(shape) for name in (OURS, PADDED))
    torch.testing.assert_close(padded(batch), ours(batch))
    torch.testing.assert_close(gradients(padded, batch), gradients(ours, batch))


@pytest.mark.parametrize("shape", SHAPES)
def test_pyg_reads_quantiles_at_other_positions(shape):
    # As many quantiles for the same q, but where numpy's default has them.
    batch = make_batch(shape, seed=0)
    out = CONTENDERS[QUANTILE].build(shape)(batch)
    assert out.numel() == CONTENDERS[OURS].build(shape)(batch).numel()
    q = (np.arange(shape.points) + 0.5) / shape.points
    expected = [
        np.quantile(column.astype(np.float64), q, axis=-1).reshape(-1)
        for column in batch.columns()
    ]
    np.testing.assert_allclose(out, np.stack(expected), rtol=1e-4, atol=1e-5)


def test_contenders_that_cannot_are_recorded():
    batch = make_batch(SKEWED, seed=0)
    reason = obstacle(CONTENDERS[PADDED], SKEWED, batch)
    assert reason == "needs 31 GB"
    assert obstacle(CONTENDERS[OURS], SKEWED, batch) is None
    assert obstacle(CONTENDERS["fsw"], SIX[4], make_batch(SIX[2], 0)) is not None
    assert peak_memory(SKEWED, PADDED, threads=1, seed=0)["skipped"] == reason


def test_every_contender_is_timed_in_both_modes():
    records = list(time_shape(SHAPES[0], CONTENDERS, rounds=2, budget=0.01, seed=0))
    assert len(records) == 2 * len(CONTENDERS)
    for record in records:
        if "skipped" in record:
            assert record["skipped"] == "not installed"
        else:
            low, high = record["quartiles"]
            assert 0 < low <= record["seconds"] <= high
            assert record["repetitions"] == 2


@pytest.fixture
def tiny(monkeypatch):
    growth = {
        axis: [Shape(**{**SHAPES[0].as_dict(), axis: n}) for n in (4, 6, 8, 10)]
        for axis in GROWTH
    }
    few = {name: c for name, c in CONTENDERS.items() if c.requires is None}
    monkeypatch.setattr(speed, "CONTENDERS", few)
    monkeypatch.setattr(speed, "SIX", SHAPES[:2])
    monkeypatch.setattr(speed, "SKEWED", SHAPES[2])
    monkeypatch.setattr(speed, "MEMORY_SHAPE", SHAPES[1])
    for module in (speed, speed_bars, speed_report, speed_report.speed_figures):
        monkeypatch.setattr(module, "GROWTH", growth)

    def peak(shape, name, threads, seed):
        record = {"shape": shape.as_dict(), "contender": name, "mode": "training"}
        return record | {"peak_bytes": 300, "slice_bytes": 100}

    monkeypatch.setattr(speed, "peak_memory", peak)


def test_whole_command(tiny, tmp_path, capsys):
    output = ["--output", str(tmp_path)]
    assert speed.main(["--report", *output]) == 2
    assert "measure first" in capsys.readouterr().err

    assert speed.main(output) == 0
    data = ["--data", str(tmp_path), "--hidden", "8", "--batch-size", "4"]
    assert speed.main(["--end-to-end", *data, "--batches", "2", *output]) == 0
    printed = capsys.readouterr().out
    assert str(tmp_path / "speed.json") in printed
    assert "seed 0" in printed
    results = json.loads((tmp_path / "speed.json").read_text())
    assert list(results) == [*speed.PARTS, "end_to_end"]
    for part in results.values():
        assert part["seed"] == 0
        assert {"threads", "busy", "time", "commit", "versions"} <= part.keys()
    assert results["end_to_end"]["records"][0]["data"] == "generated"

    for name in ("speed.png", "speed_growth.png"):
        (tmp_path / name).unlink()
    assert speed.main(["--report", *output]) == 0
    assert capsys.readouterr().out.strip() in printed
    for name in ("speed.png", "speed_growth.png"):
        assert (tmp_path / name).stat().st_size > 1000

    page = tmp_path / "README.md"
    page.write_text("nothing marked")
    speed_report.refresh(page, results, tmp_path)
    assert page.read_text() == "nothing marked"
    page.write_text("a <!-- begin:speed --> old <!-- end:speed --> b")
    speed_report.refresh(page, results, tmp_path)
    assert "QuantileAggregation, forward" in page.read_text()
    assert "old" not in page.read_text()


def test_a_part_alone_leaves_the_others(tiny, tmp_path):
    kept = {"memory": {"kept": True}}
    (tmp_path / "speed.json").write_text(json.dumps(kept))
    speed._write(tmp_path / "speed.json", "skewed", [], seed=1, busy=0.0)
    results = json.loads((tmp_path / "speed.json").read_text())
    assert results["memory"] == kept["memory"]
    assert results["skewed"]["records"] == []


def test_bars():
    def record(name, mode, seconds):
        shape = SHAPES[0].as_dict()
        return {"shape": shape, "contender": name, "mode": mode, "seconds": seconds}

    seconds = {OURS: 1, PADDED: 5, QUANTILE: 30, "transformer": 10, "numpy_sort": 0.25}
    records = [
        record(name, mode, value)
        for name, value in seconds.items()
        for mode in ("forward", "training")
    ]
    bars = {bar.name: bar for bar in speed_bars.bars({"shapes": {"records": records}})}
    assert bars["PyG QuantileAggregation, forward"].is_reached
    assert not bars["padded torch.sort, forward"].is_reached
    assert bars["padded torch.sort, training"].is_reached
    assert bars["floor (numpy.sort, one thread), forward"].result == "4.00x"
    assert not bars["floor (numpy.sort, one thread), forward"].is_reached
    assert bars["floor (numpy.sort, one thread), training"].is_reached


@pytest.mark.skipif(not speed.sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory():
    record = peak_memory(Shape(16, 1000, 64, 8), OURS, threads=1, seed=0)
    # The gradient at least.
    assert record["peak_bytes"] > record["slice_bytes"] > 2e6


def test_generated_molecules():
    graphs = [generated_molecule(seed) for seed in range(300)]
    sizes = torch.tensor([graph.num_nodes for graph in graphs], dtype=torch.float)
    assert 23 < sizes.mean() < 28
    assert all(graph.validate() for graph in graphs)
