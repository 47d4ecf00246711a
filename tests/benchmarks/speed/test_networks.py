import pytest
import torch
from torch_geometric.data import Data

from benchmarks.speed import networks
from benchmarks.speed.timing import MODES


def molecule(seed):
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randint(2, (5, 9), generator=generator),
        edge_index=torch.randint(5, (2, 8), generator=generator),
        edge_attr=torch.randint(2, (8, 3), generator=generator),
        y=torch.tensor([[seed % 2]]),
    )


def test_data_that_are_missing_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        next(networks.gin(tmp_path))


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
