"""Loading.

Tests that load a checkpoint of version 0.1.0 with `weights_only=True`, that put code
into the caches of data sets, and names that lead outside into archives.
"""

import pytest
from fresh import run_tests

HOSTILE = "tests/datasets/test_hostile_files.py"
OTHERS = [f"tests/datasets/test_{name}.py" for name in ("set_dataset", "tu", "ogb")]
FULL = {"checkpoints": ["tests/checkpoints"], "caches and archives": [*OTHERS, HOSTILE]}
SMALL = FULL | {"caches and archives": [HOSTILE]}


@pytest.mark.parametrize("what", FULL)
def test_loading(what, sizes, measure):
    passed, failed, shown = run_tests(*sizes[what])
    measure(f"{what}: tests that passed", passed)
    measure(f"{what}: tests that failed", len(failed), 0, failed=failed)
    assert passed, shown
