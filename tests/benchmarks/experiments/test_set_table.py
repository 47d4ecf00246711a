import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from benchmarks.experiments.set_table import SetTable
from gswe_pyg.datasets import SetCircles

TABLE = SetTable(
    torch.arange(12.0).view(6, 2), torch.tensor([0, 2, 2, 5, 6]), torch.arange(4)
)


@pytest.mark.parametrize("num_elements", [1, 2, 4, 100])
def test_chunks_are_all_sets_once(num_elements):
    parts = list(TABLE.chunks(num_elements))
    assert torch.equal(torch.cat([part.x for part in parts]), TABLE.x)
    assert torch.cat([part.y for part in parts]).tolist() == [0, 1, 2, 3]
    assert all(part.x.size(0) < num_elements + 3 for part in parts)


def test_batches_are_even():
    """A last one of a single graph would fail in a batch norm."""
    batches = TABLE.select(torch.arange(9) % 4).batches(torch.arange(9), 4)
    assert [len(batch) for batch in batches] == [3, 3, 3]


def test_resampled_sets_have_their_own_elements():
    sets = TABLE.select(torch.tensor([0, 2, 3]))
    drawn = sets.resample(40, torch.Generator().manual_seed(0))
    assert drawn.ptr.tolist() == [0, 40, 80, 120]
    for old, new in zip(sets.split([1, 1, 1]), drawn.split([1, 1, 1]), strict=True):
        assert torch.equal(new.x.unique(dim=0), old.x)


def test_parts_are_random_but_fixed():
    dataset = SetCircles(num_sets=20)
    sets = SetTable.from_dataset(dataset)
    assert torch.equal(sets.select(torch.tensor([7])).x, dataset[7].pos)
    assert torch.equal(sets.take(8).select(torch.arange(5)).x, sets.take(5).x)
    with pytest.raises(ValueError, match="has 20 sets; 21 cannot be taken"):
        sets.take(21)
    rest, held_out = sets.hold_out(0.25)
    assert (len(rest), len(held_out)) == (15, 5)
    both = torch.cat([rest.x, held_out.x])
    assert torch.equal(both.sort(dim=0).values, sets.x.sort(dim=0).values)


class Graphs(InMemoryDataset):
    def __init__(self, found):
        super().__init__()
        self.data, self.slices = self.collate(found)


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4], [2, 0, 3, 2], [1]])
def test_selecting_graphs_is_collating(chosen):
    torch.manual_seed(0)
    found = [
        Data(
            x=torch.randn(size, 2),
            edge_index=torch.randint(max(1, size), (2, num_edges)),
            edge_attr=torch.randn(num_edges, 3),
            y=size,
        )
        for size, num_edges in [(3, 4), (1, 0), (5, 9), (0, 0), (2, 2)]
    ]
    ours = SetTable.from_graphs(Graphs(found)).select(torch.tensor(chosen))
    batch = Batch.from_data_list([found[i] for i in chosen])
    assert ours.joined_edges().equal(batch.edge_index)
    assert ours.index().equal(batch.batch)
    for name in ("x", "ptr", "y", "edge_attr"):
        assert getattr(ours, name).equal(batch[name])
