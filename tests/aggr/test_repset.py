import itertools
import sys

import pytest
import torch

from gswe_pyg.aggr import ApproxRepSet, RepSet, repset
from gswe_pyg.testing import Case, assert_gradcheck, assert_readout

# Smaller and larger than the hidden sets and as large; empty first, last, between.
SIZES = [0, 2, 3, 1, 0, 5, 4, 0]
M = 3


def all_matchings(num_rows, num_columns):
    """Every way to pair the rows with the columns, one to one."""
    if num_rows <= num_columns:
        for columns in itertools.permutations(range(num_columns), num_rows):
            yield list(range(num_rows)), list(columns)
    else:
        for rows in itertools.permutations(range(num_rows), num_columns):
            yield list(rows), list(range(num_columns))


def best_of_all_matchings(readout, x):
    out = []
    for hidden in readout.hidden:
        scores = (x @ hidden.t()).clamp(min=0)
        totals = [scores[pairs].sum() for pairs in all_matchings(*scores.shape)]
        out.append(torch.stack(totals).max() / len(x))
    return torch.stack(out)


def best_partner_of_each(readout, x):
    """Every element of the larger side takes whom it likes best."""
    out = []
    for hidden in readout.hidden:
        scores = (x @ hidden.t()).clamp(min=0).tolist()
        larger = scores if len(x) >= len(hidden) else zip(*scores, strict=True)
        out.append(sum(max(row) for row in larger))
    return torch.tensor(out, dtype=torch.double)


@pytest.mark.parametrize(
    ("cls", "oracle"),
    [(RepSet, best_of_all_matchings), (ApproxRepSet, best_partner_of_each)],
)
@pytest.mark.parametrize("seed", range(5))
def test_equals_brute_force(ragged, cls, oracle, seed):
    torch.manual_seed(seed)
    readout = cls(2, num_hidden_sets=4, num_elements=M).double()
    x, index = ragged(2, SIZES, torch.double, seed=seed)
    out = readout(x, index, dim_size=len(SIZES))
    assert out.shape == (len(SIZES), 4)
    for i, size in enumerate(SIZES):
        if size == 0:
            assert torch.equal(out[i], torch.zeros_like(out[i]))
        else:
            torch.testing.assert_close(out[i], oracle(readout, x[index == i]))


def test_repset_by_hand():
    # The greedy choice, 3 + 0, is worse than 2 + 2.
    readout = RepSet(2, num_hidden_sets=1, num_elements=2)
    readout.hidden.data = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    x = torch.tensor([[3.0, 2.0], [2.0, -1.0]])
    index = torch.zeros(2, dtype=torch.long)
    torch.testing.assert_close(readout(x, index), torch.tensor([[2.0]]))
    relaxed = ApproxRepSet(2, num_hidden_sets=1, num_elements=2)
    relaxed.load_state_dict(readout.state_dict())
    torch.testing.assert_close(relaxed(x, index), torch.tensor([[5.0]]))


@pytest.mark.parametrize("seed", range(5))
def test_the_relaxed_value_bounds_the_exact_one(ragged, seed):
    torch.manual_seed(seed)
    exact, relaxed = (cls(3, 4, 6).double() for cls in (RepSet, ApproxRepSet))
    relaxed.load_state_dict(exact.state_dict())
    sizes = [1, 5, 6, 7, 30]
    x, index = ragged(3, sizes, torch.double, seed)
    bound = relaxed(x, index) / torch.tensor(sizes).unsqueeze(1)
    assert (bound >= exact(x, index) - 1e-12).all()


@pytest.mark.parametrize("cls", [RepSet, ApproxRepSet])
@pytest.mark.parametrize("sizes", [(3, 0, 1, 4), (6, 2)])
def test_gradient(cls, sizes):
    # Scores that are drawn at random have no ties: the matching is unique, and stays
    # the best one in a neighbourhood.
    torch.manual_seed(0)
    assert_gradcheck(Case(lambda: cls(4, 3, M), in_channels=4, sizes=sizes))


@pytest.mark.parametrize("cls", [RepSet, ApproxRepSet])
@pytest.mark.parametrize("num_elements", [1, 5, 40])
def test_is_a_readout(cls, num_elements):
    torch.manual_seed(0)
    assert_readout(lambda: cls(4, 3, num_elements), in_channels=4)


@pytest.mark.parametrize("cls", [RepSet, ApproxRepSet])
def test_large_batches_in_the_order_of_sizes(ragged, cls):
    # More than one block of sizes: rows are reordered inside, and put back.
    torch.manual_seed(0)
    sizes = [0, 300, 17, 0, 2, 120, 9] * 3
    readout = cls(3, 2, 10).double()
    x, index = ragged(3, sizes, torch.double)
    out = readout(x, index, dim_size=len(sizes))
    for i, size in enumerate(sizes):
        if size > 0:
            alone = readout(x[index == i], torch.zeros(size, dtype=torch.long))
            torch.testing.assert_close(out[i], alone[0])


@pytest.mark.parametrize("num_threads", [1, 2, 3, 50])
def test_threads_find_the_same(ragged, monkeypatch, num_threads):
    torch.manual_seed(0)
    readout = RepSet(4, 3, 5).double()
    x, index = ragged(4, [7, 1, 0, 30, 2, 2], torch.double)
    expected = readout(x, index, dim_size=6)
    monkeypatch.setattr(repset, "_WORTH_THREADS", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    assert torch.equal(readout(x, index, dim_size=6), expected)
    assert readout(x[:0], index[:0], dim_size=2).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_repset_says_where_a_matching_is_unknown(value):
    readout = RepSet(2, 3, 2)
    readout.hidden.data.abs_()
    x = torch.ones(4, 2)
    x[3, 0] = value
    out = readout(x, torch.tensor([0, 0, 1, 1]))
    assert out[0].isfinite().all()
    assert out[1].isnan().all()


@pytest.mark.parametrize("cls", [RepSet, ApproxRepSet])
def test_interface(cls):
    readout = cls(4, num_hidden_sets=3, num_elements=5)
    assert str(readout) == f"{cls.__name__}(4, num_hidden_sets=3, num_elements=5)"
    assert readout.out_channels == 3
    before = readout.hidden.clone()
    readout.reset_parameters()
    assert not torch.equal(readout.hidden, before)
    for argument in ("in_channels", "num_hidden_sets", "num_elements"):
        sizes = {"in_channels": 4, "num_hidden_sets": 3, "num_elements": 5}
        with pytest.raises(
            ValueError, match=f"'{argument}' must be a positive integer"
        ):
            cls(**{**sizes, argument: 0})


def test_repset_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"gswe-pyg\[repset\]"):
        RepSet(4, 3, 5)
    ApproxRepSet(4, 3, 5)
