import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from gswe_pyg.ops import numpy_backend
from gswe_pyg.ops.interpolation import INTERPOLATIONS

BACKENDS = ("numba", "numpy", "torch")

try:
    import numba  # PyG has done so already, where it is installed
except ImportError:  # or one that does not fit this numpy
    numba = None

_HAS_NUMBA = numba is not None

# numpy sorts with SIMD instructions on all common processors since its version 2.0.
_NUMPY_IS_FAST = int(np.__version__.split(".")[0]) >= 2

# A plain global, because compilers can look at it.
_forced: str | None = os.environ.get("GSWE_PYG_BACKEND")


@contextmanager
def backend(name: str) -> Iterator[None]:
    r"""Makes :meth:`segment_quantile` use one backend, for tests and bug reports.

    The environment variable :obj:`GSWE_PYG_BACKEND` does the same for a whole process.
    All backends give the same numbers. Without a wish, :obj:`"numba"` serves tensors in
    single or half precision on the CPU, or :obj:`"numpy"` where numba is not installed,
    and :obj:`"torch"` all others. With weights, :obj:`"torch"` takes the place of
    :obj:`"numpy"`.

    Args:
        name (str): :obj:`"numba"`, :obj:`"numpy"` or :obj:`"torch"`.

    Example:
        >>> from gswe_pyg.ops import backend, segment_quantile
        >>> x, ptr = torch.tensor([[3.0], [1.0], [2.0]]), torch.tensor([0, 3])
        >>> with backend("torch"):
        ...     segment_quantile(x, ptr, num_points=3)
        tensor([[[1., 2., 3.]]])
    """
    global _forced
    before, _forced = _forced, _known_backend(name)
    try:
        yield
    finally:
        _forced = before


def segment_quantile(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str = "linear",
    weight: Tensor | None = None,
) -> Tensor:
    r"""Computes quantiles of each column of each segment of rows.

    With :math:`s_0 \le \dots \le s_{n-1}` the sorted values of a column in a segment,
    point :math:`m = 0, \dots, M - 1` is, for :obj:`interpolation`

    * :obj:`"linear"`: the piecewise linear function through
      :math:`\left( \frac{j + 1/2}{n}, s_j \right)`, constant outside, at
      :math:`\frac{m + 1/2}{M}`;
    * :obj:`"step"`: the left-continuous inverse of the distribution function at
      :math:`\frac{m + 1/2}{M}`;
    * :obj:`"barycentric"`: the mean of that inverse between :math:`\frac{m}{M}` and
      :math:`\frac{m + 1}{M}`;
    * :obj:`"pswe"`: the piecewise linear function through
      :math:`\left( \frac{j + 1}{n + 1}, s_j \right)`, continued linearly, at
      :math:`\frac{m + 1}{M + 1}`.

    For :math:`n = M` all of them are the sorted values; an empty segment gives zeros.

    Args:
        src (torch.Tensor): The values, floating point.
        ptr (torch.Tensor): The boundaries of the segments, from zero to :math:`N`.
        num_points (int): The number of points :math:`M`.
        interpolation (str, optional): See above. (default: :obj:`"linear"`)
        weight (torch.Tensor, optional): The mass of each row, not negative, which
            replaces :math:`1/n` after division by the segment's total. Rows of mass
            zero are left out. (default: :obj:`None`)

    Shapes:
        - **input:** values :math:`(N, L)`, boundaries :math:`(B + 1)`,
          masses :math:`(N)`
        - **output:** points :math:`(B, L, M)`

    Example:
        >>> from gswe_pyg.ops import segment_quantile
        >>> x = torch.tensor([[4.0], [0.0], [2.0], [7.0]])
        >>> segment_quantile(x, torch.tensor([0, 3, 4]), num_points=2)
        tensor([[[0.5000, 3.5000]],
        <BLANKLINE>
                [[7.0000, 7.0000]]])
    """
    _check(src, ptr, num_points, interpolation, weight)
    ptr = ptr.long()
    if weight is not None:
        name = "torch" if _forced == "numpy" else _choose_backend(src)
        name = "torch" if name == "numpy" else name
        return _weighted(src, ptr, weight, num_points, interpolation, name)
    name = _choose_backend(src)
    with_order = src.requires_grad and torch.is_grad_enabled()
    return _quantile(src, ptr, num_points, interpolation, with_order, name)[0]


def _known_backend(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(
            f"The backend ('name', or GSWE_PYG_BACKEND in the environment) must be one "
            f"of {list(BACKENDS)} (got '{name}')"
        )
    if name == "numba" and not _HAS_NUMBA:
        raise ValueError(
            "The 'numba' backend needs numba, which cannot be imported: use "
            "'pip install \"gswe-pyg[fast]\"' or the 'numpy' backend"
        )
    if name == "numpy" and not _NUMPY_IS_FAST:
        raise ValueError(
            f"The 'numpy' backend needs numpy 2.0 or later (got {np.__version__}): "
            f"upgrade numpy or use the 'torch' backend"
        )
    return name


def _choose_backend(src: Tensor) -> str:
    on_cpu = src.device.type == "cpu" and src.dtype in numpy_backend.DTYPES
    if _forced is None:
        if on_cpu and _HAS_NUMBA:
            return "numba"
        return "numpy" if on_cpu and _NUMPY_IS_FAST else "torch"
    if _known_backend(_forced) != "torch" and not on_cpu:
        raise ValueError(
            f"The '{_forced}' backend handles {list(numpy_backend.DTYPES)} on the CPU "
            f"(got {src.dtype} on '{src.device}'): convert 'src' or use the 'torch' "
            f"backend"
        )
    return _forced


def _module(name: str) -> ModuleType:
    return import_module(f"gswe_pyg.ops.{name}_backend")


def _check(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    weight: Tensor | None,
) -> None:
    if src.dim() != 2 or not src.is_floating_point():
        raise ValueError(
            f"'src' must be a floating point tensor [num_elements, num_slices] (got "
            f"{src.dtype} of shape {list(src.shape)})"
        )
    is_integer = ptr.dtype in (torch.int64, torch.int32)
    if ptr.dim() != 1 or ptr.numel() == 0 or not is_integer:
        raise ValueError(
            f"'ptr' must be an integer tensor [num_graphs + 1] (got {ptr.dtype} of "
            f"shape {list(ptr.shape)})"
        )
    if num_points < 1:
        raise ValueError(f"'num_points' must be at least 1 (got {num_points})")
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"'interpolation' must be one of {list(INTERPOLATIONS)} (got "
            f"'{interpolation}')"
        )
    if weight is not None and weight.shape != src.shape[:1]:
        raise ValueError(
            f"'weight' must have one entry for each of the {src.shape[0]} elements "
            f"(got shape {list(weight.shape)})"
        )
    if weight is not None and not weight.is_floating_point():
        raise ValueError(
            f"'weight' must be a floating point tensor (got {weight.dtype}): convert "
            f"it by 'weight.float()'"
        )


# The operators ########################################################################
#
# Compilers see one node each. Values of tensors are looked at only inside, where there
# are values: the boundaries and masses are checked there.


def _check_ptr(src: Tensor, ptr: Tensor) -> None:
    bounds = ptr.cpu().numpy()
    is_sorted = not (bounds[1:] < bounds[:-1]).any()
    if bounds[0] != 0 or bounds[-1] != src.shape[0] or not is_sorted:
        raise ValueError(
            f"'ptr' must increase from 0 to the number of elements, {src.shape[0]} "
            f"(got {bounds[0]} to {bounds[-1]}, {'' if is_sorted else 'not '}sorted)"
        )


def check_weight(ptr: Tensor, weight: Tensor) -> None:
    if not bool(((weight >= 0) & weight.isfinite()).all()):
        worst = weight[~((weight >= 0) & weight.isfinite())][0].item()
        raise ValueError(
            f"'weight' must be finite and not negative (got {worst}): pass counts or "
            f"probabilities, e.g., 'weight.relu()' or 'weight.softmax(0)'"
        )
    positive = torch.nn.functional.pad((weight > 0).cumsum(0), (1, 0))[ptr].diff()
    starved = ((positive == 0) & (ptr.diff() > 0)).nonzero()
    if starved.numel() > 0:
        raise ValueError(
            f"'weight' must be positive for some element of each graph that has any "
            f"(got only zeros in graph {starved[0].item()}): remove its elements to "
            f"leave it empty"
        )


def _quantile_kernel(
    src: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    with_order: bool,
    backend: str,
) -> tuple[Tensor, Tensor]:
    _check_ptr(src, ptr)
    return _module(backend).quantile(src, ptr, num_points, interpolation, with_order)


def _apply_kernel(
    src: Tensor,
    order: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    backend: str,
) -> Tensor:
    return _module(backend).apply(src, order, ptr, num_points, interpolation)


def _adjoint_kernel(
    grad: Tensor,
    order: Tensor,
    ptr: Tensor,
    num_points: int,
    interpolation: str,
    backend: str,
) -> Tensor:
    return _module(backend).adjoint(grad, order, ptr, num_points, interpolation)


def _weighted_kernel(
    src: Tensor,
    ptr: Tensor,
    weight: Tensor,
    num_points: int,
    interpolation: str,
    backend: str,
) -> Tensor:
    _check_ptr(src, ptr)
    check_weight(ptr, weight)
    quantile = _module(backend).weighted_quantile
    return quantile(src, ptr, weight, num_points, interpolation)


def _weighted_adjoint_kernel(
    grad: Tensor,
    src: Tensor,
    ptr: Tensor,
    weight: Tensor,
    interpolation: str,
    backend: str,
) -> tuple[Tensor, Tensor]:
    if _is_differentiated((grad, src, weight)):
        backend = "torch"  # whose operations PyTorch can differentiate once more
    return _module(backend).weighted_adjoint(grad, src, ptr, weight, interpolation)


def _fake_quantile(src, ptr, num_points, interpolation, with_order, backend):
    out = src.new_empty(ptr.shape[0] - 1, src.shape[1], num_points)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    return out, order


def _fake_apply(src, order, ptr, num_points, interpolation, backend):
    return src.new_empty(ptr.shape[0] - 1, src.shape[1], num_points)


def _fake_adjoint(grad, order, ptr, num_points, interpolation, backend):
    if backend == "numpy":  # one slice after the other
        return grad.new_empty(order.shape[1], order.shape[0]).t()
    return grad.new_empty(order.shape)


def _fake_weighted(src, ptr, weight, num_points, interpolation, backend):
    return src.new_empty(ptr.shape[0] - 1, src.shape[1], num_points)


def _fake_weighted_adjoint(grad, src, ptr, weight, interpolation, backend):
    return torch.empty_like(src), torch.empty_like(weight)


# Given the order, the points are linear in the values: apply and adjoint are each
# other's derivative, to any order.


def _remember_quantile(ctx, inputs, output):
    _, ptr, *ctx.options, _, ctx.backend = inputs
    ctx.save_for_backward(output[1], ptr)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or zeros are made for the order


def _quantile_backward(ctx, grad, _):
    if grad is None:
        return None, None, None, None, None, None
    order, ptr = ctx.saved_tensors
    grad_src = _adjoint(grad, order, ptr, *ctx.options, ctx.backend)
    return grad_src, None, None, None, None, None


def _remember_linear(ctx, inputs, output):
    _, order, ptr, *ctx.options, ctx.backend = inputs
    ctx.save_for_backward(order, ptr)


def _apply_backward(ctx, grad):
    grad_src = _adjoint(grad, *ctx.saved_tensors, *ctx.options, ctx.backend)
    return grad_src, None, None, None, None, None


def _adjoint_backward(ctx, grad):
    grad_grad = _apply(grad, *ctx.saved_tensors, *ctx.options, ctx.backend)
    return grad_grad, None, None, None, None, None


def _remember_weighted(ctx, inputs, output):
    src, ptr, weight, _, *ctx.options = inputs
    ctx.save_for_backward(src, ptr, weight)


def _weighted_backward(ctx, grad):
    grads = _weighted_adjoint(grad, *ctx.saved_tensors, *ctx.options)
    return grads[0], None, grads[1], None, None, None


def _operator(
    name: str,
    kernel: Callable,
    fake: Callable,
    remember: Callable | None = None,
    backward: Callable | None = None,
) -> Callable:
    """A custom operator; called directly where nothing has to see it as one.

    The detour by the dispatcher costs a tenth of a millisecond a call, which is more
    than a small batch takes.
    """
    operator = torch.library.custom_op(f"gswe_pyg::{name}", kernel, mutates_args=())
    operator.register_fake(fake)
    if backward is None:
        direct = kernel
    else:
        operator.register_autograd(backward, setup_context=remember)

        class Direct(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                output = kernel(*inputs)
                remember(ctx, inputs, output)
                return output

        Direct.__name__ = name
        Direct.backward = staticmethod(backward)
        direct = Direct.apply

    def call(*args):
        # Tracers use subclasses of tensors, in a backward pass without further notice.
        is_traced = torch.compiler.is_compiling() or any(
            isinstance(arg, Tensor) and type(arg) not in (Tensor, Parameter)
            for arg in args
        )
        if is_traced:
            return operator(*args)
        return direct(*args) if _is_differentiated(args) else kernel(*args)

    return call


def _is_differentiated(args: tuple) -> bool:
    # Tangents of forward mode have no mark on the tensor, but a level that is entered.
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any(
        isinstance(arg, Tensor) and arg.requires_grad for arg in args
    )


_quantile = _operator(
    "segment_quantile",
    _quantile_kernel,
    _fake_quantile,
    _remember_quantile,
    _quantile_backward,
)
_apply = _operator(
    "segment_quantile_apply",
    _apply_kernel,
    _fake_apply,
    _remember_linear,
    _apply_backward,
)
_adjoint = _operator(
    "segment_quantile_adjoint",
    _adjoint_kernel,
    _fake_adjoint,
    _remember_linear,
    _adjoint_backward,
)
_weighted = _operator(
    "weighted_segment_quantile",
    _weighted_kernel,
    _fake_weighted,
    _remember_weighted,
    _weighted_backward,
)
_weighted_adjoint = _operator(
    "weighted_segment_quantile_adjoint",
    _weighted_adjoint_kernel,
    _fake_weighted_adjoint,
)
