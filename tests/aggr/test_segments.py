"""What users pass by mistake: the error names the argument and the fix."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv, SAGEConv, SimpleConv

from gswe_pyg import GSWEAggregation

X, BATCH = torch.randn(3, 4), torch.tensor([0, 0, 1])
EDGES = torch.tensor([[0, 1, 2], [1, 0, 1]])


@pytest.mark.parametrize("options", [{}, {"heads": 1}])
@pytest.mark.parametrize("slicer", ["identity", "linear"])
@pytest.mark.parametrize("reference", [None, "input"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_dtype(dtype, reference, slicer, options):
    readout = GSWEAggregation(4, slicer=slicer, reference=reference, **options)
    if not list(readout.parameters()):
        assert readout(X.to(dtype), BATCH).dtype == dtype
        return
    message = rf"'x' must have .*torch.float32 \(got {dtype}\).*'readout.to\({dtype}\)'"
    with pytest.raises(ValueError, match=message):
        readout(X.to(dtype), BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        readout(X.to(torch.bfloat16), BATCH)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X.numpy(), BATCH), {}, r"'x' .*got numpy.ndarray.*'torch.as_tensor\(x\)'"),
        (([X, X], BATCH), {}, r"'x' must be a tensor \(got list\).*'torch.cat\(x\)'"),
        ((Data(x=X), BATCH), {}, r"'x' must .*Data\): pass 'data.x' and 'data.batch'"),
        ((X, [0, 0, 1]), {}, r"'index' .*got list\).*'torch.as_tensor\(index\)'"),
        ((X, BATCH.numpy()), {}, r"'index' .*got numpy.ndarray"),
        ((X, BATCH), {"weight": [1.0] * 3}, r"'weight' .*'torch.as_tensor\(weight\)'"),
        ((X, BATCH, 2), {}, r"'ptr' .*got int\).*write 'dim_size=2'"),
        ((X, BATCH), {"size": 2}, r"no argument 'size' \(got 2\).*'dim_size=2'"),
    ],
)
def test_wrong_types(arguments, options, message):
    with pytest.raises(TypeError, match=message):
        GSWEAggregation(4, heads=1)(*arguments, **options)


def test_number_of_sets_that_contradicts_ptr():
    with pytest.raises(ValueError, match=r"'dim_size' .*got 3 and 2\): leave it out"):
        GSWEAggregation(4)(X, ptr=torch.tensor([0, 2, 3]), dim_size=3)


@pytest.mark.parametrize("options", [{}, {"heads": 2}])
def test_derivatives_for_nodes_in_any_order(options):
    torch.manual_seed(0)
    readout = GSWEAggregation(4, num_points=3, **options).double()
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([2, 0, 2, 0, 0, 3, 2])

    def of(x):
        return readout(x, batch)

    assert torch.autograd.gradcheck(
        of, x, check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(lambda x: of(x).square(), x)
    torch.testing.assert_close(
        torch.func.jacrev(of)(x), torch.autograd.functional.jacobian(of, x)
    )


@pytest.mark.parametrize("layer", [SAGEConv, GraphConv])
def test_layer_that_expects_another_width(layer):
    conv = layer(4, 2, aggr=GSWEAggregation(4, 4, 3))
    message = rf"'{layer.__name__}' expects 4 channels .*got 12 .*'out_channels=4'"
    with pytest.raises(ValueError, match=message):
        conv(X, EDGES)
    for options in ({"out_channels": 4}, {"heads": 1}):
        conv = layer(4, 2, aggr=GSWEAggregation(4, 4, 3, **options))
        assert conv(X, EDGES).shape == (3, 2)


def test_layer_that_takes_any_width():
    assert SimpleConv(aggr=GSWEAggregation(4, 4, 3))(X, EDGES).shape == (3, 12)


def test_sizes_of_numpy():
    readout = GSWEAggregation(np.int64(4), np.int32(6), np.int64(5))
    assert readout(X, BATCH, dim_size=np.int64(2)).shape == (2, 30)
    assert type(readout.num_slices) is int


def test_dense_tensors_are_one_set_per_row():
    # As documented: what is padding counts, unless it is left out.
    x = torch.randn(2, 5, 4)
    readout = GSWEAggregation(4, heads=1)
    out = readout(x)
    assert out.shape == (2, 1, 4)
    torch.testing.assert_close(out[:, 0], x.mean(1))
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    index = torch.arange(2)[:, None].expand(2, 5)
    ragged = readout(x[mask], index[mask])
    torch.testing.assert_close(ragged[1], x[1, :2].mean(0))


@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1.0, 1e30])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, 1000.0, float("inf")])
def test_distance_of_any_magnitude(p, magnitude):
    torch.manual_seed(0)
    readout = GSWEAggregation(4, 6, 5)
    a, b = torch.randn(2, 3, 30) * magnitude
    difference = (a - b).double().abs()
    if p == float("inf"):
        expected = difference.amax(-1)
    else:
        largest = difference.amax(-1)
        scaled = (difference / largest[:, None]) ** p
        expected = largest * scaled.mean(-1) ** (1 / p)
    out = readout.distance(a, b, p)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=0)


def test_distance_keeps_infinity_and_nan_and_has_gradients_at_zero():
    readout = GSWEAggregation(4, 6, 5)
    a = torch.zeros(3, 30)
    a[1, 3], a[2, 4] = torch.inf, torch.nan
    out = readout.distance(a, torch.zeros(3, 30))
    assert out[0] == 0
    assert out[1] == torch.inf
    assert out[2].isnan()
    x = torch.zeros(30, requires_grad=True)
    readout.distance(x, torch.zeros(30)).backward()
    assert not x.grad.any()
    with pytest.raises(ValueError, match=r"'p' must be at least 1 \(got nan\)"):
        readout.distance(x, x, p=float("nan"))


@pytest.mark.parametrize("magnitude", [1e-300, 1e-60, 1.0, 1e60, 1e307])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_size_from_weights_of_any_magnitude(dtype, magnitude):
    readout = GSWEAggregation(4, heads=1, encode_size=True).to(dtype)
    weight = torch.tensor([1.0, 3.0, 7.0], dtype=torch.float64)
    size = readout(X.to(dtype), BATCH, weight=weight * magnitude)[:, -1]
    expected = torch.tensor([4.0, 7.0]).double().log() + np.log(magnitude)
    torch.testing.assert_close(size.double(), expected, rtol=1e-6, atol=1e-6)


def test_a_negative_number_of_sets():
    with pytest.raises(ValueError, match=r"'dim_size' must not be negative \(got -2\)"):
        GSWEAggregation(4)(X[:0], BATCH[:0], dim_size=-2)
