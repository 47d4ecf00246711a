"""Where a number comes from: versions and commit, nothing about the machine."""

import platform
import subprocess
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torch_geometric", "numpy", "numba")


@lru_cache
def versions() -> dict[str, str]:
    import gswe_pyg

    return {
        "python": platform.python_version(),
        **installed(*PACKAGES),
        "gswe_pyg": gswe_pyg.__version__,
    }


def installed(*packages: str) -> dict[str, str]:
    """The versions of those that are there."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@lru_cache
def commit() -> str | None:
    """The commit of the code, marked where the code at hand differs from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", "gswe_pyg", "benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return None  # an installed copy, outside a repository
    return f"{head}-dirty" if changed else head


def of_measurement(busy: float) -> dict[str, Any]:
    """What belongs to times and memory; ``busy`` is the share of the processors that
    others took."""
    import torch

    return {
        "threads": torch.get_num_threads(),
        "busy": round(busy, 3),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": versions(),
    }


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "--no-optional-locks", *arguments],  # else, one that is killed locks
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
