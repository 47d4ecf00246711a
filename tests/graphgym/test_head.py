import importlib
import importlib.util

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import assert_cfg, cfg, set_cfg
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model

import gswe_pyg.graphgym
from gswe_pyg import GSWEAggregation

NUM_FEATURES, NUM_CLASSES = 4, 3


@pytest.fixture(autouse=True)
def config():
    """The stock config of a graph classification, and the one line that is ours."""
    set_cfg(cfg)
    cfg.dataset.task = "graph"
    cfg.accelerator = "cpu"
    cfg.gnn.head = "gswe"
    assert_cfg(cfg)
    yield
    set_cfg(cfg)


def batch(sizes=(5, 3, 7)) -> Batch:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for label, size in enumerate(sizes):
        nodes = torch.arange(size)
        graphs.append(
            Data(
                x=torch.randn(size, NUM_FEATURES, generator=generator),
                edge_index=torch.stack([nodes, nodes.roll(1)]),
                y=torch.tensor([label % NUM_CLASSES]),
            )
        )
    return Batch.from_data_list(graphs)


def build(**options):
    for key, value in options.items():
        cfg.merge_from_list([f"gswe.{key}", value])
    return create_model(dim_in=NUM_FEATURES, dim_out=NUM_CLASSES)


def test_one_line_changes_the_readout_and_nothing_else():
    ours = build()
    cfg.gnn.head = "graph"
    stock = create_model(dim_in=NUM_FEATURES, dim_out=NUM_CLASSES)
    readout = ours.post_mp.readout
    assert isinstance(readout, GSWEAggregation)
    assert repr(readout) == repr(GSWEAggregation(16, heads=1))
    names = {name for name in ours.state_dict() if "readout" not in name}
    assert names == set(stock.state_dict())
    assert ours(batch())[0].shape == stock(batch())[0].shape == (3, NUM_CLASSES)


def test_it_starts_as_mean_pooling():
    ours = build().eval()
    cfg.gnn.head, cfg.model.graph_pooling = "graph", "mean"
    stock = create_model(dim_in=NUM_FEATURES, dim_out=NUM_CLASSES).eval()
    stock.load_state_dict(
        {key: value for key, value in ours.state_dict().items() if "readout" not in key}
    )
    torch.testing.assert_close(ours(batch())[0], stock(batch())[0])


def test_the_group_sets_the_options_of_the_aggregation():
    readout = build(
        heads=None,
        extremes=True,
        slices=5,
        points=3,
        references=2,
        slicer="mlp",
        interpolation="barycentric",
        reference="slice",
        out_channels=7,
        encode_size=True,
    ).post_mp.readout
    assert repr(readout) == repr(
        GSWEAggregation(
            16,
            extremes=True,
            num_slices=5,
            num_points=3,
            num_references=2,
            slicer="mlp",
            interpolation="barycentric",
            reference="slice",
            out_channels=7,
            encode_size=True,
        )
    )


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_step_lowers_the_loss(layers):
    cfg.gnn.layers_post_mp = layers
    torch.manual_seed(0)
    model = build(encode_size=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(100):
        loss, _ = compute_loss(*model(batch()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_the_number_of_graphs_is_passed():
    # The last graph has no nodes: its row is that of the zero vector.
    model = build().eval()
    out, _ = model(batch((5, 3, 0)))
    assert out.shape == (3, NUM_CLASSES)
    zero = torch.zeros(1, model.post_mp.readout.embedding_channels)
    torch.testing.assert_close(out[2:], model.post_mp.layer_post_mp(zero))


def test_a_graph_that_is_no_batch():
    data = batch((5,))
    model = build().eval()
    alone = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    torch.testing.assert_close(model(alone)[0], model(batch((5,)))[0])


@pytest.mark.parametrize("slicer", ["linear", "mlp", "polynomial"])
def test_the_initialisation_survives(slicer, monkeypatch):
    # Whatever GraphGym does to a model after it has been built.
    heads = []
    build_head = gswe_pyg.graphgym.GSWEGraphHead.__init__

    def remember(self, *args, **kwargs):
        build_head(self, *args, **kwargs)
        state = {key: value.clone() for key, value in self.readout.state_dict().items()}
        heads.append(state)

    monkeypatch.setattr(gswe_pyg.graphgym.GSWEGraphHead, "__init__", remember)
    cfg.gnn.dim_inner = 6
    model = build(slicer=slicer, slices=9, out_channels=5)
    assert heads[0]
    for key, value in model.post_mp.readout.state_dict().items():
        assert value.equal(heads[0][key]), key


def test_directions_stay_orthogonal():
    weight = build(slicer="linear").post_mp.readout.slicer.weight
    torch.testing.assert_close(weight @ weight.mT, torch.eye(16))


def test_two_models_share_no_parameters():
    first, second = build(), build()
    mine = {parameter.data_ptr() for parameter in first.parameters()}
    assert not mine & {parameter.data_ptr() for parameter in second.parameters()}
    before = [parameter.clone() for parameter in second.parameters()]
    compute_loss(*first(batch()))[0].backward()
    torch.optim.SGD(first.parameters(), lr=1.0).step()
    assert all(
        old.equal(new) for old, new in zip(before, second.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("slices", 0, "'gswe.slices' must be a positive integer .got 0"),
        ("slices", 2.5, "'gswe.slices' must be a positive integer .got 2.5"),
        ("slices", "many", "'gswe.slices' must be a positive integer .got 'many'"),
        ("slices", True, "'gswe.slices' must be a positive integer .got True"),
        ("heads", 0, "'gswe.heads' must be a positive integer .got 0"),
        ("heads", 9, "'gswe.heads' must not exceed 'gswe.points' .got 9 and 8"),
        ("references", 2, "'gswe.references' must be 1 .* set 'gswe.heads: null'"),
        ("points", -1, "'gswe.points' must be a positive integer .got -1"),
        ("references", 0, "'gswe.references' must be a positive integer"),
        ("out_channels", 0, "'gswe.out_channels' must be a positive integer"),
        ("slicer", "linaer", "'gswe.slicer' must be one of .'linear', 'mlp'"),
        ("interpolation", "cubic", "'gswe.interpolation' must be one of .'linear'"),
        ("reference", "output", "'gswe.reference' must be one of .'auto', 'input'"),
        ("points", "many", "Type mismatch"),
        ("encode_size", 3, "Type mismatch"),
    ],
)
def test_impossible_values(key, value, message):
    with pytest.raises(ValueError, match=message):
        build(**{key: value})


def test_impossible_combinations():
    with pytest.raises(
        ValueError, match=r"needs 'gswe.slices' equal to 'gnn.dim_inner'"
    ):
        build(slicer="identity", slices=5)
    cfg.gnn.dim_inner = 300
    with pytest.raises(ValueError, match="lower the degree"):
        build(slicer="polynomial", slices=5)


def test_wrong_places_in_a_config():
    cfg.dataset.task = "node"
    with pytest.raises(ValueError, match=r"'gnn.head: gswe' is for graphs .got"):
        build()
    cfg.dataset.task = cfg.gnn.head = "graph"
    cfg.model.graph_pooling = "gswe"
    with pytest.raises(ValueError, match=r"write 'gnn.head: gswe'"):
        build()(batch())


def test_the_group_is_there_whenever_defaults_are_set():
    assert register.config_dict["gswe"] is gswe_pyg.graphgym.add_gswe_config
    cfg.gswe.points = 99
    set_cfg(cfg)
    assert cfg.gswe.points == 8


@pytest.mark.parametrize("missing", ["yacs", "pytorch_lightning"])
def test_names_the_missing_package(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in (missing, "lightning") else find(name),
    )
    with pytest.raises(ImportError, match=f"needs the package '{missing}'"):
        importlib.reload(gswe_pyg.graphgym)
