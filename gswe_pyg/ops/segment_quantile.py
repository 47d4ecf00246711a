import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from gswe_pyg._checks import positive_int
from gswe_pyg.ops import heads, operators
from gswe_pyg.ops.checks import check_weight, read_masses
from gswe_pyg.ops.interpolation import INTERPOLATIONS, LEVEL_INTERPOLATIONS

__all__ = [
    "BACKENDS",
    "backend",
    "check_weight",
    "segment_heads",
    "segment_quantile",
    "segment_quantile_at",
]

BACKENDS = ("numba", "torch", "triton")

# What the compiled backends take: numba on the CPU, Triton on a GPU.
_COMPILED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

try:
    import numba  # PyG has done so already, where it is installed
except ImportError:  # or one that does not fit this numpy
    numba = None  # type: ignore

# What it would not compile is slower by orders of magnitude.
_HAS_NUMBA = numba is not None and not numba.config.DISABLE_JIT  # type: ignore

# Up to so many times their elements, sets with masses are padded to one size on a GPU.
_MAX_PADDING = 4

# Comes with PyTorch where there are GPUs. Imported where it is used: it is large.
_HAS_TRITON = find_spec("triton") is not None

# A plain global, because compilers can look at it.
_forced: str | None = os.environ.get("GSWE_PYG_BACKEND") or None


@contextmanager
def backend(name: str) -> Iterator[None]:
    r"""Makes :meth:`segment_quantile` use one backend, for tests and bug reports.

    The environment variable :obj:`GSWE_PYG_BACKEND` does the same for a whole process.
    All backends give the same numbers. By default, for tensors in single or half
    precision, :obj:`"numba"` serves the CPU and :obj:`"triton"` GPUs of NVIDIA and AMD,
    and :obj:`"torch"` all others.

    Args:
        name (str): :obj:`"numba"`, :obj:`"torch"` or :obj:`"triton"`.

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
    extremes: bool = False,
    max_num_elements: int | None = None,
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

    With :obj:`weight`, element :math:`j` has the share :math:`w_j / W` of the
    distribution, with :math:`W` the total of its segment, instead of :math:`1/n`. Only
    the shares count, and a column of equal weights is none. :obj:`"step"` and
    :obj:`"barycentric"` are as above, and integer weights equal repetition.
    :obj:`"linear"` is the mean of the inverse of the distribution function over a
    window of width :math:`1/n^*` around :math:`\frac{m + 1/2}{M}`, moved inside of
    :math:`[0, 1]`, where :math:`n^* = W^2 / \sum_j w_j^2` is the effective number of
    elements (Kish); for equal weights this is the line above. Two copies of each
    element are not the same as one for :obj:`"linear"`, so that integer weights can not
    equal repetition there: weights 1 and 2 of 0 and 10 give 4, 8 and 10 at three
    points, and their repetition 0, 10 and 10. As the weight of an element goes to zero,
    it fades out of :obj:`"linear"` and :obj:`"barycentric"`, while :obj:`"step"`, which
    is one element or another, jumps where shares pass its ranks. :obj:`"pswe"` has no
    weights: beyond the outer elements it would divide by them.

    Args:
        src (torch.Tensor): The values, floating point.
        ptr (torch.Tensor): The boundaries of the segments, from zero to :math:`N`.
        num_points (int): The number of points :math:`M`.
        interpolation (str, optional): See above. (default: :obj:`"linear"`)
        weight (torch.Tensor, optional): The weight of each row, not negative. Rows of
            weight zero are left out. (default: :obj:`None`)
        extremes (bool, optional): If set to :obj:`True`, the minimum and the maximum of
            each column, over rows of positive weight, are appended as two more points.
            The gradient of either goes to one row: of equal ones to the first for the
            minimum, to the last for the maximum. (default: :obj:`False`)
        max_num_elements (int, optional): The number of rows of the largest segment, or
            more. It spares a GPU the only read that the host waits for, together with
            the check of :obj:`ptr`; segments with more rows then become NaN.
            (default: :obj:`None`)

    Shapes:
        - **input:** values :math:`(N, L)`, boundaries :math:`(B + 1)`,
          weights :math:`(N)`
        - **output:** points :math:`(B, L, M)`, or :math:`(B, L, M + 2)` with extremes

    Example:
        >>> from gswe_pyg.ops import segment_quantile
        >>> x = torch.tensor([[4.0], [0.0], [2.0], [7.0]])
        >>> segment_quantile(x, torch.tensor([0, 3, 4]), num_points=2)
        tensor([[[0.5000, 3.5000]],
        <BLANKLINE>
                [[7.0000, 7.0000]]])
    """
    grid = _check_grid(num_points, interpolation, weight, extremes)
    return _read(src, ptr, weight, *grid, [], max_num_elements)


def segment_quantile_at(
    src: Tensor,
    ptr: Tensor,
    q: float | Sequence[float],
    interpolation: str = "linear",
    weight: Tensor | None = None,
    max_num_elements: int | None = None,
) -> Tensor:
    r"""Computes the quantiles at given levels, as
    :class:`~torch_geometric.nn.aggr.QuantileAggregation` does.

    With :math:`s_0 \le \dots \le s_{n-1}` the sorted values of a column in a segment,
    the place of level :math:`q` is :math:`h = q (n - 1)`, and its value for
    :obj:`interpolation`

    * :obj:`"lower"`, :obj:`"higher"`: :math:`s_{\lfloor h \rfloor}`,
      :math:`s_{\lceil h \rceil}`;
    * :obj:`"midpoint"`: the mean of these two;
    * :obj:`"nearest"`: :math:`s_h` with :math:`h` rounded, from half to even;
    * :obj:`"linear"`: the line between the two neighbours.

    Places are exact for any number of rows: a level such as 0.29 is taken for 29/100.
    (In PyG, they are rounded to single precision, counted from the first row of the
    batch: :obj:`"nearest"` may round from half to the other neighbour.)

    With :obj:`weight`, rows count as often as their weight says: integer weights equal
    repetition. In general, :math:`h = q (W - 1)` with :math:`W` the total;
    :obj:`"lower"` and :obj:`"higher"` are the inverse of the distribution of masses at
    :math:`h` and :math:`h + 1`, :obj:`"linear"` is its mean between them, which fades
    out rows as their weight goes to zero, and :obj:`"nearest"` the value at :math:`h`
    rounded.

    Args:
        src (torch.Tensor): The values, floating point.
        ptr (torch.Tensor): The boundaries of the segments, from zero to :math:`N`.
        q (float or tuple): The levels, from zero to one.
        interpolation (str, optional): See above. (default: :obj:`"linear"`)
        weight (torch.Tensor, optional): How often each row counts, not negative.
            Probabilities are none: multiply them by the number of rows.
            (default: :obj:`None`)
        max_num_elements (int, optional): See :meth:`segment_quantile`.
            (default: :obj:`None`)

    Shapes:
        - **input:** values :math:`(N, L)`, boundaries :math:`(B + 1)`,
          weights :math:`(N)`
        - **output:** quantiles :math:`(B, L, Q)`, zero for empty segments

    Example:
        >>> from gswe_pyg.ops import segment_quantile_at
        >>> x = torch.tensor([[4.0], [0.0], [2.0], [7.0]])
        >>> segment_quantile_at(x, torch.tensor([0, 3, 4]), q=(0.5, 0.75))
        tensor([[[2., 3.]],
        <BLANKLINE>
                [[7., 7.]]])
    """
    levels = [float(q)] if isinstance(q, (int, float)) else [float(x) for x in q]
    if not levels or not all(0 <= level <= 1 for level in levels):
        raise ValueError(f"'q' must be one or more numbers from 0 to 1 (got {q})")
    if interpolation not in LEVEL_INTERPOLATIONS:
        raise ValueError(
            f"'interpolation' must be one of {list(LEVEL_INTERPOLATIONS)} (got "
            f"'{interpolation}')"
        )
    return _read(src, ptr, weight, 0, interpolation, False, levels, max_num_elements)


def segment_heads(
    src: Tensor,
    ptr: Tensor,
    head_weight: Tensor,
    num_points: int,
    interpolation: str = "barycentric",
    weight: Tensor | None = None,
    extremes: bool = False,
    max_num_elements: int | None = None,
) -> Tensor:
    r"""Combines the points of :meth:`segment_quantile` by learned weights, for each
    column other ones: :math:`y_{bhl} = \sum_r w_{hlr} Q_{blr}`.

    Args:
        src (torch.Tensor): The values, floating point.
        ptr (torch.Tensor): The boundaries of the segments, from zero to :math:`N`.
        head_weight (torch.Tensor): The weights of the points, with those of the minimum
            and maximum last.
        num_points (int): The number of points :math:`M`.
        interpolation (str, optional): See :meth:`segment_quantile`.
            (default: :obj:`"barycentric"`)
        weight (torch.Tensor, optional): See :meth:`segment_quantile`.
            (default: :obj:`None`)
        extremes (bool, optional): See :meth:`segment_quantile`.
            (default: :obj:`False`)
        max_num_elements (int, optional): See :meth:`segment_quantile`.
            (default: :obj:`None`)

    Shapes:
        - **input:** values :math:`(N, L)`, boundaries :math:`(B + 1)`, weights of the
          points :math:`(H, L, M)`, or :math:`(H, L, M + 2)` with extremes
        - **output:** :math:`(B, H, L)`
    """
    out = heads_in_rows(
        *(src, ptr, head_weight, num_points, interpolation),
        *(weight, extremes, max_num_elements),
    )
    return out.unflatten(1, head_weight.shape[:2])


def heads_in_rows(
    src: Tensor,
    ptr: Tensor,
    head_weight: Tensor,
    num_points: int,
    interpolation: str,
    weight: Tensor | None,
    extremes: bool,
    max_num_elements: int | None,
) -> Tensor:
    """:func:`segment_heads` as ``[B, H * L]``, which a readout returns: one more view,
    forward and backward, takes as long as the sort of a small graph."""
    grid = _check_grid(num_points, interpolation, weight, extremes)
    _check(src, ptr, weight)
    expected = (src.shape[-1], num_points + 2 * extremes)
    # Without heads, a kernel would write points to where there is no room for any.
    shape = head_weight.shape
    if len(shape) != 3 or shape[0] == 0 or shape[1:] != expected:
        raise ValueError(
            f"'head_weight' must be of shape [num_heads, {expected[0]}, {expected[1]}] "
            f"with one head or more (got {list(head_weight.shape)})"
        )
    # A kernel would take an address on one device for one on another.
    if not head_weight.is_floating_point() or head_weight.device != src.device:
        raise ValueError(
            f"'head_weight' must be a floating point tensor on '{src.device}', as "
            f"'src' is (got {head_weight.dtype} on '{head_weight.device}'): "
            f"convert it by 'head_weight.to(src)'"
        )
    is_fused = weight is None and head_weight.dtype in _COMPILED_DTYPES
    if is_fused and not operators.is_transformed() and _choose_backend(src) == "numba":
        with_grad = torch.is_grad_enabled()
        with_order = with_grad and src.requires_grad
        with_points = with_grad and head_weight.requires_grad
        return heads.heads(
            src, ptr.long(), head_weight, *grid, with_order, with_points
        )[0]
    points = segment_quantile(
        src, ptr, num_points, interpolation, weight, extremes, max_num_elements
    )
    return heads.combine(points, head_weight)


def _read(
    src: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    num_points: int,
    interpolation: str,
    extremes: bool,
    levels: list[float],
    max_num_elements: int | None,
) -> Tensor:
    _check(src, ptr, weight)
    ptr = ptr.long()
    name = _choose_backend(src)
    reads = (num_points, interpolation, extremes, levels)
    operator, tensors = operators.quantile, [src, ptr]
    if weight is not None:
        max_num_elements = _bound_of_weighted(
            src, ptr, weight, levels, max_num_elements, name
        )
        # Masses are sorted with their elements: no kernel of Triton does that.
        name = "torch" if name == "triton" else name
        operator, tensors = operators.weighted, [src, ptr, weight]
    elif name == "triton" and max_num_elements is None and type(ptr) is Tensor:
        # Here, and not in the operator, the backward pass need not do it again.
        max_num_elements = operators.backend_module(name).read_largest(src, ptr)
    elif name == "torch" and not ptr.is_meta:
        tensors = [src, ptr.cpu()]  # read once, for the backward pass, too
    with_order = torch.is_grad_enabled() and (
        src.requires_grad or (weight is not None and weight.requires_grad)
    )
    with_order = with_order or operators.is_transformed()
    return operator(*tensors, *reads, max_num_elements, with_order, name)[0]


def _bound_of_weighted(
    src: Tensor,
    ptr: Tensor,
    weight: Tensor,
    levels: list[float],
    max_num_elements: int | None,
    name: str,
) -> int | None:
    """What sets with masses are padded to on a device, where nothing is read from it
    but this, all at once. None where they are sorted by size instead."""
    if src.device.type in ("cpu", "meta") and name != "triton":
        return None
    if max_num_elements is None and type(ptr) is Tensor and type(weight) is Tensor:
        largest = read_masses(src, ptr, weight, bool(levels))
        is_even = largest * (len(ptr) - 1) <= _MAX_PADDING * len(src)
        return largest if is_even else None
    return max_num_elements


def _known_backend(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(
            f"The backend ('name', or GSWE_PYG_BACKEND in the environment) must be one "
            f"of {list(BACKENDS)} (got '{name}')"
        )
    if name == "numba" and not _HAS_NUMBA:
        raise ValueError(
            "The 'numba' backend needs numba, which cannot be imported or is disabled "
            "(NUMBA_DISABLE_JIT): use 'pip install numba' or the 'torch' backend"
        )
    if name == "triton" and not _HAS_TRITON:
        raise ValueError(
            "The 'triton' backend needs Triton, which cannot be imported: use "
            "'pip install triton' or the 'torch' backend"
        )
    return name


def _choose_backend(src: Tensor) -> str:
    is_compiled = src.dtype in _COMPILED_DTYPES
    on_cpu = src.device.type == "cpu" and is_compiled
    on_gpu = src.device.type == "cuda" and is_compiled  # AMD's, too
    if _forced is None:
        if on_cpu and not _HAS_NUMBA and not torch.compiler.is_compiling():
            _warn_without_numba()
        if on_gpu and _HAS_TRITON:
            return "triton"
        return "numba" if on_cpu and _HAS_NUMBA else "torch"
    if _known_backend(_forced) == "numba" and not on_cpu:
        raise ValueError(
            f"The 'numba' backend handles {list(_COMPILED_DTYPES)} on the CPU (got "
            f"{src.dtype} on '{src.device}'): convert 'src' or use the 'torch' backend"
        )
    is_interpreted = on_cpu and os.environ.get("TRITON_INTERPRET") == "1"
    if _forced == "triton" and not (on_gpu or is_interpreted):
        raise ValueError(
            f"The 'triton' backend handles {list(_COMPILED_DTYPES)} on a GPU, and on "
            f"the CPU if TRITON_INTERPRET=1 is in the environment (got {src.dtype} on "
            f"'{src.device}'): convert 'src' or use the 'torch' backend"
        )
    return _forced


@cache  # once
def _warn_without_numba() -> None:
    warnings.warn(
        "numba cannot be imported or is disabled (NUMBA_DISABLE_JIT): quantiles on the "
        "CPU take about ten times as long. Use 'pip install numba', or "
        "GSWE_PYG_BACKEND=torch to hide this warning",
        stacklevel=4,
    )


def _check_grid(
    num_points: int, interpolation: str, weight: Tensor | None, extremes: bool
) -> tuple[int, str, bool]:
    num_points = positive_int("num_points", num_points)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"'interpolation' must be one of {list(INTERPOLATIONS)} (got "
            f"'{interpolation}')"
        )
    if weight is not None and interpolation == "pswe":
        raise ValueError(
            "'weight' must be None for the 'interpolation' 'pswe', which extrapolates "
            "without bounds where a weight vanishes: use 'linear' or 'barycentric'"
        )
    return num_points, interpolation, bool(extremes)


def _check(src: Tensor, ptr: Tensor, weight: Tensor | None) -> None:
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
