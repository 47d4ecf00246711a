import json

import pytest
import torch
from torch_geometric.nn import SAGEConv

from benchmarks import neighbourhoods
from benchmarks.__main__ import main
from gswe_pyg import GSWEAggregation


def test_measures_every_aggregation_and_its_ratio_to_mean(tmp_path, capsys):
    arguments = ["--nodes", "200", "--rounds", "2", "--output", str(tmp_path)]
    assert main(["neighbourhoods", *arguments]) == 0
    results = json.loads((tmp_path / "neighbourhoods.json").read_text())
    assert results["isolated"] >= 20
    assert len(results["records"]) == 5 * 2 * 2
    for record in results["records"]:
        assert record["repetitions"] == 2
        if record["aggregation"] == "mean":
            assert record["of_mean"] == 1
    first = capsys.readouterr().out
    assert "GSWE, 4 points, projected" in first
    assert main(["neighbourhoods", *arguments, "--report"]) == 0
    assert capsys.readouterr().out in first


def test_report_without_results(tmp_path, capsys):
    assert main(["neighbourhoods", "--report", "--output", str(tmp_path)]) == 2
    assert "measure first" in capsys.readouterr().err


@pytest.mark.parametrize("interpolation", ["linear", "step", "barycentric", "pswe"])
def test_a_graph_of_a_hundred_thousand_nodes(interpolation):
    num_nodes, channels = 100_000, 4
    edge_index = neighbourhoods.make_edges(num_nodes, seed=0)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, channels, requires_grad=True)
    aggr = GSWEAggregation(
        channels, 3, num_points=4, interpolation=interpolation, out_channels=channels
    )
    layer = SAGEConv(channels, 2, aggr=aggr)
    out = layer(x, edge_index)
    assert out.shape == (num_nodes, 2)
    assert out.isfinite().all()
    out.sum().backward()
    assert x.grad.isfinite().all()

    degree = torch.bincount(edge_index[1], minlength=num_nodes)
    isolated = (degree == 0).nonzero().flatten()
    assert len(isolated) >= num_nodes // 10
    # An isolated node aggregates the zero vector, so that only itself is left.
    alone = layer.lin_r(x[isolated]) + layer.lin_l.bias
    torch.testing.assert_close(out[isolated], alone)
    # One neighbourhood at a time: the widest, and some of every size up to ten.
    chosen = [int(degree.argmax())]
    for size in range(1, 11):
        chosen += (degree == size).nonzero().flatten()[:3].tolist()
    for node in chosen:
        neighbours = x[edge_index[0, edge_index[1] == node]]
        set_alone = aggr(neighbours, torch.zeros(len(neighbours), dtype=torch.long))
        expected = layer.lin_l(set_alone[0]) + layer.lin_r(x[node])
        torch.testing.assert_close(out[node], expected, rtol=1e-4, atol=1e-5)
