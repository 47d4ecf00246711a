import gzip
import os
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("ogb")

from gswe_pyg.datasets import load_ogb


def write_ogb(root: Path) -> Path:
    """Two molecules, of two atoms and of one, in the layout of ogbg-molesol."""
    folder = root / "ogbg_molesol"
    files = {
        "raw/edge.csv.gz": "0,1\n",
        "raw/num-edge-list.csv.gz": "1\n0\n",
        "raw/num-node-list.csv.gz": "2\n1\n",
        "raw/node-feat.csv.gz": "\n".join(["5,0,4,5,3,0,2,0,0"] * 3) + "\n",
        "raw/edge-feat.csv.gz": "0,0,0\n",
        "raw/graph-label.csv.gz": "-0.77\n-3.3\n",
        "split/scaffold/train.csv.gz": "1\n",
        "split/scaffold/valid.csv.gz": "0\n",
        "split/scaffold/test.csv.gz": "0\n",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))
    (folder / "RELEASE_v1.txt").touch()
    return folder


def test_load_ogb(tmp_path):
    write_ogb(tmp_path)
    allowed = torch.serialization.get_safe_globals()
    for _ in range(2):  # processed, then opened
        dataset, split = load_ogb(tmp_path, "ogbg-molesol")
        assert len(dataset) == 2
        assert dataset[0].x.size() == (2, 9)
        assert dataset[0].edge_index.tolist() == [[0, 1], [1, 0]]
        assert dataset[1].num_nodes == 1
        assert {key: index.tolist() for key, index in split.items()} == {
            "train": [1],
            "valid": [0],
            "test": [0],
        }
    # Nothing stays allowed.
    assert set(torch.serialization.get_safe_globals()) == set(allowed)


def test_load_ogb_transform(tmp_path):
    write_ogb(tmp_path)
    dataset, _ = load_ogb(tmp_path, "ogbg-molesol", lambda d: d.update({"y": -d.y}))
    assert dataset[1].y.item() == pytest.approx(3.3)


def test_load_ogb_unknown_name(tmp_path):
    with pytest.raises(ValueError, match="ogbg-nope"):
        load_ogb(tmp_path, "ogbg-nope")


def test_load_ogb_without_files_or_network(tmp_path, monkeypatch):
    def unreachable(url):
        raise OSError("no network")

    monkeypatch.setattr("ogb.graphproppred.dataset_pyg.decide_download", unreachable)
    with pytest.raises(FileNotFoundError, match="no network") as error:
        load_ogb(tmp_path, "ogbg-molesol")
    assert str(tmp_path / "ogbg_molesol") in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_load_ogb_does_not_ask_on_the_terminal(tmp_path):
    (write_ogb(tmp_path) / "RELEASE_v1.txt").unlink()
    with pytest.raises(FileNotFoundError, match="RELEASE_v"):
        load_ogb(tmp_path, "ogbg-molesol")


def test_load_ogb_names_ogb_when_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ogb.graphproppred", None)
    with pytest.raises(ImportError, match="pip install ogb"):
        load_ogb(tmp_path, "ogbg-molesol")


class RunsCode:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["geometric_data_processed.pt", "pre_transform.pt"])
@pytest.mark.parametrize("damage", ["half", "code"])
def test_load_ogb_damaged_processed_file(tmp_path, name, damage):
    folder = write_ogb(tmp_path)
    load_ogb(tmp_path, "ogbg-molesol")
    path = folder / "processed" / name
    if damage == "half":
        path.write_bytes(path.read_bytes()[:100])
    else:
        torch.save(RunsCode(tmp_path / "trap"), path)
    with pytest.raises(ValueError, match=f"{name}' is damaged or foreign"):
        load_ogb(tmp_path, "ogbg-molesol")
    assert not (tmp_path / "trap").exists()
    assert len(load_ogb(tmp_path, "ogbg-molesol")[0]) == 2


@pytest.mark.real_data
def test_real_ogb(real_data):
    root = real_data("ogb")
    dataset, split = load_ogb(root, "ogbg-molbace")
    assert len(dataset) == 1_513
    assert [len(split[part]) for part in ("train", "valid", "test")] == [1210, 151, 152]
    assert dataset.eval_metric == "rocauc"
