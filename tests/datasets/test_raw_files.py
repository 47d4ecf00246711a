import hashlib

import numpy as np
import pytest

from gswe_pyg.datasets.raw_files import download_file, read_mat, read_npz


def test_download_file(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content" * 1000)
    md5 = hashlib.md5(source.read_bytes()).hexdigest()
    download_file(source.as_uri(), str(target), md5)
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("name", ["source", "nowhere"])
def test_download_file_leaves_nothing_half_done(tmp_path, name):
    (tmp_path / "source").write_bytes(b"other content")
    with pytest.raises(OSError, match=r"source' has the checksum|nowhere"):
        download_file((tmp_path / name).as_uri(), str(tmp_path / "target"), "0" * 32)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_read_npz_of_a_single_array(tmp_path):
    path = tmp_path / "array.npz"
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"array\.npz' is truncated or corrupted"):
        read_npz(str(path), ["a"])


def test_read_mat_of_version_7_3(tmp_path):
    path = tmp_path / "new.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\0" * 400)
    with pytest.raises(ValueError, match=r"new\.mat' is a MATLAB 7\.3 file.*'-v7'"):
        read_mat(str(path), ["X"])


def test_missing_files_are_missing_not_corrupted(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_npz(str(tmp_path / "no.npz"), ["a"])
    with pytest.raises(FileNotFoundError):
        read_mat(str(tmp_path / "no.mat"), ["X"])
