import pytest
import torch
from torch_geometric.data import Data

from benchmarks.speed import networks
from benchmarks.speed.contenders import LABELS
from benchmarks.speed.timing import MODES
from gswe_pyg.datasets import WordSets
from gswe_pyg.models import StackedSAB


def molecule(seed):
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randint(2, (5, 9), generator=generator),
        edge_index=torch.randint(5, (2, 8), generator=generator),
        edge_attr=torch.randint(2, (8, 3), generator=generator),
        y=torch.tensor([[seed % 2]]),
    )


@pytest.mark.parametrize("part", [networks.gin, networks.documents])
def test_data_that_are_missing_are_named(part, tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        next(part(tmp_path))


def test_gin(monkeypatch, tmp_path):
    monkeypatch.setattr(networks, "GIN_SIZES", ((8, 2),))
    load = lambda data, most: [molecule(i) for i in range(most)]  # noqa: E731
    monkeypatch.setattr(networks, "load_molecules", load)
    records = list(networks.gin(tmp_path, steps=3))
    assert [line["contender"] for line in records] == list(networks.GIN_READOUTS)
    assert {line["case"] for line in records} == {"8 channels, batches of 2"}


def test_neighbourhoods():
    records = list(networks.neighbourhoods(num_nodes=200, rounds=2))
    found = {(line["case"], line["contender"], line["mode"]) for line in records}
    cases = ("edges in any order", "edges by target")
    expected = {(c, n, m) for c in cases for n in networks.LAYERS for m in MODES}
    assert found == expected


def test_the_padded_backbone_is_the_same_function(ragged):
    torch.manual_seed(0)
    backbone = StackedSAB(5, (8, 8, 4), (2, 4, 1)).double()
    sizes = (3, 0, 7, 1, 4)
    x, index = ragged(5, sizes, torch.double)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    found = []
    for model in (backbone, networks.PaddedSAB(backbone)):
        out = model(x, index, ptr, 5)
        grads = torch.autograd.grad(out.square().sum(), backbone.parameters())
        found.append([out, *grads])
    torch.testing.assert_close(*found)


def test_documents(monkeypatch, tmp_path):
    generator = torch.Generator().manual_seed(0)
    vectors = {f"w{i}": torch.randn(5, generator=generator).tolist() for i in range(9)}
    texts = [[f"w{(i * j) % 9}" for j in range(1 + i % 7)] for i in range(90)]
    dataset = WordSets.from_documents(texts, [i % 2 for i in range(90)], vectors)
    monkeypatch.setattr(networks, "WordSets", lambda *arguments: dataset)
    for line in networks.documents(tmp_path, steps=1):
        assert line["contender"] in LABELS
        # Two batches make the epoch.
        assert line["seconds"] == pytest.approx(2 * line["quartiles"][0])
