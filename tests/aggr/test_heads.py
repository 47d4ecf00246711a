"""Heads, extremes and the readout without a reference."""

import copy

import numpy as np
import pytest
import torch
from backends import available
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses import FakeTensorMode
from torch_geometric.nn import global_max_pool, global_mean_pool

from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr.l_moments import l_moment_weights
from gswe_pyg.ops import backend
from gswe_pyg.testing import Case, assert_gradcheck, assert_readout

SIZES = [0, 3, 1, 7, 0, 12, 2, 25, 0]


def gradient(out, x):
    """Of a sum with different factors, so that no two entries can be confused."""
    factors = torch.arange(out.numel(), dtype=out.dtype).view_as(out).cos()
    return torch.autograd.grad((out * factors).sum(), x)[0]


# Where it starts ######################################################################


def test_defaults():
    drop_in = GSWEAggregation(64, heads=1)
    assert (drop_in.num_slices, drop_in.num_points) == (64, 8)
    assert drop_in.interpolation == "barycentric"
    assert drop_in.reference is None
    assert str(drop_in.slicer) == "IdentitySlicer(64)"
    assert [name for name, _ in drop_in.named_parameters()] == ["head_weight"]
    assert drop_in.embedding_channels == drop_in.num_channels == 64
    raw = GSWEAggregation(64)
    assert (raw.num_slices, raw.interpolation, raw.reference) == (64, "linear", "input")
    assert str(raw.slicer) == "LinearSlicer(64, 64)"
    assert str(GSWEAggregation(64, 32, heads=2).slicer) == "LinearSlicer(64, 32)"
    assert str(drop_in) == (
        "GSWEAggregation(64, num_slices=64, num_points=8, slicer=IdentitySlicer(64), "
        "interpolation='barycentric', reference=None, heads=1)"
    )


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("num_points", [1, 8, 16])
def test_one_head_starts_as_mean_pooling(ragged, num_points, extremes, dtype, name):
    if name == "numba" and dtype == torch.float64:
        pytest.skip("served by the torch backend")
    x, batch = ragged(dtype=dtype, sizes=SIZES)
    x.requires_grad_()
    readout = GSWEAggregation(
        4,
        None,
        num_points,
        slicer="identity",
        heads=1,
        extremes=extremes,
        reference=None,
    ).to(dtype)
    with backend(name):
        out = readout(x, batch, dim_size=len(SIZES))
        grad = gradient(out, x)
    expected = global_mean_pool(x, batch, size=len(SIZES))
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)
    torch.testing.assert_close(grad, gradient(expected, x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("with_ties", [False, True])
@pytest.mark.parametrize(("place", "sign"), [(-1, 1), (-2, -1)])
def test_weight_on_an_extreme_is_max_pooling(ragged, place, sign, with_ties, name):
    x, batch = ragged(sizes=SIZES)
    if with_ties:
        x = x.round()
    x.requires_grad_()
    readout = GSWEAggregation(4, heads=1, extremes=True)
    torch.nn.init.zeros_(readout.head_weight)
    readout.head_weight.data[..., place] = 1
    with backend(name):
        out = readout(x, batch, dim_size=len(SIZES))
        grad = gradient(out, x)
    expected = sign * global_max_pool(sign * x, batch, size=len(SIZES))
    assert out.equal(expected)
    if not with_ties:
        assert grad.equal(gradient(expected, x))
    else:  # one element has it all, where PyG shares it or picks one
        factors = torch.arange(out.numel()).view_as(out).cos()
        filled = torch.tensor(SIZES) > 0
        total = torch.zeros_like(out).index_add(0, batch, grad)
        assert total[filled].equal(factors[filled])
        holders = torch.zeros_like(out).index_add(0, batch, (grad != 0).float())
        assert bool((holders[filled] == 1).all())


@pytest.mark.parametrize("num_points", [1, 2, 3, 8, 16, 100])
def test_l_moment_weights(num_points):
    weights = l_moment_weights(num_points, num_points)
    assert weights.shape == (num_points, num_points)
    assert (weights[0] == 1 / num_points).all()
    np.testing.assert_allclose(
        weights @ weights.T, np.eye(num_points) / num_points, rtol=0, atol=1e-14
    )
    assert (weights[:10, -1] > 0).all()
    # Each head is a polynomial of its degree in the rank, as Legendre's are.
    ranks = np.arange(num_points)
    for degree in range(min(num_points, 5)):
        fit = np.polynomial.Polynomial.fit(ranks, weights[degree], degree)
        np.testing.assert_allclose(fit(ranks), weights[degree], rtol=0, atol=1e-12)


def sample_l_moment(values, order):
    """By probability-weighted moments of a sample, as Hosking defines it."""
    values, n = np.sort(values), len(values)
    moments = [
        np.mean(
            [
                np.prod([(j - i) / (n - 1 - i) for i in range(r)]) * value
                for j, value in enumerate(values)
            ]
        )
        for r in range(order)
    ]
    factors = {
        1: [1],
        2: [-1, 2],
        3: [1, -6, 6],
        4: [-1, 12, -30, 20],
    }[order]
    return float(np.dot(factors, moments))


def test_heads_start_as_l_moments(ragged):
    # With as many points as elements, the points are the sorted values, and the head
    # is a sample's L-moment times a factor that the size alone determines.
    size = 9
    x, batch = ragged(channels=3, sizes=[size] * 4, dtype=torch.float64)
    readout = GSWEAggregation(3, None, size, heads=4).double()
    readout.reset_parameters()  # in this precision
    out = readout(x, batch).detach().view(4, 4, 3).numpy()
    for order in range(1, 5):
        moments = np.array(
            [
                [sample_l_moment(values, order) for values in graph.T]
                for graph in x.view(4, size, 3).numpy()
            ]
        )
        ratio = out[:, order - 1] / moments
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)
        assert ratio[0, 0] > 0
        if order == 1:
            assert ratio[0, 0] == pytest.approx(1)


def test_the_second_head_is_the_l_scale_of_any_dividing_size(ragged):
    # half the mean absolute difference of two independent draws
    x, batch = ragged(channels=2, sizes=[1, 2, 3, 4, 6, 12], dtype=torch.float64)
    readout = GSWEAggregation(2, None, 12, heads=2).double()
    out = readout(x, batch).view(6, 2, 2)
    slope = readout.head_weight[1, 0].detach() @ (torch.arange(12) + 0.5).double() / 12
    for i in range(6):
        values = x[batch == i]
        spread = (values[:, None] - values[None]).abs().mean((0, 1)) / 2
        # ``slope`` is the head's value for the uniform distribution on [0, 1], up to
        # the staircase: 1/6 - 1/(6 M^2) in place of its L-scale 1/6.
        factor = slope / (1 / 6 * (1 - 1 / 144))
        torch.testing.assert_close(out[i, 1], spread * factor)


# What it computes #####################################################################


@pytest.mark.parametrize("reference", [None, "input", "slice"])
@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_heads_combine_the_embedding(ragged, weighted, extremes, reference):
    torch.manual_seed(0)
    x, batch = ragged(dtype=torch.float64, sizes=SIZES)
    weight = torch.rand(len(x), dtype=torch.float64) + 0.1 if weighted else None
    options = {"interpolation": "linear", "reference": reference, "extremes": extremes}
    raw = GSWEAggregation(4, 6, 5, **options).double()
    heads = GSWEAggregation(4, 6, 5, slicer=raw.slicer, heads=3, **options).double()
    heads.points = raw.points
    torch.nn.init.normal_(heads.head_weight)
    quantiles = raw(x, batch, weight=weight).view(-1, 6, 5 + 2 * extremes)
    expected = torch.einsum("blr,hlr->bhl", quantiles, heads.head_weight).flatten(1)
    torch.testing.assert_close(heads(x, batch, weight=weight), expected)
    assert not heads(x, batch, weight=weight)[0].any()  # an empty set


@pytest.mark.parametrize("num_references", [1, 2])
def test_extremes_of_the_embedding(ragged, num_references):
    x, batch = ragged(sizes=SIZES)
    plain = GSWEAggregation(4, 6, 5, num_references)
    options = {"slicer": plain.slicer, "extremes": True}
    readout = GSWEAggregation(4, 6, 5, num_references, **options)
    readout.points = plain.points
    assert readout.embedding_channels == num_references * 6 * 7
    out = readout(x, batch).view(-1, num_references, 6, 7)
    expected = plain(x, batch)
    assert out[..., :5].flatten(1).equal(expected)
    for k in range(num_references):
        reference = plain.slicer(plain.points[k])
        for i, size in enumerate(SIZES[:-1]):
            if size:
                slices = plain.slicer(x[batch == i])
                low = slices.amin(0) - reference.amin(0)
                high = slices.amax(0) - reference.amax(0)
                torch.testing.assert_close(out[i, k, :, 5], low)
                torch.testing.assert_close(out[i, k, :, 6], high)
    # The reference is mapped to zero, its extremes included.
    mapped = readout(plain.points[0]).view(num_references, 6, 7)[0]
    torch.testing.assert_close(mapped, torch.zeros(6, 7), rtol=0, atol=1e-6)
    # The distance is that of the points.
    out = readout(x, batch)
    torch.testing.assert_close(
        readout.distance(out[1], out[3]), plain.distance(expected[1], expected[3])
    )


def test_without_reference(ragged):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, 6, 5, reference=None)
    with_reference = GSWEAggregation(4, 6, 5, slicer=readout.slicer)
    torch.nn.init.zeros_(with_reference.points)
    assert readout.points is None
    assert "points" not in readout.state_dict()
    assert readout(x, batch).equal(with_reference(x, batch))
    out = readout(x, batch)
    assert readout.distance(out[1], out[2]) > 0


def test_references_are_shifted_copies(ragged):
    x, batch = ragged(sizes=[3, 5, 9])
    out = GSWEAggregation(4, 6, 5, num_references=2)(x, batch).view(3, 2, 30)
    shift = out[:, 1] - out[:, 0]
    torch.testing.assert_close(shift, shift[:1].expand(3, -1))


def test_extremes_leave_out_elements_without_weight():
    x = torch.tensor([[-9.0], [1.0], [2.0], [9.0]])
    readout = GSWEAggregation(1, heads=1, extremes=True)
    torch.nn.init.zeros_(readout.head_weight)
    readout.head_weight.data[..., -2:] = torch.tensor([1.0, 10.0])
    out = readout(x, weight=torch.tensor([0.0, 0.5, 3.0, 0.0]))
    assert out.item() == 1 + 10 * 2


OPTIONS = {
    "one head": {"heads": 1},
    "four heads": {"heads": 3, "extremes": True},
    "linear slices": {"heads": 2, "slicer": "linear", "extremes": True},
    "reference": {"heads": 2, "reference": "input"},
    "slice reference": {"heads": 2, "reference": "slice", "interpolation": "linear"},
    "projected": {"heads": 2, "out_channels": 3, "encode_size": True},
    "raw extremes": {"extremes": True},
    "no reference": {"reference": None},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_properties_of_a_readout(options, weighted):
    torch.manual_seed(0)

    def build():
        readout = GSWEAggregation(4, 4, 3, **options)
        if readout.head_weight is not None:  # so that extremes count
            torch.nn.init.normal_(readout.head_weight)
        return readout

    assert_readout(build, 4, weighted=weighted, dtype=torch.float64)
    assert_readout(build, 4, weighted=weighted)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck(weighted):
    torch.manual_seed(0)
    readout = GSWEAggregation(2, 3, 3, heads=2, extremes=True, reference="input")
    torch.nn.init.normal_(readout.head_weight)
    assert_gradcheck(Case(readout, 2, weighted=weighted))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_dimensions_before_the_elements(ragged, shape):
    x, batch = ragged(sizes=SIZES)
    many = x + torch.arange(float(np.prod(shape, dtype=int))).view(*shape, 1, 1)
    readout = GSWEAggregation(4, heads=2, extremes=True, reference="input")
    torch.nn.init.normal_(readout.head_weight)
    out = readout(many, batch)
    assert out.shape == (*shape, len(SIZES) - 1, 8)
    flat = many.reshape(-1, *x.shape)
    expected = torch.stack([readout(part, batch) for part in flat])
    torch.testing.assert_close(out, expected.view_as(out))
    moved = readout(many.movedim(-2, 0), batch, dim=0)
    torch.testing.assert_close(moved.movedim(0, -2), out)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(ragged, dtype):
    x, batch = ragged(sizes=SIZES)
    readout = GSWEAggregation(4, heads=3, slicer="linear", extremes=True)
    torch.nn.init.normal_(readout.head_weight)
    expected = readout(x, batch)
    tolerance = 24 * torch.finfo(dtype).eps
    with torch.autocast("cpu", dtype=dtype):
        out = readout(x, batch)
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
    out = copy.deepcopy(readout).to(dtype)(x.to(dtype), batch)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)


def test_compile(ragged):
    torch._dynamo.reset()
    readout = GSWEAggregation(4, heads=2, extremes=True, encode_size=True)
    torch.nn.init.normal_(readout.head_weight)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(readout, fullgraph=True, dynamic=True, backend=counter)
    for seed, sizes in enumerate((SIZES, [4, 0, 9], [5, 6, 2, 1, 1, 30])):
        x, batch = ragged(sizes=sizes, seed=seed)
        inputs = [x.requires_grad_(), *readout.parameters()]
        out = compiled(x, batch, dim_size=len(sizes))
        expected = readout(x, batch, dim_size=len(sizes))
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(
            torch.autograd.grad(out.square().sum(), inputs),
            torch.autograd.grad(expected.square().sum(), inputs),
        )
    assert counter.frame_count == 1


def test_export():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.readout = GSWEAggregation(4, heads=2, extremes=True)

        def forward(self, x, index):
            return self.readout(x, index, dim_size=4)

    model = Model().eval()
    num_nodes = torch.export.Dim("num_nodes", min=2)

    def inputs(size):
        return torch.randn(size, 4), torch.arange(size) * 3 % 4

    program = torch.export.export(
        model, inputs(11), dynamic_shapes=({0: num_nodes}, {0: num_nodes})
    )
    for size in (7, 11, 50):
        other = inputs(size)
        torch.testing.assert_close(program.module()(*other), model(*other))


def test_state_dict_and_reset(ragged):
    readout = GSWEAggregation(4, heads=3, extremes=True)
    start = readout.head_weight.detach().clone()
    assert not start[..., -2:].any()
    torch.nn.init.normal_(readout.head_weight)
    x, batch = ragged(sizes=SIZES)
    other = GSWEAggregation(4, heads=3, extremes=True)
    other.load_state_dict(readout.state_dict())
    assert other(x, batch).equal(readout(x, batch))
    readout.reset_parameters()
    assert readout.head_weight.equal(start)


def test_device(ragged):
    readout = GSWEAggregation(
        4, 6, 5, slicer="mlp", reference="slice", out_channels=3, heads=2, device="meta"
    )
    assert {p.device.type for p in readout.parameters()} == {"meta"}
    readout = readout.to_empty(device="cpu")
    readout.reset_parameters()
    x, batch = ragged(sizes=SIZES)
    assert readout(x, batch).isfinite().all()


# Bad input ############################################################################


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, r"'heads' must be a positive integer \(got 0\)"),
        ({"heads": 1.5}, r"'heads' must be a positive integer \(got 1.5\)"),
        ({"heads": 6}, r"'heads' must not exceed 'num_points' \(got 6 and 5\): set"),
        (
            {"heads": 2, "num_references": 2},
            r"'num_references' must be 1 where 'heads' is given \(got 2\)",
        ),
        (
            {"reference": None, "num_references": 2},
            r"'num_references' must be 1 where 'reference' is None \(got 2\)",
        ),
        ({"reference": "output"}, r"'reference' must be one of .*'output'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        GSWEAggregation(4, 6, 5, **options)


def test_heads_have_no_distance():
    readout = GSWEAggregation(4, heads=1)
    out = torch.zeros(4)
    with pytest.raises(ValueError, match="without 'heads'"):
        readout.distance(out, out)


def test_extremes_of_a_set_without_weight():
    readout = GSWEAggregation(1, heads=1, extremes=True)
    message = r"'weight' must be positive .*only zeros in graph 1\): remove"
    with pytest.raises(ValueError, match=message):
        readout(
            torch.randn(3, 1),
            torch.tensor([0, 0, 1]),
            weight=torch.tensor([1.0, 1.0, 0.0]),
        )


# Without values #######################################################################


@pytest.mark.parametrize("options", [{"heads": 2, "extremes": True}, {}])
def test_meta_tensors(options):
    readout = GSWEAggregation(4, **options, device="meta")
    x, index = (
        torch.empty(7, 4, device="meta"),
        torch.empty(7, dtype=torch.long, device="meta"),
    )
    assert readout(x, index, dim_size=3).shape == (3, readout.num_channels)
    with pytest.raises(ValueError, match="'dim_size' must be given"):
        readout(x, index)


@pytest.mark.parametrize("options", [{"heads": 2, "extremes": True}, {}])
def test_fake_tensors(options):
    readout = GSWEAggregation(4, **options)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, index = torch.empty(7, 4), torch.zeros(7, dtype=torch.long)
        out = readout(x, index, dim_size=3)
    assert out.shape == (3, readout.num_channels)


@pytest.mark.parametrize("options", [{"heads": 2, "extremes": True}, {}])
def test_another_default_device(options, ragged):
    x, batch = ragged(sizes=SIZES)
    expected = GSWEAggregation(4, **options, slicer="identity", reference=None)
    with torch.device("meta"):
        readout = GSWEAggregation(4, **options, slicer="identity", reference=None)
        readout.to_empty(device="cpu")
        readout.reset_parameters()
        assert readout(x, batch).equal(expected(x, batch))


@pytest.mark.parametrize("options", [{"heads": 2, "extremes": True}, {}])
def test_functional_transforms(options, ragged):
    x, batch = ragged(sizes=SIZES, dtype=torch.float64)
    readout = GSWEAggregation(4, **options).double()

    def loss(x):
        return readout(x, batch).square().sum()

    x.requires_grad_()
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(torch.func.grad(loss)(x.detach()), expected)
    tangent = torch.randn_like(x)
    _, slope = torch.func.jvp(loss, (x.detach(),), (tangent,))
    torch.testing.assert_close(slope, (expected * tangent).sum())
    many = torch.stack([x.detach(), x.detach() + 1])
    losses = torch.func.vmap(loss)(many)
    torch.testing.assert_close(losses, torch.stack([loss(part) for part in many]))
