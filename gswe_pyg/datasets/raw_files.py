"""Readers of the raw file formats: whatever is wrong, the error names the file."""

import gzip
import hashlib
import math
import os
import os.path as osp
import struct
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress

import numpy as np

IDX_UNSIGNED_BYTE = 0x08


def read_idx(path: str, ndim: int) -> np.ndarray:
    r"""Reads a gzipped idx file of unsigned bytes, as MNIST is published in.

    Args:
        path (str): The :obj:`.gz` file.
        ndim (int): The number of dimensions that the file must have.
    """
    try:
        with gzip.open(path, "rb") as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"'{path}' is truncated or corrupted: {error}") from error

    header = 4 + 4 * ndim
    if content[:4] != bytes([0, 0, IDX_UNSIGNED_BYTE, ndim]) or len(content) < header:
        raise ValueError(
            f"'{path}' is not an idx file of unsigned bytes in {ndim} dimension(s): "
            f"it starts with {content[:4].hex(' ')!r}"
        )
    shape = struct.unpack(f">{ndim}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise ValueError(
            f"'{path}' is truncated or corrupted: its header announces "
            f"{math.prod(shape)} bytes of shape {shape}, but "
            f"{len(content) - header} follow"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_npz(path: str, keys: Iterable[str]) -> dict[str, np.ndarray]:
    r"""Reads the arrays :obj:`keys` of an :obj:`.npz` file, without unpickling.

    Args:
        path (str): The :obj:`.npz` file.
        keys (iterable of str): The arrays that must be there.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = sorted(set(keys) - set(archive.files))
            if not missing:
                return {key: archive[key] for key in keys}
    except FileNotFoundError:
        raise
    except (
        AttributeError,  # np.load returns a bare array for a .npy file
        EOFError,
        OSError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(f"'{path}' is truncated or corrupted: {error}") from error
    raise ValueError(f"'{path}' lacks the array(s) {missing}")


def read_mat(path: str, keys: Iterable[str]) -> dict[str, np.ndarray]:
    r"""Reads those of the variables :obj:`keys` that a MATLAB file has.

    Args:
        path (str): The :obj:`.mat` file, of MATLAB version 7 or older.
        keys (iterable of str): The variables to read.
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise ImportError(
            f"reading the MATLAB file '{path}' needs scipy: run 'pip install scipy'"
        ) from error
    try:
        content = loadmat(path, variable_names=list(keys))
    except FileNotFoundError:
        raise
    except NotImplementedError as error:
        raise ValueError(
            f"'{path}' is a MATLAB 7.3 file: save it again with the option '-v7'"
        ) from error
    except Exception as error:  # scipy's parser has no common error
        raise ValueError(f"'{path}' is truncated or corrupted: {error!r}") from error
    if not _ends_with_an_element(path):
        raise ValueError(
            f"'{path}' is truncated or corrupted: its last variable is cut"
        )
    return {key: content[key] for key in keys if key in content}


def _ends_with_an_element(path: str) -> bool:
    """Whether the elements of a MATLAB 5 file fill it: scipy skips over those it is
    not asked for, even if they are cut."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(126)
        order = "<" if file.read(2) == b"IM" else ">"
        while file.tell() < size:
            tag = file.read(8)
            if len(tag) < 8:
                return False
            _, length = struct.unpack(f"{order}2I", tag)
            file.seek(length, os.SEEK_CUR)
        return file.tell() == size


def download_file(url: str, path: str, md5: str) -> None:
    r"""Downloads :obj:`url` to :obj:`path`; the file appears whole or not at all.

    Args:
        url (str): The address.
        path (str): The file to write.
        md5 (str): The checksum the file must have.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with (
            urllib.request.urlopen(url, timeout=30) as response,
            open(temporary, "wb") as file,
        ):
            while chunk := response.read(1 << 20):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != md5:
            raise OSError(
                f"'{url}' has the checksum {digest.hexdigest()} instead of {md5}"
            )
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def extract_zip(path: str, folder: str) -> None:
    r"""Extracts an archive, after a look at where its files would go.

    Args:
        path (str): The :obj:`.zip` file.
        folder (str): The folder that all of its files must stay in.
    """
    inside = osp.realpath(folder)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            target = osp.realpath(osp.join(inside, name))
            if osp.commonpath([inside, target]) != inside:
                raise ValueError(
                    f"'{path}' would write outside of '{folder}' (its file {name!r}): "
                    f"do not use it"
                )
        archive.extractall(inside)


def remove_empty(*folders: str) -> None:
    """Removes the folders that a failed download made, as far as they are empty."""
    for folder in folders:
        if osp.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
