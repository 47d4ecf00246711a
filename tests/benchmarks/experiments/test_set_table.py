import pytest
import torch

from benchmarks.experiments.self_supervised.set_table import SetTable
from gswe_pyg.datasets import SetCircles


def table():
    return SetTable(
        torch.arange(12.0).view(6, 2), torch.tensor([0, 2, 2, 5, 6]), torch.arange(4)
    )


def test_select_keeps_the_order_asked_for():
    chosen = table().select(torch.tensor([2, 1, 0, 2]))
    assert len(chosen) == 4
    assert chosen.y.tolist() == [2, 1, 0, 2]
    assert chosen.ptr.tolist() == [0, 3, 3, 5, 8]
    assert torch.equal(chosen.x, table().x[[2, 3, 4, 0, 1, 2, 3, 4]])
    assert chosen.index().tolist() == [0, 0, 0, 2, 2, 3, 3, 3]


def test_from_dataset_has_all_sets():
    dataset = SetCircles(num_sets=20)
    sets = SetTable.from_dataset(dataset)
    assert len(sets) == 20
    for i in range(20):
        one = sets.select(torch.tensor([i]))
        assert torch.equal(one.x, dataset[i].pos)
        assert torch.equal(one.y, dataset[i].y)


@pytest.mark.parametrize("num_elements", [1, 2, 4, 100])
def test_chunks_are_all_sets_once(num_elements):
    parts = list(table().chunks(num_elements))
    assert torch.equal(torch.cat([part.x for part in parts]), table().x)
    assert torch.cat([part.y for part in parts]).tolist() == [0, 1, 2, 3]
    assert all(part.x.size(0) < num_elements + 3 for part in parts)
    assert len(parts) == (1 if num_elements == 100 else len(parts))


def test_take_is_a_fixed_part():
    sets = SetTable.from_dataset(SetCircles(num_sets=20))
    assert sets.take(None) is sets
    assert len(sets.take(5)) == 5
    assert torch.equal(sets.take(5).x, sets.take(5).x)
    assert torch.equal(sets.take(8).select(torch.arange(5)).x, sets.take(5).x)
    with pytest.raises(ValueError, match="has 20 sets; 21 cannot be taken"):
        sets.take(21)


def test_hold_out_is_a_fixed_part_and_leaves_the_rest():
    sets = SetTable.from_dataset(SetCircles(num_sets=20))
    rest, held_out = sets.hold_out(0.25)
    assert (len(rest), len(held_out)) == (15, 5)
    assert torch.equal(sets.hold_out(0.25)[1].x, held_out.x)
    both = torch.cat([rest.x, held_out.x])
    assert torch.equal(both.sort(dim=0).values, sets.x.sort(dim=0).values)
