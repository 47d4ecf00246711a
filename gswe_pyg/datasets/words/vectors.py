"""Word vectors from whatever people have them in."""

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from typing import Any

import numpy as np

CHUNK = 1 << 20


def find_vectors(vectors: Any, words: set[str]) -> tuple[dict[str, int], np.ndarray]:
    r"""Looks up words, and leaves all other vectors where they are.

    Args:
        vectors: A mapping from words to vectors; an object with
            :obj:`key_to_index` and :obj:`vectors`, such as gensim's
            :obj:`KeyedVectors`; or the path of a GloVe or word2vec file, the latter as
            text or binary, gzipped if its name ends in :obj:`.gz`.
        words (set of str): The words to look up.

    Returns:
        The rows of the words that were found, and their vectors.
    """
    if isinstance(vectors, (str, os.PathLike)):
        found = dict(_read_file(os.fspath(vectors), words))
    elif hasattr(vectors, "key_to_index") and hasattr(vectors, "vectors"):
        index = vectors.key_to_index
        found = {word: vectors.vectors[index[word]] for word in words if word in index}
    elif isinstance(vectors, Mapping):
        found = {word: vectors[word] for word in words if word in vectors}
    else:
        raise ValueError(
            f"'vectors' must be a mapping, an object with 'key_to_index' and "
            f"'vectors', or the path of a word vector file (got "
            f"{type(vectors).__name__})"
        )
    # A set has another order in every process; rows shall not.
    ordered = sorted(found)
    arrays = [np.asarray(found[word], np.float32) for word in ordered]
    for word, array in zip(ordered, arrays, strict=True):
        if array.ndim != 1 or array.shape != arrays[0].shape:
            raise ValueError(
                f"'vectors' must all have one dimension: {word!r} has a vector of "
                f"shape {list(array.shape)}, {ordered[0]!r} one of shape "
                f"{list(arrays[0].shape)}"
            )
    table = np.stack(arrays) if arrays else np.empty((0, 0), np.float32)
    return {word: row for row, word in enumerate(ordered)}, table


def _read_file(path: str, words: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    wanted = {word.encode(): word for word in words}
    try:
        with _open(path) as file:
            line = file.readline()
            header = line.split()
            line_number, number, dimension = 1, None, len(header) - 1
            if len(header) == 2 and all(field.isdigit() for field in header):
                number, dimension = map(int, header)  # GloVe has no header
                line_number, line = 2, file.readline()
            if dimension < 1:
                raise ValueError(f"'{path}' does not start with a word and its vector")
            records: Iterator[tuple[bytes, bytes | list[bytes]]]
            if number is None or _is_text_record(line, dimension):
                records = _text_records(
                    path, file, line, line_number, dimension, number
                )
            else:
                records = _binary_records(path, file, line, dimension, number)
            for key, values in records:
                if key in wanted:
                    yield wanted[key], _parse(path, key, values)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"'{path}' is truncated or corrupted: {error}") from error


def _open(path: str) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def _parse(path: str, key: bytes, values: bytes | list[bytes]) -> np.ndarray:
    if isinstance(values, bytes):
        return np.frombuffer(values, "<f4")
    try:
        return np.array([float(value) for value in values], np.float32)
    except ValueError as error:
        word = key.decode(errors="replace")
        raise ValueError(f"the vector of {word!r} in '{path}': {error}") from error


def _is_text_record(line: bytes, dimension: int) -> bool:
    fields = line.rstrip().split(b" ")
    if len(fields) <= dimension:
        return False
    try:
        [float(field) for field in fields[-dimension:]]
    except ValueError:
        return False
    return True


def _text_records(
    path: str,
    file: BufferedIOBase,
    line: bytes,
    line_number: int,
    dimension: int,
    number: int | None,
) -> Iterator[tuple[bytes, list[bytes]]]:
    count = 0
    while line:
        fields = line.rstrip().split(b" ")
        # GloVe has a few words with spaces inside, but none that looks like numbers.
        inside = fields[1:-dimension]
        if len(fields) <= dimension or (
            inside and _is_text_record(line, dimension + 1)
        ):
            raise ValueError(
                f"line {line_number} of '{path}' has {len(fields) - 1} numbers instead "
                f"of {dimension}"
            )
        yield b" ".join(fields[:-dimension]), fields[-dimension:]
        count += 1
        line_number += 1
        line = file.readline()
    _check_number(path, count, number)


def _binary_records(
    path: str, file: BufferedIOBase, start: bytes, dimension: int, number: int
) -> Iterator[tuple[bytes, bytes]]:
    buffer, position, width = start, 0, 4 * dimension
    for count in range(number):
        while (end := buffer.find(b" ", position) + 1) == 0 or len(
            buffer
        ) < end + width:
            chunk = file.read(CHUNK)
            if not chunk:
                _check_number(path, count, number)
            buffer, position = buffer[position:] + chunk, 0
        # Some writers end a record with a line break.
        yield buffer[position : end - 1].lstrip(b"\n"), buffer[end : end + width]
        position = end + width


def _check_number(path: str, count: int, number: int | None) -> None:
    if number is not None and count != number:
        raise ValueError(
            f"'{path}' is truncated or corrupted: its header announces {number} "
            f"vectors, but {count} follow"
        )
