import pytest
import torch
from torch_geometric.data import Batch, Data

from gswe_pyg.transforms import DropElements


def test_drop_elements():
    transform = DropElements(p=0.25)
    assert str(transform) == "DropElements(p=0.25)"
    data = Data(
        x=torch.arange(4000.0).view(-1, 1),
        weight=torch.arange(4000.0),
        y=torch.tensor([1]),
    )
    out = transform(data)
    assert len(out) == 3
    assert data.num_nodes == 4000
    assert abs(out.num_nodes - 3000) < 150
    assert torch.equal(out.x.flatten(), out.weight)
    assert (out.weight.diff() > 0).all()
    assert out.y.tolist() == [1]


@pytest.mark.parametrize("num_nodes", [1, 2, 6])
def test_drop_elements_leaves_one(num_nodes):
    data = Data(x=torch.randn(num_nodes, 2), y=torch.tensor([4]))
    out = DropElements(p=1.0)(data)
    assert out.num_nodes == 1
    assert out.y.tolist() == [4]
    assert torch.equal(DropElements(p=0.0)(data).x, data.x)


def test_drop_elements_of_an_empty_set():
    out = DropElements(p=0.5)(Data(x=torch.empty(0, 2), y=torch.tensor([4])))
    assert out.num_nodes == 0
    assert out.y.tolist() == [4]


def test_drop_elements_drops_edges():
    index = torch.arange(99)
    data = Data(x=torch.arange(100.0), edge_index=torch.stack([index, index + 1]))
    data.edge_attr = index.float()
    out = DropElements(p=0.5)(data)
    # An edge that stays still connects the same elements.
    assert 0 < out.num_edges < 99
    assert torch.equal(out.x[out.edge_index[0]], out.edge_attr)
    assert torch.equal(out.x[out.edge_index[1]], out.edge_attr + 1)


def test_drop_elements_of_a_batch():
    graphs = [Data(x=torch.randn(n, 2), y=torch.tensor([n])) for n in (50, 0, 1, 30)]
    out = DropElements(p=0.5)(Batch.from_data_list(graphs))
    sizes = out.ptr.diff().tolist()
    assert 0 < sizes[0] < 50
    assert sizes[1:3] == [0, 1]
    assert out.y.tolist() == [50, 0, 1, 30]
    assert out.batch.bincount(minlength=4).tolist() == sizes
    assert out[3].num_nodes == sizes[3]


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_drop_elements_names_what_is_wrong(p):
    with pytest.raises(ValueError, match=r"'p' must be between 0 and 1 \(got"):
        DropElements(p=p)
