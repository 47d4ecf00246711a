"""The places in PyG that take an aggregation, with the drop-in form of the readout."""

import pytest
import torch
from torch_geometric import EdgeIndex, Index
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import (
    DegreeScalerAggregation,
    HeteroConv,
    SAGEConv,
    global_mean_pool,
    to_hetero,
)

from gswe_pyg import GSWEAggregation


def heterogeneous() -> HeteroData:
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["paper"].x = torch.randn(6, 4, generator=generator)
    data["author"].x = torch.randn(5, 4, generator=generator)
    data["author", "writes", "paper"].edge_index = torch.tensor(
        [[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 1]]
    )
    data["paper", "written_by", "author"].edge_index = torch.tensor(
        [[0, 1, 2, 3, 4, 1], [0, 1, 2, 3, 4, 0]]
    )
    return data


def assert_gradients(module):
    readouts = [m for m in module.modules() if isinstance(m, GSWEAggregation)]
    assert readouts
    for readout in readouts:
        assert bool(readout.head_weight.grad.any())


def test_to_hetero():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(4, 3, aggr=GSWEAggregation(4, heads=1, extremes=True))

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    data = heterogeneous()
    model = to_hetero(Net(), data.metadata())
    out = model(data.x_dict, data.edge_index_dict)
    assert {key: value.shape for key, value in out.items()} == {
        "paper": (6, 3),
        "author": (5, 3),
    }
    sum(value.square().sum() for value in out.values()).backward()
    assert_gradients(model)


def test_hetero_conv():
    data = heterogeneous()
    conv = HeteroConv(
        {
            kind: SAGEConv((4, 4), 3, aggr=GSWEAggregation(4, heads=1))
            for kind in data.edge_types
        }
    )
    out = conv(data.x_dict, data.edge_index_dict)
    assert out["paper"].shape == (6, 3)
    sum(value.square().sum() for value in out.values()).backward()
    assert_gradients(conv)


def test_degree_scaler():
    aggr = DegreeScalerAggregation(
        [GSWEAggregation(4, heads=2), "max"],
        scaler=["identity", "amplification"],
        deg=torch.tensor([0, 3, 1]),
    )
    x, index = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 1, 3])
    out = aggr(x, index, dim_size=4)
    assert out.shape == (4, 2 * (8 + 4))
    torch.testing.assert_close(out[:, :4], global_mean_pool(x, index, size=4))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_index_of_pyg(is_sorted):
    x, plain = torch.randn(5, 4), torch.tensor([0, 0, 1, 3, 3])
    if not is_sorted:
        plain = plain.flip(0)
    readout = GSWEAggregation(4, heads=1)
    index = Index(plain, dim_size=4, is_sorted=is_sorted)
    out = readout(x, index)
    assert type(out) is torch.Tensor
    assert out.equal(readout(x, plain))
    assert readout(x, index, dim_size=4).equal(readout(x, plain, dim_size=4))


def test_edge_index_of_pyg():
    torch.manual_seed(0)
    x, plain = torch.randn(5, 4), torch.tensor([[1, 0, 2, 4], [0, 1, 1, 3]])
    conv = SAGEConv(4, 3, aggr=GSWEAggregation(4, heads=1))
    expected = conv(x, plain)
    edge_index = EdgeIndex(plain, sparse_size=(5, 5), sort_order="col")
    torch.testing.assert_close(conv(x, edge_index), expected)


def test_gnn_explainer():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(4, 8)
            self.readout = GSWEAggregation(8, heads=1, extremes=True)
            self.lin = torch.nn.Linear(8, 2)

        def forward(self, x, edge_index, batch=None):
            hidden = self.conv(x, edge_index).relu()
            return self.lin(self.readout(hidden, batch))

    torch.manual_seed(0)
    data = Data(
        x=torch.randn(5, 4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    )
    explainer = Explainer(
        Net(),
        GNNExplainer(epochs=3),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "graph",
            "return_type": "raw",
        },
    )
    explanation = explainer(
        data.x, data.edge_index, batch=torch.zeros(5, dtype=torch.long)
    )
    assert explanation.edge_mask.shape == (4,)
    assert explanation.node_mask.isfinite().all()
