import pytest
import pytorch_lightning
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.data.lightning import LightningDataset
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    PNA,
    GraphSAGE,
    Sequential,
    global_mean_pool,
    summary,
)
from torch_geometric.nn.aggr import MeanAggregation, Set2Set

from gswe_pyg import GSWEAggregation
from gswe_pyg.models import GINE, CategoryEncoder, GNNWithReadout, readout_channels

CHANNELS = 8


def graphs(sizes=(5, 3, 7, 4)) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for label, size in enumerate(sizes):
        nodes = torch.arange(size)
        found.append(
            Data(
                x=torch.randn(size, 4, generator=generator),
                edge_index=torch.stack([nodes, nodes.roll(1)]),
                edge_attr=torch.randn(size, 3, generator=generator),
                y=torch.tensor([label % 2]),
                num_nodes=size,
            )
        )
    return found


def readout(**options) -> GSWEAggregation:
    return GSWEAggregation(CHANNELS, num_slices=6, num_points=4, **options)


def fit(model, data, steps=150, **inputs) -> tuple[float, float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        out = model(data.x, data.edge_index, data.batch, **inputs)
        loss = F.cross_entropy(out, data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


NETWORKS = {
    "GCN": lambda **options: GCN(4, CHANNELS, 2, **options),
    "GIN": lambda **options: GIN(4, CHANNELS, 2, **options),
    "GraphSAGE": lambda **options: GraphSAGE(4, CHANNELS, 2, **options),
    "GAT": lambda **options: GAT(4, CHANNELS, 2, heads=2, **options),
    "PNA": lambda **options: PNA(
        4,
        CHANNELS,
        2,
        aggregators=["mean", "max"],
        scalers=["identity"],
        deg=torch.tensor([0, 4]),
        **options,
    ),
    "GINE": lambda **options: GINE(4, CHANNELS, 2, edge_dim=3, **options),
}


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_with_jumping_knowledge(name, jk):
    torch.manual_seed(0)
    model = GNNWithReadout(NETWORKS[name](jk=jk), readout(), out_channels=2)
    data = Batch.from_data_list(graphs())
    inputs = {"edge_attr": data.edge_attr} if name == "GINE" else {}
    first, last = fit(model, data, steps=100 if jk is None else 20, **inputs)
    assert last < (first / 2 if jk is None else first)
    assert all(p.grad is not None for p in model.gnn.parameters())


def test_is_network_then_readout_then_head():
    torch.manual_seed(0)
    model = GNNWithReadout(GIN(4, CHANNELS, 2), "mean", out_channels=3)
    assert isinstance(model.readout, MeanAggregation)
    data = Batch.from_data_list(graphs())
    nodes = model.gnn(data.x, data.edge_index)
    means = global_mean_pool(nodes, data.batch)
    arguments = data.x, data.edge_index, data.batch
    torch.testing.assert_close(model.embed(*arguments), means)
    torch.testing.assert_close(model(*arguments), model.head(means))


@pytest.mark.parametrize("aggregation", [readout(), Set2Set(CHANNELS, 2), "max"])
def test_the_head_fits_any_readout(aggregation):
    model = GNNWithReadout(GIN(4, CHANNELS, 2), aggregation, out_channels=3)
    assert model.head.in_channels == readout_channels(model.readout, CHANNELS)
    data = Batch.from_data_list(graphs())
    assert model(data.x, data.edge_index, data.batch).shape == (4, 3)


def test_a_graph_does_not_depend_on_its_batch():
    model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=3)
    data = Batch.from_data_list(graphs())
    together = model(data.x, data.edge_index, data.batch)
    alone = torch.cat([model(graph.x, graph.edge_index) for graph in graphs()])
    torch.testing.assert_close(together, alone)


def test_empty_graphs_at_the_end():
    model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=3)
    data = Batch.from_data_list(graphs((3, 4)))
    out = model(data.x, data.edge_index, data.batch, batch_size=4)
    assert out.shape == (4, 3)
    zeros = torch.zeros(2, model.head.in_channels)
    torch.testing.assert_close(out[2:], model.head(zeros))


def test_atoms_and_bonds():
    torch.manual_seed(0)
    model = GNNWithReadout(
        GINE(CHANNELS, CHANNELS, 2, edge_dim=CHANNELS, norm="batch_norm", jk="cat"),
        readout(encode_size=True),
        out_channels=2,
        node_encoder=CategoryEncoder.of_atoms(CHANNELS),
        edge_encoder=CategoryEncoder.of_bonds(CHANNELS),
    )
    data = Batch.from_data_list(graphs())
    data.x = torch.randint(2, (data.num_nodes, 9))
    bonds = torch.randint(2, (data.num_edges, 3))
    first, last = fit(model, data, edge_attr=bonds)
    assert last < first / 2
    model.eval()
    other = model(data.x, data.edge_index, data.batch, edge_attr=1 - bonds)
    assert not other.allclose(
        model(data.x, data.edge_index, data.batch, edge_attr=bonds)
    )


def test_reset_parameters_resets_all():
    model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=3)
    before = {name: value.clone() for name, value in model.named_parameters()}
    model.reset_parameters()
    for name, value in model.named_parameters():
        assert not value.equal(before[name]) or not value.any(), name


def test_repr():
    model = GNNWithReadout(GIN(4, 8, 2), "mean", out_channels=3)
    assert str(model) == "GNNWithReadout(GIN(4, 8, num_layers=2), MeanAggregation())"


def test_bad_input():
    data = Batch.from_data_list(graphs())
    with pytest.raises(ValueError, match="'readout' cannot take the 8 channels"):
        GNNWithReadout(GIN(4, 8, 2), GSWEAggregation(9, 4, 4), out_channels=3)
    with pytest.raises(ValueError, match=r"such as GINE, GAT or PNA .got GIN"):
        GNNWithReadout(
            GIN(4, 8, 2), "mean", 3, edge_encoder=CategoryEncoder.of_bonds(8)
        )
    model = GNNWithReadout(GIN(4, 8, 2), "mean", out_channels=3)
    with pytest.raises(ValueError, match="no node features 'x': open TU data sets by"):
        model(None, data.edge_index, data.batch)
    with pytest.raises(ValueError, match="no node features 'x'"):
        model(data.x[:, :0], data.edge_index, data.batch)
    with pytest.raises(ValueError, match="pass a 'node_encoder' if it holds categor"):
        model(data.x.long(), data.edge_index, data.batch)
    model = GNNWithReadout(
        GINE(4, 8, 2, edge_dim=8), "mean", 3, edge_encoder=torch.nn.Linear(3, 8)
    )
    with pytest.raises(ValueError, match="'edge_attr' is missing"):
        model(data.x, data.edge_index, data.batch)


def test_sequential():
    torch.manual_seed(0)
    model = Sequential(
        "x, edge_index, batch",
        [
            (GIN(4, CHANNELS, 2), "x, edge_index -> x"),
            (readout(out_channels=CHANNELS), "x, batch -> x"),
            torch.nn.Linear(CHANNELS, 2),
        ],
    )
    first, last = fit(model, Batch.from_data_list(graphs()))
    assert last < first / 2


def test_summary():
    model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=3)
    data = Batch.from_data_list(graphs())
    table = summary(model, data.x, data.edge_index, data.batch)
    assert "GSWEAggregation" in table
    assert "[19, 8]" in table  # nodes into the readout
    assert "[4, 24]" in table  # and graphs out of it


def test_gnn_explainer():
    torch.manual_seed(0)
    model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=2)
    data = Batch.from_data_list(graphs())
    explainer = Explainer(
        model,
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
    explanation = explainer(data.x, data.edge_index, batch=data.batch)
    assert explanation.node_mask.shape == data.x.shape
    assert explanation.edge_mask.shape == (data.num_edges,)
    assert explanation.edge_mask.max() > 0  # gradients pass the readout


class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = GNNWithReadout(GIN(4, CHANNELS, 2), readout(), out_channels=2)

    def training_step(self, data, number):
        out = self.model(data.x, data.edge_index, data.batch)
        return F.cross_entropy(out, data.y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def test_lightning_dataset(tmp_path):
    torch.manual_seed(0)
    module = Module()
    before = module.model.readout.points.clone()
    trainer = pytorch_lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, LightningDataset(graphs(), batch_size=2))
    assert trainer.global_step == 2
    assert not module.model.readout.points.equal(before)
