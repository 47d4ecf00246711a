import doctest
import importlib

import pytest
import torch
from torch_geometric.nn.aggr import (
    Aggregation,
    LSTMAggregation,
    MeanAggregation,
    SortAggregation,
)

from gswe_pyg import GSWEAggregation, testing
from gswe_pyg.testing import (
    Case,
    assert_batch_independent,
    assert_gradcheck,
    assert_graph_order_equivariant,
    assert_handles_empty,
    assert_permutation_invariant,
    assert_ptr_matches_index,
    assert_readout,
    assert_slicer,
    assert_state_dict_roundtrip,
    assert_unsorted_index,
)


class Broken(Aggregation):
    """Mean pooling, with some mistake to be found."""

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return self.mistake(self.reduce(x, index, ptr, dim_size, dim, "mean"), x, index)

    def mistake(self, out, x, index):
        return out


class FirstElement(Broken):
    def mistake(self, out, x, index):
        is_first = index.diff(prepend=index.new_full((1,), -1)) > 0
        return out.index_add(0, index[is_first], x[is_first])


class BreaksTies(Broken):
    def mistake(self, out, x, index):
        values, order = x[:, 0].sort(stable=True)
        tied = order[1:][values.diff() == 0]
        return out.index_add(0, index[tied], tied[:, None] * torch.ones_like(x[tied]))


class SortedOnly(Broken):
    def mistake(self, out, x, index):
        changes = index.diff(prepend=index.new_full((1,), -1)) != 0
        return out.index_add(0, index, changes[:, None] * torch.ones_like(x))


class LooksAtTheBatch(Broken):
    def mistake(self, out, x, index):
        return out - out.mean(dim=0)


class LooksAtTheLargestSet(Broken):
    def mistake(self, out, x, index):
        return out / index.bincount().max()


class SpreadsNaN(Broken):
    def mistake(self, out, x, index):
        is_mine = index == torch.arange(len(out))[:, None]
        return (is_mine.to(x.dtype) @ x) / is_mine.sum(1, keepdim=True).clamp(min=1)


class KnowsItsPlace(Broken):
    def mistake(self, out, x, index):
        return out + torch.arange(len(out))[:, None]


class IgnoresPtr(Broken):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return super().forward(x, index if ptr is None else None, ptr, dim_size) + (
            ptr is not None
        )


class NeedsIndex(Broken):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        self.assert_index_present(index)
        return super().forward(x, index, None, dim_size)


class ForgetsTrailingSets(Broken):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return super().forward(x, index)


class DividesByZero(Broken):
    def mistake(self, out, x, index):
        return out / index.bincount(minlength=len(out)).clamp(max=1)[:, None]


class HasInfiniteGradients(Broken):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def mistake(self, out, x, index):
        return (self.scale * out).square().sum(-1, keepdim=True).sqrt()


class TellsEmptySetsApart(Broken):
    def mistake(self, out, x, index):
        is_empty = index.bincount(minlength=len(out))[:, None] == 0
        return out + is_empty * len(x)


class RaisesOnNoElements(Broken):
    def mistake(self, out, x, index):
        return out + 0 * x.max()


class HasWrongGradients(Broken):
    def mistake(self, out, x, index):
        return out.detach() + out - (0.5 * out).detach() * 2 + 0.01 * out.detach()


class _DoublesGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class HasWrongParameterGradients(Broken):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def mistake(self, out, x, index):
        return out * _DoublesGradients.apply(self.scale)


class KeepsStateToItself(Broken):
    def __init__(self):
        super().__init__()
        self.reset_parameters()

    def reset_parameters(self):
        self.scale = torch.rand(1)

    def mistake(self, out, x, index):
        return out * self.scale


class RemembersItsLifetime(Broken):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def __deepcopy__(self, memo):
        return type(self)()

    def mistake(self, out, x, index):
        return out * (self.scale if self.scale.grad_fn is None else 1)


class NeedsWeight(Broken):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2, weight=None):
        is_first = index.diff(prepend=index.new_full((1,), -1)) > 0
        out = super().forward(x, index, ptr, dim_size)
        return out.index_add(
            0, index[is_first], weight[is_first, None] + 0 * x[is_first]
        )


ALL = [
    assert_permutation_invariant,
    assert_unsorted_index,
    assert_batch_independent,
    assert_graph_order_equivariant,
    assert_ptr_matches_index,
    assert_handles_empty,
    assert_state_dict_roundtrip,
    assert_gradcheck,
]


@pytest.mark.parametrize("check", ALL)
def test_mean_passes(check):
    check(Case(MeanAggregation(), 4))
    check(Case(MeanAggregation, 4))


def test_a_readout_passes_all():
    assert_readout(MeanAggregation(), 4)
    assert_readout(MeanAggregation, 4)


@pytest.mark.parametrize(
    ("check", "aggr", "message"),
    [
        (assert_permutation_invariant, FirstElement, "order of the elements in a set"),
        (assert_permutation_invariant, BreaksTies, "order of the elements in a set"),
        (
            assert_permutation_invariant,
            lambda: LSTMAggregation(4, 4),
            "LSTMAggregation should not depend on the order of the elements",
        ),
        (assert_unsorted_index, SortedOnly, "on whether 'index' is sorted"),
        (
            assert_unsorted_index,
            lambda: SortAggregation(3),
            "SortAggregation raised ValueError for an unsorted index: Can not",
        ),
        (assert_batch_independent, LooksAtTheBatch, "embed set 1 alone"),
        (assert_batch_independent, LooksAtTheLargestSet, "embed set 1 alone"),
        (assert_batch_independent, SpreadsNaN, "should keep .* inside of the sets"),
        (assert_graph_order_equivariant, KnowsItsPlace, "reorder its rows"),
        (assert_ptr_matches_index, IgnoresPtr, "same output for 'ptr' and 'index'"),
        (assert_ptr_matches_index, NeedsIndex, "raised NotImplementedError for 'ptr'"),
        (assert_handles_empty, ForgetsTrailingSets, "row for each of 3 sets"),
        (assert_handles_empty, DividesByZero, "finite for a gap between sets"),
        (assert_handles_empty, HasInfiniteGradients, "finite gradients for a gap"),
        (assert_handles_empty, TellsEmptySetsApart, "embed all empty sets alike"),
        (assert_handles_empty, RaisesOnNoElements, "raised .* for empty sets only"),
        (assert_gradcheck, HasWrongGradients, "should have right gradients"),
        (assert_gradcheck, HasWrongParameterGradients, "should have right gradients"),
        (assert_state_dict_roundtrip, KeepsStateToItself, "after loading its state"),
    ],
)
def test_mistakes_are_found(check, aggr, message):
    with pytest.raises(AssertionError, match=message):
        check(Case(aggr, 4))
    with pytest.raises(AssertionError, match=r" (should|raised) "):
        assert_readout(aggr, 4)


def test_mistakes_of_a_module_are_found():
    with pytest.raises(AssertionError, match="after loading its state dict"):
        assert_state_dict_roundtrip(Case(KeepsStateToItself(), 4))
    module = RemembersItsLifetime()
    module.scale.data += 1

    def build():
        return module

    with pytest.raises(AssertionError, match="after copying it"):
        assert_state_dict_roundtrip(Case(build, 4))


def test_weights_are_moved_with_their_elements():
    with pytest.raises(AssertionError, match="order of the elements in a set"):
        assert_permutation_invariant(Case(NeedsWeight, 4, weighted=True))
    for check in ALL:
        check(Case(lambda: GSWEAggregation(4, 3, 2), 4, weighted=True))


def test_options():
    # A mistake that is small, or shows in some batches only.
    class Slightly(FirstElement):
        def mistake(self, out, x, index):
            return out + 1e-3 * (super().mistake(out, x, index) - out)

    assert_permutation_invariant(Case(Slightly, 4, rtol=0, atol=1e-2))
    with pytest.raises(AssertionError):
        assert_permutation_invariant(Case(Slightly, 4, rtol=0, atol=1e-6))
    assert_permutation_invariant(Case(FirstElement, 4, sizes=(1, 1, 0, 1)))
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(AssertionError):
            assert_permutation_invariant(Case(FirstElement, 4, dtype=dtype))
    assert_readout(MeanAggregation, 3, dtype=torch.float64, seed=5)


class Sizes(torch.nn.Module):
    """Any module will do, even if nothing can be learned."""

    def forward(self, x, index, dim_size):
        return index.bincount(minlength=dim_size)[:, None].to(x.dtype)


def test_a_module_without_gradients():
    assert_handles_empty(Case(Sizes(), 4))
    assert_state_dict_roundtrip(Case(Sizes(), 4))
    assert_batch_independent(Case(Sizes(), 4))


def test_nothing_is_changed():
    readout = GSWEAggregation(4, 3, 2).train()
    before = {name: value.clone() for name, value in readout.state_dict().items()}
    state = torch.get_rng_state()
    assert_permutation_invariant(Case(readout, 4))
    assert torch.get_rng_state().equal(state)
    assert_readout(readout, 4)
    assert readout.training
    assert all(p.grad is None for p in readout.parameters())
    for name, value in readout.state_dict().items():
        assert value.equal(before[name])
        assert value.dtype == torch.float32


class Centered(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Stuck(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) + _DoublesGradients.apply(x).sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("slicer", "message"),
    [
        (torch.nn.Linear(4, 7), r"map \[7, 4\] to \[7, 8\] \(got \[7, 7\]\)"),
        (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Flatten(0)), "map"),
        (Centered(4, 8), "without looking at the others"),
        (Stuck(4, 8), "should have right gradients"),
    ],
)
def test_mistakes_of_slicers_are_found(slicer, message):
    assert_slicer(torch.nn.Linear(4, 8), 4, 8)
    with pytest.raises(AssertionError, match=message):
        assert_slicer(slicer, 4, 8)


@pytest.mark.parametrize(
    "name", ["testing", "aggr.gswe", "slicers", "ops.segment_quantile", "aggr.pma"]
)
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"gswe_pyg.{name}")
    failed, attempted = doctest.testmod(module)
    assert failed == 0
    assert attempted > 0


def test_everything_public_has_an_example():
    for name, function in vars(testing).items():
        if name.startswith("assert_"):
            assert ">>>" in function.__doc__
