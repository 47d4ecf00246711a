"""What all aggregations that sort share: their input, checked and brought together."""

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils import index_sort

from gswe_pyg._checks import tensor
from gswe_pyg.ops.memory import empty
from gswe_pyg.ops.operators import is_plain, is_transformed


class SegmentAggregation(Aggregation):
    """An aggregation over the rows between boundaries, with errors that name the
    argument and the fix."""

    in_channels: int | None = None

    @property
    def num_channels(self) -> int | None:
        """The width of the output, where it does not depend on the input."""
        return None

    def __call__(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        **kwargs: Any,
    ) -> Tensor:
        _check_types(x, index, ptr, kwargs)
        if self.num_channels != self.in_channels and not torch.compiler.is_compiling():
            self._check_layer(sys._getframe(1).f_locals.get("self"))
        if index is None and ptr is None and -x.dim() <= dim < x.dim():  # one set
            ptr = torch.arange(2, device=x.device) * x.shape[dim]
        # Not PyG's own call, which looks for the largest index once more.
        return torch.nn.Module.__call__(
            self, x, index=index, ptr=ptr, dim_size=dim_size, dim=dim, **kwargs
        )

    def _check_layer(self, layer: Any) -> None:
        """Raises an error for a layer whose next weights expect another width, which
        would fail in a matrix product."""
        if not isinstance(layer, MessagePassing):
            return
        for name in ("lin_l", "lin_rel"):
            expected = getattr(getattr(layer, name, None), "in_channels", None)
            is_alone = getattr(layer, "aggr_module", None) is self
            if is_alone and expected not in (None, -1, self.num_channels):
                raise ValueError(
                    f"'{type(layer).__name__}' expects {expected} channels of its "
                    f"aggregation (got {self.num_channels} from {self}): set "
                    f"'out_channels={expected}', or 'heads=1' to keep the width"
                )


def _check_types(x: Any, index: Any, ptr: Any, kwargs: dict[str, Any]) -> None:
    if not isinstance(x, Tensor):
        fix = ""
        if hasattr(x, "edge_index") or hasattr(x, "num_nodes"):
            fix = "pass 'data.x' and 'data.batch'"
        elif isinstance(x, list | tuple):
            fix = (
                "concatenate sets by 'torch.cat(x)', and say by 'index' which set each "
                "element belongs to"
            )
        tensor("x", x, fix)
    if isinstance(ptr, int):
        tensor("ptr", ptr, f"for the number of graphs, write 'dim_size={ptr}'")
    weight = kwargs.get("weight")
    for argument, value in (("index", index), ("ptr", ptr), ("weight", weight)):
        if value is not None:
            tensor(argument, value)
    if "size" in kwargs:
        raise TypeError(
            f"There is no argument 'size' (got {kwargs['size']}): for the number of "
            f"graphs, write 'dim_size={kwargs['size']}'"
        )


def elements_first(x: Tensor, dim: int, in_channels: int | None = None) -> Tensor:
    """Moves the dimension of the elements to the front."""
    if x.dim() < 2 or (in_channels is not None and x.shape[-1] != in_channels):
        width = "num_channels" if in_channels is None else in_channels
        since = "" if in_channels is None else f", since 'in_channels' is {in_channels}"
        raise ValueError(
            f"'x' must be of shape [*, num_elements, {width}]{since} (got "
            f"{list(x.shape)})"
        )
    if not x.is_floating_point():
        raise ValueError(
            f"'x' must be a floating point tensor (got {x.dtype}): convert it by "
            f"'x.float()'"
        )
    if not -x.dim() <= dim < x.dim() or dim % x.dim() == x.dim() - 1:
        raise ValueError(
            f"'dim' must be a dimension of 'x' other than that of the features (got "
            f"{dim} for 'x' of shape {list(x.shape)})"
        )
    return x if dim % x.dim() == 0 else x.movedim(dim, 0)


def has_values(x: Tensor) -> bool:
    """Whether they can be looked at: not while compiling, nor on the meta device."""
    return not (torch.compiler.is_compiling() or x.is_meta or isinstance(x, FakeTensor))


def is_on_host(x: Tensor) -> bool:
    """Whether it costs nothing to look at values: on a device, the host waits."""
    return x.device.type == "cpu"


def sort_by_set(
    x: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    weight: Tensor | None,
    max_num_elements: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, int | None]:
    """Brings the elements of each set together; returns them with their boundaries, and
    with a bound for the size of the sets if one is known.

    With a bound and the number of sets, nothing is read from a device, nor checked.
    """
    num_elements = x.shape[0]
    if weight is not None and weight.shape != (num_elements,):
        raise ValueError(
            f"'weight' must have one entry for each of the {num_elements} elements "
            f"(got shape {list(weight.shape)})"
        )
    if ptr is not None:
        if dim_size is not None and dim_size != ptr.numel() - 1:
            raise ValueError(
                f"'dim_size' must be the number of sets in 'ptr' (got {dim_size} and "
                f"{ptr.numel() - 1}): leave it out"
            )
        return x, ptr, weight, max_num_elements
    if index is None:
        raise ValueError("One of 'index' and 'ptr' must be given")
    if index.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"'index' must be an integer tensor (got {index.dtype}): convert it by "
            f"'index.long()'"
        )
    if index.shape != (num_elements,):
        raise ValueError(
            f"'index' must have one entry for each of the {num_elements} elements (got "
            f"shape {list(index.shape)})"
        )
    is_known, is_sorted = has_values(index), False
    is_trusted = dim_size is not None and max_num_elements is not None
    is_trusted = is_trusted and not is_on_host(index)
    if is_known and num_elements > 0 and not is_trusted:
        is_sorted, smallest, largest, longest = _look_at(index)
        # A bound spares the operator its own read; weights want it for their checks.
        if max_num_elements is None and weight is None:
            max_num_elements = longest
        dim_size = largest + 1 if dim_size is None else dim_size
        if smallest < 0:
            raise ValueError(f"'index' must not be negative (got {smallest})")
        if largest >= dim_size:
            raise ValueError(
                f"'dim_size' must exceed the largest 'index' (got {dim_size} and "
                f"{largest}): pass at least {largest + 1}"
            )
    if is_known and dim_size is not None and dim_size < 0:
        raise ValueError(
            f"'dim_size' must not be negative (got {dim_size}): pass the number of sets"
        )
    if dim_size is None and index.is_meta:
        raise ValueError("'dim_size' must be given for tensors without values")
    if index.dtype != torch.int64:
        index = index.long()
    if not is_sorted:  # or not known to be
        index, order = index_sort(index, max_value=dim_size, stable=True)
        x = _permute(x, order)
        weight = None if weight is None else weight.index_select(0, order)
    if dim_size is None:
        dim_size = int(index[-1]) + 1 if num_elements > 0 else 0
    if not is_known:
        torch._check(dim_size >= 0)  # may come from the values of 'index'
    return x, _boundaries(index, dim_size), weight, max_num_elements


def _boundaries(index: Tensor, num_sets: int) -> Tensor:
    """Where each set begins in a sorted index, and where the last one ends."""
    is_looked_at = has_values(index) and is_plain(index) and is_on_host(index)
    if is_looked_at and not is_transformed():
        # To count takes a tenth of the time of a search where there are many sets.
        ptr = np.zeros(num_sets + 1, np.int64)
        np.bincount(index.numpy(), minlength=num_sets).cumsum(out=ptr[1:])
        return torch.from_numpy(ptr)
    sets = torch.arange(num_sets + 1, device=index.device)
    return torch.searchsorted(index, sets)


def _permute(x: Tensor, order: Tensor) -> Tensor:
    """The rows of ``x`` in another order."""
    if torch.compiler.is_compiling() or is_transformed() or not is_plain(x):
        return x.index_select(0, order)
    if x.requires_grad and torch.is_grad_enabled():
        return _Permuted.apply(x, order)
    out = empty(x.shape, x.dtype) if is_on_host(x) else None
    return torch.index_select(x.detach(), 0, order, out=out)


class _Permuted(torch.autograd.Function):
    # PyTorch adds gradients up, as rows might repeat: to bring them back is faster.
    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return _permute(x, order)

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        place = torch.arange(order.numel(), device=order.device)
        return _permute(grad, place.scatter(0, order, place)), None


def _look_at(index: Tensor) -> tuple[bool, int, int, int | None]:
    """Whether the index is sorted, its smallest and its largest value; on a device,
    these are read at once, with the size of the largest set if it is sorted."""
    is_wrapped = torch._C._are_functorch_transforms_active()  # for torch.func
    if is_on_host(index) and not is_wrapped:
        values = index.numpy()
        is_sorted = not (values[1:] < values[:-1]).any()
        if is_sorted:
            return True, int(values[0]), int(values[-1]), None
        return False, int(values.min()), int(values.max()), None
    falls = (index[1:] < index[:-1]).any()
    place = torch.arange(index.numel(), device=index.device)
    longest = (place - torch.searchsorted(index, index)).max() + 1
    found = torch.stack([falls, *index.aminmax(), longest]).tolist()
    is_unsorted, smallest, largest, size = map(int, found)
    return not is_unsorted, smallest, largest, None if is_unsorted else size
