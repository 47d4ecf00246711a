"""Quantiles against PyG's, numpy's, and repetition."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import torch_geometric.nn.aggr as pyg
from backends import available
from torch_geometric.nn import SAGEConv

from gswe_pyg.aggr import MedianAggregation, QuantileAggregation
from gswe_pyg.ops import backend
from gswe_pyg.testing import assert_readout

SIZES = [0, 3, 1, 7, 0, 12, 2, 100, 0]
METHODS = ["linear", "lower", "higher", "midpoint", "nearest"]


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("q", [0.0, 0.5, 1.0, [0.25], [0.1, 0.5, 0.9, 1.0]])
def test_equals_pyg(ragged, q, method, name):
    # PyG's fails if the first set is empty, and for "nearest", rounds a half up or down
    # depending on how many elements the sets before have: here, always an even number.
    sizes = [4, 2, 0, 8, 12, 2, 100, 0, 0]
    x, batch = ragged(sizes=sizes)
    x.requires_grad_()
    ours = QuantileAggregation(q, method, fill_value=7.0)
    theirs = pyg.QuantileAggregation(q, method, fill_value=7.0)
    with backend(name):
        out = ours(x, batch, dim_size=len(sizes))
        grad = torch.autograd.grad(out.sin().sum(), x)
    expected = theirs(x, batch, dim_size=len(sizes))
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        grad, torch.autograd.grad(expected.sin().sum(), x), rtol=1e-4, atol=1e-5
    )
    assert str(ours) == str(theirs)
    ours.load_state_dict(theirs.state_dict())


@pytest.mark.parametrize("method", METHODS)
def test_equals_numpy(ragged, method):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    q = [0.0, 0.05, 0.3, 0.5, 0.77, 1.0]
    out = QuantileAggregation(q, method)(x, batch, dim_size=len(SIZES))
    for i, size in enumerate(SIZES):
        if size == 0:
            assert not out[i].any()
            continue
        expected = np.quantile(x[batch == i].numpy(), q, axis=0, method=method)
        np.testing.assert_allclose(out[i].view(6, 4), expected, atol=1e-14)


def test_median_equals_pyg(ragged):
    x, batch = ragged(sizes=SIZES)
    expected = pyg.MedianAggregation()(x, batch - 1)  # the first set is empty
    assert MedianAggregation()(x, batch)[1:].equal(expected)
    assert str(MedianAggregation()) == "MedianAggregation()"


def test_ptr_and_any_order(ragged):
    x, batch = ragged(sizes=SIZES)
    aggr = QuantileAggregation([0.2, 0.7])
    expected = aggr(x, batch, dim_size=len(SIZES))
    ptr = torch.tensor([0, *SIZES]).cumsum(0)
    assert aggr(x, ptr=ptr).equal(expected)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert aggr(x[order], batch[order], dim_size=len(SIZES)).equal(expected)


def test_other_dimensions():
    x = torch.randn(2, 9, 4)
    index = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    ours, theirs = QuantileAggregation([0.7]), pyg.QuantileAggregation([0.7])
    torch.testing.assert_close(ours(x, index), theirs(x, index))
    both = QuantileAggregation([0.2, 0.7])
    assert both(x, index)[..., 4:].equal(ours(x, index))


@pytest.mark.parametrize("method", METHODS)
def test_whole_weights_are_repetitions(ragged, method):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    count = torch.randint(1, 4, batch.shape, generator=torch.Generator().manual_seed(1))
    aggr = QuantileAggregation([0.0, 0.1, 0.5, 0.83, 1.0], method)
    out = aggr(x, batch, weight=count.double())
    expected = aggr(x.repeat_interleave(count, 0), batch.repeat_interleave(count))
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_positions_in_a_large_batch():
    # In single precision, places beyond 2^24 cannot be told apart.
    num_before = (1 << 24) + 1
    x = torch.zeros(num_before + 3, 1)
    x[num_before:, 0] = torch.tensor([3.0, 1.0, 2.0])
    ptr = torch.tensor([0, num_before, num_before + 3])
    out = QuantileAggregation([0.0, 0.5, 1.0])(x, ptr=ptr)
    assert out[1].tolist() == [1, 2, 3]


@pytest.mark.parametrize("method", METHODS)
def test_properties_of_an_aggregation(method):
    assert_readout(
        QuantileAggregation([0.1, 0.45, 0.9], method), 4, dtype=torch.float64
    )


@pytest.mark.parametrize("method", METHODS)
def test_weights_in_any_order_and_batch(ragged, method):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    weight = 1 + torch.rand(len(x), dtype=torch.float64)
    aggr = QuantileAggregation([0.0, 0.1, 0.45, 1.0], method)
    out = aggr(x, batch, dim_size=len(SIZES), weight=weight)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    mixed = aggr(x[order], batch[order], dim_size=len(SIZES), weight=weight[order])
    torch.testing.assert_close(mixed, out)
    for i, size in enumerate(SIZES):
        if size:
            alone = aggr(x[batch == i], weight=weight[batch == i])[0]
            torch.testing.assert_close(alone, out[i])


@pytest.mark.parametrize("q", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_number_of_any_type(q):
    assert QuantileAggregation(q).levels == (0.5,)


def test_inside_a_layer():
    x, edge_index = torch.randn(5, 4), torch.tensor([[0, 1, 2, 3], [1, 1, 0, 2]])
    ours = SAGEConv(4, 3, aggr=MedianAggregation())
    theirs = SAGEConv(4, 3, aggr="median")
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": 1.5}, r"'q' must be .* between 0 and 1 \(got 1.5\)"),
        ({"q": []}, r"'q' must be one or more .*got \[\]"),
        ({"q": [0.5, -0.1]}, r"'q' must be"),
        ({"q": float("nan")}, r"'q' must be"),
        ({"q": 0.5, "interpolation": "liner"}, r"'interpolation' .*mean 'linear'\?"),
    ],
)
def test_bad_options(arguments, message):
    with pytest.raises(ValueError, match=message):
        QuantileAggregation(**arguments)


@pytest.mark.parametrize("level", [1e-9, 1e-7, 1 - 1e-9])
def test_levels_with_a_large_denominator(level):
    x = torch.tensor([[0.0], [1.0], [3.0]])
    out = QuantileAggregation(level)(x, torch.zeros(3, dtype=torch.long))
    assert out.item() == pytest.approx(np.quantile(x.double().numpy(), level))


@pytest.mark.parametrize("shape", [(), (4,)])
def test_one_set_without_a_dimension_of_elements(shape):
    with pytest.raises(ValueError, match="'x' must be of shape"):
        QuantileAggregation(0.5)(torch.zeros(shape))
