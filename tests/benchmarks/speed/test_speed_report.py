import json
import math
from pathlib import Path

import pytest

from benchmarks.speed import bars, report
from benchmarks.speed.bars import BARS
from benchmarks.speed.parts import LABELS, PARTS
from benchmarks.speed.shapes import GROWTH, SKEWED
from benchmarks.speed.timing import MODES, record

PAGE = Path(__file__).parents[3] / "benchmarks" / "results" / "speed.md"

ORIGIN = {"threads": 2, "busy": 0.0, "commit": "abc", "seed": 0}


def part(*records, **versions):
    return {**ORIGIN, "versions": {"torch": "2", **versions}, "records": list(records)}


def times(contender, *seconds, mode="forward"):
    return [record(f"case {i}", contender, mode, [s]) for i, s in enumerate(seconds)]


def verdict(results, **which):
    table = bars.verdicts(report.frame(results), LABELS)
    for column, value in which.items():
        table = table[table[column.replace("_", " ")] == value]
    (row,) = table.to_dict("records")
    return row["measured"], row["reached"]


def test_every_bar_names_what_is_measured():
    for bar in BARS:
        assert bar.part in {*PARTS, "steps"}
        assert bar.over in LABELS
        assert bar.under is None or bar.under in LABELS
        assert bar.sense in (">=", "<=")
        assert bar.forward is not None or bar.training is not None


@pytest.mark.parametrize("records", [[], times("quantile", 1.0, mode="training")])
def test_bars_without_records_are_not_measured(records):
    table = bars.verdicts(report.frame({"shapes": part(*records)}), LABELS)
    assert set(table["reached"]) == {"not measured"}


PADDED = {"bar": "padded torch.sort / segment_quantile", "of_the_cases": "mean"}
HEADS = {"bar": "GSWE, linear, 1 head / PyG SortAggregation"}


@pytest.mark.parametrize(
    ("which", "over", "under", "expected"),
    [
        (PADDED, [9, 9], [1, 1], ("9", "yes")),
        (PADDED, [3, 27], [1, 1], ("9", "yes")),  # means are geometric
        (PADDED, [9, 8], [1, 1], ("8.49", "**no**")),
        (PADDED, [10], [1, 1], ("10", "yes")),  # one was skipped
        (HEADS, [0.5, 1.25], [1, 1], ("1.25", "**no**")),  # the worst case counts
    ],
)
def test_bars(which, over, under, expected):
    names = (
        ("padded", "segment_quantile") if which is PADDED else ("gswe_heads1", "sort")
    )
    skipped = record("case 1", names[0], "forward", skipped="needs 9 GB")
    records = [*times(names[0], *over), *times(names[1], *under)]
    records += [skipped] if len(over) == 1 else []
    assert verdict({"shapes": part(*records)}, mode="forward", **which) == expected


def growing(last):
    """As N L log n, but for the last step of the nodes, which takes longer."""
    shapes = dict.fromkeys(shape for series in GROWTH.values() for shape in series)
    for mode in MODES:
        for shape in shapes:
            work = shape.graphs * shape.nodes * shape.slices * math.log2(shape.nodes)
            factor = last if shape.nodes == 1600 else 1
            yield record(shape, "segment_quantile", mode, [1e-9 * factor * work])


def test_growth_is_judged_step_by_step():
    for last, expected in ((1.1, ("1.1", "yes")), (1.39, ("1.39", "**no**"))):
        results = {"growth": part(*growing(last))}
        assert verdict(results, part="steps, nodes: 400 to 1600") == expected


def test_memory_is_in_multiples_of_the_slices():
    line = record(
        SKEWED, "segment_quantile", "training", peak_bytes=300, slice_bytes=100
    )
    results = {"memory": part(line)}
    assert verdict(results, part=f"memory, {SKEWED}") == ("3", "yes")
    assert report.table(report.frame(results), None).iloc[0, 1] == "3.00x"


def test_table():
    skipped = record("case 1", "sort", "forward", skipped="needs 9 GB")
    records = [
        *times("sort", 0.004),
        skipped,
        *times("mean", 0.001, 0.25),
        *times("segment_quantile", 0.002, 50.0),
    ]
    table = report.table(report.frame({"small": part(*records)}), "mean")
    assert table.to_numpy().tolist() == [
        ["segment_quantile", "2.00x", "200x", "20.0x"],
        ["PyG SortAggregation", "4.00x", "needs 9 GB", "4.00x (1 of 2)"],
        ["PyG mean", "1 ms", "250 ms", "1.00x"],
    ]
    skipped = record("case 0", "mean", "training", skipped="no data")
    table = report.table(report.frame({"gin": part(skipped)}), "mean")
    assert table.to_numpy().tolist() == [["PyG mean", "no data"]]


def test_page(tmp_path):
    report.refresh(tmp_path)
    assert not list(tmp_path.iterdir())
    both = [
        line
        for mode in MODES
        for name in ("segment_quantile", "padded")
        for line in times(name, 1.0, 2.0, mode=mode)
    ]
    mean = part(*times("mean", 1.0, mode="training"))
    results = {"shapes": part(*both, numba="0.61"), "gin": mean}
    (tmp_path / "speed.json").write_text(json.dumps(results))
    (tmp_path / "speed_cuda.json").write_text(json.dumps({"shapes": part(*both)}))
    report.refresh(tmp_path)
    assert (tmp_path / "speed_cuda.md").exists()
    text = (tmp_path / "speed.md").read_text()
    assert "](speed.png)" in text
    assert (tmp_path / "speed.png").stat().st_size > 1000
    # Each part has versions of its own.
    rows = {
        line.split("|")[1].strip(): line for line in text.splitlines() if "|" in line
    }
    assert "0.61" in rows["shapes"]
    assert "0.61" not in rows["gin"]


def test_the_page_on_file_is_that_of_the_records(tmp_path):
    path = PAGE.with_suffix(".json")
    page = report.render(json.loads(path.read_text()), tmp_path / path.name) + "\n"
    assert PAGE.read_text() == page, "run python -m benchmarks report speed"
