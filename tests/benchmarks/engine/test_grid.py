import errno
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.engine import config, grid, records
from tests.terminal import ROOT, reset_signals

TINY = ["epochs=2", "train_sets=40", "test_sets=40"]
MEAN = ["run", "set_circles", "readout=mean", "loss=simsiam"]


def start(*arguments: str) -> subprocess.Popen:
    """In a session of its own, so that workers are killed with their parent."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=reset_signals,
    )


def wait_for_a_record(folder: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    path = folder / "set_circles.jsonl"
    while not path.exists() or not path.read_text().endswith("\n"):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def python(script: str, **environment: str) -> str:
    """The output of a script, in which ``main`` is the command."""
    process = subprocess.run(
        [sys.executable, "-c", f"from benchmarks.__main__ import main\n{script}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def on_file(folder: Path) -> list[records.Record]:
    found = records.read(folder / "set_circles.jsonl")
    assert len({record["id"] for record in found}) == len(found)
    return found


def test_each_run_is_recorded_once_and_what_is_done_is_skipped(tmp_path, capsys):
    arguments = ["run", "set_circles", "readout=[mean,gswe_linear]", "loss=simsiam"]
    arguments += ["points=[1,2]", "seeds=2", f"results={tmp_path}", *TINY]
    assert main(arguments) == 0
    first = on_file(tmp_path)
    assert len(first) == 6
    capsys.readouterr()
    assert main([*arguments, "seeds=3"]) == 0
    second = on_file(tmp_path)
    assert second[:6] == first
    assert [record["seed"] for record in second[6:]] == [2, 2, 2]
    output = capsys.readouterr()
    assert "100%" in output.err
    assert "9/9 runs" in output.err
    assert "set_circles: 9 runs, seeds 0 to 2" in output.out
    assert f"records: {tmp_path / 'set_circles.jsonl'}" in output.out
    # The table is that of these runs.
    assert main([*arguments, "readout=mean", "seed=0"]) == 0
    out = capsys.readouterr().out
    assert "| mean " in out
    assert "GSWE" not in out
    # A record is complete, compact and free of the machine.
    line = (tmp_path / "set_circles.jsonl").read_text().splitlines()[-1]
    assert len(line) < 800
    record = json.loads(line)
    assert record["config"]["readout"] == "gswe_linear"
    assert record["seed"] == record["config"]["seed"] == 2
    assert set(record["metrics"]) >= {"accuracy", "train_loss"}
    assert min(record["seconds"], record["cpu_seconds"]) > 0
    assert record["parameters"] == 4417 + record["config"]["points"]
    packages = {"python", "torch", "torch_geometric", "numpy", "numba", "gswe_pyg"}
    assert set(record["versions"]) == packages
    assert "commit" in record
    for private in (os.uname().nodename, str(tmp_path), str(Path.home())):
        assert private not in line


def test_workers_killed_at_any_moment_leave_every_run_exactly_once(tmp_path):
    arguments = ["run", "set_circles", "readout=[mean,pma]", "loss=simsiam"]
    arguments += ["points=[1,2]", "seeds=4", "epochs=6", f"results={tmp_path}"]
    arguments += ["train_sets=200", "workers=2"]
    process = start(*arguments)
    wait_for_a_record(tmp_path, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    survived = on_file(tmp_path)
    assert 0 < len(survived) <= 12
    process = start(*arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert on_file(tmp_path)[: len(survived)] == survived
    assert len(on_file(tmp_path)) == 12
    assert "Warning" not in out + err


@pytest.mark.parametrize("workers", [1, 2])
def test_stopping_by_hand_leaves_whole_records(tmp_path, capsys, workers):
    arguments = [*MEAN, "seeds=300", f"results={tmp_path}", "epochs=20"]  # minutes
    process = start(*arguments, f"workers={workers}")
    wait_for_a_record(tmp_path, process)
    assert main(arguments) == 2  # a second one, which would write to the same file
    err = capsys.readouterr().err
    assert "another process works on" in err
    assert "of these 300 runs are done" in err
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "stopped; what was finished is on file" in err
    assert "Traceback" not in err
    assert 0 < len(on_file(tmp_path)) < 300


def test_a_diverged_run_is_recorded_as_such(tmp_path, monkeypatch):
    def execute(settings, context):
        return grid.Outcome({"accuracy": 0.5, "train_loss": math.nan}, 7)

    monkeypatch.setattr(config.module("self_supervised", "run"), "execute", execute)
    assert main([*MEAN, "seed=0", f"results={tmp_path}"]) == 0
    (record,) = on_file(tmp_path)
    assert record["metrics"] == {"accuracy": 0.5, "train_loss": None}
    assert record["diverged"] is True


@pytest.mark.filterwarnings("error:.*tasks")  # of joblib
def test_a_full_disk_is_an_error_of_the_system(tmp_path, capsys, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main([*MEAN, "seeds=8", *TINY, "workers=2", f"results={tmp_path}"]) == 2
    assert "No space left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("accelerator=nonsense", "accelerator=nonsense is not there: "),
        ("backend=dask", "backend=dask needs `pip install distributed`"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, capsys, monkeypatch, argument, message):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([*MEAN, *TINY, argument, f"results={tmp_path}"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs `pip install ray`"
)
def test_a_real_local_ray(tmp_path):
    arguments = [*MEAN, "seeds=3", *TINY, "workers=2", "backend=ray"]
    # Paths of sockets must be short. Ray keeps a token in the home folder, which is
    # not ours to write to.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        script = f"""
import ray
ray.init(num_cpus=2, include_dashboard=False, _temp_dir={folder!r})
raise SystemExit(main({[*arguments, f"results={tmp_path}"]}))
"""
        python(script, HOME=folder)
    assert len(on_file(tmp_path)) == 3


def test_a_run_on_sets_imports_nothing_of_other_benchmarks(tmp_path):
    modules = python(f"""
import sys
assert main({[*MEAN, "seed=0", *TINY, f"results={tmp_path}"]}) == 0
print([name for name in sys.modules if name.startswith("benchmarks.")])
""").splitlines()[-1]
    assert "benchmarks.experiments.self_supervised.run" in modules
    for other in ("speed", "stress", "documents", "graphs"):
        assert other not in modules
