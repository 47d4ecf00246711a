"""Where a number comes from: versions and commit, nothing about the machine."""

import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "torch_geometric", "numpy", "numba")


@lru_cache
def versions(*more: str) -> dict[str, str]:
    """Of those packages that are there."""
    import gswe_pyg

    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"gswe_pyg": gswe_pyg.__version__}


@lru_cache
def commit() -> str | None:
    """The commit of the code, marked where the code at hand differs from it."""

    def git(*arguments: str) -> str:
        # Without the option, one that is killed would leave a lock.
        command = ["git", "--no-optional-locks", *arguments]
        folder = Path(__file__).parent
        return subprocess.check_output(
            command, cwd=folder, text=True, stderr=subprocess.DEVNULL
        ).strip()

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", ":/gswe_pyg", ":/benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return None  # an installed copy, outside a repository
    return f"{head}-dirty" if changed else head
