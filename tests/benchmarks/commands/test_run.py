import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import list as list_command
from benchmarks import quick, records, run
from benchmarks.__main__ import main

ROOT = Path(__file__).parents[2]
TINY = ["epochs=2", "train_sets=40", "test_sets=40"]


def start(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out + err


def ids(folder: Path) -> list[str]:
    return [record["id"] for record in records.read(folder / "set_circles.jsonl")]


def test_run_records_each_run_once_and_skips_what_is_done(tmp_path, capsys):
    arguments = ["set_circles", "readout=[mean,gswe_linear]", "loss=simsiam"]
    arguments += ["points=[1,2]", "seeds=2", f"results={tmp_path}", *TINY]
    assert run.main(arguments) == 0
    first = records.read(tmp_path / "set_circles.jsonl")
    assert len(first) == len({record["id"] for record in first}) == 6
    assert run.main([*arguments, "seeds=3"]) == 0
    second = records.read(tmp_path / "set_circles.jsonl")
    assert second[:6] == first
    assert [record["seed"] for record in second[6:]] == [2, 2, 2]
    output = capsys.readouterr()
    assert "9/9 runs" in output.err
    assert "set_circles: 9 runs, seeds 0 to 2" in output.out
    assert f"records: {tmp_path / 'set_circles.jsonl'}" in output.out


def test_a_record_is_complete_compact_and_free_of_the_machine(tmp_path):
    arguments = ["readout=gswe_barycentric", "loss=simsiam", "points=16", "seed=99"]
    run.main(["set_circles", *arguments, f"results={tmp_path}", *TINY])
    line = (tmp_path / "set_circles.jsonl").read_text()
    assert len(line) < 700
    record = json.loads(line)
    assert record["config"]["readout"] == "gswe_barycentric"
    assert record["seed"] == record["config"]["seed"] == 99
    assert set(record["metrics"]) == {"accuracy", "train_loss"}
    assert record["seconds"] > 0
    assert record["cpu_seconds"] > 0
    assert record["parameters"] == 4417 + 16
    assert set(record["versions"]) == {
        "python",
        "torch",
        "torch_geometric",
        "numpy",
        "numba",
        "gswe_pyg",
    }
    assert "commit" in record
    for private in (os.uname().nodename, str(tmp_path), str(Path.home())):
        assert private not in line


def test_workers_killed_at_any_moment_leave_every_run_exactly_once(tmp_path):
    arguments = ["run", "set_circles", "readout=[mean,pma]", "loss=simsiam"]
    arguments += ["points=[1,2]", "seeds=4", "epochs=6", f"results={tmp_path}"]
    arguments += ["train_sets=200", "workers=2"]
    # In a session of its own, so that the workers are killed with their parent.
    process = start(*arguments, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "set_circles.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    survived = ids(tmp_path)
    assert 0 < len(survived) < 12
    output = finish(start(*arguments))
    assert ids(tmp_path)[: len(survived)] == survived
    assert len(ids(tmp_path)) == len(set(ids(tmp_path))) == 12
    assert "Warning" not in output


def test_stopping_by_hand_leaves_whole_records(tmp_path):
    arguments = ["run", "set_circles", "readout=mean", "loss=simsiam", "seeds=300"]
    arguments += [f"results={tmp_path}", "workers=2", "epochs=20"]  # minutes
    process = start(*arguments, start_new_session=True)
    deadline = time.monotonic() + 300
    while not (tmp_path / "set_circles.jsonl").exists() or not ids(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command goes on from here" in err
    assert 0 < len(ids(tmp_path)) == len(set(ids(tmp_path))) < 300


@pytest.mark.parametrize("command", ["quick", "report", "speed", "datasets", "list"])
def test_every_command_can_be_stopped_by_hand(command, capsys, monkeypatch):
    def stop(argv):
        raise KeyboardInterrupt

    module = importlib.import_module(f"benchmarks.{command}")
    monkeypatch.setattr(module, "main", stop)
    assert main([command]) == 130
    assert capsys.readouterr().err == "\nstopped; what was finished is on file\n"


def test_two_processes_learn_what_one_does(tmp_path):
    arguments = ["readout=[gswe_linear,pma]", "loss=simclr", "points=2", "seed=3"]
    metrics = {}
    for devices in (1, 2):
        folder = tmp_path / str(devices)
        settings = [f"results={folder}", f"devices={devices}", *TINY]
        if devices == 1:
            assert run.main(["set_circles", *arguments, *settings]) == 0
        else:  # Fabric starts the second process by the command line of the first
            settings.append("strategy=ddp")
            finish(start("run", "set_circles", *arguments, *settings))
        found = records.read(folder / "set_circles.jsonl")
        assert [record["devices"] for record in found] == [devices, devices]
        metrics[devices] = [record["metrics"] for record in found]
    for one, two in zip(metrics[1], metrics[2], strict=True):
        assert two["train_loss"] == pytest.approx(one["train_loss"], rel=1e-4)
        assert two["accuracy"] == pytest.approx(one["accuracy"], abs=0.026)


def test_precision_is_a_setting(tmp_path):
    arguments = ["set_circles", "readout=pma", "loss=simclr", "seed=0", "points=2"]
    for precision in ("32-true", "bf16-mixed"):
        settings = [f"precision={precision}", f"results={tmp_path}", *TINY]
        assert run.main([*arguments, *settings]) == 0
    single, half = records.read(tmp_path / "set_circles.jsonl")
    assert "precision" not in single["config"]
    assert half["config"]["precision"] == "bf16-mixed"
    losses = [record["metrics"]["train_loss"] for record in (single, half)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set_cirlces"], "did you mean 'set_circles'"),
        (["set_circles", "poinst=3"], "did you mean 'points'"),
        (["set_circles", "train_sets=1000"], "400 sets; 1000 cannot be taken"),
    ],
)
def test_errors_are_one_line(capsys, tmp_path, arguments, message):
    assert run.main([*arguments, f"results={tmp_path}"][: len(arguments) + 1]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error


def test_missing_data_says_where_it_is_expected(capsys, tmp_path, monkeypatch):
    from gswe_pyg.datasets import PointCloudMNIST

    monkeypatch.setattr(PointCloudMNIST, "url", (tmp_path / "nowhere").as_uri())
    arguments = [f"data={tmp_path}", f"results={tmp_path / 'results'}"]
    assert run.main(["point_cloud_mnist", *arguments]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "MNIST" / "raw") in error
    assert "train-images-idx3-ubyte.gz" in error


def test_workers_tell_of_missing_data_in_one_line(capfd, tmp_path):
    arguments = [f"data={tmp_path}", f"results={tmp_path / 'results'}", "workers=2"]
    assert run.main(["twitter", *arguments]) == 1
    error = capfd.readouterr().err
    assert "error: " in error
    assert "Put 'twitter-emd_tr_te_split.mat'" in error
    assert f"into '{tmp_path / 'text'}'" in error
    assert "Traceback" not in error


def test_usage(capsys):
    assert run.main([]) == 2
    assert run.main(["--help"]) == 0
    assert "key=value" in capsys.readouterr().out
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "set_circles" in out
    assert "gswe_barycentric" in out
    assert list_command.main(["--help"]) == 0
    assert quick.main(["--help"]) == 0
    assert quick.main(["epoch=3"]) == 2
    assert "did you mean 'epochs'" in capsys.readouterr().err


def test_quick_prints_a_table_and_leaves_results_where_it_says(tmp_path):
    settings = ["seeds=1", "points=2", "workers=1", *TINY]
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks", "quick", *settings],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert "GSWE, linear" in process.stdout
    assert "seeds [0]" in process.stdout
    for line in process.stdout.splitlines():
        if line.startswith(("records:", "figure:")):
            assert (tmp_path / line.split()[1]).exists()
    assert "records: results-quick/set_circles.jsonl" in process.stdout
    assert "Warning" not in process.stdout + process.stderr
