"""The interpreter takes code that compilers do not: all kernels are compiled, for
devices that need not be there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: 'gswe-pyg[gpu]'")

SCRIPT = Path(__file__).with_name("compile_kernels.py")
ROOT = SCRIPT.parents[3]


def assert_fits(rows):
    for row in rows:
        assert row["spills"] == 0, row
        assert row["registers"] <= 128, row
        assert row["shared_bytes"] <= 1 << 16, row  # what every device has


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_kernels_fit_a_device(target):
    # In a process of its own: another test may have asked for the interpreter.
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(SCRIPT), target, "--some"],
        env=environment | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-5000:]
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    names = {row["kernel"].split()[0] for row in rows}
    assert names == {"sort", "interpolate", "adjoint", "read"}
    assert_fits(rows)


def test_page_shows_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    compile_kernels = pytest.importorskip("compile_kernels")
    record = json.loads(compile_kernels.RECORD.read_text())
    page = compile_kernels.PAGE.read_text()
    assert compile_kernels.with_table(page, record) == page
    targets = {row["target"] for row in record["kernels"]}
    assert targets == set(compile_kernels.TARGETS)
    assert_fits(record["kernels"])
