import copy
import io

import numpy as np
import ot
import pytest
import torch
from backends import available
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.nn import (
    MessagePassing,
    SAGEConv,
    global_mean_pool,
)
from torch_geometric.nn.aggr import MeanAggregation, MultiAggregation

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import backend
from gswe_pyg.ops.interpolation import INTERPOLATIONS
from gswe_pyg.slicers import LinearSlicer
from gswe_pyg.testing import Case, assert_gradcheck

WEIGHTED = [name for name in INTERPOLATIONS if name != "pswe"]
SIZES = [0, 3, 1, 7, 0, 12, 2, 0]


def exact(*args, seed=0, **kwargs):
    torch.manual_seed(seed)
    return GSWEAggregation(*args, **kwargs).double()


def test_gswe_aggregation(ragged):
    readout = GSWEAggregation(4, num_slices=6, num_points=5)
    assert str(readout) == (
        "GSWEAggregation(4, num_slices=6, num_points=5, slicer=LinearSlicer(4, 6), "
        "interpolation='linear', reference='input')"
    )
    x, batch = ragged(sizes=SIZES)
    out = readout(x, batch, dim_size=8)
    assert out.shape == (8, 30)
    assert readout.embedding_channels == 30

    quantiles = torch.arange(5).add(0.5).div(5)
    reference = readout.slicer(readout.points[0]).sort(dim=0).values.t()
    for i, size in enumerate(SIZES):
        if size == 0:
            assert int(out[i].count_nonzero()) == 0
            continue
        slices = readout.slicer(x[batch == i]).detach().numpy()
        expected = np.quantile(slices, quantiles, axis=0, method="hazen").T
        expected = torch.from_numpy(expected) - reference.detach()
        torch.testing.assert_close(out[i].view(6, 5), expected, check_dtype=False)


def test_gswe_aggregation_with_all_options(ragged):
    readout = GSWEAggregation(
        4, 6, 5, 3, "mlp", "step", "slice", out_channels=4, encode_size=True
    )
    assert str(readout) == (
        "GSWEAggregation(4, num_slices=6, num_points=5, "
        "slicer=MLPSlicer(4, 6, hidden_channels=6, num_layers=2), "
        "interpolation='step', reference='slice', num_references=3, out_channels=4, "
        "encode_size=True)"
    )
    x, batch = ragged(sizes=SIZES)
    out = readout(x, batch, dim_size=8)
    assert out.shape == (8, 4)
    assert readout.embedding_channels == 91
    assert readout.points.shape == (3, 5, 6)
    assert int(out[0].count_nonzero()) == 0  # no bias


@pytest.mark.parametrize("reference", ["input", "slice"])
def test_the_reference_starts_near_the_origin(reference):
    readout = GSWEAggregation(16, 16, 64, reference=reference)
    assert 0.08 < readout.points.std() < 0.12  # of 1,024 values
    torch.nn.init.ones_(readout.points)
    readout.reset_parameters()
    assert 0.08 < readout.points.std() < 0.12


@pytest.mark.parametrize("reference", ["input", "slice"])
def test_references_are_concatenated(ragged, reference):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    readout = exact(4, 6, 5, num_references=3, reference=reference)
    out = readout(x, batch).view(-1, 3, 30)
    for k in range(3):
        single = exact(4, 6, 5, reference=reference, slicer=readout.slicer)
        single.points.data = readout.points.data[k : k + 1]
        torch.testing.assert_close(single(x, batch), out[:, k], rtol=0, atol=1e-14)


def test_reset_parameters():
    readout = GSWEAggregation(4, 6, 5, slicer="mlp", out_channels=3)
    before = copy.deepcopy(readout.state_dict())
    readout.reset_parameters()
    for name, value in readout.state_dict().items():
        assert not value.equal(before[name]), name


def test_a_given_slicer_keeps_its_parameters():
    slicer = LinearSlicer(4, 6)
    before = slicer.weight.clone()
    readout = GSWEAggregation(4, 6, 5, slicer=slicer)
    assert readout.slicer is slicer
    assert slicer.weight.equal(before)


# The mathematics ######################################################################


@pytest.mark.parametrize("reference", ["input", "slice"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_a_set_of_the_size_of_the_reference_is_sorted(ragged, interpolation, reference):
    x, batch = ragged(sizes=[5, 5])
    readout = GSWEAggregation(4, 6, 5, interpolation=interpolation, reference=reference)
    out = readout(x, batch).view(2, 6, 5)
    points = readout.points[0]
    points = readout.slicer(points) if reference == "input" else points
    for i in range(2):
        slices = readout.slicer(x[batch == i])
        expected = (slices.sort(dim=0).values - points.sort(dim=0).values).t()
        torch.testing.assert_close(out[i], expected)


def test_a_single_reference_point_at_zero_is_mean_pooling(ragged):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    readout = exact(4, 4, 1, slicer="identity", interpolation="barycentric")
    torch.nn.init.zeros_(readout.points)
    out = readout(x, batch, dim_size=8)
    expected = global_mean_pool(x, batch, size=8)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-15)
    for name in available():
        with backend(name):
            out = readout.float()(x.float(), batch, dim_size=8)
        torch.testing.assert_close(out, expected.float(), rtol=0, atol=1.2e-7)


def test_the_mean_of_many_values():
    x = torch.full((200_000, 1), 0.1)
    readout = GSWEAggregation(1, 1, 1, slicer="identity", interpolation="barycentric")
    torch.nn.init.zeros_(readout.points)
    for name in available():
        with backend(name):
            torch.testing.assert_close(readout(x), x[:1], rtol=2e-7, atol=0)


@pytest.mark.parametrize("slicer", ["linear", "mlp", "polynomial", "identity"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_the_reference_is_mapped_to_zero(interpolation, slicer):
    readout = GSWEAggregation(4, 4, 5, slicer=slicer, interpolation=interpolation)
    out = readout(readout.points[0], torch.zeros(5, dtype=torch.long))
    torch.testing.assert_close(out, torch.zeros(1, 20), atol=1e-6, rtol=0)
    # Each of its points twice is the same distribution.
    if interpolation in ("step", "barycentric"):
        twice = readout.points[0].repeat(2, 1)
        out = readout(twice, torch.zeros(10, dtype=torch.long))
        torch.testing.assert_close(out, torch.zeros(1, 20), atol=1e-6, rtol=0)


def sliced_distance(a, b, p):
    """By POT, on given slices; the mean is over p-th powers."""
    cost = ot.wasserstein_1d(a.detach(), b.detach(), p=p)  # already to the power of p
    return cost.mean() ** (1 / p)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
@pytest.mark.parametrize("slicer", ["linear", "mlp", "polynomial", "identity"])
def test_c1_norm_is_the_distance_to_the_reference(ragged, slicer, interpolation, p):
    # Sizes that divide the number of points, and equal it.
    x, batch = ragged(sizes=[1, 2, 3, 4, 6, 12], dtype=torch.float64)
    readout = exact(4, 4, 12, slicer=slicer, interpolation=interpolation)
    out = readout(x, batch)
    norm = torch.linalg.vector_norm(out, ord=p, dim=-1) / (4 * 12) ** (1 / p)
    torch.testing.assert_close(readout.distance(out, torch.zeros(48), p), norm)
    reference = readout.slicer(readout.points[0])
    for i in range(6):
        expected = sliced_distance(readout.slicer(x[batch == i]), reference, p)
        torch.testing.assert_close(norm[i], expected)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
@pytest.mark.parametrize("slicer", ["linear", "mlp", "polynomial", "identity"])
@pytest.mark.parametrize("num_references", [1, 2])
def test_c2_distance_of_embeddings_is_the_distance_of_sets(
    ragged, num_references, slicer, interpolation, p
):
    x, batch = ragged(sizes=[1, 2, 3, 4, 6, 12], dtype=torch.float64)
    readout = exact(4, 4, 12, num_references, slicer, interpolation)
    out = readout(x, batch)
    for i in range(6):
        for j in range(i):
            actual = readout.distance(out[i], out[j], p)
            a, b = (readout.slicer(x[batch == k]) for k in (i, j))
            torch.testing.assert_close(actual, sliced_distance(a, b, p))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_c2_on_the_projections_of_pot(ragged, p):
    x, batch = ragged(channels=3, sizes=[6, 6], dtype=torch.float64)
    readout = exact(3, 20, 6)
    projections = torch.nn.functional.normalize(readout.slicer.weight, dim=-1).t()
    expected = ot.sliced_wasserstein_distance(
        x[batch == 0], x[batch == 1], projections=projections.detach(), p=p
    )
    out = readout(x, batch)
    torch.testing.assert_close(readout.distance(out[0], out[1], p), expected)


def test_distance(ragged):
    x, batch = ragged(sizes=[3, 4, 5, 6])
    readout = GSWEAggregation(4, 6, 5, encode_size=True)
    out = readout(x, batch)
    assert readout.distance(out[0], out[1]).shape == ()
    assert readout.distance(out[:2], out[2:]).shape == (2,)
    assert readout.distance(out[:, None], out[None]).shape == (4, 4)
    assert readout.distance(out, out[0])[0] == 0
    # The size is no part of the distance.
    shifted = out + torch.tensor([0.0] * 30 + [7.0])
    assert int(readout.distance(out, shifted).count_nonzero()) == 0
    projected = GSWEAggregation(4, 6, 5, out_channels=30)
    with pytest.raises(ValueError, match="without 'out_channels'"):
        projected.distance(out[0], out[1])
    with pytest.raises(ValueError, match=r"'p' must be at least 1 \(got 0.5\)"):
        readout.distance(out[0], out[1], p=0.5)
    with pytest.raises(ValueError, match=r"'b' must .* 31 channels \(got shape \[30\]"):
        readout.distance(out[0], out[1, :30])
    with pytest.raises(ValueError, match=r"'a' must .* 31 channels \(got shape \[\]"):
        readout.distance(torch.tensor(1.0), out[1])


@pytest.mark.parametrize("interpolation", ["step", "barycentric"])
@pytest.mark.parametrize("encode_size", [False, True])
def test_whole_weights_are_repetitions(ragged, encode_size, interpolation):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    readout = exact(4, 6, 5, interpolation=interpolation, encode_size=encode_size)
    count = torch.randint(1, 4, batch.shape, generator=torch.Generator().manual_seed(1))
    out = readout(x, batch, weight=count.double())
    expected = readout(x.repeat_interleave(count, 0), batch.repeat_interleave(count))
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_zero_weights_are_absent(ragged, interpolation):
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    readout = exact(4, 6, 5, interpolation=interpolation)
    weight = torch.ones(len(x), dtype=torch.float64)
    weight[[0, 4, 7, 12, 13]] = 0
    out = readout(x, batch, dim_size=8, weight=weight)
    kept = weight > 0
    torch.testing.assert_close(out, readout(x[kept], batch[kept], dim_size=8))


@pytest.mark.parametrize("interpolation", WEIGHTED)
def test_ties_between_masses_do_not_depend_on_the_order_of_nodes(interpolation):
    x = torch.tensor([[0.0], [1.0], [0.0]])
    weight = torch.tensor([2.0, 2.0, 1.0])
    readout = GSWEAggregation(1, 1, 5, interpolation=interpolation)
    out = readout(x, weight=weight)
    assert readout(x.flip(0), weight=weight.flip(0)).equal(out)


def test_encode_size(ragged):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5, encode_size=True)
    out = readout(x, batch, dim_size=8)
    assert out.shape == (8, 31)
    expected = torch.tensor(SIZES).clamp(min=1).log()
    torch.testing.assert_close(out[:, -1], expected)
    weight = torch.rand(len(x)) + 0.1
    out = readout(x, batch, dim_size=8, weight=weight)
    total = torch.zeros(8).index_add(0, batch, weight)
    torch.testing.assert_close(out[:, -1], total.where(total > 0, 1).log())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_encode_size_counts_in_any_precision(dtype):
    x = torch.zeros(70_000, 1, dtype=dtype)
    readout = GSWEAggregation(1, 1, 1, encode_size=True).to(dtype)
    expected = torch.tensor(70_000.0, dtype=torch.float64).log().to(dtype)
    assert readout(x)[0, -1] == expected
    assert readout(x, weight=torch.ones_like(x[:, 0]))[0, -1] == expected


# Gradients ############################################################################


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("slicer", ["linear", "mlp", "polynomial", "identity"])
def test_gradcheck(slicer, interpolation, weighted):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    torch.manual_seed(0)
    readout = GSWEAggregation(2, 2, 3, 2, slicer, interpolation, encode_size=weighted)
    assert_gradcheck(Case(readout, 2, weighted=weighted))


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_of_slice_reference_and_projection(weighted):
    torch.manual_seed(0)
    readout = GSWEAggregation(2, 3, 3, reference="slice", out_channels=2)
    assert_gradcheck(Case(readout, 2, weighted=weighted))


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_gradients_of_ties_are_finite(interpolation, weighted, name):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    x = torch.ones(9, 4, requires_grad=True)
    batch = torch.tensor([0] * 4 + [2] * 5)
    weight = torch.ones(9, requires_grad=True) if weighted else None
    readout = GSWEAggregation(4, 6, 5, interpolation=interpolation)
    torch.nn.init.ones_(readout.points)
    with backend(name):
        out = readout(x, batch, weight=weight)
        out.square().sum().backward()
    gradients = [x.grad, *(p.grad for p in readout.parameters())]
    if weighted:
        gradients.append(weight.grad)
    assert all(bool(grad.isfinite().all()) for grad in gradients)


# The contract of PyG ##################################################################


def test_index_ptr_and_neither(ragged):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5)
    out = readout(x, batch, dim_size=8)
    ptr = torch.tensor([0, *SIZES]).cumsum(0)
    assert readout(x, ptr=ptr).equal(out)
    assert readout(x, ptr=ptr.int()).equal(out)
    assert readout(x, batch.int(), dim_size=8).equal(out)
    assert readout(x, batch).equal(out[:7])
    assert readout(x, batch, dim_size=10)[:8].equal(out)
    assert readout(x, batch, dim_size=10).shape == (10, 30)
    one = readout(x)
    assert one.equal(readout(x, torch.zeros_like(batch)))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    mixed = readout(x[order], batch[order], dim_size=8)
    torch.testing.assert_close(mixed, out)


def test_sorted_forward_without_index():
    with pytest.raises(ValueError, match="One of 'index' and 'ptr' must be given"):
        GSWEAggregation(4, 6, 5).forward(torch.randn(3, 4))
    out = GSWEAggregation(4, 6, 5).forward(torch.randn(3, 4), torch.tensor([0, 0, 1]))
    assert out.shape == (2, 30)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_empty_graphs(dtype, weighted):
    readout = GSWEAggregation(4, 6, 5, encode_size=True).to(dtype)
    for num_nodes, index, dim_size, empty in [
        (0, [], 0, []),
        (0, [], 3, [0, 1, 2]),
        (1, [0], 1, []),
        (1, [2], 4, [0, 1, 3]),
        (3, [1, 1, 4], 5, [0, 2, 3]),
    ]:
        x = torch.randn(num_nodes, 4, dtype=dtype, requires_grad=True)
        weight = torch.ones(num_nodes, dtype=dtype) if weighted else None
        index = torch.tensor(index, dtype=torch.long)
        out = readout(x, index, dim_size=dim_size, weight=weight)
        assert out.shape == (dim_size, 31)
        assert bool(out.isfinite().all())
        assert int(out[empty].count_nonzero()) == 0
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert bool(grad.isfinite().all())


@pytest.mark.parametrize("options", [{}, {"encode_size": True}, {"out_channels": 3}])
def test_more_dimensions(options):
    x = torch.randn(5, 9, 4)
    index = torch.tensor([0, 2, 2, 0, 1, 1, 1, 2, 4])
    weight = torch.rand(9) + 0.1
    readout = GSWEAggregation(4, 6, 5, **options)
    for w in (None, weight):
        expected = torch.stack([readout(row, index, weight=w) for row in x])
        for dim in (1, -2):
            out = readout(x, index, dim=dim, weight=w)
            torch.testing.assert_close(out, expected)
        out = readout(x.transpose(0, 1), index, dim=0, weight=w)
        torch.testing.assert_close(out, expected.transpose(0, 1))
    four = x.view(5, 1, 9, 4).expand(5, 2, 9, 4)
    torch.testing.assert_close(
        readout(four, index)[:, 1], readout(x, index), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(readout(x[0], index, dim=0), readout(x[0], index))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_precision(ragged, weighted, dtype):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5, slicer="mlp")
    weight = torch.rand(len(x)) + 0.1 if weighted else None
    expected = readout(x, batch, weight=weight)
    x = x.to(dtype).requires_grad_()
    weight = None if weight is None else weight.to(dtype)
    out = readout.to(dtype)(x, batch, weight=weight)
    assert out.dtype == dtype
    tolerance = max(8 * torch.finfo(dtype).eps, 1e-5)
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
    out.sum().backward()
    assert x.grad.dtype == dtype
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"out_channels": 3, "encode_size": True}])
@pytest.mark.parametrize("weighted", [False, True])
def test_autocast(ragged, weighted, options, dtype):
    x, batch = ragged(sizes=SIZES)
    x.requires_grad_()
    weight = torch.rand(len(x)) + 0.1 if weighted else None
    readout = GSWEAggregation(4, 6, 5, slicer="mlp", **options)
    expected = readout(x, batch, weight=weight)
    with torch.autocast("cpu", dtype=dtype):
        out = readout(x, batch, weight=weight)
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
    out.float().square().sum().backward()
    assert x.grad.dtype == torch.float32
    assert all(p.grad is not None for p in readout.parameters())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("by", ["index", "ptr", "index without dim_size"])
def test_compile(ragged, by, weighted):
    if by == "index without dim_size" and torch.__version__.startswith("2.6."):
        pytest.skip("PyTorch 2.6 does not compile what depends on values")
    torch._dynamo.reset()
    torch.manual_seed(0)
    readout = GSWEAggregation(4, 6, 5, 2, "mlp", encode_size=True, out_channels=3)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(readout, fullgraph=True, dynamic=True, backend=counter)
    for seed, sizes in enumerate((SIZES, [4, 0, 9], [5, 6, 2, 1, 1, 30])):
        x, batch = ragged(sizes=sizes, seed=seed)
        arguments = {"index": batch, "dim_size": len(sizes)}
        if by == "ptr":
            arguments = {"ptr": torch.tensor([0, *sizes]).cumsum(0)}
        elif by != "index":
            arguments = {"index": batch}
        inputs = [x.requires_grad_(), *readout.parameters()]
        if weighted:
            arguments["weight"] = (torch.rand(len(x)) + 0.1).requires_grad_()
            inputs.append(arguments["weight"])
        out, expected = compiled(x, **arguments), readout(x, **arguments)
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(
            torch.autograd.grad(out.square().sum(), inputs),
            torch.autograd.grad(expected.square().sum(), inputs),
        )
    assert counter.frame_count == 1  # for all sizes


def test_compile_with_inductor(ragged):
    torch._dynamo.reset()
    for dtype in (torch.float32, torch.float64):  # a backend each
        readout = GSWEAggregation(4, 6, 5).to(dtype)
        compiled = torch.compile(readout, fullgraph=True, dynamic=True)
        x, batch = ragged(dtype=dtype, sizes=SIZES)
        x.requires_grad_()
        out = compiled(x, batch, dim_size=8)
        expected = readout(x, batch, dim_size=8)
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(
            torch.autograd.grad(out.square().sum(), x),
            torch.autograd.grad(expected.square().sum(), x),
        )


def test_compiled_code_follows_the_backend(ragged):
    torch._dynamo.reset()
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    readout = exact(4, 6, 5)
    compiled = torch.compile(readout, fullgraph=True, backend="aot_eager")
    compiled(x, batch, dim_size=8)
    with backend("torch"):
        compiled(x, batch, dim_size=8)
    with backend("numba"), pytest.raises(Exception, match="'numba' backend handles"):
        compiled(x, batch, dim_size=8)


class ByIndex(torch.nn.Module):
    def __init__(self, readout):
        super().__init__()
        self.readout = readout

    def forward(self, x, index, weight=None):
        return self.readout(x, index, dim_size=4, weight=weight)


class ByPtr(ByIndex):
    def forward(self, x, ptr, weight=None):
        return self.readout(x, ptr=ptr, weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", [ByIndex, ByPtr])
def test_export(model, weighted):
    model = model(GSWEAggregation(4, 6, 5, slicer="mlp", out_channels=3)).eval()
    num_nodes = torch.export.Dim("num_nodes", min=2)
    graphs = torch.export.Dim("num_graphs", min=3)

    def inputs(num_nodes):
        index = torch.arange(num_nodes) * 3 % 4
        if isinstance(model, ByPtr):
            index = torch.tensor([0, 2, 2, 5, num_nodes])
        weight = torch.rand(num_nodes) + 0.1
        return (torch.randn(num_nodes, 4), index, weight)[: 2 + weighted]

    by = graphs if isinstance(model, ByPtr) else num_nodes
    shapes = ({0: num_nodes}, {0: by}, {0: num_nodes})[: 2 + weighted]
    program = torch.export.export(model, inputs(11), dynamic_shapes=shapes)
    for size in (7, 11, 50):
        other = inputs(size)
        torch.testing.assert_close(program.module()(*other), model(*other))


def test_copies(ragged):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5, 2, "polynomial", "pswe", out_channels=3)
    expected = readout(x, batch)
    file = io.BytesIO()
    torch.save(readout, file)
    file.seek(0)
    for other in (copy.deepcopy(readout), torch.load(file, weights_only=False)):
        assert str(other) == str(readout)
        assert other(x, batch).equal(expected)
    other = GSWEAggregation(4, 6, 5, 2, "polynomial", "pswe", out_channels=3)
    assert not other(x, batch).equal(expected)
    other.load_state_dict(readout.state_dict())
    assert other(x, batch).equal(expected)


def test_multi_aggregation(ragged):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5, out_channels=4)
    multi = MultiAggregation([readout, MeanAggregation()])
    out = multi(x, batch, dim_size=8)
    assert out.shape == (8, 8)
    assert out[:, :4].equal(readout(x, batch, dim_size=8))
    summed = MultiAggregation([readout, MeanAggregation()], mode="sum")
    assert summed(x, batch, dim_size=8).shape == (8, 4)


class Neighbours(MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


def test_message_passing():
    x = torch.randn(5, 4)
    edge_index = torch.tensor([[0, 1, 2, 3, 1, 0], [1, 0, 1, 2, 2, 4]])
    readout = GSWEAggregation(4, 6, 5)
    out = Neighbours(aggr=readout)(x, edge_index)
    assert out.shape == (5, 30)
    torch.testing.assert_close(out[1], readout(x[[0, 2]])[0])
    assert int(out[3].count_nonzero()) == 0  # nobody's neighbour


def test_sage_conv_learns():
    torch.manual_seed(0)
    x = torch.randn(30, 4)
    edge_index = torch.randint(0, 30, (2, 120))
    target = torch.randn(30, 2)
    conv = SAGEConv(4, 2, aggr=GSWEAggregation(4, 6, 5, out_channels=4))
    optimizer = torch.optim.Adam(conv.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (conv(x, edge_index) - target).square().mean()
        loss.backward()
        assert all(p.grad is not None for p in conv.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


# Bad input ############################################################################


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_special_values_stay_in_their_graph(ragged, value, interpolation, weighted):
    if weighted and interpolation == "pswe":
        pytest.skip("pswe has no weights")
    x, batch = ragged(sizes=[4, 3, 5])
    readout = GSWEAggregation(4, 6, 5, interpolation=interpolation)
    weight = torch.rand(12) + 0.1 if weighted else None
    expected = readout(x, batch, weight=weight)
    x[5] = value
    x.requires_grad_()
    out = readout(x, batch, weight=weight)
    torch.testing.assert_close(out[[0, 2]], expected[[0, 2]])
    assert not bool(out[1].isfinite().all())
    (grad,) = torch.autograd.grad(out[[0, 2]].sum(), x)
    assert bool(grad[batch != 1].isfinite().all())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 0}, r"'in_channels' must be a positive integer \(got 0\)"),
        ({"num_slices": -1}, r"'num_slices' must be a positive integer \(got -1\)"),
        ({"num_points": 2.5}, r"'num_points' must be a positive integer \(got 2.5\)"),
        ({"num_references": 0}, r"'num_references' must be .* \(got 0\)"),
        ({"out_channels": 0}, r"'out_channels' must be .* \(got 0\)"),
        ({"slicer": "cubic"}, r"'slicer' must be one of .* or a module .*'cubic'"),
        ({"slicer": "identity"}, r"'identity' needs 'num_slices' .*got 6 and 4"),
        ({"interpolation": "cubic"}, r"'interpolation' must be one of .*'cubic'"),
        ({"reference": "output"}, r"'reference' must be one of .*'output'"),
    ],
)
def test_bad_options(arguments, message):
    options = {"in_channels": 4, "num_slices": 6, "num_points": 5}
    with pytest.raises(ValueError, match=message):
        GSWEAggregation(**{**options, **arguments})


BATCH = torch.tensor([0, 0, 1])


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (torch.randn(4), {}, r"'x' must be of shape .*got \[4\]"),
        (torch.randn(3, 5), {}, r"'x' must be .*'in_channels' is 4 \(got \[3, 5\]\)"),
        (torch.ones(3, 4).long(), {}, r"'x' must be .*torch.int64.*'x.float\(\)'"),
        (torch.randn(3, 4), {"dim": 1}, r"'dim' must be .*features \(got 1 "),
        (torch.randn(3, 4), {"dim": -1}, r"'dim' must be .*features \(got -1 "),
        (torch.randn(3, 4), {"dim_size": 1}, r"'dim_size' must .*pass at least 2"),
        (torch.randn(3, 4), {"index": BATCH.float()}, r"'index' must be .*index.long"),
        (torch.randn(3, 4), {"index": BATCH - 1}, r"'index' must not be .*\(got -1\)"),
        (
            torch.randn(3, 4),
            {"index": BATCH[:2]},
            r"'index' must .* 3 elements .*\[2\]",
        ),
        (
            torch.randn(3, 4),
            {"index": BATCH[:, None]},
            r"'index' must have .*\[3, 1\]",
        ),
        (
            torch.randn(3, 4),
            {"index": None, "ptr": torch.tensor([0, 3, 2, 3])},
            r"'ptr' must increase .*not sorted",
        ),
        (
            torch.randn(3, 4),
            {"index": None, "ptr": torch.tensor([0, 2])},
            r"'ptr' must increase from 0 .* 3 \(got 0 to 2",
        ),
        (
            torch.randn(3, 4),
            {"index": None, "ptr": torch.tensor([0.0, 3.0])},
            r"'ptr' must be an integer",
        ),
        (
            torch.randn(3, 4),
            {"weight": torch.tensor([1.0, -1.0, 1.0])},
            r"'weight' must be finite and not negative \(got -1.0\)",
        ),
        (
            torch.randn(3, 4),
            {"weight": torch.tensor([1.0, 1.0, 0.0])},
            r"'weight' must be positive .*graph 1",
        ),
        (torch.randn(3, 4), {"weight": torch.zeros(3)}, r"only zeros in graph 0"),
        (
            torch.randn(3, 4),
            {"weight": torch.ones(2)},
            r"'weight' must .*got shape \[2\]",
        ),
        (torch.randn(3, 4), {"weight": torch.ones(3, 1)}, r"'weight' .*shape \[3, 1\]"),
        (torch.randn(3, 4), {"weight": torch.ones(3).int()}, r"'weight.float\(\)'"),
    ],
)
def test_bad_input(x, arguments, message):
    readout = GSWEAggregation(4, 6, 5)
    with pytest.raises(ValueError, match=message):
        readout(x, **{"index": BATCH, **arguments})


def test_wrong_rank_without_the_checks_of_pyg():
    with pytest.raises(ValueError, match=r"'x' must be of shape .*got \[4\]"):
        GSWEAggregation(4, 6, 5).forward(torch.randn(4), BATCH)


def test_slicer_that_does_not_fit():
    readout = GSWEAggregation(4, 6, 5, slicer=torch.nn.Linear(4, 7))
    with pytest.raises(ValueError, match=r"'slicer' must map .*got \[3, 7\]"):
        readout(torch.randn(3, 4), BATCH)


def test_index_is_checked_while_compiling():
    torch._dynamo.reset()
    readout = GSWEAggregation(4, 6, 5)
    compiled = torch.compile(readout, fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match="'ptr' must increase"):
        compiled(torch.randn(3, 4), BATCH, dim_size=1)


@pytest.mark.parametrize(
    "options",
    [
        {"num_references": 2},
        {"encode_size": True, "extremes": True},
        {"heads": 2, "reference": "input"},
        {"reference": None},
    ],
)
def test_projection_is_that_of_the_embedding(options):
    torch.manual_seed(0)
    readout = GSWEAggregation(4, 6, 5, slicer="linear", out_channels=3, **options)
    plain = GSWEAggregation(4, 6, 5, slicer="linear", **options)
    plain.load_state_dict(readout.state_dict(), strict=False)
    x, ptr = torch.randn(9, 4), torch.tensor([0, 4, 4, 9])
    out = readout(x, ptr=ptr)
    torch.testing.assert_close(out, plain(x, ptr=ptr) @ readout.lin.weight.T)
    assert out[1].count_nonzero() == 0
