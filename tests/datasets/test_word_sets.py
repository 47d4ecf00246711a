import os

import numpy as np
import pytest
import torch
from raw_layouts import cells, word_vectors, write_mat, write_words
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gswe_pyg.datasets import WordSets, stratified_folds
from gswe_pyg.loader import SetLoader

LOST = "dropped 9 of 21 words, which have no vector"


@pytest.mark.parametrize("folder", ["", "raw"])
def test_word_sets_from_compact_files(tmp_path, folder):
    write_words(tmp_path / folder)
    with pytest.warns(UserWarning, match=f"{LOST} and dropped 1 of 4 documents"):
        dataset = WordSets(tmp_path, "twitter")
    assert str(dataset) == "WordSets('twitter', 3)"
    assert dataset.num_features == 300
    assert dataset.num_classes == 2
    assert dataset.classes == ["bad", "good"]
    assert dataset.y.tolist() == [0, 1, 1]
    assert dataset.set_sizes.tolist() == [2, 2, 1]

    vectors = torch.from_numpy(word_vectors()).float()
    data = dataset[0]
    assert len(data) == 3
    assert torch.equal(data.x, vectors[[3, 1]])
    assert data.weight.tolist() == [3.0, 1.0]
    assert data.weight.dtype == torch.float
    assert data.y.tolist() == [0]
    assert torch.equal(dataset[2].x, vectors[[3]])


def test_word_sets_keeps_empty_documents_if_told(tmp_path):
    write_words(tmp_path)
    with pytest.warns(UserWarning, match=f"{LOST} and kept 1 empty documents"):
        dataset = WordSets(tmp_path, "twitter", keep_empty=True)
    assert dataset.set_sizes.tolist() == [2, 2, 0, 1]
    assert dataset[2].x.size() == (0, 300)
    assert dataset[2].weight.size() == (0,)
    assert dataset[2].num_nodes == 0
    for loader in (DataLoader, SetLoader):
        batch = next(iter(loader(dataset, batch_size=4)))
        assert batch.num_graphs == 4
        assert batch.x.size() == (5, 300)
        assert batch.weight.tolist() == [3.0, 1.0, 1.0, 5.0, 2.0]
        assert batch.batch.tolist() == [0, 0, 1, 1, 3]
        assert batch.ptr.tolist() == [0, 2, 4, 4, 5]
    batch = next(iter(SetLoader(dataset[[2]], batch_size=1)))
    assert batch.num_graphs == 1
    assert batch.x.size() == (0, 300)

    with pytest.warns(UserWarning, match="dropped 1 of 4 documents"):
        assert len(WordSets(tmp_path, "twitter")) == 3


@pytest.mark.filterwarnings("ignore:.*dropped")
def test_word_sets_store_each_vector_once(tmp_path):
    write_words(
        tmp_path,
        ids=np.zeros(400, np.uint16),
        counts=np.ones(400, np.uint16),
        offsets=np.arange(401, dtype=np.int32),
        y=np.zeros(400, np.uint8),
    )
    dataset = WordSets(tmp_path, "twitter")
    assert dataset.vectors.size() == (1, 300)
    stored = tmp_path / "processed" / "twitter_npz.pt"
    assert stored.stat().st_size < 400 * 300
    content = torch.load(stored, weights_only=True)
    assert content["vectors"].dtype == torch.half
    assert dataset[7].x.dtype == torch.float


def test_word_sets_from_published_file(tmp_path):
    write_mat(tmp_path)
    with pytest.warns(UserWarning, match="dropped 1 of 6 documents"):
        dataset = WordSets(tmp_path, "twitter")
    assert dataset.set_sizes.tolist() == [2, 3, 1, 4, 2]
    assert dataset.classes == ["1", "2", "3"]
    assert dataset.y.tolist() == [0, 1, 2, 1, 2]
    assert dataset[3].weight.tolist() == [1.0, 2.0, 3.0, 4.0]
    expected = np.random.default_rng(0).normal(size=(300, 2)).T.astype(np.float32)
    assert torch.equal(dataset[0].x, torch.from_numpy(expected))
    # Eleven of the twelve vectors differ.
    assert dataset.vectors.size() == (11, 300)
    assert torch.equal(dataset[4].x[1], dataset[0].x[0])


@pytest.mark.parametrize("keep_empty", [False, True])
@pytest.mark.filterwarnings("ignore:.*empty")
def test_word_sets_published_splits(tmp_path, keep_empty):
    write_mat(tmp_path)
    for _ in range(2):  # processed, then opened
        dataset = WordSets(tmp_path, "twitter", keep_empty=keep_empty)
        splits = [
            (train.tolist(), test.tolist())
            for train, test in dataset.get_splits("published")
        ]
        if keep_empty:
            assert splits == [([0, 1, 3, 4], [2, 5]), ([5, 4, 3, 2], [0, 1])]
        else:
            assert splits == [([0, 1, 3], [2, 4]), ([4, 3, 2], [0, 1])]


@pytest.mark.filterwarnings("ignore:.*empty")
def test_word_sets_one_published_split(tmp_path):
    write_mat(tmp_path, TR=np.array([[1, 2]]), TE=np.array([[3]]))
    ((train, test),) = WordSets(tmp_path, "twitter").get_splits("published")
    assert (train.tolist(), test.tolist()) == ([0, 1], [2])


@pytest.mark.filterwarnings("ignore:.*(empty|dropped)")
def test_word_sets_prefers_the_published_file(tmp_path):
    write_words(tmp_path)
    assert WordSets(tmp_path, "twitter").classes == ["bad", "good"]
    write_mat(tmp_path)
    assert WordSets(tmp_path, "twitter").classes == ["1", "2", "3"]
    os.rename(write_mat(tmp_path, "twitter"), tmp_path / "twitter.mat")
    assert WordSets(tmp_path, "twitter").classes == ["1", "2", "3"]
    write_mat(tmp_path)
    with pytest.raises(ValueError, match="several MATLAB files for 'twitter'"):
        WordSets(tmp_path, "twitter")


@pytest.mark.filterwarnings("ignore:.*dropped")
def test_word_sets_stratified_splits(tmp_path):
    y = np.repeat([0, 1, 1], 20)
    write_words(
        tmp_path,
        ids=np.zeros(60, np.uint16),
        counts=np.ones(60, np.uint16),
        offsets=np.arange(61, dtype=np.int32),
        y=y,
    )
    dataset = WordSets(tmp_path, "twitter")
    splits = dataset.get_splits()
    assert len(splits) == 5
    for (train, test), (other, _) in zip(
        splits, stratified_folds(torch.from_numpy(y), 5, seed=0), strict=True
    ):
        assert torch.equal(train, other)
        assert dataset.y[test].bincount().tolist() == [4, 8]
    assert not torch.equal(splits[0][1], dataset.get_splits(seed=1)[0][1])
    assert len(dataset.get_splits(num_folds=3)) == 3
    # The positions are those in the part.
    part = dataset[30:]
    assert sorted(torch.cat([test for _, test in part.get_splits()])) == list(range(30))

    with pytest.raises(ValueError, match="no published splits"):
        dataset.get_splits("published")
    with pytest.raises(ValueError, match="'kind' must be"):
        dataset.get_splits("random")


@pytest.mark.filterwarnings("ignore:.*(empty|dropped)")
def test_word_sets_prepare_and_renumber(tmp_path):
    write_mat(tmp_path)

    def halve(data: Data) -> Data:
        data.x = data.x[:, :150] / 2
        data.edge_index = torch.zeros(2, 1, dtype=torch.long)
        return data

    plain = WordSets(tmp_path, "twitter")
    dataset = WordSets(
        tmp_path,
        "twitter",
        pre_filter=lambda data: data.num_nodes != 3,
        pre_transform=halve,
        force_reload=True,
    )
    assert dataset.set_sizes.tolist() == [2, 1, 4, 2]
    assert dataset.num_features == 150
    assert dataset.vectors.size() == (8, 150)
    assert torch.equal(dataset[1].x, plain[2].x[:, :150] / 2)
    assert dataset[1].weight.tolist() == [1.0]
    batch = dataset.get_batch([1, 0])
    assert torch.equal(batch.x, torch.cat([dataset[1].x, dataset[0].x]))
    assert batch.edge_index.tolist() == [[0, 1], [0, 1]]
    train, test = dataset.get_splits("published")[0]
    assert (train.tolist(), test.tolist()) == ([0, 2], [1, 3])


def test_word_sets_unknown_name(tmp_path):
    with pytest.raises(ValueError, match=r"'name' must be one of .*got 'amazn'"):
        WordSets(tmp_path, "amazn")


def test_word_sets_without_files(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        WordSets(tmp_path / "text", "amazon")
    for name in ("amazon-emd_tr_te_split.mat", "amazon.npz", "word2vec.npz"):
        assert name in str(error.value)
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize(
    ("changes", "file", "message"),
    [
        ({"y": np.array([0, 1], np.uint8)}, "twitter", "4 documents, but 2 labels"),
        ({"y": np.array([0, 1, 2, 0])}, "twitter", r"'y' .* from 0 to 1, .*got 2"),
        ({"y": np.array([0, 1, -1, 0])}, "twitter", r"class names \(got -1\)"),
        ({"y": np.array([0, 1, np.nan, 0])}, "twitter", r"'y' .*got nan"),
        ({"y": np.array([[0], [1], [0], [1]])}, "twitter", r"'y' .* vector .*\[4, 1\]"),
        ({"counts": np.ones(3)}, "twitter", "'offsets' must grow"),
        ({"offsets": np.array([0, 3, 2, 6, 7])}, "twitter", "'offsets' must grow"),
        ({"offsets": np.array([0, 3, 5, 6, 9])}, "twitter", "'offsets' must grow"),
        ({"offsets": np.array([0, 3, 5.5, 6, 7])}, "twitter", r"'offsets' .*got 5.5"),
        ({"ids": np.array([0, 2, 4, 1, 3, 5, 0])}, "twitter", r"'ids' .*got 5\)"),
        ({"ids": np.array([0, 2, 4, 1, -1, 4, 0])}, "twitter", r"'ids' .*got -1\)"),
        ({"ids": np.array([0, 2, 4, 1, 0.5, 4, 0])}, "twitter", r"'ids' .*got 0.5\)"),
        ({"counts": np.array([3, 1, -2, 1, 5, 7, 2])}, "twitter", r"'counts' .*got -2"),
        ({"counts": np.array([3, 1, np.nan] * 3)[:7]}, "twitter", "'counts' .*got nan"),
        ({"counts": np.array([3, 1, np.inf] * 3)[:7]}, "twitter", "'counts' .*got inf"),
        ({"counts": np.ones(7) * 1j}, "twitter", "'counts' .* numbers .*got complex"),
        ({"vec": np.full((4, 300), np.nan)}, "word2vec", "'vec' .* finite"),
        ({"vec": np.ones((4, 300)) * 1j}, "word2vec", "'vec' .* finite .*complex"),
        ({"labels": np.array([{}])}, "twitter", "corrupted"),  # pickled
        ({"vec": word_vectors(200)}, "word2vec", r"\[words, 300\] \(got \[4, 200\]\)"),
        ({"row": np.array([4, 0, 1, 2, 3])}, "word2vec", "'row' .* from -1 to 3"),
        ({"row": np.array([-2, 0, 1, 2, 3])}, "word2vec", "'row' .* from -1 to 3"),
        ({"row": np.full(5, -1)}, "twitter", "no word of"),
    ],
)
def test_word_sets_names_the_wrong_array(tmp_path, changes, file, message):
    write_words(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        WordSets(tmp_path, "twitter")
    assert str(tmp_path / f"{file}.npz") in str(error.value)
    assert os.listdir(tmp_path / "processed") == []


@pytest.mark.parametrize("file", ["twitter", "word2vec"])
@pytest.mark.parametrize("size", [0, 20, -30])
def test_word_sets_names_the_truncated_npz(tmp_path, file, size):
    write_words(tmp_path)
    path = tmp_path / f"{file}.npz"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=f"{file}.npz' is truncated or corrupted"):
        WordSets(tmp_path, "twitter")
    assert os.listdir(tmp_path / "processed") == []


def test_word_sets_names_the_missing_array(tmp_path):
    write_words(tmp_path)
    np.savez(tmp_path / "twitter.npz", ids=np.zeros(3))
    with pytest.raises(ValueError, match=r"twitter\.npz' lacks the array\(s\) \['coun"):
        WordSets(tmp_path, "twitter")


SIZES = (2, 3, 1, 0, 4, 2)
VECTORS = [np.ones((300, size)) for size in SIZES]
COUNTS = [np.ones((1, size)) for size in SIZES]


def with_entry(arrays: list[np.ndarray], value: float) -> np.ndarray:
    """The arrays as cells, with one entry of the second replaced."""
    second = arrays[1].copy()
    second[0, 1] = value
    return cells([arrays[0], second, *arrays[2:]])


def narrow_document() -> np.ndarray:
    return cells([*VECTORS[:2], np.ones((299, 1)), *VECTORS[3:]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": None}, "lacks the variable 'X'"),
        ({"Y": np.array([[1, 2]])}, "6 documents in 'X', 6 in 'BOW_X' and 2 labels"),
        ({"X": narrow_document()}, "document 3 of 'X' .* dimension 299 instead of 300"),
        ({"BOW_X": cells([np.ones((1, 2))] * 6)}, "document 2 .* 3 vectors, but 2"),
        ({"X": np.ones((300, 6))}, "'X' in .* must be a cell array"),
        ({"TR": None}, "as many splits in 'TR' as in 'TE'"),
        ({"TR": np.array([[1, 2]])}, "as many splits in 'TR' as in 'TE'"),
        ({"TR": np.array([[0], [1]])}, r"'TR' .* from 1 to 6, .*got 0"),
        ({"TE": np.array([[1], [7]])}, r"'TE' .* from 1 to 6, .*got 7"),
        ({"TE": np.array([[1], [np.nan]])}, r"'TE' .*got nan"),
        ({"Y": np.array([[1, 2, np.nan, 1, 2, 3]])}, "'Y' .*got nan"),
        ({"BOW_X": with_entry(COUNTS, -1.0)}, r"'BOW_X' .*got -1\.0"),
        ({"BOW_X": with_entry(COUNTS, np.nan)}, "'BOW_X' .*got nan"),
        ({"X": with_entry(VECTORS, np.inf)}, "document 2 of 'X' .* finite"),
        ({"TR": np.array([[3], [3]])}, "split 1 .* names a document twice"),
    ],
)
def test_word_sets_names_the_wrong_variable(tmp_path, changes, message):
    path = write_mat(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        WordSets(tmp_path, "twitter")
    assert str(path) in str(error.value)
    assert os.listdir(tmp_path / "processed") == []


@pytest.mark.parametrize("size", [0, 100, 1000, -40])
def test_word_sets_names_the_truncated_mat(tmp_path, size):
    path = write_mat(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"split\.mat' is truncated or corrupted"):
        WordSets(tmp_path, "twitter")
    assert os.listdir(tmp_path / "processed") == []


def test_word_sets_names_scipy_when_missing(tmp_path, monkeypatch):
    write_mat(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "scipy.io", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        WordSets(tmp_path, "twitter")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "documents", "classes", "mean_size"),
    [
        ("twitter", 3_090, 3, 9.5),
        ("bbcsport", 737, 5, 97.2),
        ("classic", 7_085, 4, 34.7),
        ("amazon", 8_000, 4, 41.9),
    ],
)
@pytest.mark.filterwarnings("ignore:.*dropped")
def test_real_word_sets(real_data, name, documents, classes, mean_size):
    root = real_data("text")
    dataset = WordSets(root, name)
    assert len(dataset) == documents
    assert dataset.num_classes == classes
    assert dataset.num_features == 300
    assert round(dataset.set_sizes.double().mean().item(), 1) == mean_size
    stored = root / "processed" / f"{name}_npz.pt"
    assert stored.stat().st_size < 20e6
    for _, test in dataset.get_splits():
        share = dataset.y[test].bincount() / dataset.y.bincount()
        assert (share - 0.2).abs().max() < 0.01
