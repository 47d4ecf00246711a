"""Runs the Python blocks of all Markdown pages, as part of the tests."""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent

collect_ignore_glob = ["docs/*.py"]  # scripts, without doctests


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


def leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "benchmarks/*.md"],
    setup=enter_folder,
    teardown=leave_folder,
).pytest()
