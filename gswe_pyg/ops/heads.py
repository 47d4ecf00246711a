"""Heads as one operator: sums of points, of which none is written.

Only the ``numba`` backend has it. Elsewhere, and wherever derivatives of derivatives or
transforms are asked for, heads are composed of the operators for points.
"""

import torch
from torch import Tensor

from gswe_pyg.ops import operators
from gswe_pyg.ops.operators import (
    backend_module,
    is_transformed,
    make_operator,
    remember_nothing,
    save_tensors,
)
from gswe_pyg.ops.plan import Reads


def combine(points: Tensor, head_weight: Tensor) -> Tensor:
    """From points ``[B, L, R]`` to heads ``[B, H * L]``."""
    if len(head_weight) == 1:  # without the many small products that are made of it
        return (points * head_weight).sum(-1)
    dtype = torch.promote_types(points.dtype, head_weight.dtype)
    points, head_weight = points.to(dtype), head_weight.to(dtype)
    return torch.einsum("blr,hlr->bhl", points, head_weight).flatten(start_dim=1)


_OPTIONS = "SymInt num_points, str interpolation, bool extremes"


def _heads_kernel(src, ptr, head_weight, *options):
    *grid, with_order, with_points = options
    tensors = (src, ptr, head_weight)
    return backend_module("numba").heads(
        *tensors, Reads(*grid), with_order, with_points
    )


def _heads_adjoint_kernel(grad, ptr, head_weight, order, points, *grid):
    tensors = (grad, head_weight, order, points, ptr)
    return backend_module("numba").heads_adjoint(*tensors, Reads(*grid))


def _fake_heads(src, ptr, head_weight, *options):
    *_, with_order, with_points = options
    num_sets, (num_heads, num_slices, num_reads) = ptr.shape[0] - 1, head_weight.shape
    dtype = torch.promote_types(src.dtype, head_weight.dtype)
    out = src.new_empty(num_sets, num_heads * num_slices, dtype=dtype)
    order = src.new_empty(src.shape if with_order else (0,), dtype=torch.int32)
    shape = (num_sets, num_reads, num_slices) if with_points else (0,)
    return out, order, src.new_empty(shape, dtype=torch.float32)


def _fake_heads_adjoint(grad, ptr, head_weight, order, points, *options):
    num_heads, num_slices, num_reads = head_weight.shape
    grad_weight = head_weight.new_empty(0)
    if points.dim() == 3:
        grad_weight = head_weight.new_empty(num_heads, num_reads, num_slices).mT
    return grad.new_empty(order.shape), grad_weight


def _remember_heads(ctx, inputs, output):
    src, ptr, head_weight, *ctx.options, _, _ = inputs
    _, order, points = output
    ctx.dtype = src.dtype  # but not the values, which may be overwritten
    save_tensors(ctx, ptr, head_weight, order, points)
    ctx.mark_non_differentiable(order, *([points] if points.dim() == 1 else []))
    ctx.set_materialize_grads(False)  # or zeros are made for order and points


def _heads_backward(ctx, grad, _, grad_points):
    ptr, head_weight, order, points = ctx.saved_tensors
    of_src, of_weight = order.dim() == 2, points.dim() == 3
    grad_src = grad_weight = None
    if grad is None and grad_points is None:
        pass
    elif grad_points is None and not torch.is_grad_enabled() and not is_transformed():
        grad_src, grad_weight = heads_adjoint(
            grad, ptr, head_weight, order, points, *ctx.options
        )
        if grad_src.dtype != ctx.dtype:
            grad_src = grad_src.to(ctx.dtype)
    else:  # by operators that can be differentiated once more, as the points can
        if grad is not None:
            weight = head_weight.to(points.dtype)
            grad = grad.to(points.dtype).unflatten(1, weight.shape[:2])
            if of_weight:
                grad_weight = torch.einsum("bhl,brl->hlr", grad, points)
                grad_weight = grad_weight.to(head_weight.dtype)
            through_heads = torch.einsum("bhl,hlr->brl", grad, weight)
            grad_points = through_heads + (0 if grad_points is None else grad_points)
        if of_src:
            options = (*ctx.options, [], None, "numba")
            grad_src = operators.adjoint(grad_points.mT, order, ptr, *options)
            grad_src = grad_src.to(ctx.dtype)
    return (
        grad_src if of_src else None,
        None,
        grad_weight if of_weight else None,
        *(None,) * 5,
    )


def _no_derivative(*_):
    raise NotImplementedError("Heads are composed of points for this")


heads = make_operator(
    "segment_heads",
    f"(Tensor src, Tensor ptr, Tensor head_weight, {_OPTIONS}, bool with_order, "
    "bool with_points) -> (Tensor, Tensor, Tensor)",
    _heads_kernel,
    _fake_heads,
    _remember_heads,
    _heads_backward,
)
heads_adjoint = make_operator(
    "segment_heads_adjoint",
    "(Tensor grad, Tensor ptr, Tensor head_weight, Tensor order, Tensor points, "
    f"{_OPTIONS}) -> (Tensor, Tensor)",
    _heads_adjoint_kernel,
    _fake_heads_adjoint,
    remember_nothing,
    _no_derivative,
)
