import contextlib
import errno
import importlib.util
import json
import math
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.engine import config, grid, records
from tests.terminal import run_in_terminal, start_python

TINY = ["epochs=2", "train_sets=40", "test_sets=40"]
MEAN = ["run", "set_circles", "readout=mean", "loss=simsiam"]


def start(*arguments: str) -> subprocess.Popen:
    return start_python("-m", "benchmarks", *arguments)


def wait_for_a_record(folder: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    path = folder / "set_circles.jsonl"
    while not path.exists() or not path.read_text().endswith("\n"):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def python(script: str, **options: object) -> list[str]:
    """The lines that a script shows, in which ``main`` is the command."""
    command = ["-c", f"from benchmarks.__main__ import main\n{script}"]
    return run_in_terminal(command, **options).check().lines


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
    shown, _ = process.communicate(timeout=300)
    assert process.returncode == 0, shown
    assert on_file(tmp_path)[: len(survived)] == survived
    assert len(on_file(tmp_path)) == 12
    assert "Warning" not in shown


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
    shown, _ = process.communicate(timeout=300)
    assert process.returncode == 130, shown
    assert "stopped; what was finished is on file" in shown
    assert "Traceback" not in shown
    assert 0 < len(on_file(tmp_path)) < 300


def test_kill_ends_the_workers(tmp_path):
    # One is done at once, and the other one never.
    arguments = [*MEAN, "epochs=[1,10_000_000]", "train_sets=40", "workers=2"]
    process = start(*arguments, f"results={tmp_path}")
    try:
        wait_for_a_record(tmp_path, process)
        process.terminate()
        shown, _ = process.communicate(timeout=300)  # until all have left the pipe
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, shown
    assert "stopped; what was finished is on file" in shown


def test_diverged_runs_are_recorded_as_such_and_counted(tmp_path, capsys, monkeypatch):
    def execute(run, context):
        loss = math.nan if run.seed == 0 else 1.0
        return grid.Outcome({"accuracy": 0.5, "train_loss": loss}, 7)

    monkeypatch.setattr(config.module("self_supervised", "run"), "execute", execute)
    assert main([*MEAN, "seed=1", f"results={tmp_path}"]) == 0
    assert "runs diverged" not in capsys.readouterr().out
    assert main([*MEAN, "seeds=2", f"results={tmp_path}"]) == 0
    assert "\n1 of 2 runs diverged\n" in capsys.readouterr().out
    fine, record = on_file(tmp_path)
    assert record["metrics"] == {"accuracy": 0.5, "train_loss": None}
    assert record["diverged"] is True
    assert "diverged" not in fine
    assert main(["report", "self_supervised", f"results={tmp_path}"]) == 0
    page = (tmp_path / "self_supervised.md").read_text()
    assert page.endswith("\n\n1 of 2 runs diverged.\n")


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
        python(script, env={"HOME": folder})
    assert len(on_file(tmp_path)) == 3


def test_a_run_on_sets_imports_nothing_of_other_benchmarks(tmp_path):
    lines = python(f"""
import sys
assert main({[*MEAN, "seed=0", *TINY, f"results={tmp_path}"]}) == 0
print(*[name for name in sys.modules if name.startswith("benchmarks.")], sep="\\n")
""")
    assert "benchmarks.experiments.self_supervised.run" in lines
    modules = " ".join(line for line in lines if line.startswith("benchmarks."))
    for other in ("speed", "stress", "documents", "graphs"):
        assert other not in modules
