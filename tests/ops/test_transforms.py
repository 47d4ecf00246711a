"""The operators under the transforms of PyTorch: torch.func, export, fake tensors."""

import pytest
import torch
from backends import available
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from gswe_pyg.ops import backend, segment_heads, segment_quantile, segment_quantile_at

PTR = torch.tensor([0, 0, 3, 7])
BACKENDS = available()
WEIGHTED = ("linear", "step", "barycentric")


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def masses(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) + 0.8


def grid(x, weight=None):
    return segment_quantile(x, PTR, 4, "linear", weight, extremes=True)


def means(x, weight=None):
    return segment_quantile(x, PTR, 3, "barycentric", weight)


def levels(x, weight=None):
    return segment_quantile_at(x, PTR, (0.8, 0.3), "linear", weight)


FUNCTIONS = pytest.mark.parametrize("function", [grid, means, levels])


@pytest.fixture(autouse=True, params=BACKENDS)
def on_backend(request):
    with backend(request.param):
        yield


@FUNCTIONS
def test_grad_and_vjp(function):
    x = values(7, 3).requires_grad_()
    (expected,) = torch.autograd.grad(function(x).pow(3).sum(), x)
    actual = grad(lambda x: function(x).pow(3).sum())(x.detach())
    torch.testing.assert_close(actual, expected)
    out, pull = vjp(function, x.detach())
    torch.testing.assert_close(pull(3 * out.square())[0], expected)


@FUNCTIONS
def test_grad_of_weights(function):
    x, w = values(7, 3).requires_grad_(), masses(7).requires_grad_()
    expected = torch.autograd.grad(function(x, w).pow(3).sum(), [x, w])
    actual = grad(lambda x, w: function(x, w).pow(3).sum(), argnums=(0, 1))(
        x.detach(), w.detach()
    )
    torch.testing.assert_close(actual, expected)


@FUNCTIONS
def test_jvp(function):
    x, direction = values(7, 3), values(7, 3, seed=2)
    out, tangent = jvp(function, (x,), (direction,))
    torch.testing.assert_close(out, function(x))
    expected = (function(x + 1e-3 * direction) - function(x - 1e-3 * direction)) / 2e-3
    torch.testing.assert_close(tangent, expected, rtol=1e-2, atol=1e-2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        assert forward_ad.unpack_dual(function(dual)).tangent.equal(tangent)


@FUNCTIONS
def test_jvp_of_weights_is_the_transpose_of_vjp(function):
    inputs, directions = (values(7, 3), masses(7)), (values(7, 3, seed=2), values(7))
    out, pull = vjp(function, *inputs)
    cotangent = values(*out.shape, seed=3)
    _, tangent = jvp(function, inputs, directions)
    expected = sum(
        (a * b).sum() for a, b in zip(pull(cotangent), directions, strict=True)
    )
    torch.testing.assert_close(
        (tangent * cotangent).sum(), expected, rtol=1e-4, atol=1e-4
    )


@FUNCTIONS
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap_over_features(dim, function):
    x = values(5, 7, 3)
    expected = torch.stack([function(each) for each in x])
    assert vmap(function, in_dims=dim)(x.movedim(0, dim)).equal(expected)


@FUNCTIONS
def test_vmap_with_weights(function):
    x, w = values(5, 7, 3), masses(5, 7)
    expected = torch.stack([function(*each) for each in zip(x, w, strict=True)])
    torch.testing.assert_close(vmap(function)(x, w), expected)
    expected = torch.stack([function(each, w[0]) for each in x])
    actual = vmap(function, in_dims=(0, None))(x, w[0])
    torch.testing.assert_close(actual, expected)


@FUNCTIONS
def test_gradients_of_each_of_a_batch(function):
    x, w = values(5, 7, 3), masses(5, 7)

    def loss(x, w=None):
        return function(x, w).pow(3).sum()

    expected = torch.stack([grad(loss)(each) for each in x])
    torch.testing.assert_close(vmap(grad(loss))(x), expected)
    expected = torch.stack([grad(loss, 1)(*each) for each in zip(x, w, strict=True)])
    torch.testing.assert_close(vmap(grad(loss, 1))(x, w), expected)


@FUNCTIONS
@pytest.mark.parametrize("weighted", [False, True])
def test_jacobians(weighted, function):
    x, weight = values(7, 2), masses(7) if weighted else None
    forward = jacfwd(lambda x: function(x, weight))(x)
    torch.testing.assert_close(forward, jacrev(lambda x: function(x, weight))(x))


@FUNCTIONS
def test_second_derivatives(function):
    x = values(7, 2)

    def loss(x):
        return function(x).pow(3).sum()

    expected = torch.autograd.functional.hessian(loss, x)
    torch.testing.assert_close(hessian(loss)(x), expected)
    torch.testing.assert_close(jacrev(grad(loss))(x), expected)


@FUNCTIONS
def test_second_derivatives_with_weights(function):
    x, w = values(7, 2), masses(7)

    def loss(w):
        return function(x, w).pow(3).sum()

    expected = torch.autograd.functional.hessian(loss, w)
    actual = jacrev(grad(loss))(w)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(NotImplementedError, match=r"'torch.autograd.grad'"):
        hessian(loss)(w)


HEADS_OF = pytest.mark.parametrize("of", ["values", "weights", "both"])


def heads_of(of):
    """Heads with a gradient of some of their inputs, and these inputs."""
    x, w = values(7, 3), values(2, 3, 6, seed=2)
    inputs = {"values": [x], "weights": [w], "both": [x, w]}[of]
    for each in inputs:
        each.requires_grad_()
    return segment_heads(x, PTR, w, 4, extremes=True), inputs


@HEADS_OF
def test_second_derivatives_of_heads(of):
    out, inputs = heads_of(of)
    grads = torch.autograd.grad(out.pow(3).sum(), inputs, create_graph=True)
    actual = torch.autograd.grad(sum(x.pow(3).sum() for x in grads), inputs)
    with backend("torch"):
        out, inputs = heads_of(of)
        grads = torch.autograd.grad(out.pow(3).sum(), inputs, create_graph=True)
        expected = torch.autograd.grad(sum(x.pow(3).sum() for x in grads), inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-3)


@HEADS_OF
def test_many_gradients_of_heads_at_once(of):
    out, inputs = heads_of(of)
    many = values(3, *out.shape, seed=4)
    actual = torch.autograd.grad(
        out, inputs, many, is_grads_batched=True, retain_graph=True
    )
    each = [torch.autograd.grad(out, inputs, x, retain_graph=True) for x in many]
    for i, grads in enumerate(actual):
        torch.testing.assert_close(grads, torch.stack([x[i] for x in each]))


@pytest.mark.parametrize("weighted", [False, True])
@FUNCTIONS
def test_many_gradients_at_once(weighted, function):
    x, weight = values(7, 2), masses(7) if weighted else None
    jacobian = torch.autograd.functional.jacobian
    expected = jacobian(lambda x: function(x, weight), x)
    actual = jacobian(lambda x: function(x, weight), x, vectorize=True)
    torch.testing.assert_close(actual, expected)


def test_values_may_be_overwritten_after_heads():
    """As after any other pooling: "x = x.relu_()" may follow."""
    x, w = values(7, 3).requires_grad_(), values(2, 3, 4, seed=2).requires_grad_()
    expected = torch.autograd.grad(segment_heads(x, PTR, w, 4).sum(), [x, w])
    copy = x * 1
    out = segment_heads(copy, PTR, w, 4)
    copy.relu_()
    torch.testing.assert_close(torch.autograd.grad(out.sum(), [x, w]), expected)


@pytest.mark.parametrize(
    "dtypes", [(torch.bfloat16, torch.float32), (torch.float32, torch.float64)]
)
def test_heads_of_another_dtype(dtypes):
    x, w = values(7, 3).to(dtypes[0]), values(2, 3, 4, seed=2).to(dtypes[1])
    out = segment_heads(x, PTR, w, 4)
    assert out.dtype == dtypes[1]
    torch.testing.assert_close(
        out.float(), segment_heads(x.float(), PTR, w.float(), 4), rtol=0.01, atol=0.01
    )


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 4), (1, 3, 5), (1, 2, 4)])
def test_head_weights_of_a_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"'head_weight' must be of shape .*one head"):
        segment_heads(values(7, 3), PTR, torch.zeros(shape), 4)


def test_heads_name_the_argument_that_is_wrong():
    x, w = values(7, 3), values(1, 3, 4)
    with pytest.raises(ValueError, match="'src' must be"):
        segment_heads(x[:, 0], PTR, w, 4)
    with pytest.raises(ValueError, match="'num_points' must be"):
        segment_heads(x, PTR, w, 0)


def test_vmap_over_sets_of_other_sizes_is_refused():
    x = values(7, 2)
    with pytest.raises(ValueError, match="'ptr' must be the same for all calls"):
        vmap(lambda ptr: segment_quantile(x, ptr, 3))(PTR.repeat(2, 1))


# Compilers and devices ################################################################


class Quantiles(torch.nn.Module):
    def __init__(self, weighted):
        super().__init__()
        self.weighted = weighted

    def forward(self, x, ptr, weight):
        return segment_quantile(
            x, ptr, 4, "linear", weight if self.weighted else None, extremes=True
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_sets", [1, 3])
def test_export(num_sets, weighted):
    sizes = [4] * num_sets
    arguments = (
        values(sum(sizes), 3),
        torch.tensor([0, *sizes]).cumsum(0),
        masses(sum(sizes)),
    )
    rows = torch.export.Dim("rows", max=10_000)
    program = torch.export.export(
        Quantiles(weighted), arguments, dynamic_shapes=({0: rows}, None, {0: rows})
    )
    assert program.module()(*arguments).equal(Quantiles(weighted)(*arguments))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_fake_tensors(training, weighted):
    with FakeTensorMode():
        x = torch.randn(7, 3, requires_grad=training)
        weight = torch.rand(7) if weighted else None
        out = segment_quantile(x, torch.tensor([0, 3, 7]), 4, "linear", weight, True)
        assert out.shape == (2, 3, 6)
        heads = segment_heads(x, torch.tensor([0, 3, 7]), torch.ones(2, 3, 4), 4)
        assert heads.shape == (2, 2, 3)
        if training:
            (gradient,) = torch.autograd.grad(out.sum(), x)
            assert gradient.shape == x.shape


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_meta_tensors(training, weighted, on_backend):
    with backend("torch"):  # which serves all devices
        x = torch.empty(7, 3, device="meta", requires_grad=training)
        ptr = torch.empty(4, device="meta", dtype=torch.long)
        weight = torch.empty(7, device="meta") if weighted else None
        out = segment_quantile(x, ptr, 4, "linear", weight, True)
        assert out.device.type == "meta"
        assert out.shape == (3, 3, 6)
        if training:
            (gradient,) = torch.autograd.grad(out.sum(), x)
            assert gradient.shape == x.shape


@FUNCTIONS
@pytest.mark.parametrize("weighted", [False, True])
def test_default_device_makes_no_difference(weighted, function):
    x, weight = values(7, 3).requires_grad_(), masses(7) if weighted else None
    out = function(x, weight)
    expected = [out, *torch.autograd.grad(out.sum(), x)]
    torch.set_default_device("meta")
    try:
        out = function(x, weight)
        actual = [out, *torch.autograd.grad(out.sum(), x)]
        tangent = jvp(lambda x: function(x, weight), (x.detach(),), (x.detach(),))
        batched = vmap(lambda x: function(x, weight))(x.detach()[None])
    finally:
        torch.set_default_device(None)
    for a, b in zip(actual, expected, strict=True):
        assert a.equal(b)
    assert tangent[0].equal(expected[0])
    torch.testing.assert_close(batched[0], expected[0])
