import pytest
import torch
import torch_geometric.nn.aggr
from torch_geometric.nn import (
    GraphConv,
    MultiAggregation,
    SAGEConv,
    SchNet,
)
from torch_geometric.nn.resolver import aggregation_resolver

import gswe_pyg
from gswe_pyg import GSWEAggregation
from gswe_pyg.aggr import MedianAggregation, QuantileAggregation
from gswe_pyg.resolver import REGISTERED

OPTIONS = {"in_channels": 8, "num_slices": 6, "num_points": 4}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    # What was there before comes back, so that no other test can rely on it.
    names = {kind.__name__ for kind in REGISTERED}
    for name in names:
        monkeypatch.delattr(torch_geometric.nn.aggr, name, raising=False)
    before = set(vars(torch_geometric.nn.aggr))
    gswe_pyg.register()
    yield
    assert set(vars(torch_geometric.nn.aggr)) - before == names
    for name in names:
        delattr(torch_geometric.nn.aggr, name)


def edges() -> torch.Tensor:
    # Node 4 has no neighbours.
    return torch.tensor([[0, 1, 2, 3, 1, 0], [1, 0, 0, 0, 3, 3]])


def loss_falls(module, *inputs) -> bool:
    """One step along the gradient, small enough to go down."""
    loss = module(*inputs).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    return bool(module(*inputs).square().mean() < loss)


def test_is_opt_in_and_idempotent():
    gswe_pyg.register()
    del torch_geometric.nn.aggr.GSWEAggregation
    with pytest.raises(ValueError, match="Could not resolve 'gswe'"):
        aggregation_resolver("gswe", **OPTIONS)
    gswe_pyg.register()


def test_refuses_to_replace_a_class_of_that_name(monkeypatch):
    class GSWEAggregation(torch_geometric.nn.aggr.Aggregation):
        pass

    monkeypatch.setattr(torch_geometric.nn.aggr, "GSWEAggregation", GSWEAggregation)
    with pytest.raises(RuntimeError, match="has another 'GSWEAggregation' already"):
        gswe_pyg.register()


@pytest.mark.parametrize("name", ["gswe", "GSWE", "GSWEAggregation"])
def test_aggregation_resolver(name):
    aggr = aggregation_resolver(name, **OPTIONS, interpolation="barycentric")
    assert isinstance(aggr, GSWEAggregation)
    assert aggr.interpolation == "barycentric"


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("fast_quantile", {"q": [0.2, 0.8]}, QuantileAggregation),
        ("fast_median", {}, MedianAggregation),
    ],
)
def test_quantiles(name, options, kind):
    aggr = aggregation_resolver(name, **options)
    assert isinstance(aggr, kind)
    theirs = aggregation_resolver(name.removeprefix("fast_"), **options)
    assert not isinstance(theirs, kind)
    x, index = torch.randn(7, 8), torch.tensor([0, 0, 0, 2, 2, 3, 3])
    torch.testing.assert_close(aggr(x, index), theirs(x, index))


def test_sage_conv():
    torch.manual_seed(0)
    conv = SAGEConv(8, 5, aggr="gswe", aggr_kwargs={**OPTIONS, "out_channels": 8})
    assert isinstance(conv.aggr_module, GSWEAggregation)
    x = torch.randn(5, 8)
    out = conv(x, edges())
    assert out.shape == (5, 5)
    # The isolated node sees the zero vector, and so only itself.
    alone = conv.lin_r(x[4]) + conv.lin_l.bias
    torch.testing.assert_close(out[4], alone)
    neighbours = GSWEAggregation.forward(
        conv.aggr_module, x[[1, 2, 3]], torch.zeros(3).long()
    )
    torch.testing.assert_close(out[0], conv.lin_l(neighbours[0]) + conv.lin_r(x[0]))
    assert loss_falls(conv, x, edges())


def test_every_conv_draws_parameters_of_its_own():
    kwargs = {**OPTIONS, "out_channels": 8}
    first, second = (GraphConv(8, 5, "gswe", aggr_kwargs=kwargs) for _ in range(2))
    assert not first.aggr_module.points.equal(second.aggr_module.points)


def test_multi_aggregation():
    torch.manual_seed(0)
    aggr = MultiAggregation(["mean", "gswe"], aggrs_kwargs=[{}, OPTIONS])
    x, index = torch.randn(7, 8), torch.tensor([0, 0, 0, 2, 2, 3, 3])
    out = aggr(x, index, dim_size=5)
    assert out.shape == (5, 8 + 6 * 4)
    torch.testing.assert_close(out[0, :8], x[:3].mean(dim=0))
    torch.testing.assert_close(out[:, 8:], aggr.aggrs[1](x, index, dim_size=5))
    assert not out[[1, 4]].any()
    assert loss_falls(aggr, x, index)


def test_multi_aggregation_in_a_conv():
    torch.manual_seed(0)
    conv = SAGEConv(
        8,
        5,
        aggr=["mean", "gswe"],
        aggr_kwargs={"aggrs_kwargs": [{}, {**OPTIONS, "out_channels": 8}]},
    )
    assert conv(torch.randn(5, 8), edges()).shape == (5, 5)
    assert loss_falls(conv, torch.randn(5, 8), edges())


def test_schnet_takes_the_resolved_readout():
    torch.manual_seed(0)
    # SchNet reduces atoms to one channel before it reads out.
    readout = aggregation_resolver("gswe", 1, 1, 4, out_channels=1)
    pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    model = SchNet(
        hidden_channels=8,
        num_filters=8,
        num_interactions=1,
        interaction_graph=lambda pos, batch: (pairs, torch.ones(4)),
        readout=readout,
    )
    z, pos = torch.tensor([1, 6, 8, 1]), torch.randn(4, 3)
    batch = torch.tensor([0, 0, 1, 1])
    assert model(z, pos, batch).shape == (2, 1)
    assert loss_falls(model, z, pos, batch)
