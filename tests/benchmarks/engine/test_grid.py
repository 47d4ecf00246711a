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

from benchmarks.commands import run
from benchmarks.engine import config, grid, records
from benchmarks.engine.arguments import UsageError
from tests.terminal import ROOT, reset_signals

TINY = ["epochs=2", "train_sets=40", "test_sets=40"]


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


def ids(folder: Path) -> list[str]:
    return [record["id"] for record in records.read(folder / "set_circles.jsonl")]


def test_each_run_is_recorded_once_and_what_is_done_is_skipped(tmp_path, capsys):
    arguments = ["set_circles", "readout=[mean,gswe_linear]", "loss=simsiam"]
    arguments += ["points=[1,2]", "seeds=2", f"results={tmp_path}", *TINY]
    assert run.main(arguments) == 0
    first = records.read(tmp_path / "set_circles.jsonl")
    assert len(first) == len({record["id"] for record in first}) == 6
    capsys.readouterr()
    assert run.main([*arguments, "seeds=3"]) == 0
    second = records.read(tmp_path / "set_circles.jsonl")
    assert second[:6] == first
    assert [record["seed"] for record in second[6:]] == [2, 2, 2]
    output = capsys.readouterr()
    assert "100%" in output.err
    assert "9/9 runs" in output.err
    assert "set_circles: 9 runs, seeds 0 to 2" in output.out
    assert f"records: {tmp_path / 'set_circles.jsonl'}" in output.out
    # The table is that of these runs.
    assert run.main([*arguments, "readout=mean", "seed=0"]) == 0
    out = capsys.readouterr().out
    assert "| mean " in out
    assert "GSWE" not in out


def test_a_record_is_complete_compact_and_free_of_the_machine(tmp_path):
    arguments = ["readout=gswe_barycentric", "loss=simsiam", "points=16", "seed=99"]
    run.main(["set_circles", *arguments, f"results={tmp_path}", *TINY])
    line = (tmp_path / "set_circles.jsonl").read_text()
    assert len(line) < 800
    record = json.loads(line)
    assert record["config"]["readout"] == "gswe_barycentric"
    assert record["seed"] == record["config"]["seed"] == 99
    assert set(record["metrics"]) == {"accuracy", "start_loss", "train_loss"}
    assert record["seconds"] > 0
    assert record["cpu_seconds"] > 0
    assert record["parameters"] == 4417 + 16
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
    survived = ids(tmp_path)
    assert 0 < len(survived) <= 12
    process = start(*arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert ids(tmp_path)[: len(survived)] == survived
    assert len(ids(tmp_path)) == len(set(ids(tmp_path))) == 12
    assert "Warning" not in out + err


@pytest.mark.parametrize("workers", [1, 2])
def test_stopping_by_hand_leaves_whole_records(tmp_path, workers):
    arguments = ["run", "set_circles", "readout=mean", "loss=simsiam", "seeds=300"]
    arguments += [f"results={tmp_path}", f"workers={workers}", "epochs=20"]  # minutes
    process = start(*arguments)
    wait_for_a_record(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    assert 0 < len(ids(tmp_path)) == len(set(ids(tmp_path))) < 300


def test_a_second_grid_says_what_the_first_has_done(tmp_path, capsys):
    arguments = ["set_circles", "readout=mean", "loss=simsiam", "seeds=300"]
    arguments += [f"results={tmp_path}", "epochs=20"]
    first = start("run", *arguments)
    wait_for_a_record(tmp_path, first)
    assert run.main(arguments) == 0
    out = capsys.readouterr().out
    assert "another process works on" in out
    assert "of these 300 runs are done" in out
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()


def test_a_diverged_run_is_recorded_as_such(tmp_path, monkeypatch):
    def execute(settings, context):
        return grid.Outcome({"accuracy": 0.5, "train_loss": math.nan}, 7)

    experiment = config.module("self_supervised", "run")
    monkeypatch.setattr(experiment, "execute", execute)
    arguments = ["set_circles", "readout=mean", "loss=simsiam", "seed=0"]
    assert run.main([*arguments, f"results={tmp_path}"]) == 0
    (record,) = records.read(tmp_path / "set_circles.jsonl")
    assert record["metrics"] == {"accuracy": 0.5, "train_loss": None}
    assert record["diverged"] is True


def plan(*arguments: str) -> config.Plan:
    settings = ["readout=mean", "loss=simsiam", "seeds=2", *TINY, *arguments]
    return config.load("set_circles", settings)


def test_what_stands_in_the_way_of_records_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        grid.work_off(plan(f"results={tmp_path / 'file'}"))
    with pytest.raises(OSError, match="/sys"):
        grid.work_off(plan("results=/sys/nowhere"))  # read-only, even for root


@pytest.mark.filterwarnings("error:.*tasks")  # of joblib
def test_a_full_disk_is_an_error_of_the_system(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        grid.work_off(plan(f"results={tmp_path}", "workers=2", "seeds=8"))


def test_an_accelerator_that_is_not_there(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    for name in ("cuda", "nonsense"):
        with pytest.raises(UsageError, match=f"accelerator={name} is not there: "):
            grid.work_off(plan(f"accelerator={name}", f"results={tmp_path}"))


def test_a_backend_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="backend=dask needs `pip install distri"):
        grid.work_off(plan("backend=dask", f"results={tmp_path}"))


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs `pip install ray`"
)
def test_a_real_local_ray(tmp_path):
    # Paths of sockets must be short. Ray keeps a token in the home folder, which is
    # not ours to write to.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        script = f"""
import ray
ray.init(num_cpus=2, include_dashboard=False, _temp_dir={folder!r})
from benchmarks.__main__ import main
arguments = {["run", "set_circles", "readout=mean", "loss=simsiam", "seeds=3", *TINY]}
raise SystemExit(main([*arguments, "workers=2", "backend=ray", "results={tmp_path}"]))
"""
        process = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": folder},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert process.returncode == 0, process.stderr
    assert len(set(ids(tmp_path))) == 3


def test_a_run_on_sets_imports_nothing_of_other_benchmarks(tmp_path):
    script = f"""
import sys
from benchmarks.__main__ import main
arguments = {["run", "set_circles", "readout=mean", "loss=simsiam", "seed=0", *TINY]}
assert main([*arguments, "results={tmp_path}"]) == 0
print([name for name in sys.modules if name.startswith("benchmarks.")])
"""
    command = [sys.executable, "-c", script]
    out = subprocess.check_output(command, cwd=ROOT, text=True)
    modules = out.strip().splitlines()[-1]
    assert "benchmarks.experiments.self_supervised.run" in modules
    for other in ("speed", "stress", "documents", "graphs"):
        assert other not in modules
