"""Runs the Python blocks of all Markdown pages, and docstrings on real data."""

import os
import re
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent

# Without doctests: scripts, and modules that all have one name.
collect_ignore_glob = ["docs/*.py", "tests/*conftest.py"]
if find_spec("triton") is None:
    collect_ignore_glob += ["gswe_pyg/ops/triton/*.py", "gswe_pyg/ops/triton_*.py"]


def enter_folder(namespace: dict[str, Any]) -> None:
    """A folder of its own for each page, with the raw files of ``data/`` in it."""
    namespace["_folder"] = folder = tempfile.TemporaryDirectory()
    namespace["_before"] = Path.cwd()
    names = ("MNIST", "ModelNet10", "text")
    namespace["has_data"] = all((ROOT / "data" / name).is_dir() for name in names)
    if namespace["has_data"]:
        link_raw_files(ROOT / "data", Path(folder.name) / "data")
    os.chdir(folder.name)
    torch.manual_seed(0)


def link_raw_files(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        inside = path.relative_to(source)
        if path.is_file() and "processed" not in inside.parts:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            (target / inside).symlink_to(path.resolve())


@pytest.fixture(autouse=True)
def _data_of_doctests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A folder with the raw files for the docstrings that open real data sets."""
    doctest = getattr(request.node, "dtest", None)
    examples = [] if doctest is None else doctest.examples
    folders = {
        name for e in examples for name in re.findall(r'"(data/[^"]+)"', e.source)
    }
    if not folders:
        yield
        return
    target = tmp_path_factory.mktemp("doctest")
    for name in folders:
        if not (ROOT / name).is_dir():
            pytest.skip(f"{name} is not laid out")
        link_raw_files(ROOT / name, target / name)
    before = Path.cwd()
    os.chdir(target)
    yield
    os.chdir(before)


def leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "benchmarks/*.md"],
    setup=enter_folder,
    teardown=leave_folder,
).pytest()
