import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from benchmarks.speed import documents, gin, neighbourhoods, parts
from benchmarks.speed.contenders import CONTENDERS
from benchmarks.speed.parts import LABELS, PARTS, Setting
from benchmarks.speed.shapes import Shape
from benchmarks.speed.timing import MODES
from gswe_pyg import GSWEAggregation
from gswe_pyg.datasets import WordSets
from gswe_pyg.models import StackedSAB


def test_quick_runs_and_devices_have_fewer_contenders():
    full, quick = Setting().names(*parts.ALL), Setting(quick=True).names(*parts.ALL)
    assert full == list(CONTENDERS)
    assert set(full) - set(quick) == {"fsw"}
    on_device = Setting(device="cuda").names(*parts.ALL)
    assert set(full) - set(on_device) == {"fsw", "numpy_sort"}
    assert Setting(quick=True).rounds(24) == 2


@pytest.mark.parametrize("name", ["shapes", "one_thread", "skewed", "small", "growth"])
def test_parts_of_shapes(name, monkeypatch):
    tiny = Shape(3, 4, 2, 2)
    for shapes in ("SIX", "GROWTH"):
        monkeypatch.setattr(
            parts, shapes, {"x": [tiny]} if shapes == "GROWTH" else [tiny]
        )
    monkeypatch.setattr(parts, "SKEWED", tiny)
    monkeypatch.setattr(parts, "SMALL", tiny)

    def time_shape(shape, names, rounds, budget, seed, device):
        assert (shape, seed, device) == (tiny, 7, "cpu")
        for contender in names:
            yield {"contender": contender}

    monkeypatch.setattr(parts, "time_shape", time_shape)
    found = [line["contender"] for line in PARTS[name].measure(Setting(seed=7))]
    assert len(found) == len(set(found))
    assert PARTS[name].baseline in {None, *found}
    assert "segment_quantile" in found


def test_memory_is_that_of_ours_and_others(monkeypatch):
    monkeypatch.setattr(parts, "peak_memory", lambda shape, name, seed: (shape, name))
    found = list(PARTS["memory"].measure(Setting()))
    assert len(found) == len(set(found))
    assert {name for _, name in found} >= {"gswe_heads1", "mean", "fsw"}


def molecule(seed):
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randint(2, (5, 9), generator=generator),
        edge_index=torch.randint(5, (2, 8), generator=generator),
        edge_attr=torch.randint(2, (8, 3), generator=generator),
        y=torch.tensor([[seed % 2]]),
    )


def test_gin(monkeypatch, tmp_path):
    monkeypatch.setattr(gin, "SETTINGS", ((8, 2),))
    records = list(gin.measure(tmp_path, steps=3, seed=0))
    assert {line["skipped"] for line in records} == {"no data"}
    (tmp_path / "ogbg_molhiv").mkdir()
    load = lambda data, most, seed: [molecule(i) for i in range(most)]  # noqa: E731
    monkeypatch.setattr(gin, "load_molecules", load)
    records = list(gin.measure(tmp_path, steps=3, seed=0))
    assert [line["contender"] for line in records] == list(gin.READOUTS)
    assert {line["repetitions"] for line in records} == {3}
    assert {line["case"] for line in records} == {"8 channels, batches of 2"}


def test_neighbourhoods():
    records = list(neighbourhoods.measure(rounds=2, seed=0, num_nodes=200))
    found = {(line["case"], line["mode"], line["contender"]) for line in records}
    assert len(found) == len(records) == 2 * 2 * len(neighbourhoods.AGGREGATIONS)
    assert {line["mode"] for line in records} == set(MODES)


def test_some_nodes_have_no_neighbours():
    edges = neighbourhoods.make_edges(1000, seed=0)
    degree = torch.bincount(edges[1], minlength=1000)
    assert edges.shape == (2, 5000)
    assert (degree[-100:] == 0).all()


@pytest.mark.parametrize("interpolation", ["linear", "step", "barycentric", "pswe"])
def test_a_layer_on_a_large_graph(interpolation):
    num_nodes, channels = 100_000, 4
    edge_index = neighbourhoods.make_edges(num_nodes, seed=0)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, channels, requires_grad=True)
    aggr = GSWEAggregation(
        channels, 3, num_points=4, interpolation=interpolation, out_channels=channels
    )
    layer = SAGEConv(channels, 2, aggr=aggr)
    out = layer(x, edge_index)
    assert out.isfinite().all()
    out.sum().backward()
    assert x.grad.isfinite().all()
    degree = torch.bincount(edge_index[1], minlength=num_nodes)
    isolated = (degree == 0).nonzero().flatten()
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


def test_the_padded_backbone_is_the_same_function():
    torch.manual_seed(0)
    backbone = StackedSAB(5, (8, 8, 4), (2, 4, 1)).double()
    sizes = torch.tensor([3, 0, 7, 1, 4])
    index = torch.arange(5).repeat_interleave(sizes)
    ptr = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)])
    x = torch.randn(15, 5, dtype=torch.double)
    grads = []
    for model in (backbone, documents.PaddedSAB(backbone)):
        out = model(x, index, ptr, 5)
        grads.append(
            [out, *torch.autograd.grad(out.square().sum(), backbone.parameters())]
        )
    torch.testing.assert_close(*grads)


def test_documents(monkeypatch, tmp_path):
    records = list(documents.measure(tmp_path, steps=1, seed=0))
    assert {line["skipped"] for line in records} == {"no data"}
    generator = torch.Generator().manual_seed(0)
    vectors = {f"w{i}": torch.randn(5, generator=generator).tolist() for i in range(9)}
    texts = [[f"w{(i * j) % 9}" for j in range(1 + i % 7)] for i in range(90)]
    dataset = WordSets.from_documents(texts, [i % 2 for i in range(90)], vectors)
    monkeypatch.setattr(documents, "load", lambda data: dataset)
    for line in documents.measure(tmp_path, steps=1, seed=0):
        assert line["contender"] in LABELS
        assert line["repetitions"] == 1
        # Two batches make the epoch.
        assert line["seconds"] == pytest.approx(2 * line["quartiles"][0])
