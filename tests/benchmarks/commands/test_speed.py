from dataclasses import replace

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.commands.speed import Options
from benchmarks.engine.measurements import read
from benchmarks.speed import rehearsal
from benchmarks.speed.parts import ALL, PARTS, Setting
from benchmarks.speed.shapes import Shape
from benchmarks.speed.timing import MODES, record


def fake(part):
    def measure(setting):
        for mode in MODES:
            for contender in {part.baseline or "mean", "segment_quantile", "padded"}:
                yield record("x", contender, mode, [1.0], seen=setting.seed)

    return replace(part, measure=measure)


@pytest.fixture
def parts(monkeypatch):
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, fake(part))


def test_all_parts(parts, tmp_path, capsys):
    before = torch.get_num_threads()
    assert main(["speed", f"results={tmp_path}", "seed=3", "threads=2"]) == 0
    assert torch.get_num_threads() == before
    results = read(tmp_path / "speed.json")
    threads = {name: part["threads"] for name, part in results.items()}
    assert threads == {name: 1 if name == "one_thread" else 2 for name in PARTS}
    assert list(results) == list(PARTS)
    for part in results.values():
        assert {"threads", "busy", "time", "commit"} <= part.keys()
        assert {"torch", "numpy", "numba"} <= part["versions"].keys()
        assert part["records"][0]["seen"] == part["seed"] == 3
    assert "not measured" in capsys.readouterr().out
    assert "## Six shapes" in (tmp_path / "speed.md").read_text()
    # A part alone leaves the others.
    assert main(["speed", "only=gin", f"results={tmp_path}", "seed=1"]) == 0
    after = read(tmp_path / "speed.json")
    assert after.pop("gin")["seed"] == 1
    assert after == {name: results[name] for name in PARTS if name != "gin"}


def test_quick(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["speed", "quick=true"]) == 0
    assert list(read(tmp_path / "results-quick" / "speed.json")) == ["shapes", "small"]


def test_the_help_names_all_parts():
    for name in PARTS:
        assert name in Options.__doc__


def test_a_device_that_is_not_there(tmp_path, capsys, monkeypatch):
    called = []
    monkeypatch.setattr(rehearsal, "_call", called.append)
    assert main(["speed", "device=maia", f"results={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert "no device 'maia'" in printed
    assert "growth" in printed
    assert "neighbourhoods" not in printed
    assert called == Setting(device="maia").names(*ALL)
    assert not list(tmp_path.iterdir())


def test_the_least_time_by_bytes():
    row = rehearsal._roofline(Shape(32, 1024, 128, 128))
    assert row["MB"] == "71.3"
    assert row["A100, us"] == "35.0"
    assert row["H100, us"] == "21.3"
