import re
import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).parents[2] / "examples" / "embed_in_parallel.py"


def test_two_processes_give_the_vectors_of_one(tmp_path):
    command = [sys.executable, SCRIPT, "--fast", "--output", tmp_path]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600
    ).stdout
    assert "the same vectors as one process: yes" in out
    assert re.search(r"500 sets by 2 processes: start-up \S+ s, work \S+ s", out)
    shards = sorted(tmp_path.glob("shard-*.pt"))
    assert len(shards) == 5
    vectors = [torch.load(path, weights_only=True) for path in shards]
    assert {tuple(v.shape) for v in vectors} == {(100, 64)}
    assert all(bool(v.isfinite().all()) for v in vectors)
    assert not vectors[0].equal(vectors[1])
    assert not list(tmp_path.glob("*.tmp"))
