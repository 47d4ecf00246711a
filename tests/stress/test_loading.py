"""Loading.

Tests that load the checkpoint committed with version 0.1.0 with `weights_only=True`
and compare what it computes, that put code into the caches of data sets, and names
that lead outside into archives.
"""

import pytest
from fresh import run_tests

pytestmark = pytest.mark.stress

FULL = {
    "checkpoints": ["tests/checkpoints"],
    "caches and archives": [
        "tests/datasets/test_set_dataset.py",
        "tests/datasets/test_tu.py",
        "tests/datasets/test_ogb.py",
        "tests/datasets/test_hostile_files.py",
    ],
}
SMALL = FULL | {"caches and archives": ["tests/datasets/test_hostile_files.py"]}


@pytest.mark.parametrize("what", FULL)
def test_loading(what, sizes, measure, tmp_path):
    passed, failed, _ = run_tests(tmp_path, *sizes[what])
    measure(f"{what}: tests that passed", passed)
    measure(f"{what}: tests that failed", len(failed), 0, failed=failed)
    assert passed
