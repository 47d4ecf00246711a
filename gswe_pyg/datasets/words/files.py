"""The two layouts in which the word sets come: MATLAB files and compact npz files."""

import os.path as osp

import numpy as np

from gswe_pyg.datasets.raw_files import read_mat, read_npz
from gswe_pyg.datasets.words.bag_of_words import BagOfWords
from gswe_pyg.datasets.words.vector_table import VectorTable

DIMENSION = 300


def read_published(path: str) -> BagOfWords:
    r"""Reads a MATLAB file as published with the Word Mover's Distance.

    :obj:`X` is a cell array of :math:`300 \times n` matrices, :obj:`BOW_X` one of
    word counts, :obj:`Y` the labels, and the rows of :obj:`TR` and :obj:`TE` are
    splits that count from 1. Every document repeats its vectors; here equal vectors
    become one row of a common table.
    """
    raw = read_mat(path, ("X", "Y", "BOW_X", "TR", "TE"))
    for key in ("X", "Y", "BOW_X"):
        if key not in raw:
            raise ValueError(f"'{path}' lacks the variable {key!r}")
    matrices, counts = (_cells(path, key, raw[key]) for key in ("X", "BOW_X"))
    labels = raw["Y"].reshape(-1)
    if not len(labels) == len(matrices) == len(counts):
        raise ValueError(
            f"'{path}' has {len(matrices)} documents in 'X', {len(counts)} in 'BOW_X' "
            f"and {len(labels)} labels in 'Y'"
        )

    table = VectorTable()
    tokens = []
    for i, (matrix, count) in enumerate(zip(matrices, counts, strict=True)):
        size = matrix.shape[1] if matrix.ndim == 2 and matrix.size > 0 else 0
        if size > 0 and matrix.shape[0] != DIMENSION:
            raise ValueError(
                f"document {i + 1} of 'X' in '{path}' has vectors of dimension "
                f"{matrix.shape[0]} instead of {DIMENSION}"
            )
        if count.size != size:
            raise ValueError(
                f"document {i + 1} in '{path}' has {size} vectors, but {count.size} "
                f"word counts"
            )
        if size > 0:
            _check_vectors(f"document {i + 1} of 'X' in '{path}'", matrix)
        tokens.append(table.rows(matrix.T) if size > 0 else np.empty(0, np.int64))

    _check_numbers(path, "Y", labels, low=-np.inf, whole=False)
    count = np.concatenate([count.reshape(-1) for count in counts])
    _check_numbers(path, "BOW_X", count, whole=False)
    classes, y = np.unique(labels, return_inverse=True)
    return BagOfWords(
        token=np.concatenate(tokens),
        count=count,
        ptr=np.concatenate([[0], np.cumsum([len(token) for token in tokens])]),
        y=y.reshape(-1),
        classes=[f"{label:g}" for label in classes],
        vectors=table.vectors(),
        splits=_published_splits(path, raw, len(labels)),
    )


def read_compact(path: str, vector_path: str) -> BagOfWords:
    r"""Reads documents from one :obj:`.npz` file and word vectors from another."""
    raw = read_npz(path, ("ids", "counts", "offsets", "y", "labels"))
    table = read_npz(vector_path, ("row", "vec"))
    row, vectors = table["row"], table["vec"]
    if vectors.ndim != 2 or vectors.shape[1] != DIMENSION:
        raise ValueError(
            f"'vec' in '{vector_path}' must have the shape [words, {DIMENSION}] (got "
            f"{list(vectors.shape)})"
        )
    _check_vectors(f"'vec' in '{vector_path}'", vectors)
    _check_numbers(vector_path, "row", row, -1, len(vectors), "the rows of 'vec'")

    ids, counts, ptr, y, labels = (
        raw[key] for key in ("ids", "counts", "offsets", "y", "labels")
    )
    _check_numbers(path, "ids", ids, 0, len(row), f"the words of '{vector_path}'")
    _check_numbers(path, "counts", counts, whole=False)
    _check_numbers(path, "offsets", ptr)
    _check_numbers(path, "y", y, 0, len(labels), "the class names")
    if len(y) != len(ptr) - 1:
        raise ValueError(f"'{path}' has {len(ptr) - 1} documents, but {len(y)} labels")
    if (
        ptr[0] != 0
        or (np.diff(ptr) < 0).any()
        or not ptr[-1] == len(ids) == len(counts)
    ):
        raise ValueError(
            f"'{path}' is corrupted: 'offsets' must grow from 0 to the number of "
            f"'ids' ({len(ids)}) and of 'counts' ({len(counts)})"
        )
    return BagOfWords(
        token=row.astype(np.int64)[ids.astype(np.int64)],
        count=counts,
        ptr=ptr.astype(np.int64),
        y=y.astype(np.int64),
        classes=[str(label) for label in labels],
        vectors=vectors,
    )


def _cells(path: str, key: str, cells: np.ndarray) -> list[np.ndarray]:
    if cells.dtype != object:
        raise ValueError(
            f"'{key}' in '{path}' must be a cell array (got numbers of shape "
            f"{list(cells.shape)})"
        )
    return list(cells.reshape(-1))


def _published_splits(
    path: str, raw: dict[str, np.ndarray], num_documents: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    if "TR" not in raw and "TE" not in raw:
        return []
    if "TR" not in raw or "TE" not in raw or len(raw["TR"]) != len(raw["TE"]):
        raise ValueError(f"'{path}' must have as many splits in 'TR' as in 'TE'")
    for key in ("TR", "TE"):
        numbers = raw[key].reshape(-1)
        _check_numbers(path, key, numbers, 1, num_documents + 1, "the documents")
    splits = []
    for i, pair in enumerate(zip(raw["TR"], raw["TE"], strict=True)):
        train, test = (part.astype(np.int64) - 1 for part in pair)
        both = np.concatenate([train, test])
        if len(np.unique(both)) != len(both):
            raise ValueError(f"split {i + 1} in '{path}' names a document twice")
        splits.append((train, test))
    return splits


def _check_vectors(source: str, vectors: np.ndarray) -> None:
    if vectors.dtype.kind not in "iuf" or not np.isfinite(vectors).all():
        raise ValueError(f"{source} must hold finite numbers (got {vectors.dtype})")


def _check_numbers(
    path: str,
    key: str,
    array: np.ndarray,
    low: float = 0,
    stop: float = np.inf,
    meaning: str = "",
    whole: bool = True,
) -> None:
    """Everything else would be cast, or counted from the end, without a word."""
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"'{key}' in '{path}' must be a vector of numbers (got {array.dtype} of "
            f"shape {list(array.shape)})"
        )
    right = (array >= low) & (array < stop)
    if whole:
        right &= array == np.rint(array)
    if not right.all():
        numbers = "whole numbers" if whole else "finite numbers"
        bounds = f" from {low}" if np.isfinite(low) else ""
        bounds += f" to {stop - 1}" if np.isfinite(stop) else ""
        raise ValueError(
            f"'{key}' in '{path}' must hold {numbers}{bounds}"
            f"{meaning and f', {meaning}'} (got {array[~right][0]})"
        )


def expected_files(root: str, name: str) -> str:
    """A sentence for people who have none of the files yet."""
    return (
        f"Put '{name}-emd_tr_te_split.mat', as published with the Word Mover's "
        f"Distance, or '{name}.npz' and 'word2vec.npz' into '{root}' or "
        f"'{osp.join(root, 'raw')}'"
    )
