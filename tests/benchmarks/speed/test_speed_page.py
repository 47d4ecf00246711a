"""The command, from the measurements to the verdicts and the page."""

import json
from itertools import product

import pytest

from benchmarks.__main__ import main
from benchmarks.commands.speed import Options
from benchmarks.engine.config import RESULTS
from benchmarks.engine.measurements import read
from benchmarks.speed import bars, rehearsal, report, sets
from benchmarks.speed.contenders import LABELS
from benchmarks.speed.memory import PROCESS
from benchmarks.speed.parts import MEASURES, PARTS
from benchmarks.speed.shapes import GROWTH, Shape
from benchmarks.speed.timing import MODES, record

OURS = "segment_quantile"


def times(contender, *seconds):
    return [
        record(f"case {i}", contender, "forward", [s]) for i, s in enumerate(seconds)
    ]


def frame(part, *records):
    return report.frame({part: {"records": list(records)}})


def verdicts(found):
    """What was measured, by part, bar, cases and mode."""
    table = bars.verdicts(found)
    assert len(table) == 33
    rows = table[table["reached"] != "not measured"].to_numpy().tolist()
    return {(*row[:4],): (*row[5:],) for row in rows}


@pytest.mark.parametrize(
    ("over", "under", "of", "seconds", "expected"),
    [
        ("padded", OURS, "mean", [3, 27], ("9", "yes")),  # means are geometric
        ("padded", OURS, "mean", [9, 8], ("8.49", "**no**")),
        ("padded", OURS, "mean", [10], ("10", "yes")),  # one was skipped
        ("gswe_heads1", "sort", "worst", [0.5, 1.25], ("1.25", "**no**")),
    ],
)
def test_bars(over, under, of, seconds, expected):
    found = verdicts(frame("shapes", *times(over, *seconds), *times(under, 1, 1)))
    bar = f"{LABELS[over]} / {LABELS[under]}"
    assert found["shapes", bar, of, "forward"] == expected


@pytest.mark.parametrize(("last", "is_met"), [(1.1, "yes"), (1.39, "**no**")])
def test_growth_is_judged_step_by_step(last, is_met):
    # As N log n, but for the last step, which takes longer.
    records = [
        record(s, OURS, mode, [bars._work(s) * (last if s.nodes == 1600 else 1)])
        for mode, s in product(MODES, GROWTH)
    ]
    found = verdicts(frame("growth", *records))
    key = ("steps, nodes: 400 to 1600", OURS, "worst", "training")
    assert found == {key: (f"{last}", is_met)}


def test_the_page_on_file_is_that_of_the_records():
    results = json.loads((RESULTS / "speed.json").read_text())
    page = report.render(results) + "\n"
    message = "run python -m benchmarks report speed"
    assert (RESULTS / "speed.md").read_text() == page, message


def test_a_run_of_all_parts(tmp_path, capsys, monkeypatch):
    on_file = read(RESULTS / "speed.json")

    for name in PARTS:
        lines = on_file.get(name, on_file["shapes"])["records"]
        monkeypatch.setitem(MEASURES, name, lambda setting, lines=lines: iter(lines))
        assert name in Options.__doc__
    assert main(["speed", f"results={tmp_path}"]) == 0
    results = read(tmp_path / "speed.json")
    assert list(results) == list(PARTS)
    assert results["one_thread"]["threads"] == 1
    for part in results.values():
        assert {"torch", "numpy", "numba"} <= part["versions"].keys()
    assert "## One thread" in (tmp_path / "speed.md").read_text()

    # What cannot be measured stays as it is, and so do all others.
    def fail(setting):
        raise FileNotFoundError("no data")

    monkeypatch.setitem(MEASURES, "gin", fail)
    assert main(["speed", "only=gin", f"results={tmp_path}"]) == 0
    assert "gin is not measured: no data" in capsys.readouterr().out
    assert read(tmp_path / "speed.json") == results


def test_a_device_that_is_not_there(tmp_path, capsys):
    assert main(["speed", "device=maia", f"results={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    for shown in ("no device 'maia'", "growth", "PyG SortAggregation"):
        assert shown in printed
    for not_there in ("neighbourhoods", "numpy.sort"):
        assert not_there not in printed
    assert not list(tmp_path.iterdir())
    row = rehearsal.roofline(Shape(32, 1024, 128, 128))
    assert list(row.values())[1:] == ["71.3", "35.0", "21.3"]


@pytest.mark.skipif(not PROCESS.exists(), reason="needs Linux")
def test_sets():
    found = list(sets.search(12, num_paired=5))
    assert [r["queries"] for r in found] == [12, 12, 5, 5]
    assert found[2]["sliced_among_1"] == found[3]["exact_among_1"] == 1
    # Both have POT's directions or many, and 64 points are about as many as elements.
    assert found[1]["sliced_among_10"] == 1
    clouds = {"case": "clouds", "sets": 70_000, "elements": 10**7}
    clouds |= {"seconds": 6.0, "input_bytes": 100, "peak_bytes": 150}
    stream = sets.stream(num_sets=200, chunk=10)
    assert stream["first_bytes"] > 0
    page = sets.render([*found, clouds, stream])
    assert page.count("all queries") == 2
    assert "6.00 s (demanded: at most 5 s, **not reached**)" in page
    assert "2.50 times the input (demanded: at most 3x, reached)" in page
    assert "200 sets in columns of 10" in page
