import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from benchmarks.experiments.graphs.graph_table import GraphTable


def graphs(with_edge_attr: bool) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for number, (size, num_edges) in enumerate([(3, 4), (1, 0), (5, 9), (2, 2)]):
        edges = torch.randint(size, (2, num_edges), generator=generator)
        data = Data(
            x=torch.randn(size, 2, generator=generator),
            edge_index=edges,
            y=torch.tensor([number]),
        )
        if with_edge_attr:
            data.edge_attr = torch.randn(num_edges, 3, generator=generator)
        found.append(data)
    return found


class Graphs(InMemoryDataset):
    def __init__(self, found):
        super().__init__()
        self.data, self.slices = self.collate(found)


@pytest.mark.parametrize("with_edge_attr", [False, True])
@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [2, 0, 2], [1], [3, 1]])
def test_selecting_is_collating(chosen, with_edge_attr):
    found = graphs(with_edge_attr)
    table = GraphTable.from_dataset(Graphs(found))
    assert len(table) == 4
    assert table.max_nodes == 5
    part = table.select(torch.tensor(chosen))
    batch = Batch.from_data_list([found[i] for i in chosen])
    assert part.x.equal(batch.x)
    assert part.joined_edges().equal(batch.edge_index)
    assert part.index().equal(batch.batch)
    assert part.node_ptr.equal(batch.ptr)
    assert part.y.equal(batch.y)
    if with_edge_attr:
        assert part.edge_attr.equal(batch.edge_attr)
    else:
        assert part.edge_attr is None
    again = part.select(torch.arange(len(chosen)))
    assert again.joined_edges().equal(batch.edge_index)


def test_batches_are_even_and_complete():
    table = GraphTable.from_sets(
        torch.arange(9.0)[:, None], torch.arange(10), torch.arange(9)
    )
    sizes = [len(batch) for batch in table.batches(torch.arange(9), 4)]
    assert sizes == [3, 3, 3]  # not 4, 4, 1
    joined = torch.cat([batch.y for batch in table.batches(torch.arange(9), 4)])
    assert joined.equal(torch.arange(9))
    assert table.joined_edges().shape == (2, 0)
