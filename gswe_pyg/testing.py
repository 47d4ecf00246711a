"""Properties that every readout should have, as assertions on any aggregation.

Each function takes an aggregation, or a function that builds one, and the number of
features of its elements. It draws a ragged batch, works on a copy of the module in
evaluation mode, leaves the global random state alone, and raises an
:class:`AssertionError` that says what was violated.

.. code-block:: python

    >>> from torch_geometric.nn.aggr import SoftmaxAggregation
    >>> from gswe_pyg.testing import assert_readout
    >>> assert_readout(lambda: SoftmaxAggregation(learn=True), in_channels=4)

For a slicer of your own, :meth:`assert_slicer` does the same:

.. code-block:: python

    >>> import torch
    >>> from gswe_pyg import GSWEAggregation
    >>> from gswe_pyg.testing import assert_readout, assert_slicer
    >>> class RadialSlicer(torch.nn.Module):
    ...     def __init__(self, in_channels, num_slices):
    ...         super().__init__()
    ...         self.center = torch.nn.Parameter(torch.randn(num_slices, in_channels))
    ...     def forward(self, x):
    ...         return torch.cdist(x, self.center)
    >>> assert_slicer(RadialSlicer(4, 8), in_channels=4, num_slices=8)
    >>> assert_readout(GSWEAggregation(4, 8, 5, slicer=RadialSlicer(4, 8)), 4)
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module

#: A module, or a function without arguments that builds one.
Buildable = Module | Callable[[], Module]

# Empty sets first, last and between, one element, equal sizes, one large set.
SIZES = (0, 3, 1, 7, 0, 0, 7, 19, 2, 0)


class _Batch(NamedTuple):
    x: Tensor
    index: Tensor
    num_sets: int
    weight: Tensor | None

    def call(self, module: Module, case: str = "a batch", **changes: Any) -> Tensor:
        """The output of the module, with some of its arguments replaced."""
        options: dict[str, Any] = {"index": self.index, "dim_size": self.num_sets}
        if self.weight is not None:
            options["weight"] = self.weight
        options.update(changes)
        x = options.pop("x", self.x)
        try:
            out = module(x, **options)
        except Exception as error:
            raise AssertionError(
                f"{_name(module)} raised {type(error).__name__} for {case}: {error}"
            ) from error
        num_sets = options.get("dim_size")
        if num_sets is not None and out.shape[:1] != (num_sets,):
            raise AssertionError(
                f"{_name(module)} should return one row for each of {num_sets} sets "
                f"for {case} (got shape {list(out.shape)})"
            )
        return out

    def data(self) -> list[Tensor]:
        """What gradients flow to."""
        return [self.x] if self.weight is None else [self.x, self.weight]

    def select(self, rows: Tensor) -> "_Batch":
        """Some elements, in the given order."""
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(x=self.x[rows], index=self.index[rows], weight=weight)


def assert_permutation_invariant(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts that the order of the elements inside of a set does not matter.

    All assertions on readouts share these arguments.

    Args:
        aggr (torch.nn.Module or Callable): The aggregation, or a function that builds
            one.
        in_channels (int): The number of features of an element.
        sizes (Sequence[int], optional): The sizes of the sets in the batch.
            (default: ten sets of 0 to 19 elements)
        weighted (bool, optional): If set to :obj:`True`, passes random masses as
            :obj:`weight`. (default: :obj:`False`)
        dtype (torch.dtype, optional): The precision to work in.
            (default: :obj:`torch.float32`)
        rtol (float, optional): The relative tolerance, by default that of
            :meth:`torch.testing.assert_close`. (default: :obj:`None`)
        atol (float, optional): The absolute tolerance, likewise.
            (default: :obj:`None`)
        seed (int, optional): Draws another batch. (default: :obj:`0`)

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_permutation_invariant(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    order = torch.randperm(len(batch.x), generator=_generator(seed))
    order = order[batch.index[order].argsort(stable=True)]
    # Rounded, many elements are equal, or equal in some features.
    for x in (batch.x, batch.x.round()):
        batch = batch._replace(x=x)
        _assert_close(
            batch.select(order).call(module),
            batch.call(module),
            f"{_name(module)} should not depend on the order of the elements in a set",
            rtol=rtol,
            atol=atol,
        )


def assert_unsorted_index(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts that the elements of different sets may be mixed in the batch.

    Some aggregations of PyG ask for a sorted :obj:`index`; those fail here.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_unsorted_index(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    mixed = batch.select(torch.randperm(len(batch.x), generator=_generator(seed)))
    _assert_close(
        mixed.call(module, "an unsorted index"),
        batch.call(module),
        f"{_name(module)} should not depend on whether 'index' is sorted",
        rtol=rtol,
        atol=atol,
    )


def assert_batch_independent(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts that no set's output depends on the other sets in the batch: each is
    the same alone, and beside sets that hold huge values, infinities or NaN.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_batch_independent(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    expected = batch.call(module)
    for i, size in enumerate(sizes):
        if size == 0:
            continue
        alone = batch.select((batch.index == i).nonzero()[:, 0])
        alone = alone._replace(index=torch.zeros_like(alone.index), num_sets=1)
        _assert_close(
            alone.call(module, "a single set")[0],
            expected[i],
            f"{_name(module)} should embed set {i} alone as it does in a batch",
            rtol=rtol,
            atol=atol,
        )
    for value in (1e30, torch.inf, -torch.inf, torch.nan):
        spoiled = (batch.index % 2 == 1)[:, None]
        out = batch.call(module, x=batch.x.masked_fill(spoiled, value))
        _assert_close(
            out[::2],
            expected[::2],
            f"{_name(module)} should keep {value} inside of the sets that hold it",
            rtol=rtol,
            atol=atol,
        )


def assert_graph_order_equivariant(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts that reordering the sets of a batch reorders the rows of the output.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_graph_order_equivariant(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    new_place = torch.randperm(len(sizes), generator=_generator(seed))
    moved = batch._replace(index=new_place[batch.index])
    moved = moved.select(moved.index.argsort(stable=True))
    _assert_close(
        moved.call(module)[new_place],
        batch.call(module),
        f"{_name(module)} should reorder its rows as the sets are reordered",
        rtol=rtol,
        atol=atol,
    )


def assert_ptr_matches_index(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts that boundaries :obj:`ptr` give the same output as :obj:`index`.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_ptr_matches_index(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    _assert_close(
        batch.call(module, "'ptr' alone", index=None, ptr=ptr),
        batch.call(module),
        f"{_name(module)} should give the same output for 'ptr' and 'index'",
        rtol=rtol,
        atol=atol,
    )


def assert_handles_empty(
    aggr: Buildable,
    in_channels: int,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> None:
    r"""Asserts that empty sets may stand anywhere in a batch, which may even have no
    elements at all: there is a row for each set, all are finite, all empty sets get the
    same row, and gradients are finite.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_handles_empty(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    row_of_empty = None
    for case, sizes in {
        "one element": (1,),
        "a gap between sets": (2, 0, 3),
        "an empty set first": (0, 2),
        "empty sets last": (2, 0, 0),
        "empty sets only": (0, 0, 0),
    }.items():
        batch = _batch(in_channels, sizes, weighted, dtype, seed)
        batch.x.requires_grad_()
        out = batch.call(module, case)
        if not bool(out.isfinite().all()):
            raise AssertionError(f"{_name(module)} should be finite for {case}")
        inputs = [batch.x, *module.parameters()]
        if out.requires_grad:
            grads = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
            if not all(bool(g.isfinite().all()) for g in grads if g is not None):
                raise AssertionError(
                    f"{_name(module)} should have finite gradients for {case}"
                )
        for size, row in zip(sizes, out.detach(), strict=True):
            if size == 0:
                row_of_empty = row if row_of_empty is None else row_of_empty
                _assert_close(
                    row,
                    row_of_empty,
                    f"{_name(module)} should embed all empty sets alike, for {case}",
                )


def assert_gradcheck(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = (3, 0, 1, 4),
    weighted: bool = False,
    seed: int = 0,
) -> None:
    r"""Asserts in double precision that the gradients for the elements, their masses
    and all parameters agree with finite differences.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_gradcheck(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, torch.float64)
    batch = _batch(in_channels, sizes, weighted, torch.float64, seed)
    parameters = dict(module.named_parameters())
    num_inputs = len(batch.data())

    def function(*inputs: Tensor) -> Tensor:
        options = {"index": batch.index, "dim_size": batch.num_sets}
        if batch.weight is not None:
            options["weight"] = inputs[1]
        values = dict(zip(parameters, inputs[num_inputs:], strict=True))
        return functional_call(module, values, (inputs[0],), options)

    _gradcheck(function, [*batch.data(), *parameters.values()], _name(module))


def assert_state_dict_roundtrip(
    aggr: Buildable,
    in_channels: int,
    sizes: Sequence[int] = SIZES,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> None:
    r"""Asserts that a module computes the same after its :meth:`state_dict` was loaded
    into another one, and after :meth:`copy.deepcopy`.

    The other module is built anew if a function is given, and a copy with its
    parameters reset otherwise.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_state_dict_roundtrip(MeanAggregation(), in_channels=4)
    """
    module = _build(aggr, dtype)
    batch = _batch(in_channels, sizes, weighted, dtype, seed)
    other = _build(aggr, dtype)
    if isinstance(aggr, Module):
        _forget_parameters(other)
    other.load_state_dict(module.state_dict())

    for way, same in {
        "loading its state dict": other,
        "copying it": copy.deepcopy(module),
    }.items():
        _assert_close(
            batch.call(same),
            batch.call(module),
            f"{_name(module)} should compute the same after {way}",
            rtol=0,
            atol=0,
        )


def assert_readout(
    aggr: Buildable,
    in_channels: int,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    r"""Asserts all properties of a readout in this module.

    Args:
        aggr (torch.nn.Module or Callable): See :meth:`assert_permutation_invariant`,
            also for all other arguments.

    Example:
        >>> from gswe_pyg import GSWEAggregation
        >>> readout = GSWEAggregation(4, num_slices=8, num_points=5)
        >>> assert_readout(readout, in_channels=4)
    """
    options = {"weighted": weighted, "seed": seed}
    for assert_close in (
        assert_permutation_invariant,
        assert_unsorted_index,
        assert_batch_independent,
        assert_graph_order_equivariant,
        assert_ptr_matches_index,
    ):
        assert_close(aggr, in_channels, dtype=dtype, rtol=rtol, atol=atol, **options)
    assert_handles_empty(aggr, in_channels, dtype=dtype, **options)
    assert_state_dict_roundtrip(aggr, in_channels, dtype=dtype, **options)
    assert_gradcheck(aggr, in_channels, **options)


def assert_slicer(
    slicer: Buildable,
    in_channels: int,
    num_slices: int,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> None:
    r"""Asserts that a slicer maps each element by itself to so many slices, also if
    there are no elements, and that its gradients are right.

    Args:
        slicer (torch.nn.Module or Callable): The slicer, or a function that builds one.
        in_channels (int): The number of features of an element.
        num_slices (int): The number of slices.
        dtype (torch.dtype, optional): The precision to work in.
            (default: :obj:`torch.float32`)
        seed (int, optional): Draws other elements. (default: :obj:`0`)

    Example:
        >>> from gswe_pyg.slicers import LinearSlicer
        >>> assert_slicer(LinearSlicer(4, 8), in_channels=4, num_slices=8)
    """
    module = _build(slicer, dtype)
    x = _batch(in_channels, (7,), False, dtype, seed).x
    for rows in (x, x[:0]):
        shape = module(rows).shape
        if shape != (len(rows), num_slices):
            raise AssertionError(
                f"{_name(module)} should map [{len(rows)}, {in_channels}] to "
                f"[{len(rows)}, {num_slices}] (got {list(shape)})"
            )
    _assert_close(
        torch.cat([module(row) for row in x.split(1)]),
        module(x),
        f"{_name(module)} should slice each element without looking at the others",
    )
    module = _build(slicer, torch.float64)
    parameters = dict(module.named_parameters())

    def function(x: Tensor, *inputs: Tensor) -> Tensor:
        values = dict(zip(parameters, inputs, strict=True))
        return functional_call(module, values, (x,))

    _gradcheck(function, [x.double(), *parameters.values()], _name(module))


def _build(module: Buildable, dtype: torch.dtype) -> Module:
    module = copy.deepcopy(module) if isinstance(module, Module) else module()
    return module.to(dtype).eval()


def _batch(
    in_channels: int,
    sizes: Sequence[int],
    weighted: bool,
    dtype: torch.dtype,
    seed: int,
) -> _Batch:
    generator = _generator(seed)
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(len(index), in_channels, generator=generator, dtype=torch.float64)
    weight = None
    if weighted:
        weight = torch.rand(len(index), generator=generator, dtype=torch.float64) + 0.1
        weight = weight.to(dtype)
    return _Batch(x.to(dtype), index, len(sizes), weight)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _forget_parameters(module: Module) -> None:
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)


def _gradcheck(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], name: str
) -> None:
    inputs = [value.detach().clone().requires_grad_() for value in inputs]
    try:
        # A random projection of the Jacobian: as strict, and fast for any module.
        torch.autograd.gradcheck(function, inputs, fast_mode=True)
    except RuntimeError as error:
        raise AssertionError(f"{name} should have right gradients: {error}") from error


def _assert_close(actual: Tensor, expected: Tensor, claim: str, **options: Any) -> None:
    # NaN is reported by `assert_handles_empty`, not as a difference to itself.
    torch.testing.assert_close(
        actual,
        expected,
        **options,
        equal_nan=True,
        msg=lambda detail: f"{claim}. {detail}",
    )


def _name(module: Module) -> str:
    return type(module).__name__
