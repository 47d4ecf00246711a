from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.nn import global_mean_pool

from benchmarks.speed.contenders import CONTENDERS, gradients, prepare
from benchmarks.speed.memory import peak_memory
from benchmarks.speed.shapes import SKEWED, Shape, make_batch

SHAPES = [Shape(5, 7, 4, 5), Shape(3, 9, 8, 16), Shape(4, 5, 4, 2, large=40)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def build(name, shape):
    return CONTENDERS[name].build(shape)


@shapes
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
    assert torch.equal(batch.to("cpu").weight, batch.weight)
    columns = np.concatenate(batch.columns(), axis=1)
    assert np.array_equal(columns.T, batch.x.numpy())


@shapes
@pytest.mark.parametrize("name", ["padded", "segment_quantile_torch", "gswe_identity"])
def test_same_operator_same_numbers(shape, name):
    batch = make_batch(shape, seed=0)
    ours, other = build("segment_quantile", shape), build(name, shape)
    if name == "gswe_identity":
        torch.nn.init.zeros_(other.aggregation.points)
    expected = ours(batch)
    torch.testing.assert_close(other(batch).view_as(expected), expected)
    torch.testing.assert_close(gradients(other, batch)[0], gradients(ours, batch)[0])


@shapes
def test_pyg_reads_quantiles_at_other_positions(shape):
    # As many quantiles for the same q, but where numpy's default has them.
    batch = make_batch(shape, seed=0)
    q = (np.arange(shape.points) + 0.5) / shape.points
    expected = [
        np.quantile(column.astype(np.float64), q, axis=-1).reshape(-1)
        for column in batch.columns()
    ]
    for name in ("quantile", "fast_quantile"):
        out = build(name, shape)(batch)
        np.testing.assert_allclose(out, np.stack(expected), rtol=1e-4, atol=1e-5)


@shapes
def test_one_head_starts_as_the_mean(shape):
    batch = make_batch(shape, seed=0)
    readout = build("gswe_identity_heads1", shape)
    expected = global_mean_pool(batch.x, batch.index)
    torch.testing.assert_close(readout(batch), expected)
    torch.testing.assert_close(build("mean", shape)(batch), expected)


@shapes
@pytest.mark.parametrize("name", ["segment_quantile_weights", "gswe_weights"])
def test_weights_are_seen(shape, name):
    batch, readout = make_batch(shape, seed=0), build(name, shape)
    other = replace(batch, weight=batch.weight.flip(0))
    assert not torch.equal(readout(batch), readout(other))


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_is_called_in_both_modes(name):
    contender, batch = CONTENDERS[name], make_batch(SHAPES[0], seed=0)
    if contender.obstacle(batch, SHAPES[0]):
        pytest.skip("not installed")
    readout = contender.build(SHAPES[0])
    before = batch.x.clone()
    for train in (False, True):
        prepare(contender, readout, batch, train)()
    assert torch.equal(batch.x, before)


def test_contenders_that_cannot_say_why(monkeypatch):
    batch = make_batch(SKEWED, seed=0)
    assert CONTENDERS["padded"].obstacle(batch, SKEWED) == "needs 30 GB"
    assert CONTENDERS["segment_quantile"].obstacle(batch, SKEWED) is None
    absent = replace(CONTENDERS["fsw"], requires="no_such_package")
    assert absent.obstacle(make_batch(SHAPES[0], 0), SHAPES[0]) == "not installed"
    assert peak_memory(SKEWED, "padded", seed=0)["skipped"] == "needs 30 GB"


def test_peak_memory():
    record = peak_memory(Shape(16, 1000, 64, 8), "segment_quantile", seed=0)
    if record.get("skipped") == "needs Linux":
        pytest.skip("reads /proc")
    # The gradient at least.
    assert record["peak_bytes"] > record["slice_bytes"] > 2e6
