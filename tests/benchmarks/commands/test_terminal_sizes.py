"""Every command as a person meets it: in a terminal."""

import pytest

from tests.terminal import Session, run_in_terminal

TINY = ["epochs=2", "train_sets=40", "test_sets=40", "seeds=1", "points=2"]
SMALL = ["sets=12", "steps=2", "seeds=1"]


def shown(*arguments: str, **options) -> Session:
    session = run_in_terminal(["-m", "benchmarks", *arguments], **options).check()
    assert "![" not in session.output
    return session


@pytest.mark.parametrize(("columns", "rows", "workers"), [(110, 40, 2), (80, 24, 1)])
def test_quick(tmp_path, columns, rows, workers):
    arguments = ["quick", f"results={tmp_path}", f"workers={workers}", *SMALL]
    session = shown(*arguments, columns=columns, rows=rows)
    bars = [line for line in session.lines if line.startswith("when: ")]
    assert "100%" in bars[-1]
    assert "12/12 runs" in bars[-1]
    assert all(len(line) <= columns for line in session.lines if "%|" in line)
    tables = [line for line in session.lines if line.startswith("|")]
    assert max(map(len, tables)) <= 80
    names = [line.split("|")[1].strip() for line in tables]
    assert {"GSWE, no training", "exact optimal transport", "GSWE, 1 head"} <= {*names}
    assert (tmp_path / "neighbours.png").exists()


def test_run_and_report(tmp_path):
    arguments = ["readout=mean", "loss=simclr", f"results={tmp_path}", *TINY]
    session = shown("run", "set_circles", *arguments)
    assert any("100%" in line and "1/1 runs" in line for line in session.lines)
    assert any(line.startswith("| mean ") for line in session.lines)
    session = shown("report", "self_supervised", f"results={tmp_path}")
    assert "self_supervised: 1 runs" in session.output


@pytest.mark.parametrize(("columns", "rows"), [(110, 40), (80, 24)])
def test_list(columns, rows):
    lines = shown("list", columns=columns, rows=rows).lines
    assert any("set_circles: " in line for line in lines)
    assert max(map(len, lines)) <= columns


def test_datasets(tmp_path):
    session = shown("datasets", f"picture={tmp_path / 'circles.png'}")
    assert "figure: " in session.output
    assert (tmp_path / "circles.png").exists()


def test_graphgym(real_data, tmp_path):
    real_data("TUDataset/MUTAG")
    arguments = ["optim.max_epoch=1", f"dataset.dir={tmp_path}", f"out_dir={tmp_path}"]
    session = shown("graphgym", "mutag", *arguments, timeout=300)
    assert "accuracy" in session.output
    assert "Warning" not in session.output


def test_speed(tmp_path):
    session = shown("speed", "only=small", f"results={tmp_path}")
    assert any(line.startswith("| ") and "mean" in line for line in session.lines)
    assert (tmp_path / "speed.json").exists()


def test_stress(tmp_path):
    session = shown("stress", "only=loading", "sizes=small", f"results={tmp_path}")
    assert "passed" in session.output
    assert f"stress: {tmp_path}" in session.output.replace("\r\n", "")
