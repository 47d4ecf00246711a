"""What autograd and compilers see of the segment quantiles: one node each.

Values of tensors are looked at only inside, where there are values: the boundaries and
masses are checked there. Given the order, the points are linear in the values: apply
and adjoint are each other's derivative, to any order.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from gswe_pyg.ops.checks import check_counts, check_ptr, check_weight
from gswe_pyg.ops.plan import Reads

_is_batched = torch._C._functorch.is_legacy_batchedtensor

_MODULES = {"numba": "numba", "torch": "torch_backend", "triton": "triton_backend"}


@cache
def backend_module(name: str) -> ModuleType:
    return import_module(f"gswe_pyg.ops.{_MODULES[name]}")


# Kernels ##############################################################################
#
# All end in the same options: those of `Reads`, and a number of elements that no set
# exceeds, if given. Then nothing is read from a device.

_OPTIONS = (
    "SymInt num_points, str interpolation, bool extremes, float[] levels, "
    "SymInt? max_num_elements"
)
_SORTED = "Tensor src, Tensor order, Tensor ptr, Tensor weight"


def _reads_and_bound(options: tuple, takes_bound: bool) -> tuple:
    """The options as backends take them."""
    *grid, levels, max_num_elements = options
    reads = Reads(*grid, tuple(levels))
    return (reads, max_num_elements) if takes_bound else (reads,)


def _quantile_kernel(src, ptr, *options):
    *options, with_order, backend = options
    if backend == "torch":  # the others look at what they need at once
        check_ptr(src, ptr)
    reads, *bound = _reads_and_bound(options, backend == "triton")
    return backend_module(backend).quantile(src, ptr, reads, with_order, *bound)


def _apply_kernel(src, order, ptr, *options):
    *options, backend = options
    reads = _reads_and_bound(options, backend == "triton")
    return backend_module(backend).apply(src, order, ptr, *reads)


def _adjoint_kernel(grad, order, ptr, *options):
    *options, backend = options
    reads = _reads_and_bound(options, backend == "triton")
    return backend_module(backend).adjoint(grad, order, ptr, *reads)


def _weighted_kernel(src, ptr, weight, *options):
    *options, with_order, backend = options
    *_, levels, max_num_elements = options
    if max_num_elements is None:  # otherwise, nothing is to be read from the device
        check_ptr(src, ptr)
        check_weight(ptr, weight)
        if levels:
            check_counts(ptr, weight)
    reads, *bound = _reads_and_bound(options, backend == "torch")
    module = backend_module(backend)
    return module.weighted_quantile(src, ptr, weight, reads, with_order, *bound)


def _weighted_adjoint_kernel(grad, src, order, ptr, weight, *options):
    *options, with_mass, backend = options
    if _is_differentiated((grad, src, weight)):
        backend = "torch"  # whose operations PyTorch can differentiate once more
    reads, *bound = _reads_and_bound(options, backend == "torch")
    tensors = (grad, src, order, ptr, weight)
    module = backend_module(backend)
    return module.weighted_adjoint(*tensors, reads, with_mass, *bound)


def _weighted_tangent_kernel(src_tangent, weight_tangent, *rest):
    src, order, ptr, weight, *options, _ = rest
    reads = _reads_and_bound(options, takes_bound=True)
    tensors = (src_tangent, weight_tangent, src, order, ptr, weight)
    return backend_module("torch").weighted_tangent(*tensors, *reads)


def _weighted_second_kernel(
    grad_src, grad_weight, grad, src, order, ptr, weight, *rest
):
    """The gradients of the gradients: those of ``grad``, ``src`` and ``weight``."""
    *options, _ = rest
    reads, bound = _reads_and_bound(options, takes_bound=True)
    inputs = [x.detach().requires_grad_() for x in (grad, src, weight)]
    with torch.enable_grad():
        outputs = backend_module("torch").weighted_adjoint(
            *(inputs[0], inputs[1], order, ptr, inputs[2]), *(reads, True, bound)
        )
        grads = (grad_src, grad_weight)
        return torch.autograd.grad(outputs, inputs, grads, materialize_grads=True)


# Shapes ###############################################################################


def _new_points(src, ptr, num_points, extremes, levels):
    num_reads = (len(levels) or num_points) + 2 * extremes
    return src.new_empty(ptr.shape[0] - 1, src.shape[1], num_reads)


def _fake_quantile(
    src, ptr, num_points, interpolation, extremes, levels, bound, with_order, backend
):
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    return _new_points(src, ptr, num_points, extremes, levels), order


def _fake_apply(
    src, order, ptr, num_points, interpolation, extremes, levels, bound, backend
):
    return _new_points(src, ptr, num_points, extremes, levels)


def _fake_adjoint(
    grad, order, ptr, num_points, interpolation, extremes, levels, bound, backend
):
    return grad.new_empty(order.shape)


def _fake_weighted(src, ptr, weight, *options):
    return _fake_quantile(src, ptr, *options)


def _fake_weighted_adjoint(grad, src, order, ptr, weight, *options):
    *_, with_mass, _ = options
    grad_weight = torch.empty_like(weight) if with_mass else weight.new_empty(0)
    return torch.empty_like(src), grad_weight


def _fake_weighted_tangent(
    src_tangent, weight_tangent, src, order, ptr, weight, *options
):
    return _fake_apply(src, order, ptr, *options)


def _fake_weighted_second(grad_src, grad_weight, grad, src, order, ptr, weight, *_):
    return torch.empty_like(grad), torch.empty_like(src), torch.empty_like(weight)


# Derivatives ##########################################################################


def _remember_quantile(ctx, inputs, output):
    _, ptr, *ctx.options, _, ctx.backend = inputs
    save_tensors(ctx, output[1], ptr)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or zeros are made for the order


def save_tensors(ctx, *tensors):
    ctx.save_for_backward(*tensors)
    # Forward mode is a transform, which a custom operator does not know.
    if is_transformed() and hasattr(ctx, "save_for_forward"):
        ctx.save_for_forward(*tensors)


def _quantile_jvp(ctx, tangent, *_):
    order, ptr = ctx.saved_tensors
    return apply(tangent, order, ptr, *ctx.options, ctx.backend), None


def _quantile_backward(ctx, grad, _):
    if grad is None:
        return (None,) * 9
    order, ptr = ctx.saved_tensors
    grad_src = adjoint(grad, order, ptr, *ctx.options, ctx.backend)
    return grad_src, *(None,) * 8


def _remember_linear(ctx, inputs, output):
    _, order, ptr, *ctx.options, ctx.backend = inputs
    save_tensors(ctx, order, ptr)


def _apply_jvp(ctx, tangent, *_):
    return apply(tangent, *ctx.saved_tensors, *ctx.options, ctx.backend)


def _adjoint_jvp(ctx, tangent, *_):
    return adjoint(tangent, *ctx.saved_tensors, *ctx.options, ctx.backend)


def _apply_backward(ctx, grad):
    grad_src = adjoint(grad, *ctx.saved_tensors, *ctx.options, ctx.backend)
    return grad_src, *(None,) * 8


def _adjoint_backward(ctx, grad):
    grad_grad = apply(grad, *ctx.saved_tensors, *ctx.options, ctx.backend)
    return grad_grad, *(None,) * 8


def _remember_weighted(ctx, inputs, output):
    src, ptr, weight, *ctx.options, _, ctx.backend = inputs
    save_tensors(ctx, src, output[1], ptr, weight)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _weighted_jvp(ctx, src_tangent, _, weight_tangent, *__):
    src, order, ptr, weight = ctx.saved_tensors
    tangents = [
        torch.zeros_like(x) if tangent is None else tangent
        for x, tangent in ((src, src_tangent), (weight, weight_tangent))
    ]
    options = (*ctx.options, ctx.backend)
    return weighted_tangent(*tangents, src, order, ptr, weight, *options), None


def _weighted_backward(ctx, grad, _):
    if grad is None:
        return (None,) * 10
    # What is differentiated once more is so with respect to all.
    with_mass = ctx.needs_input_grad[2] or torch.is_grad_enabled() or is_transformed()
    options = (*ctx.options, with_mass, ctx.backend)
    grads = weighted_adjoint(grad, *ctx.saved_tensors, *options)
    return grads[0], None, grads[1] if with_mass else None, *(None,) * 7


def _remember_weighted_adjoint(ctx, inputs, output):
    grad, src, order, ptr, weight, *ctx.options, _, ctx.backend = inputs
    save_tensors(ctx, grad, src, order, ptr, weight)


def _weighted_adjoint_backward(ctx, grad_src, grad_weight):
    options = (*ctx.options, ctx.backend)
    grads = weighted_second(grad_src, grad_weight, *ctx.saved_tensors, *options)
    return grads[0], grads[1], None, None, grads[2], *(None,) * 7


def remember_nothing(ctx, inputs, output):
    pass


def _no_derivative(*_):
    raise NotImplementedError(
        "'torch.func' does not differentiate quantiles with 'weight' that often: use "
        "'torch.autograd.grad' with 'create_graph=True'"
    )


# Batches of calls (vmap) ##############################################################
#
# Columns do not know of each other: a batch of values is more of them. A batch of
# masses, which are the same for all columns, is more sets.


def _vmap_columns(function: Callable) -> Callable:
    """For an operator on values or points, and maybe their order: all have the columns
    as their second dimension."""

    def batched(info, in_dims, *args):
        size, args = info.batch_size, list(args)
        _refuse_batched_ptr(in_dims, args)
        for i, x in enumerate(args):
            if isinstance(x, Tensor) and x.dtype != torch.int64:
                args[i] = _joined(x, in_dims[i], size, 1)
        out = function(*args)
        if isinstance(out, Tensor):
            return out.unflatten(1, (size, -1)), 1
        points, order = (x.unflatten(1, (size, -1)) for x in out)
        return (points, order), (1, 1)

    return batched


def _vmap_sets(function: Callable) -> Callable:
    """For an operator with masses: all tensors have rows or sets first."""

    def batched(info, in_dims, *args):
        size, args = info.batch_size, list(args)
        _refuse_batched_ptr(in_dims, args)
        for i, x in enumerate(args):
            if isinstance(x, Tensor) and x.dtype == torch.int64:
                starts = torch.arange(size, device=x.device)[:, None] * x[-1]
                args[i] = torch.cat([x[:1], (starts + x[1:]).flatten()])
            elif isinstance(x, Tensor):
                args[i] = _joined(x, in_dims[i], size, 0)
        out = function(*args)
        if isinstance(out, Tensor):
            return out.unflatten(0, (size, -1)), 0
        return tuple(x.unflatten(0, (size, -1)) for x in out), (0,) * len(out)

    return batched


def _joined(x: Tensor, dim: int | None, size: int, place: int) -> Tensor:
    """With the calls of a batch side by side in a dimension."""
    if dim is None:
        x = x.unsqueeze(place).expand(*x.shape[:place], size, *x.shape[place:])
    else:
        x = x.movedim(dim, place)
    return x.flatten(place, place + 1)


def _refuse_batched_ptr(in_dims: tuple, args: list) -> None:
    for dim, x in zip(in_dims, args, strict=True):
        is_ptr = isinstance(x, Tensor) and x.dtype == torch.int64
        if is_ptr and dim is not None:
            raise ValueError(
                "'ptr' must be the same for all calls of 'torch.vmap': pass 'in_dims' "
                "with None for it"
            )


def make_operator(
    name: str,
    schema: str,
    kernel: Callable,
    fake: Callable,
    remember: Callable,
    backward: Callable,
    jvp: Callable | None = None,
    vmap: Callable | None = None,
    is_transparent: bool = False,
) -> Callable:
    """A custom operator; called directly where nothing has to see it as one.

    The detour by the dispatcher costs a tenth of a millisecond a call, which is more
    than a small batch takes. If it ``is_transparent``, PyTorch differentiates the
    operations inside, but for the transforms of :obj:`torch.func`, which would need to
    look at values. Without ``jvp`` and ``vmap``, it must not be transformed.
    """
    operator = torch.library.custom_op(
        f"gswe_pyg::{name}", kernel, mutates_args=(), schema=schema
    )
    operator.register_fake(fake)
    if not is_transparent:
        operator.register_autograd(backward, setup_context=remember)

    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = kernel(*inputs)
            remember(ctx, inputs, output)
            return output

    class Transformed(torch.autograd.Function):
        # With its context apart, as transforms want it, PyTorch inspects the signature
        # of each call, which takes longer than all the rest of it.
        @staticmethod
        def forward(*inputs):
            return kernel(*inputs)

    Direct.__name__ = Transformed.__name__ = name
    Direct.backward = Transformed.backward = staticmethod(backward)
    Transformed.setup_context = staticmethod(remember)
    if jvp is not None:
        Transformed.jvp = staticmethod(jvp)
    if vmap is not None:
        # A batch of calls is a call, which may be transformed itself.
        Transformed.vmap = staticmethod(vmap(lambda *args: call(*args)))

    def call(*args):
        # Tracers use subclasses of tensors, in a backward pass without further notice,
        # and 'is_grads_batched' tensors that have no values either.
        if torch.compiler.is_compiling():
            return operator(*args)
        requires_grad = False
        for arg in args:
            if isinstance(arg, Tensor):
                if not is_plain(arg):
                    return operator(*args)
                requires_grad = requires_grad or arg.requires_grad
        if is_transformed():
            return Transformed.apply(*args)
        if requires_grad and torch.is_grad_enabled() and not is_transparent:
            return Direct.apply(*args)
        return kernel(*args)

    return call


def is_plain(x: Tensor) -> bool:
    """Whether it has values, and nobody follows what is done to them but autograd."""
    return type(x) in (Tensor, Parameter) and not (x.is_meta or _is_batched(x))


def is_transformed() -> bool:
    """Tangents of forward mode and the wrappers of :obj:`torch.func` have no mark on
    the tensor, but a level that is entered."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def _is_differentiated(args: tuple) -> bool:
    if is_transformed():
        return True
    return torch.is_grad_enabled() and any(
        isinstance(arg, Tensor) and arg.requires_grad for arg in args
    )


quantile = make_operator(
    "segment_quantile",
    f"(Tensor src, Tensor ptr, {_OPTIONS}, bool with_order, str backend) "
    "-> (Tensor, Tensor)",
    _quantile_kernel,
    _fake_quantile,
    _remember_quantile,
    _quantile_backward,
    _quantile_jvp,
    _vmap_columns,
)
apply = make_operator(
    "segment_quantile_apply",
    f"(Tensor src, Tensor order, Tensor ptr, {_OPTIONS}, str backend) -> Tensor",
    _apply_kernel,
    _fake_apply,
    _remember_linear,
    _apply_backward,
    _apply_jvp,
    _vmap_columns,
)
adjoint = make_operator(
    "segment_quantile_adjoint",
    f"(Tensor grad, Tensor order, Tensor ptr, {_OPTIONS}, str backend) -> Tensor",
    _adjoint_kernel,
    _fake_adjoint,
    _remember_linear,
    _adjoint_backward,
    _adjoint_jvp,
    _vmap_columns,
)
weighted = make_operator(
    "weighted_segment_quantile",
    f"(Tensor src, Tensor ptr, Tensor weight, {_OPTIONS}, bool with_order, "
    "str backend) -> (Tensor, Tensor)",
    _weighted_kernel,
    _fake_weighted,
    _remember_weighted,
    _weighted_backward,
    _weighted_jvp,
    _vmap_sets,
)
weighted_adjoint = make_operator(
    "weighted_segment_quantile_adjoint",
    f"(Tensor grad, {_SORTED}, {_OPTIONS}, bool with_mass, str backend) "
    "-> (Tensor, Tensor)",
    _weighted_adjoint_kernel,
    _fake_weighted_adjoint,
    _remember_weighted_adjoint,
    _weighted_adjoint_backward,
    _no_derivative,
    _vmap_sets,
    is_transparent=True,
)
weighted_tangent = make_operator(
    "weighted_segment_quantile_tangent",
    f"(Tensor src_tangent, Tensor weight_tangent, {_SORTED}, {_OPTIONS}, "
    "str backend) -> Tensor",
    _weighted_tangent_kernel,
    _fake_weighted_tangent,
    remember_nothing,
    _no_derivative,
    _no_derivative,
    _vmap_sets,
    is_transparent=True,
)
weighted_second = make_operator(
    "weighted_segment_quantile_second",
    f"(Tensor grad_src, Tensor grad_weight, Tensor grad, {_SORTED}, {_OPTIONS}, "
    "str backend) -> (Tensor, Tensor, Tensor)",
    _weighted_second_kernel,
    _fake_weighted_second,
    remember_nothing,
    _no_derivative,
    _no_derivative,
    _vmap_sets,
    is_transparent=True,
)
