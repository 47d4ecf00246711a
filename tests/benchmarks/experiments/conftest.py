"""Small data in place of all files."""

import pytest
import torch

from benchmarks.experiments.documents import run as documents_run
from benchmarks.experiments.graphs import data as graph_data
from benchmarks.experiments.neighbourhoods import run as neighbourhoods
from benchmarks.experiments.set_table import SetTable
from benchmarks.experiments.when import run as when
from gswe_pyg.datasets import WordSets

NUM_GRAPHS, NUM_CLASSES = 60, 2


def make_words() -> WordSets:
    """Documents of two classes over a small vocabulary, one of them with one word."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(30, 6, generator=generator)
    vocabulary = {f"w{i}": vector.tolist() for i, vector in enumerate(vectors)}
    texts = []
    for i in range(60):
        size = 1 + 5 * (i > 0) + i % 4
        tokens = torch.randint(20, (size,), generator=generator) + 10 * (i % 2)
        texts.append([f"w{token}" for token in tokens.tolist()])
    return WordSets.from_documents(texts, [i % 2 for i in range(60)], vocabulary)


def make_graphs(kind: str) -> SetTable:
    """Rings of three to nine nodes, the classes apart by what is on the nodes."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 10, (NUM_GRAPHS,), generator=generator)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    y = torch.arange(NUM_GRAPHS) % NUM_CLASSES
    owner = y.repeat_interleave(sizes)
    x = torch.randn(len(owner), 3, generator=generator) + 2 * owner[:, None]
    rings = [torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in sizes]
    edge_index = torch.cat(rings, dim=1)
    if kind == "features":
        return SetTable(x, ptr, y, edge_index, None, ptr)
    if kind == "sets":
        return SetTable(x, ptr, y)
    atoms = owner[:, None].expand(-1, 9).contiguous()
    bonds = torch.zeros(len(owner), 3, dtype=torch.long)
    target = y if kind == "rocauc" else y * 10.0 + 5
    return SetTable(atoms, ptr, target[:, None], edge_index, bonds, ptr)


def make_molecules(root, name):
    parts = torch.arange(NUM_GRAPHS).split(NUM_GRAPHS // 3)
    split = dict(zip(("train", "valid", "test"), parts, strict=True))
    return make_graphs(graph_data.METRICS[name]), split


@pytest.fixture
def documents():
    return make_words()


@pytest.fixture(autouse=True)
def _small_data(monkeypatch, documents):
    monkeypatch.setitem(documents_run.DATASETS, "twitter", lambda root: documents)
    for name, load in {
        "_tu_graphs": lambda *_: make_graphs("features"),
        "_ogb_graphs": make_molecules,
        "_modelnet10_graphs": lambda *_: (make_graphs("sets"), 40),
    }.items():
        monkeypatch.setattr(graph_data, name, load)
    monkeypatch.setattr(neighbourhoods, "NUM_NODES", 300)
    monkeypatch.setattr(neighbourhoods, "PARTS", [200, 50, 50])
    monkeypatch.setattr(when, "NUM_TRAINING", 60)
    monkeypatch.setattr(when, "NUM_TEST", 50)
