import numpy as np
import pytest
import torch
from raw_layouts import MODELNET_CLASSES, write_modelnet

from gswe_pyg.datasets import ModelNet10Points, modelnet10_points

TETRAHEDRON = """OFF
4 4 6
0 0 0
2 0 0
0 2 0
0 0 2
3 0 1 2
3 0 1 3
3 0 2 3
3 1 2 3
"""


@pytest.mark.parametrize("folder", ["", "raw"])
def test_modelnet10_points(tmp_path, folder):
    write_modelnet(tmp_path / folder)
    write_modelnet(tmp_path / folder, "test", y=np.array([0, 1]))
    dataset = ModelNet10Points(tmp_path)
    assert str(dataset) == "ModelNet10Points(2)"
    assert dataset.num_features == 3
    assert dataset.num_classes == 10
    assert dataset.set_sizes.tolist() == [1024, 1024]
    assert dataset[1].y.tolist() == [9]
    torch.testing.assert_close(
        dataset[1].pos[0], torch.tensor([3072.0, 3073.0, 3074.0]) / 32767
    )
    assert ModelNet10Points(tmp_path, train=False).y.tolist() == [0, 1]


def test_modelnet10_points_are_sampled_from_meshes(tmp_path):
    for name in MODELNET_CLASSES:
        for part in ("train", "test"):
            folder = tmp_path / "raw" / name / part
            folder.mkdir(parents=True)
            (folder / f"{name}_0001.off").write_text(TETRAHEDRON)
    state = torch.get_rng_state()
    dataset = ModelNet10Points(tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    assert dataset.y.tolist() == list(range(10))
    assert dataset.set_sizes.tolist() == [1024] * 10
    for data in dataset:
        assert data.pos.mean(dim=0).abs().max() < 1e-4
        assert abs(data.pos.norm(dim=1).max() - 1) < 1e-4
    assert (tmp_path / "raw" / "modelnet10_1024_unit_i16_train.npz").exists()


def test_modelnet10_points_without_files_or_network(tmp_path, monkeypatch):
    def unreachable(root, *args):
        (tmp_path / "m" / "meshes" / "raw").mkdir(parents=True)
        (tmp_path / "m" / "meshes" / "ModelNet10.zip").write_bytes(b"half")
        raise OSError("no network")

    monkeypatch.setattr(modelnet10_points, "ModelNet", unreachable)
    with pytest.raises(FileNotFoundError, match="no network") as error:
        ModelNet10Points(tmp_path / "m")
    assert "'modelnet10_1024_unit_i16_train.npz'" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_modelnet10_points_downloads_beside_our_files(tmp_path, monkeypatch):
    write_modelnet(tmp_path / "raw")
    roots = []

    def unreachable(root, *args):
        roots.append(root)
        raise OSError("no network")

    monkeypatch.setattr(modelnet10_points, "ModelNet", unreachable)
    with pytest.raises(FileNotFoundError):
        ModelNet10Points(tmp_path, train=False)
    # PyG empties the raw folder of the root it is given.
    assert roots == [str(tmp_path / "meshes")]
    assert len(ModelNet10Points(tmp_path)) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array([1, 2, 3])}, "has 2 objects, but labels of shape"),
        ({"y": np.array([1, 10])}, "from 0 to 9"),
        ({"pos": np.zeros((2, 8, 3))}, "'pos' in"),
        ({"pos": np.zeros((2, 8, 2), np.int16)}, "'pos' in"),
        ({"classes": np.array(["chair"])}, "'classes' in"),
        ({"classes": np.array([{}])}, "corrupted"),  # pickled
    ],
)
def test_modelnet10_points_names_the_wrong_array(tmp_path, changes, message):
    path = write_modelnet(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        ModelNet10Points(tmp_path)
    assert str(path) in str(error.value)
    assert list((tmp_path / "processed").iterdir()) == []


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_modelnet10_points_names_the_truncated_file(tmp_path, size):
    path = write_modelnet(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"train\.npz' is truncated or corrupted"):
        ModelNet10Points(tmp_path)
    assert list((tmp_path / "processed").iterdir()) == []


@pytest.mark.real_data
def test_real_modelnet10_points(real_data):
    root = real_data("ModelNet10")
    train, test = ModelNet10Points(root), ModelNet10Points(root, train=False)
    assert (len(train), len(test)) == (3_991, 908)
    assert train.num_classes == test.num_classes == 10
    assert (train.set_sizes == 1024).all()
    assert train[0].pos.mean(dim=0).abs().max() < 1e-4
    assert abs(train[0].pos.norm(dim=1).max() - 1) < 1e-4
