"""Nothing that lies in a folder, or comes from a server, runs code or gets out."""

import ast
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data.extract import extract_tar
from torch_geometric.datasets import ModelNet

import gswe_pyg
from gswe_pyg.datasets import load_tu
from gswe_pyg.datasets.processed_file import check_readable, read_processed
from gswe_pyg.datasets.raw_files import extract_zip, read_npz

PACKAGE = Path(gswe_pyg.__file__).parent

TU_FILES = {
    "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
    "graph_indicator": "1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
}


class RunsCode:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def write_zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "/etc/out.txt"])
def test_archives_stay_in_their_folder(tmp_path, name):
    path = write_zip(tmp_path / "a.zip", {"fine.txt": "1", name: "2"})
    folder = tmp_path / "inside"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"a\.zip' would write outside of .*out\.txt"):
        extract_zip(str(path), str(folder))
    assert files_in(tmp_path) == {"a.zip"}


def test_a_sound_archive_is_extracted(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x/y.txt": "1", "z.txt": "2"})
    extract_zip(str(path), str(tmp_path / "inside"))
    assert files_in(tmp_path / "inside") == {"x/y.txt", "z.txt"}


@pytest.fixture
def tu_server(tmp_path, monkeypatch):
    """A folder that TU archives are fetched from."""
    server = tmp_path / "server"
    server.mkdir()
    monkeypatch.setattr("gswe_pyg.datasets.tu.TUDataset.url", str(server))
    return server


def test_tu_is_downloaded(tmp_path, tu_server):
    files = {f"TINY/TINY_{key}.txt": text for key, text in TU_FILES.items()}
    write_zip(tu_server / "TINY.zip", files)
    dataset, _ = load_tu(tmp_path / "data", "TINY", num_folds=2)
    assert len(dataset) == 2
    raw = tmp_path / "data" / "TINY" / "raw"
    assert files_in(raw) == {f"TINY_{key}.txt" for key in TU_FILES}
    assert not (raw / "TINY").exists()


@pytest.mark.parametrize("name", ["../../../out.txt", "../../TINY/../out.txt"])
def test_tu_downloads_stay_in_their_folder(tmp_path, tu_server, name):
    files = {f"TINY/TINY_{key}.txt": text for key, text in TU_FILES.items()}
    write_zip(tu_server / "TINY.zip", files | {name: "out"})
    with pytest.raises(FileNotFoundError, match="would write outside"):
        load_tu(tmp_path / "data", "TINY", num_folds=2)
    assert files_in(tmp_path) == {"server/TINY.zip"}


def test_modelnet_downloads_stay_in_their_folder(tmp_path, monkeypatch):
    # PyG extracts these by `zipfile`, which drops what leads outside.
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = write_zip(folder / "m.zip", {"ModelNet10/f.off": "1", "../../out.txt": "2"})
    monkeypatch.setattr(
        "torch_geometric.datasets.modelnet.download_url", lambda *_: str(path)
    )
    dataset = object.__new__(ModelNet)
    dataset.root, dataset.name = str(folder), "10"
    (folder / "raw").mkdir()
    dataset.download()
    assert not (tmp_path / "out.txt").exists()


def test_nothing_in_the_package_extracts_tar_files():
    # Unlike zip files, their members may be links and devices.
    assert callable(extract_tar)  # PyG has it
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for word in ("tarfile", "extract_tar", "unpack_archive"):
            assert word not in text, f"{path.name} uses {word}"


def test_nothing_in_the_package_unpickles():
    calls = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names]
                names.append(getattr(node, "module", None) or "")
                for name in names:
                    assert name.split(".")[0] not in {"pickle", "dill", "joblib"}
            if not isinstance(node, ast.Call):
                continue
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            function = ast.unparse(node.func)
            if function == "torch.load":
                assert options.get("weights_only") == "True", path
                calls += 1
            if function in {"np.load", "numpy.load"}:
                assert options.get("allow_pickle") == "False", path
                calls += 1
    assert calls >= 2


def test_processed_files_run_no_code(tmp_path):
    path = tmp_path / "data.pt"
    for read in (
        lambda: read_processed(str(path), frozenset()),
        lambda: check_readable(str(tmp_path)),
    ):
        torch.save({"data": RunsCode(tmp_path / "trap")}, path)
        with pytest.raises(ValueError, match="damaged or foreign"):
            read()
        assert not (tmp_path / "trap").exists()
        assert not path.exists()


def test_arrays_run_no_code(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([RunsCode(tmp_path / "trap")], dtype=object))
    with pytest.raises(ValueError, match=r"a\.npz' is truncated or corrupted"):
        read_npz(str(path), ["x"])
    assert not (tmp_path / "trap").exists()
