import os
from pathlib import Path

import pytest
import torch
from torch_geometric.transforms import OneHotDegree

from gswe_pyg.datasets import load_tu, tu

# Three graphs: a triangle, an edge, and an edge with a third node of its own.
EDGES = [(1, 2), (2, 3), (3, 1), (4, 5), (6, 7), (8, 7)]
OWNER = [1, 1, 1, 2, 2, 3, 3, 3]


def write_tu(root: Path, name: str = "TINY", **more: str) -> Path:
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    both = EDGES + [(j, i) for i, j in EDGES]
    files = {
        "A": "\n".join(f"{i}, {j}" for i, j in both),
        "graph_indicator": "\n".join(map(str, OWNER)),
        "graph_labels": "1\n-1\n1",
    } | more
    for key, content in files.items():
        (raw / f"{name}_{key}.txt").write_text(content + "\n")
    return raw


def test_load_tu_adds_degrees_where_there_are_no_features(tmp_path):
    write_tu(tmp_path)
    dataset, folds = load_tu(tmp_path, "TINY", num_folds=3)
    assert dataset.num_features == 3
    assert dataset.num_classes == 2
    assert dataset[0].x.tolist() == [[0, 0, 1]] * 3
    assert dataset[1].x.tolist() == [[0, 1, 0]] * 2
    assert dataset[2].x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert len(folds) == 3
    assert sorted(int(test) for _, test in folds) == [0, 1, 2]


def test_load_tu_standardises_large_degrees(tmp_path, monkeypatch):
    monkeypatch.setattr(tu, "MAX_ONE_HOT_DEGREE", 1)
    write_tu(tmp_path)
    dataset, _ = load_tu(tmp_path, "TINY", num_folds=2)
    assert dataset.num_features == 1
    x = torch.cat([data.x for data in dataset])
    assert x.size() == (8, 1)
    assert abs(x.mean()) < 1e-6
    assert abs(x.std() - 1) < 1e-6


def test_load_tu_leaves_features_alone(tmp_path):
    write_tu(
        tmp_path, node_labels="\n".join("01010101"), node_attributes="0.5\n" * 7 + "2"
    )
    dataset, _ = load_tu(tmp_path, "TINY", num_folds=2)
    assert dataset[1].x.tolist() == [[0, 1], [1, 0]]
    dataset, _ = load_tu(tmp_path, "TINY", num_folds=2, use_node_attr=True)
    assert dataset[1].x.tolist() == [[0.5, 0, 1], [0.5, 1, 0]]


def test_load_tu_with_attributes_only(tmp_path):
    write_tu(tmp_path, node_attributes="0.5\n" * 7 + "2")
    dataset, _ = load_tu(tmp_path, "TINY", num_folds=2)
    assert dataset[1].x.tolist() == [[0, 1, 0]] * 2
    dataset, _ = load_tu(tmp_path, "TINY", num_folds=2, use_node_attr=True)
    assert dataset[1].x.tolist() == [[0.5], [0.5]]


def test_load_tu_transform(tmp_path):
    write_tu(tmp_path)
    dataset, _ = load_tu(
        tmp_path,
        "TINY",
        num_folds=2,
        transform=lambda data: data.update({"x": -data.x}),
    )
    assert dataset[1].x.tolist() == [[0, -1, 0]] * 2


def test_load_tu_unknown_name(tmp_path, monkeypatch):
    def unreachable(self):
        raise OSError("no network")

    monkeypatch.setattr("gswe_pyg.datasets.tu.TUDataset.download", unreachable)
    with pytest.raises(FileNotFoundError, match="no network") as error:
        load_tu(tmp_path, "NOPE")
    assert "NOPE_A.txt" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_load_tu_damaged_raw_file(tmp_path):
    raw = write_tu(tmp_path)
    (raw / "TINY_A.txt").write_text("1, 2\n3\n")
    with pytest.raises(ValueError, match="cannot be read") as error:
        load_tu(tmp_path, "TINY")
    assert str(raw) in str(error.value)
    assert list((tmp_path / "TINY" / "processed").glob("data.pt")) == []


def test_load_tu_damaged_processed_file(tmp_path):
    write_tu(tmp_path)
    load_tu(tmp_path, "TINY", num_folds=2)
    path = tmp_path / "TINY" / "processed" / "data.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"data\.pt' is damaged"):
        load_tu(tmp_path, "TINY", num_folds=2)
    assert len(load_tu(tmp_path, "TINY", num_folds=2)[0]) == 3


class RunsCode:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["data.pt", "pre_transform.pt"])
def test_load_tu_runs_no_code_in_processed_files(tmp_path, name):
    write_tu(tmp_path)
    load_tu(tmp_path, "TINY", num_folds=2)
    path = tmp_path / "TINY" / "processed" / name
    torch.save(RunsCode(tmp_path / "trap"), path)
    with pytest.raises(ValueError, match="damaged or foreign"):
        load_tu(tmp_path, "TINY", num_folds=2)
    assert not (tmp_path / "trap").exists()
    assert not path.exists()


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "graphs", "features", "classes"),
    [("MUTAG", 188, 7, 2), ("IMDB-MULTI", 1_500, 89, 3)],
)
def test_real_tu(real_data, name, graphs, features, classes):
    root = real_data("TUDataset")
    dataset, folds = load_tu(root, name)
    assert len(dataset) == graphs
    assert dataset.num_features == features
    assert dataset.num_classes == classes
    assert len(folds) == 10
    if name == "IMDB-MULTI":
        pyg = OneHotDegree(features - 1)
        for data in dataset[:50]:
            alone = data.clone()
            del alone.x
            assert torch.equal(data.x, pyg(alone).x)
