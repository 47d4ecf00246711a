"""Old checkpoints, foreign caches, hostile archives."""

from collections.abc import Iterator

from benchmarks.reliability.check import Check, check
from benchmarks.reliability.pytest_run import run_tests

TITLE = "Loading"
ABOUT = (
    "Tests that load the checkpoint committed with version 0.1.0 with "
    "`weights_only=True` and compare what it computes, that put code into the caches "
    "of data sets, and names that lead outside into archives."
)
FULL = {
    "checkpoints": ["tests/checkpoints"],
    "caches and archives": [
        "tests/datasets/test_set_dataset.py",
        "tests/datasets/test_tu.py",
        "tests/datasets/test_ogb.py",
        "tests/datasets/test_hostile_files.py",
    ],
}
SMALL = {"checkpoints": ["tests/checkpoints"]}


def measure(config: dict, seed: int) -> Iterator[Check]:
    for name, paths in config.items():
        found = run_tests(paths, [], timeout=900)
        yield check(f"{name}: tests that failed", found.failed, 0, tail=found.tail)
        yield check(f"{name}: tests that passed", found.passed)
