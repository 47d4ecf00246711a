"""Every command as a person meets it: in a terminal."""

import pytest

from tests.terminal import run_in_terminal

RUN = ["run", "set_circles", "readout=mean", "loss=simclr", "seeds=1", "points=2"]
RUN += ["epochs=2", "train_sets=40", "test_sets=40"]


def shown(*arguments, **options):
    session = run_in_terminal(["-m", "benchmarks", *arguments], **options).check()
    assert "![" not in session.output
    return session


@pytest.mark.parametrize(("columns", "rows"), [(110, 40), (80, 24)])
def test_list(columns, rows):
    lines = shown("list", columns=columns, rows=rows).lines
    assert any("set_circles: " in line for line in lines)
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(("columns", "rows", "workers"), [(110, 40, 2), (80, 24, 1)])
def test_quick(tmp_path, columns, rows, workers):
    arguments = ["sets=12", "steps=2", "seeds=1", f"workers={workers}"]
    size = {"columns": columns, "rows": rows}
    session = shown("quick", f"results={tmp_path}", *arguments, **size)
    bars = [line for line in session.lines if line.startswith("when: ")]
    assert "100%" in bars[-1]
    assert "12/12 runs" in bars[-1]
    assert all(len(line) <= columns for line in session.lines if "%|" in line)
    tables = [line for line in session.lines if line.startswith("|")]
    assert max(map(len, tables)) <= 80
    names = [line.split("|")[1].strip() for line in tables]
    assert {"GSWE, no training", "exact optimal transport", "GSWE, 1 head"} <= {*names}
    assert (tmp_path / "neighbours.png").exists()


@pytest.mark.parametrize(
    ("arguments", "line", "page"),
    [
        (RUN, "| mean ", "self_supervised"),
        (["speed", "only=small"], "| small ", "speed"),
        (["stress", "only=loading", "sizes=small"], "stress: ", "stress"),
    ],
)
def test_from_results_to_pages(tmp_path, arguments, line, page):
    session = shown(*arguments, f"results={tmp_path}")
    assert any(found.startswith(line) for found in session.lines)
    session = shown("report", page, f"results={tmp_path}")
    assert session.output.startswith(f"{page}: ")


def test_graphgym(real_data, tmp_path):
    real_data("TUDataset/MUTAG")
    arguments = ["optim.max_epoch=1", f"dataset.dir={tmp_path}", f"out_dir={tmp_path}"]
    session = shown("graphgym", "mutag", *arguments, timeout=300)
    assert "accuracy" in session.output
    assert "Warning" not in session.output
