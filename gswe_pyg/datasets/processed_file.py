"""Processed files that are either whole or absent, and never run code on opening."""

import glob
import os
import os.path as osp
from contextlib import suppress
from typing import Any

import torch


def write_processed(content: dict[str, Any], path: str) -> None:
    r"""Writes :obj:`content` to :obj:`path` in one step.

    The bytes go to a temporary name first and are read back the way
    :func:`read_processed` will read them; only then the file gets its name. An
    interrupted run therefore leaves either the old file or none.

    Args:
        content (dict): Tensors, numbers, strings and containers of them.
        path (str): The file to write.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        torch.save(content, temporary)
        try:
            torch.load(temporary, weights_only=True)
        except Exception as error:
            raise TypeError(
                f"'{path}' cannot be stored: only tensors, numbers, strings and "
                f"containers of them can be read back without running code, but a "
                f"'pre_transform' left something else in the data ({error})"
            ) from error
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def read_processed(path: str, keys: frozenset[str]) -> dict[str, Any]:
    r"""Reads what :func:`write_processed` wrote, without unpickling foreign objects.

    A file that cannot be read, or that lacks one of :obj:`keys`, is removed: it can
    be rebuilt from the raw files, and would only fail again.

    Args:
        path (str): The file to read.
        keys (frozenset): The entries that must be there.
    """
    content = _load(path)
    if not isinstance(content, dict) or not keys <= content.keys():
        raise _removed(path, f"it does not hold the entries {sorted(keys)}")
    return content


def check_readable(folder: str) -> None:
    r"""Looks through the processed files of another library before it opens them, and
    raises on the first that is damaged or would run code, after removing it.

    Args:
        folder (str): The folder of the processed files, which need not exist.
    """
    for path in sorted(glob.glob(osp.join(glob.escape(folder), "*.pt"))):
        _load(path)


def _load(path: str) -> Any:
    try:
        return torch.load(path, weights_only=True)
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # torch.load has no common error for damaged files
        raise _removed(path, str(error).partition("\n")[0]) from error


def _removed(path: str, reason: str) -> ValueError:
    os.unlink(path)
    return ValueError(
        f"the processed file '{path}' is damaged or foreign ({reason}). It has been "
        f"removed: open the data set again to rebuild it from the raw files"
    )
