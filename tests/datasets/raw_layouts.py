"""Tiny raw files in the layouts that the data sets are published in."""

import gzip
import struct
from pathlib import Path

import numpy as np
from scipy.io import savemat

MODELNET_CLASSES = ["bathtub", "bed", "chair", "desk", "dresser"]
MODELNET_CLASSES += ["monitor", "night_stand", "sofa", "table", "toilet"]


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


def write_mnist(root: Path, images: np.ndarray, labels: list[int], part: str) -> None:
    write_idx(root / "raw" / f"{part}-images-idx3-ubyte.gz", images)
    write_idx(root / "raw" / f"{part}-labels-idx1-ubyte.gz", np.array(labels))


def write_modelnet(root: Path, part: str = "train", **changes: np.ndarray) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    arrays = {
        "pos": np.arange(2 * 1024 * 3).reshape(2, 1024, 3).astype(np.int16),
        "y": np.array([3, 9]),
        "classes": np.array(MODELNET_CLASSES),
    }
    path = root / f"modelnet10_1024_unit_i16_{part}.npz"
    np.savez_compressed(path, **(arrays | changes))
    return path


# Four documents over five words, of which the last has no vector.
DOCUMENTS = {
    "ids": np.array([0, 2, 4, 1, 3, 4, 0], np.uint16),
    "counts": np.array([3, 1, 2, 1, 5, 7, 2], np.uint16),
    "offsets": np.array([0, 3, 5, 6, 7], np.int32),
    "y": np.array([0, 1, 0, 1], np.uint8),
    "labels": np.array(["bad", "good"]),
}


def word_vectors(dimension: int = 300) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4, dimension)).astype(np.float16)


def write_words(root: Path, name: str = "twitter", **changes: np.ndarray) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    table = {
        "vocab": np.array(["a", "b", "c", "d", "e"]),
        "row": np.array([3, 2, 1, 0, -1], np.int32),
        "vec": word_vectors(),
    }
    for key in table:
        table[key] = changes.pop(key, table[key])
    np.savez_compressed(root / "word2vec.npz", **table)
    np.savez_compressed(root / f"{name}.npz", **(DOCUMENTS | changes))
    return root / f"{name}.npz"


def write_mat(root: Path, name: str = "twitter", **changes: np.ndarray) -> Path:
    """Six documents; the fourth is empty, the first and the last share a word."""
    root.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    sizes = [2, 3, 1, 0, 4, 2]
    matrices = [random.normal(size=(300, size)) for size in sizes]
    matrices[5][:, 1] = matrices[0][:, 0]
    content = {
        "X": cells(matrices),
        "BOW_X": cells([1 + np.arange(size, dtype=float)[None] for size in sizes]),
        "Y": np.array([[1, 2, 3, 1, 2, 3]], float),
        "TR": np.array([[1, 2, 4, 5], [6, 5, 4, 3]], float),
        "TE": np.array([[3, 6], [1, 2]], float),
        "words": cells([cells([np.array(["w"])] * size) for size in sizes]),
    } | changes
    path = root / f"{name}-emd_tr_te_split.mat"
    savemat(path, {key: value for key, value in content.items() if value is not None})
    return path


def cells(values: list[np.ndarray]) -> np.ndarray:
    array = np.empty((1, len(values)), dtype=object)
    for i, value in enumerate(values):
        array[0, i] = value
    return array
