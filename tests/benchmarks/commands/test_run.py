import subprocess
import sys

import pytest

from benchmarks.__main__ import COMMANDS, main
from tests.terminal import ROOT


def test_every_command_has_help(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for name in COMMANDS:
        assert f"\n  {name} " in out
        assert main([name, "--help"]) == 0
        assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out
    assert main(["report", "grahps", "--help"]) == 0
    out = capsys.readouterr().out
    usage = (
        "usage: python -m benchmarks report [EXPERIMENT] [key=value ...]\n\nWrites a"
    )
    assert out.startswith(usage)
    assert "\n  results=benchmarks/results " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["qick"], "unknown command 'qick'; did you mean 'quick'?"),
        (["run", "set_cirlces"], "did you mean 'set_circles'"),
        (["run", "set_circles", "poinst=3"], "did you mean 'points'"),
        (["run", "set_circles", "train_sets=1000"], "400 sets; 1000 cannot be taken"),
        (["run", "set_circles", "results=/sys/nowhere"], "/sys/nowhere"),
        (["run", "set_circles", f"results={__file__}"], "test_run.py"),
        (["quick", "step=3"], "did you mean 'steps'"),
        (["quick", "sets=0"], "sets must be at least 1"),
        (["report", "grahps"], "did you mean 'graphs'"),
        (["report", "results=nowhere"], "there is no folder nowhere"),
        (["list", "result=x"], "did you mean 'results'"),
        (["datasets", "rot=x"], "unknown key 'rot'"),
        (["graphgym", "mutagg"], "did you mean 'mutag'"),
        (["speed", "only=shape"], "unknown part 'shape'; did you mean 'shapes'?"),
        (["stress", "only=cost"], "did you mean 'costs'"),
        (["stress", "sizes=tiny"], "unknown sizes 'tiny'; there are full, small"),
    ],
)
def test_errors_are_one_line(capfd, tmp_path, arguments, message):
    if arguments[0] == "run" and "results=" not in arguments[-1]:
        arguments = [*arguments, f"results={tmp_path}"]
    assert main(arguments) == 2
    error = capfd.readouterr().err
    assert "Traceback" not in error
    last = error.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


def test_a_package_that_is_missing_is_named_with_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonargparse", None)
    assert main(["list", "results=x"]) == 2
    error = capsys.readouterr().err
    assert "jsonargparse" in error
    assert error.endswith(': pip install ".[benchmarks]"\n')


def test_a_mistyped_name_is_answered_before_anything_is_imported():
    script = """
import sys
from benchmarks.__main__ import COMMANDS, main
assert main(["run", "set_cirlces"]) == 2
assert main(["lisst"]) == 2
assert all(main([name, "--help"]) == 0 for name in COMMANDS)
print([name for name in ("torch", "pandas", "scipy", "joblib") if name in sys.modules])
"""
    out = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert out.splitlines()[-1] == "[]"


def test_a_reader_of_the_first_lines_does_not_hear_of_the_rest():
    command = [sys.executable, "-m", "benchmarks", "list"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        assert process.stdout.readline().startswith("configs: ")
        process.stdout.close()  # as `head -1` does
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_a_command_can_be_stopped_by_hand(capsys, monkeypatch):
    def stop(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.commands.list.main", stop)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "\nstopped; what was finished is on file\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_missing_data_says_where_it_is_expected(capfd, tmp_path, workers):
    folders = [f"data={tmp_path}", f"results={tmp_path / 'results'}"]
    assert main(["run", "twitter", *folders, f"workers={workers}"]) == 2
    error = capfd.readouterr().err
    assert "error: " in error
    assert "Put 'twitter-emd_tr_te_split.mat'" in error
    assert f"into '{tmp_path / 'text'}'" in error
    assert "Traceback" not in error


def test_list(capsys, tmp_path):
    arguments = ["readout=mean", "loss=simclr", "seed=0", f"results={tmp_path}"]
    assert main(["run", "set_circles", *arguments]) == 0
    capsys.readouterr()
    assert main(["list", f"results={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "\n  set_circles: " in out
    assert "preset=small    1 / 160 runs" in out
    assert "gswe_barycentric" in out
    assert " IMDB-MULTI," in out  # not broken at its hyphen
    assert max(map(len, out.splitlines())) <= 80
