import json
import math
import subprocess
import sys

import pytest
import torch

from benchmarks.reliability import (
    command,
    data_parallel,
    determinism,
    drift,
    endurance,
    killed_grid,
    large_batch,
    processes,
    report,
    scaling,
)
from benchmarks.reliability.backends import available
from benchmarks.reliability.check import Others, ask, check
from benchmarks.reliability.pytest_run import run_tests
from benchmarks.speed_timing import Bystanders
from gswe_pyg.ops.segment_quantile import BACKENDS


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def verdicts(checks):
    return {c["check"]: c["verdict"] for c in checks if c["verdict"] is not None}


def test_a_check_holds_up_to_its_limit():
    assert check("a", 2, 2)["verdict"] is True
    assert check("a", 2.1, 2)["verdict"] is False
    assert check("a", math.nan, 2)["verdict"] is False
    assert check("a", 2)["verdict"] is None
    assert check("a", 2, 2, worst="x")["worst"] == "x"


def test_backends_at_hand():
    assert set(available()) <= set(BACKENDS)
    assert "torch" in available(torch.float64)


def test_determinism_of_threads():
    settings = {"nodes": 300, "slices": 4, "steps": 2, "seed": 0}
    once = determinism.digests(threads=[1, 2], **settings)
    again = determinism.digests(threads=[1], **settings)
    kernel = [name for name in once if name.startswith(("kernel", "slices"))]
    assert len(kernel) >= 4 * len(available())
    for name in kernel:
        assert len({*once[name], *again[name]}) == 1, name
    other = determinism.digests(threads=[1], **{**settings, "seed": 1})
    assert all(other[name] != again[name] for name in other)


def test_strict_algorithms_and_ties():
    checks = [*determinism._strict({}, seed=0), determinism._ties(seed=0)]
    assert verdicts(checks) == dict.fromkeys(verdicts(checks), True)
    assert len(checks) == 3


def test_strict_mode_notices_differences_and_errors(monkeypatch):
    def other(src, ptr, num_points, interpolation, *_):
        strict = torch.are_deterministic_algorithms_enabled()
        if strict and interpolation == "step":
            raise RuntimeError("no deterministic implementation")
        return [torch.full((3,), float(strict and interpolation == "linear"))]

    monkeypatch.setattr(determinism, "run", other)
    errors, differing = determinism._strict({}, seed=0)
    assert errors["measured"] == differing["measured"] == 2 * len(available())
    assert not torch.are_deterministic_algorithms_enabled()


def test_drift():
    checks = list(drift.measure(drift.SMALL, seed=0))
    assert verdicts(checks) == dict.fromkeys(verdicts(checks), True)
    assert len(checks) == 2 * len(available()) + 2


def test_drift_is_noticed(monkeypatch):
    def wrong(src, ptr, num_points, interpolation, name, weight=None, grad=None):
        out, grad_src = original(src, ptr, num_points, interpolation, name, grad=grad)
        return (out * (1 + 1e-5), grad_src) if name != "torch" else (out, grad_src)

    original = drift.run
    monkeypatch.setattr(drift, "run", wrong)
    found = verdicts(drift.measure(drift.SMALL | {"steps": 1}, seed=0))
    for name in available():
        assert found[f"points of '{name}'"] == (name == "torch")


@pytest.mark.parametrize("way", ["threads", "loader fork", "fork 1"])
def test_threads_and_workers(way):
    settings = {key: processes.SMALL[key] for key in ("calls", "nodes", "slices")}
    assert processes.count_wrong(way, threads=2, seed=0, **settings) == 0


def test_crowd(monkeypatch):
    milliseconds = {"readout": {1: 2.0, 2: 8.0}, "peer": {1: 1.0, 2: 4.0}}

    def answer(module, request, timeout, threads):
        of_kernel = {"kernel numpy": 1.0, "kernel torch": 6.0 if threads == 2 else 1.0}
        found = {name: of[threads] for name, of in milliseconds.items()}
        return [dict.fromkeys(request["names"], 1.0) | found | of_kernel]

    monkeypatch.setattr(processes, "ask", answer)
    monkeypatch.setattr(processes, "available", lambda: ("numpy", "torch"))
    checks = list(processes._crowd(processes.SMALL, seed=0))
    found = {c["check"].rpartition(": ")[2]: c for c in checks}
    ours, peer = found["GSWEAggregation, linear slicer"], checks[-1]
    assert (ours["measured"], peer["measured"]) == (4.0, 4.0)
    assert ours["verdict"] is True  # no worse than PyTorch's own
    assert peer["verdict"] is None
    assert found["kernel numpy"]["verdict"] is True
    assert found["kernel torch"]["verdict"] is False


def test_two_processes_learn_what_one_does():
    checks = list(data_parallel.measure(data_parallel.SMALL, seed=0))
    assert verdicts(checks) == dict.fromkeys(verdicts(checks), True)
    assert len(checks[0]["distances"]) == len(data_parallel.OPTIONS)


def test_halves_are_the_whole_batch():
    for step in range(3):
        halves = data_parallel.batch(step, 6, torch.float64, seed=0)
        x, ptr, y = data_parallel.join(halves)
        assert ptr[-1] == len(x)
        assert len(ptr) == 7
        assert len(y) == 6
        assert (len(halves[1][0]) == 0) == (step % 3 == 1)


def test_a_grid_that_is_killed():
    checks = list(killed_grid.measure(killed_grid.SMALL, seed=0))
    found = verdicts(checks)
    found.pop("kills short of the plan")  # the machine may be faster than we are
    assert found == dict.fromkeys(found, True)
    assert len(found) == 3


def test_memory_is_measured():
    config = {"sets": 4, "largest": 10, "seed": 0}
    found = endurance.train(steps=20, backend_name="torch", weighted=True, **config)
    assert found["first_mib"] > 0
    assert math.isfinite(found["slope"])
    found = large_batch.step(**large_batch.SMALL, seed=0)
    assert found["not_finite"] == 0
    assert found["peak_gib"] > 0.01


def test_processes_that_fail_or_hang_are_reported():
    with pytest.raises(RuntimeError, match="No module named"):
        ask("nowhere_to_be_found", {}, 300)


def test_tests_as_records(tmp_path):
    path = tmp_path / "test_two.py"
    path.write_text("def test_a(): pass\ndef test_b(): assert False\n")
    found = run_tests([str(path)], ["-p", "no:cacheprovider"], timeout=300)
    assert (found.passed, found.failed) == (1, 1)
    assert "test_b" in found.tail
    assert run_tests([str(tmp_path / "none.py")], [], timeout=300).failed == 1


class Part:
    TITLE, ABOUT = "A part", "What it is about."
    FULL, SMALL = {"size": 10}, {"size": 1}

    @staticmethod
    def measure(config, seed):
        yield check("error", seed / 10, 0.15, "s")
        yield check("size", config["size"])


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr(command, "PARTS", ("first", "second"))
    monkeypatch.setattr(command, "part_of", lambda name: Part)
    monkeypatch.setattr(command.provenance, "commit", lambda: "abc")


def test_command(parts, tmp_path, capsys):
    output = ["--output", str(tmp_path)]
    assert command.main(["--report", *output]) == 2
    assert "measure first" in capsys.readouterr().err

    assert command.main(["--only", "second", *output]) == 0
    assert command.main(["--quick", "--resume", *output]) == 0
    results = json.loads((tmp_path / "reliability.json").read_text())
    assert list(results) == ["first", "second"]
    assert results["first"]["config"] == {"size": 1}
    assert results["second"]["config"] == {"size": 10}  # was not done again
    assert {
        "config",
        "seed",
        "seconds",
        "busy",
        "time",
        "commit",
        "versions",
        "checks",
    } <= results["first"].keys()

    capsys.readouterr()
    assert command.main(["--only", "first", "--seed", "2", *output]) == 1
    printed = capsys.readouterr().out
    assert "**no**" in printed
    assert "0.2 s" in printed
    assert "0 of 1" in printed
    assert command.main(["--report", *output]) == 1
    assert capsys.readouterr().out in printed


def test_numbers():
    assert report._number(3, "") == "3"
    assert report._number(12_345, "of 9") == "12,345 of 9"
    assert report._number(0.123456, "s") == "0.123 s"
    assert report._number(0.0123, "%") == "1.23%"
    assert report._number(math.inf, "x") == "inf x"


def test_our_own_processes_are_no_bystanders():
    def ours():
        return Bystanders._busy_seconds() - Others._busy_seconds()

    before = ours()
    loop = "import time\nwhile time.process_time() < 1: pass"
    subprocess.run([sys.executable, "-c", loop], check=True, timeout=300)
    assert ours() - before > 0.5


def costs():
    checks = [
        {"mode": mode, "size": 100, "seconds_per_set": 3.6e-6, "measured": 1.0}
        for mode in ("embed", "train")
    ]
    checks.append({"mode": "both", "size": 100, "measured": 1.5})
    checks.append({"mode": "exchange", "parameters": 1000, "measured": 0.9216})
    config = {"channels": 64, "slices": 64, "points": 8}
    part = {"commit": "abc", "time": "now", "busy": 0.0, "config": config}
    return part | {"checks": checks}


def test_scaling(tmp_path):
    text = scaling.render(costs())
    # 1e9 sets x 3.6 µs x 1.5 = 5,400 s.
    assert " 1.5 |" in text
    # A step of 256 sets takes as long as the exchange by two: 2 x 1 / (1 + 1).
    assert " 1x |" in text
    page = tmp_path / "scaling.md"
    page.write_text("a <!-- begin:costs --> old <!-- end:costs --> b")
    report.refresh(page, {"costs": costs()})
    assert "1.5" in page.read_text()
    assert "old" not in page.read_text()
    report.refresh(page, {})


def test_every_part_can_be_reported():
    for name in command.PARTS:
        part = command.part_of(name)
        assert part.TITLE
        assert part.ABOUT.endswith(".")
        assert part.FULL.keys() >= part.SMALL.keys()


def test_generated_cases_are_counted(monkeypatch):
    output = (
        "  - 25 passing, 0 failing, and 1 invalid test cases\n"
        "  - 20 passing examples, 1 failing examples, 0 invalid examples\n"
        "1 failed, 13 passed, 3 warnings in 28.79s"
    )

    def run(*_, **__):
        return subprocess.CompletedProcess([], 1, stdout=output)

    monkeypatch.setattr(subprocess, "run", run)
    found = run_tests(["tests"], [], timeout=1)
    assert (found.passed, found.failed, found.cases) == (13, 1, 46)
