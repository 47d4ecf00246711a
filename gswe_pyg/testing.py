"""Properties that every readout should have, as assertions on any aggregation.

:meth:`assert_readout` asserts all of them. Those for one property take a
:class:`Case`: the aggregation, or a function that builds one, and the batch to draw.
They work on a copy of the module in evaluation mode, leave the global random state
alone, and raise an :class:`AssertionError` that says what was violated.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module
from torch_geometric.nn.inits import reset

#: A module, or a function without arguments that builds one.
Buildable = Module | Callable[[], Module]

# Empty sets first, last and between, one element, equal sizes, one large set.
SIZES = (0, 3, 1, 7, 0, 0, 7, 19, 2, 0)


@dataclass(frozen=True)
class Case:
    r"""A readout, the batch to try it on, and how close is close enough.

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
        >>> case = Case(MeanAggregation(), in_channels=4, dtype=torch.float64)
        >>> assert_permutation_invariant(case)
    """

    aggr: Buildable
    in_channels: int
    sizes: Sequence[int] = SIZES
    weighted: bool = False
    dtype: torch.dtype = torch.float32
    rtol: float | None = None
    atol: float | None = None
    seed: int = 0

    def build(self) -> Module:
        """A module to try, which is not the caller's."""
        if isinstance(self.aggr, Module):
            return copy.deepcopy(self.aggr).to(self.dtype).eval()
        return self.aggr().to(self.dtype).eval()

    def draw(self) -> "_Batch":
        """The batch, the same one in each call."""
        generator = torch.Generator().manual_seed(self.seed)
        options: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
        index = torch.arange(len(self.sizes))
        index = index.repeat_interleave(torch.tensor(self.sizes))
        x = torch.randn(len(index), self.in_channels, **options).to(self.dtype)
        weight = None
        if self.weighted:
            weight = (torch.rand(len(index), **options) + 0.1).to(self.dtype)
        return _Batch(x, index, len(self.sizes), weight)

    def shuffled(self, size: int) -> Tensor:
        """Numbers in a random order."""
        return torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))

    def compare(
        self, module: Module, actual: Tensor, expected: Tensor, claim: str
    ) -> None:
        # NaN is reported by `assert_handles_empty`, not as a difference to itself.
        torch.testing.assert_close(
            actual,
            expected,
            rtol=self.rtol,
            atol=self.atol,
            equal_nan=True,
            msg=lambda detail: f"{_name(module)} should {claim}. {detail}",
        )


@dataclass(frozen=True)
class _Batch:
    x: Tensor
    index: Tensor
    num_sets: int
    weight: Tensor | None

    def call(self, module: Module, case: str = "a batch", **changes: Any) -> Tensor:
        """The output of the module, with some of its arguments replaced."""
        options = self.options() | changes
        x = options.pop("x", self.x)
        try:
            out = module(x, **options)
        except Exception as error:
            raise AssertionError(
                f"{_name(module)} raised {type(error).__name__} for {case}: {error}"
            ) from error
        if out.shape[:1] != (self.num_sets,):
            raise AssertionError(
                f"{_name(module)} should return one row for each of {self.num_sets} "
                f"sets for {case} (got shape {list(out.shape)})"
            )
        return out

    def options(self) -> dict[str, Any]:
        options = {"index": self.index, "dim_size": self.num_sets}
        return options if self.weight is None else options | {"weight": self.weight}

    def select(self, rows: Tensor) -> "_Batch":
        """Some elements, in the given order."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, x=self.x[rows], index=self.index[rows], weight=weight)


def assert_permutation_invariant(case: Case) -> None:
    r"""Asserts that the order of the elements inside of a set does not matter.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_permutation_invariant(Case(MeanAggregation(), in_channels=4))
    """
    module, batch = case.build(), case.draw()
    order = case.shuffled(len(batch.x))
    order = order[batch.index[order].argsort(stable=True)]
    # Rounded, many elements are equal, or equal in some features.
    for x in (batch.x, batch.x.round()):
        batch = replace(batch, x=x)
        case.compare(
            module,
            batch.select(order).call(module),
            batch.call(module),
            "not depend on the order of the elements in a set",
        )


def assert_unsorted_index(case: Case) -> None:
    r"""Asserts that the elements of different sets may be mixed in the batch.

    Some aggregations of PyG ask for a sorted :obj:`index`; those fail here.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_unsorted_index(Case(MeanAggregation(), in_channels=4))
    """
    module, batch = case.build(), case.draw()
    mixed = batch.select(case.shuffled(len(batch.x)))
    case.compare(
        module,
        mixed.call(module, "an unsorted index"),
        batch.call(module),
        "not depend on whether 'index' is sorted",
    )


def assert_batch_independent(case: Case) -> None:
    r"""Asserts that no set's output depends on the other sets in the batch: each is
    the same alone, and beside sets that hold huge values, infinities or NaN.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_batch_independent(Case(MeanAggregation(), in_channels=4))
    """
    module, batch = case.build(), case.draw()
    expected = batch.call(module)
    for i in batch.index.unique().tolist():
        alone = batch.select((batch.index == i).nonzero()[:, 0])
        alone = replace(alone, index=torch.zeros_like(alone.index), num_sets=1)
        out = alone.call(module, "a single set")[0]
        case.compare(module, out, expected[i], f"embed set {i} alone as in a batch")
    for value in (1e30, torch.inf, -torch.inf, torch.nan):
        spoiled = (batch.index % 2 == 1)[:, None]
        out = batch.call(module, x=batch.x.masked_fill(spoiled, value))
        claim = f"keep {value} inside of the sets that hold it"
        case.compare(module, out[::2], expected[::2], claim)


def assert_graph_order_equivariant(case: Case) -> None:
    r"""Asserts that reordering the sets of a batch reorders the rows of the output.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_graph_order_equivariant(Case(MeanAggregation(), in_channels=4))
    """
    module, batch = case.build(), case.draw()
    new_place = case.shuffled(batch.num_sets)
    moved = replace(batch, index=new_place[batch.index])
    moved = moved.select(moved.index.argsort(stable=True))
    case.compare(
        module,
        moved.call(module)[new_place],
        batch.call(module),
        "reorder its rows as the sets are reordered",
    )


def assert_ptr_matches_index(case: Case) -> None:
    r"""Asserts that boundaries :obj:`ptr` give the same output as :obj:`index`.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_ptr_matches_index(Case(MeanAggregation(), in_channels=4))
    """
    module, batch = case.build(), case.draw()
    ptr = torch.tensor([0, *case.sizes]).cumsum(0)
    case.compare(
        module,
        batch.call(module, "'ptr' alone", index=None, ptr=ptr),
        batch.call(module),
        "give the same output for 'ptr' and 'index'",
    )


def assert_handles_empty(case: Case) -> None:
    r"""Asserts that empty sets may stand anywhere in a batch, which may even have no
    elements at all: there is a row for each set, all are finite, all empty sets get the
    same row, and gradients are finite.

    Args:
        case (Case): The readout; batches of other sizes are drawn.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_handles_empty(Case(MeanAggregation(), in_channels=4))
    """
    module = case.build()
    rows_of_empty: list[Tensor] = []
    for what, sizes in {
        "one element": (1,),
        "a gap between sets": (2, 0, 3),
        "an empty set first": (0, 2),
        "empty sets last": (2, 0, 0),
        "empty sets only": (0, 0, 0),
    }.items():
        batch = replace(case, sizes=sizes).draw()
        batch.x.requires_grad_()
        out = batch.call(module, what)
        if not bool(out.isfinite().all()):
            raise AssertionError(f"{_name(module)} should be finite for {what}")
        if out.requires_grad:
            inputs = [batch.x, *module.parameters()]
            grads = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
            if not all(bool(g.isfinite().all()) for g in grads if g is not None):
                raise AssertionError(
                    f"{_name(module)} should have finite gradients for {what}"
                )
        rows_of_empty += out.detach()[torch.tensor(sizes) == 0]
        for row in rows_of_empty:
            claim = f"embed all empty sets alike, for {what}"
            case.compare(module, row, rows_of_empty[0], claim)


def assert_gradcheck(case: Case) -> None:
    r"""Asserts in double precision that the gradients for the elements, their masses
    and all parameters agree with finite differences.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_gradcheck(Case(MeanAggregation(), in_channels=4))
    """
    case = replace(case, dtype=torch.float64)
    batch = case.draw()
    weights = {} if batch.weight is None else {"weight": batch.weight}
    _gradcheck(case.build(), batch.x, batch.options(), weights)


def assert_state_dict_roundtrip(case: Case) -> None:
    r"""Asserts that a module computes the same after its :meth:`state_dict` was loaded
    into another one, and after :meth:`copy.deepcopy`.

    The other module is built anew if a function is given, and a copy with its
    parameters reset otherwise.

    Args:
        case (Case): The readout and the batch.

    Example:
        >>> from torch_geometric.nn.aggr import MeanAggregation
        >>> assert_state_dict_roundtrip(Case(MeanAggregation(), in_channels=4))
    """
    case = replace(case, rtol=0, atol=0)
    module, other, batch = case.build(), case.build(), case.draw()
    if isinstance(case.aggr, Module):
        _forget_parameters(other)
    other.load_state_dict(module.state_dict())
    for way, same in {
        "loading its state dict": other,
        "copying it": copy.deepcopy(module),
    }.items():
        claim = f"compute the same after {way}"
        case.compare(module, batch.call(same), batch.call(module), claim)


def assert_readout(aggr: Buildable, in_channels: int, **options: Any) -> None:
    r"""Asserts all properties of a readout in this module.

    Args:
        aggr (torch.nn.Module or Callable): The aggregation, or a function that builds
            one.
        in_channels (int): The number of features of an element.
        **options (optional): Other arguments of :class:`Case`.

    Example:
        >>> from gswe_pyg import GSWEAggregation
        >>> readout = GSWEAggregation(4, num_slices=8, num_points=5)
        >>> assert_readout(readout, in_channels=4)
    """
    case = Case(aggr, in_channels, **options)
    assert_permutation_invariant(case)
    assert_unsorted_index(case)
    assert_batch_independent(case)
    assert_graph_order_equivariant(case)
    assert_ptr_matches_index(case)
    assert_handles_empty(case)
    assert_state_dict_roundtrip(case)
    assert_gradcheck(replace(case, sizes=(3, 0, 1, 4)))


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
    case = Case(slicer, in_channels, sizes=(7,), dtype=dtype, seed=seed)
    module, x = case.build(), case.draw().x
    for rows in (x, x[:0]):
        shape = module(rows).shape
        if shape != (len(rows), num_slices):
            raise AssertionError(
                f"{_name(module)} should map [{len(rows)}, {in_channels}] to "
                f"[{len(rows)}, {num_slices}] (got {list(shape)})"
            )
    one_by_one = torch.cat([module(row) for row in x.split(1)])
    claim = "slice each element without looking at the others"
    case.compare(module, one_by_one, module(x), claim)
    case = replace(case, dtype=torch.float64)
    _gradcheck(case.build(), case.draw().x)


def _gradcheck(
    module: Module,
    x: Tensor,
    options: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Tensor] | None = None,
) -> None:
    """Gradients for the elements, those of the options that are inputs, and all
    parameters."""
    inputs, parameters = inputs or {}, dict(module.named_parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(inputs, values, strict=False))
        learned = dict(zip(parameters, values[len(inputs) :], strict=True))
        return functional_call(module, learned, (x,), {**(options or {}), **given})

    values = [x, *inputs.values(), *parameters.values()]
    values = [value.detach().clone().requires_grad_() for value in values]
    try:
        # A random projection of the Jacobian: as strict, and fast for any module.
        torch.autograd.gradcheck(function, values, fast_mode=True)
    except RuntimeError as error:
        raise AssertionError(
            f"{_name(module)} should have right gradients: {error}"
        ) from error


def _forget_parameters(module: Module) -> None:
    reset(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)


def _name(module: Module) -> str:
    return type(module).__name__
