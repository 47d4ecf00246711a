import pytest
import torch
from torch_geometric.data import Batch, Data

from gswe_pyg.transforms import ResampleElements


def test_resample_elements():
    transform = ResampleElements()
    assert str(transform) == "ResampleElements(num=None)"
    data = Data(
        x=torch.arange(1000.0).view(-1, 1),
        weight=torch.arange(1000.0),
        y=torch.tensor([1]),
    )
    out = transform(data)
    assert out.num_nodes == 1000
    assert torch.equal(out.x.flatten(), out.weight)
    assert out.y.tolist() == [1]
    # With replacement, 1 - 1/e of the elements are expected to be drawn.
    assert abs(out.weight.unique().numel() - 632) < 60


@pytest.mark.parametrize("num", [1, 3, 20])
@pytest.mark.parametrize("num_nodes", [1, 5])
def test_resample_a_number_of_elements(num_nodes, num):
    data = Data(x=torch.randn(num_nodes, 2), y=torch.tensor([4]))
    out = ResampleElements(num)(data)
    assert out.x.size() == (num, 2)
    assert out.y.tolist() == [4]
    assert torch.isin(out.x, data.x).all()


def test_resample_elements_of_a_batch_and_of_an_empty_set():
    graphs = [
        Data(x=torch.full((n, 2), n * 1.0), y=torch.tensor([n])) for n in (5, 0, 1)
    ]
    out = ResampleElements(num=3)(Batch.from_data_list(graphs))
    assert out.ptr.tolist() == [0, 3, 3, 6]
    assert out.x[:, 0].tolist() == [5.0] * 3 + [1.0] * 3
    assert out.y.tolist() == [5, 0, 1]


def test_resample_elements_names_what_is_wrong():
    with pytest.raises(ValueError, match=r"'num' must be a positive integer \(got 0"):
        ResampleElements(num=0)
    data = Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="'data' must have no edges"):
        ResampleElements()(data)
