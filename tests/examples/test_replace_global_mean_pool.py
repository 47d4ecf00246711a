import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_runs_on_generated_graphs(tmp_path):
    script = EXAMPLES / "replace_global_mean_pool.py"
    command = [sys.executable, script, "--root", tmp_path, "--epochs", "1"]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout.startswith("generated: 200 graphs, 4 classes")
    last = out.stdout.splitlines()[-1].split("|")
    assert last[0].strip() == "GSWE"
    assert 0 <= float(last[1]) <= 1
