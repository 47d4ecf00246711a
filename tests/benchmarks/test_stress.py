import math
import subprocess
from pathlib import Path

import pytest

from benchmarks.commands import stress
from benchmarks.engine.config import RESULTS
from benchmarks.engine.measurements import Bystanders, read, write
from benchmarks.stress import page, scaling


def check(measured, limit=None, **details):
    holds = None if limit is None else measured <= limit
    check = {"check": "a check", "measured": measured, "limit": limit, "unit": "s"}
    return check | {"holds": holds} | details


def write_part(folder, name, sizes, *checks):
    part = {"title": "A part", "about": "What it is about.", "sizes": sizes}
    part |= {"scale": "small", "seed": 0, "seconds": 1.0, "checks": checks}
    write(folder / "stress.json", name, Bystanders(), **part)


def test_the_command_runs_the_chosen_tests_and_shows_all(tmp_path, monkeypatch, capsys):
    def run(command, cwd, env):
        files = [Path(word).name for word in command if word.endswith(".py")]
        assert files == ["test_costs.py", "test_drift.py"]
        assert env["STRESS_SIZES"] == "small"
        assert env["STRESS_RESULTS"] == str(tmp_path / "stress.json")
        return subprocess.CompletedProcess(command, 1)

    page.refresh(tmp_path)  # nothing to show
    assert list(tmp_path.iterdir()) == []
    write_part(tmp_path, "drift", {"size": 3}, check(0.1, 0.15))
    write_part(tmp_path, "a", {"size": 1}, check(1), check(0, 0))
    write_part(tmp_path, "drift", {"size": 4}, check(0.2, 0.15))
    monkeypatch.setattr(subprocess, "run", run)
    assert stress.main(["only=costs,drift", "sizes=small", f"results={tmp_path}"]) == 1
    assert str(tmp_path / "stress.md") in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"stress.json", "stress.md"}
    text = (tmp_path / "stress.md").read_text()
    for shown in ("**no**", "0.2 s", "1 of 1", "0 of 1", "size 4", "small"):
        assert shown in text
    assert text.index("`a`") < text.index("`drift`")
    assert "size 3" not in text
    assert "% of the processors" in " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3, "", "3"),
        (12_345, "of 9", "12,345 of 9"),
        (0.123456, "s", "0.123 s"),
        (0.0123, "%", "1.23%"),
        (math.inf, "x", "inf x"),
    ],
)
def test_numbers(value, unit, text):
    assert page.number(value, unit) == text


def test_the_page_on_file_is_that_of_the_records():
    found = page.render(read(RESULTS / "stress.json"))
    message = "run python -m benchmarks report stress"
    assert (RESULTS / "stress.md").read_text() == found, message


def test_scaling():
    embed = check(1.0, mode="embed", size=100, seconds_per_set=3.6e-6)
    checks = [embed, check(1.5, mode="both", size=100)]
    sizes = {"channels": 64, "slices": 64, "points": 8}
    part = {"commit": "abc", "time": "now", "busy": 0.0, "sizes": sizes}
    # 1e9 sets x 3.6 µs x 1.5 = 5,400 s.
    assert " 1.5 |" in scaling.render(part | {"checks": checks})


@pytest.mark.parametrize("name", stress.PARTS)
def test_every_part_has_a_title_a_text_and_small_sizes(name):
    text = (stress.TESTS / f"test_{name}.py").read_text()
    assert "\n\n" in text.split('"""')[1], "no text below the title"
    assert "FULL = " in text
    assert "SMALL = " in text
