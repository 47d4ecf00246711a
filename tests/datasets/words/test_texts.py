import gzip

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gswe_pyg.datasets import WordSets

VECTORS = {"good": [1.0, 0.5], "Bad": [0.25, -1.0], "it's": [3.0, 4.0]}


class KeyedVectors:
    """What gensim's class of that name looks like."""

    key_to_index = {word: i for i, word in enumerate(VECTORS)}  # noqa: RUF012
    vectors = np.array(list(VECTORS.values()), np.float32)


def text_records(vectors):
    return "".join(
        f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()
    )


def binary_records(vectors, end=b"\n"):
    return b"".join(
        word.encode() + b" " + np.array(vector, "<f4").tobytes() + end
        for word, vector in vectors.items()
    )


FILES = {
    "glove.txt": text_records(VECTORS | {"new york": [9.0, 9.0]}).encode(),
    "word2vec.txt": b"3 2\n" + text_records(VECTORS).encode(),
    "word2vec.bin": b"3 2\n" + binary_records(VECTORS),
    "packed.bin": b"3 2\n" + binary_records(VECTORS, end=b""),
    "glove.txt.gz": gzip.compress(text_records(VECTORS).encode()),
    "word2vec.bin.gz": gzip.compress(b"3 2\n" + binary_records(VECTORS)),
}


@pytest.mark.parametrize("source", ["dict", "gensim", *FILES])
def test_from_documents(tmp_path, source):
    if source in FILES:
        vectors = tmp_path / source
        vectors.write_bytes(FILES[source])
    else:
        vectors = {"dict": VECTORS, "gensim": KeyedVectors()}[source]
    texts = ["Good, good! Bad?", "it's bad: so good", ["good", "unseen"]]
    with pytest.warns(UserWarning, match="dropped 3 of 9 words, which have no"):
        dataset = WordSets.from_documents(texts, ["x", "b", "x"], vectors)
    assert str(dataset) == "WordSets('documents', 3)"
    assert dataset.classes == ["b", "x"]
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.num_features == 2
    # "Good" is found in lower case; "bad" is not found, as only "Bad" is there.
    assert dataset[0].x.tolist() == [VECTORS["good"], VECTORS["Bad"]]
    assert dataset[0].weight.tolist() == [2.0, 1.0]
    assert dataset[1].x.tolist() == [VECTORS["it's"], VECTORS["good"]]
    assert dataset[2].x.tolist() == [VECTORS["good"]]
    assert len(dataset.get_splits(num_folds=2)) == 2


def test_from_documents_reads_binary_files_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("gswe_pyg.datasets.words.vectors.CHUNK", 5)
    path = tmp_path / "vectors.bin"
    path.write_bytes(FILES["word2vec.bin"])
    dataset = WordSets.from_documents(["good", "Bad"], [0, 1], path)
    assert dataset[1].x.tolist() == [VECTORS["Bad"]]


def test_from_documents_tokenize_and_labels():
    dataset = WordSets.from_documents(
        ["good;Bad", "Bad"],
        torch.tensor([5, 3]),
        VECTORS,
        tokenize=lambda text: text.split(";"),
        transform=lambda data: Data(x=-data.x, y=data.y),
    )
    assert dataset.classes == ["3", "5"]
    assert dataset.y.tolist() == [1, 0]
    assert dataset[1].x.tolist() == [[-0.25, 1.0]]


def test_from_documents_empty():
    texts = ["good", "", "unseen"]
    with pytest.warns(UserWarning, match="1 of 2 words.*dropped 2 of 3 documents"):
        dataset = WordSets.from_documents(texts, [0, 1, 1], VECTORS)
    assert dataset.set_sizes.tolist() == [1]
    with pytest.warns(UserWarning, match="kept 2 empty documents"):
        dataset = WordSets.from_documents(texts, [0, 1, 1], VECTORS, keep_empty=True)
    assert dataset.set_sizes.tolist() == [1, 0, 0]
    assert next(iter(DataLoader(dataset, 3))).num_graphs == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.bin", FILES["word2vec.bin"][:-5], "announces 3 vectors, but 2 follow"),
        (
            "a.txt",
            b"4 2\n" + text_records(VECTORS).encode(),
            "announces 4 vectors, but",
        ),
        ("a.txt", FILES["glove.txt"] + b"worse 1.0\n", "line 5 .* 1 numbers instead"),
        ("a.txt", FILES["glove.txt"] + b"worse 1 2 3\n", "line 5 .* 3 numbers instead"),
        ("a.txt", b"good 1.0 2.0\nBad 1.0 two\n", "vector of 'Bad'"),
        ("a.txt", b"", "does not start with a word"),
        ("a.txt", b"3 0\ngood\n", "does not start with a word"),
        ("a.txt.gz", FILES["glove.txt.gz"][:-9], "truncated or corrupted"),
        ("a.txt.gz", b"not gzip", "truncated or corrupted"),
    ],
)
def test_from_documents_names_the_damaged_vector_file(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        WordSets.from_documents(["good Bad it's"], [0], path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("texts", "labels", "vectors", "message"),
    [
        (["good"], [0, 1], VECTORS, "'texts' and 'labels' .* 1 and 2"),
        ([], [], VECTORS, "'texts' and 'labels'"),
        (["good"], [0], 3, "'vectors' must be a mapping"),
        (["nothing"], [0], VECTORS, "no word of the documents has a vector"),
        (["good new"], [0], VECTORS | {"new": [1.0]}, "'vectors' must all have one"),
    ],
)
def test_from_documents_names_the_wrong_argument(texts, labels, vectors, message):
    with pytest.raises(ValueError, match=message):
        WordSets.from_documents(texts, labels, vectors)
