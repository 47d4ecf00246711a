import gzip
import time

import numpy as np
import pytest
import torch
from raw_layouts import write_idx, write_mnist
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import NormalizeScale

from gswe_pyg.datasets import PointCloudMNIST, raw_files

IMAGES = np.zeros((3, 4, 4), np.uint8)
IMAGES[0, 3, 1] = 255  # bottom row, second column
IMAGES[0, 0, 3] = 51  # top right corner
IMAGES[2] = 1


@pytest.fixture
def root(tmp_path):
    write_mnist(tmp_path, IMAGES, [7, 0, 9], "train")
    write_mnist(tmp_path, IMAGES[:2], [1, 2], "t10k")
    return tmp_path


def test_point_cloud_mnist(root):
    dataset = PointCloudMNIST(root)
    assert str(dataset) == "PointCloudMNIST(3)"
    assert dataset.num_features == 2
    assert dataset.num_classes == 10
    assert dataset.set_sizes.tolist() == [2, 0, 16]
    assert dataset[0].pos.tolist() == [[3.0, 3.0], [1.0, 0.0]]
    assert dataset[0].x is None
    assert dataset[0].y.tolist() == [7]
    assert dataset.y.tolist() == [7, 0, 9]
    assert PointCloudMNIST(root, train=False).y.tolist() == [1, 2]


def test_point_cloud_mnist_intensity(root):
    PointCloudMNIST(root)
    dataset = PointCloudMNIST(root, intensity=True)
    torch.testing.assert_close(dataset[0].x, torch.tensor([[0.2], [1.0]]))
    assert torch.equal(dataset[0].pos, PointCloudMNIST(root)[0].pos)


def test_point_cloud_mnist_batches_with_an_empty_image(root):
    batch = next(iter(DataLoader(PointCloudMNIST(root), batch_size=3)))
    assert batch.num_graphs == 3
    assert batch.batch.bincount(minlength=3).tolist() == [2, 0, 16]


def test_point_cloud_mnist_prepares(root):
    dataset = PointCloudMNIST(
        root,
        pre_filter=lambda data: data.num_nodes > 2,
        pre_transform=NormalizeScale(),
    )
    assert len(dataset) == 1
    assert dataset[0].pos.abs().max() < 1


def test_point_cloud_mnist_opens_without_raw_files_once_processed(root):
    PointCloudMNIST(root)
    for path in (root / "raw").iterdir():
        path.unlink()
    assert len(PointCloudMNIST(root)) == 3


def test_point_cloud_mnist_downloads_only_what_is_missing(root, monkeypatch):
    (root / "raw" / "train-labels-idx1-ubyte.gz").unlink()
    asked = []

    def download(url, path, md5):
        asked.append(url.rpartition("/")[2])
        write_idx(root / "raw" / asked[-1], np.array([1, 2, 3]))

    monkeypatch.setattr("gswe_pyg.datasets.point_cloud_mnist.download_file", download)
    assert PointCloudMNIST(root).y.tolist() == [1, 2, 3]
    assert asked == ["train-labels-idx1-ubyte.gz"]


def test_point_cloud_mnist_without_files_or_network(tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(raw_files.urllib.request, "urlopen", unreachable)
    with pytest.raises(FileNotFoundError) as error:
        PointCloudMNIST(tmp_path / "mnist")
    assert "no network" in str(error.value)
    assert "'train-images-idx3-ubyte.gz'" in str(error.value)
    assert str(tmp_path / "mnist" / "raw") in str(error.value)
    assert not (tmp_path / "mnist").exists()


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF  # inside the checksum
    path.write_bytes(content)


def shorten(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))


IMAGE_FILE = "train-images-idx3-ubyte.gz"
LABEL_FILE = "train-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (
            IMAGE_FILE,
            lambda path: path.write_bytes(path.read_bytes()[:-9]),
            "truncated",
        ),
        (IMAGE_FILE, lambda path: path.write_bytes(b"not gzip"), "corrupted"),
        (IMAGE_FILE, flip_a_byte, "corrupted"),
        (IMAGE_FILE, lambda path: path.write_bytes(gzip.compress(b"hi")), "not an idx"),
        (IMAGE_FILE, lambda path: write_idx(path, np.zeros(3)), "not an idx file"),
        (IMAGE_FILE, shorten, "announces 48 bytes"),
        (LABEL_FILE, lambda path: write_idx(path, np.zeros(4)), "3 images, but"),
        (LABEL_FILE, lambda path: write_idx(path, np.array([1, 2, 10])), "from 0 to 9"),
    ],
)
def test_point_cloud_mnist_names_the_damaged_file(root, name, damage, message):
    damage(root / "raw" / name)
    with pytest.raises(ValueError, match=message) as error:
        PointCloudMNIST(root)
    assert str(root / "raw" / name) in str(error.value)
    assert list((root / "processed").iterdir()) == []

    write_mnist(root, IMAGES, [7, 0, 9], "train")
    assert len(PointCloudMNIST(root)) == 3


@pytest.mark.real_data
def test_real_point_cloud_mnist(real_data):
    root = real_data("MNIST")
    start = time.perf_counter()
    dataset = PointCloudMNIST(root)
    processed = time.perf_counter()
    dataset = PointCloudMNIST(root)
    opened = time.perf_counter()
    assert processed - start < 30
    assert opened - processed < 2

    assert len(dataset) == 60_000
    assert dataset.set_sizes.sum() == 8_994_156
    assert dataset.num_classes == 10
    assert dataset.pos.min() == 0
    assert dataset.pos.max() == 27
    assert dataset[0].y.tolist() == [5]
    # A one is taller than wide, so y is the vertical axis.
    ones = dataset[dataset.y == 1]
    assert ones[0].pos[:, 1].std() > ones[0].pos[:, 0].std()

    assert len(PointCloudMNIST(root, train=False)) == 10_000
