"""A corpus on a Ray cluster.

Tests that run `examples/embed_with_ray.py` on a local cluster: a node that is killed, a
damaged file, and a second run.
"""

import numpy as np
import pytest
from fresh import ROOT
from terminal import run_python

pytest.importorskip("ray")

pq = pytest.importorskip("pyarrow.parquet")

FULL = {"arguments": ["--fast"]}
SMALL = FULL

SCRIPT = str(ROOT / "examples" / "embed_with_ray.py")


def test_a_node_that_is_killed_loses_and_doubles_nothing(sizes, measure):
    output = run_python(SCRIPT, *sizes["arguments"]).stdout
    assert "a node was killed when" in output
    rows = [line.split("|") for line in output.splitlines() if " | " in line]
    found = {name.strip(): value.strip() for name, value in rows}
    for name in ("missing", "twice"):
        measure(f"vectors {name} after a node was killed", int(found[name]), 0)
    expected = {"vectors": "12,000", "missing": "0", "twice": "0"}
    assert found == expected | {"as of one process": "all"}


# In one process, since Ray takes its time to start.
TWO_RUNS = """
import argparse, runpy, sys
from pathlib import Path
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
example = runpy.run_path(sys.argv[1])
corpus, output = Path(sys.argv[2]), Path(sys.argv[3])
args = argparse.Namespace(slices=4, points=4, batch_size=7, nodes=1, seed=0)
example["make_corpus"](corpus, 3, 20, seed=0)
damaged = corpus / "part-00001.parquet"
whole = damaged.read_bytes()
damaged.write_bytes(whole[:500])
print(example["run"](corpus, output, args))
(output / "part-00002.parquet").write_bytes(b"PAR1")
damaged.write_bytes(whole)
print(example["run"](corpus, output, args))
print(example["run"](corpus, output, args))
"""


def test_a_damaged_file_is_named_and_a_second_run_goes_on(tmp_path):
    corpus, output = str(tmp_path / "corpus"), str(tmp_path / "vectors")
    lines = run_python("-c", TWO_RUNS, SCRIPT, corpus, output).stdout.splitlines()
    todo = [line for line in lines if line.endswith("files to embed")]
    assert todo == [f"{i} of 3 files to embed" for i in (3, 2, 0)]
    (named,) = [line for line in lines if line.startswith("[") and len(line) > 2]
    assert named[2:].startswith(f"{corpus}/part-00001.parquet: ")
    ids = pq.read_table(output)["id"].to_numpy()
    np.testing.assert_array_equal(np.sort(ids), np.arange(60))
