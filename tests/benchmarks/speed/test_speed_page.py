"""The command, from the measurements to the verdicts and the page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.commands.speed import Options
from benchmarks.engine.measurements import read
from benchmarks.speed import bars, rehearsal, report, sets
from benchmarks.speed.memory import STATUS
from benchmarks.speed.parts import LABELS, PARTS
from benchmarks.speed.shapes import GROWTH, SKEWED, Shape
from benchmarks.speed.timing import MODES, record

PAGE = Path(__file__).parents[3] / "benchmarks" / "results" / "speed.md"
OURS = "segment_quantile"


def times(contender, *seconds, mode="forward"):
    return [record(f"case {i}", contender, mode, [s]) for i, s in enumerate(seconds)]


def frame(part, *records):
    return report.frame({part: {"records": list(records)}})


def verdict(found, **which):
    table = bars.verdicts(found, LABELS)
    for column, value in which.items():
        table = table[table[column.replace("_", " ")] == value]
    (row,) = table.to_dict("records")
    return row["measured"], row["reached"]


def test_every_bar_names_what_is_measured():
    for bar in bars.BARS:
        assert bar.part in {*PARTS, "steps"}
        assert {bar.over, bar.under or OURS} <= set(LABELS)
    table = bars.verdicts(frame("shapes", *times("quantile", 1.0)), LABELS)
    assert set(table["reached"]) == {"not measured"}


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
    found = frame("shapes", *times(over, *seconds), *times(under, 1, 1))
    bar = f"{LABELS[over]} / {LABELS[under]}"
    assert verdict(found, bar=bar, mode="forward", of_the_cases=of) == expected


@pytest.mark.parametrize(("last", "is_met"), [(1.1, "yes"), (1.39, "**no**")])
def test_growth_is_judged_step_by_step(last, is_met):
    # As N L log n, but for the last step of the nodes, which takes longer.
    shapes = dict.fromkeys(shape for series in GROWTH.values() for shape in series)
    records = [
        record(s, OURS, mode, [bars._work(s) * (last if s.nodes == 1600 else 1)])
        for mode in MODES
        for s in shapes
    ]
    found = verdict(frame("growth", *records), part="steps, nodes: 400 to 1600")
    assert found == (f"{last}", is_met)


def test_memory_is_in_multiples_of_the_slices():
    sizes = {"peak_bytes": 300, "slice_bytes": 100}
    found = frame("memory", record(SKEWED, OURS, "training", **sizes))
    assert verdict(found, part=f"memory, {SKEWED}") == ("3", "yes")


def test_table():
    skipped = record("case 1", "sort", "forward", skipped="needs 9 GB")
    records = [*times("sort", 0.004), skipped, *times("mean", 0.001, 0.25)]
    records += times(OURS, 0.002, 50.0)
    table = report.table(frame("small", *records), "mean")
    assert table.to_numpy().tolist() == [
        ["segment_quantile", "2.00x", "200x", "20.0x"],
        ["PyG SortAggregation", "4.00x", "needs 9 GB", "4.00x (1 of 2)"],
        ["PyG mean", "1 ms", "250 ms", "1.00x"],
    ]


def test_the_page_on_file_is_that_of_the_records(tmp_path):
    path = PAGE.with_suffix(".json")
    page = report.render(json.loads(path.read_text()), tmp_path / path.name) + "\n"
    assert PAGE.read_text() == page, "run python -m benchmarks report speed"
    assert (tmp_path / "speed.png").stat().st_size > 1000


def fake(part):
    def measure(setting):
        for mode in MODES:
            for contender in {part.baseline or "mean", OURS, "padded"}:
                yield record("x", contender, mode, [1.0])

    return replace(part, measure=measure)


def test_a_run_of_all_parts(tmp_path, capsys, monkeypatch):
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, fake(part))
        assert name in Options.__doc__
    assert main(["speed", f"results={tmp_path}"]) == 0
    results = read(tmp_path / "speed.json")
    assert list(results) == list(PARTS)
    assert results["one_thread"]["threads"] == 1
    for part in results.values():
        assert {"torch", "numpy", "numba"} <= part["versions"].keys()
    assert "## Six shapes" in (tmp_path / "speed.md").read_text()

    # What cannot be measured stays as it is, and so do all others.
    def fail(setting):
        raise FileNotFoundError("no data")

    monkeypatch.setitem(PARTS, "gin", replace(PARTS["gin"], measure=fail))
    assert main(["speed", "only=gin", f"results={tmp_path}"]) == 0
    assert "gin is not measured: no data" in capsys.readouterr().out
    assert read(tmp_path / "speed.json") == results


def test_a_device_that_is_not_there(tmp_path, capsys):
    assert main(["speed", "device=maia", f"results={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    for shown in ("no device 'maia'", "growth", "PyG SortAggregation"):
        assert shown in printed
    for not_there in ("neighbourhoods", "fswlib", "numpy.sort"):
        assert not_there not in printed
    assert not list(tmp_path.iterdir())
    row = rehearsal.roofline(Shape(32, 1024, 128, 128))
    assert list(row.values())[1:] == ["71.3", "35.0", "21.3"]


def test_pairs_and_vectors_find_the_same():
    found = {r["contender"]: r for r in sets.search(12, num_paired=5)}
    assert [r["queries"] for r in found.values()] == [12, 12, 5, 5, 5]
    for name in (sets.EXACT, sets.SLICED):
        kind = name.removeprefix("POT, ")
        assert found[name][f"{kind}_among_1"] == 1
    # Both have POT's directions or many, and 64 points are about as many as elements.
    assert found["SetEmbedder, 64 x 64"]["sliced_among_10"] == 1
    page = sets.render(list(found.values()))
    assert page.count("all queries") == 2
    assert page.count("5 queries") == 3


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux")
def test_a_stream_of_columns():
    found = sets.stream(num_sets=200, chunk=10)
    assert 0 < found["first_bytes"] <= found["peak_bytes"]
    assert "200 sets in columns of 10" in sets.render([found])
    clouds = {"case": "clouds", "sets": 70_000, "elements": 10**7, "slices": 16}
    clouds |= {"points": 16, "seconds": 6.0, "input_bytes": 100, "peak_bytes": 150}
    page = sets.render([clouds])
    assert "6.00 s (demanded: at most 5 s, **not reached**)" in page
    assert "2.50 times the input (demanded: at most 3x, reached)" in page
