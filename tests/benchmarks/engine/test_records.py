import json
import math

import pytest

from benchmarks.engine import records
from benchmarks.engine.records import RecordFile, identifier
from benchmarks.experiments.graphs.run import Run

FIRST, SECOND = ({"id": identifier({"run": i})} for i in range(2))


def test_identifier_ignores_the_order_of_settings():
    assert identifier({"a": 1, "b": 2}) == identifier({"b": 2, "a": 1})
    assert FIRST != SECOND


def test_append_and_read(tmp_path):
    path = tmp_path / "new" / "grid.jsonl"
    assert records.read(path) == []
    for record in (FIRST, SECOND):
        with RecordFile(path) as file:
            file.append(record)
            with pytest.raises(ValueError, match="not JSON compliant"):
                file.append({"id": "x", "metrics": {"train_loss": math.nan}})
    assert list(file.records.values()) == records.read(path) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "damaged", ['{"id": "beef", "metr', '{"id": "beef"}', '{"id": "beef\n', "7\n"]
)
@pytest.mark.parametrize("whole", [[], [FIRST]])
def test_a_damaged_last_line_is_left_out(tmp_path, damaged, whole):
    path = tmp_path / "grid.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in whole) + damaged)
    with pytest.warns(UserWarning, match="left out the damaged last line"):
        assert records.read(path) == whole
    with pytest.warns(UserWarning, match="left out"), RecordFile(path) as file:
        file.append(SECOND)
    assert records.read(path) == [*whole, SECOND]


def test_a_broken_line_amid_the_file_is_an_error(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_text(f"{json.dumps(FIRST)}\n<<<<<<<\n{json.dumps(SECOND)}\n")
    with pytest.raises(ValueError, match=r"grid\.jsonl, line 2 is not a record"):
        records.read(path)


def test_a_frame_has_settings_and_metrics():
    record = {"config": {"seed": 3}, "metrics": {"accuracy": 0.5, "train_loss": None}}
    frame = records.frame([record, {**record, "parameters": 7}], Run)
    assert list(frame["seed"]) == [3, 3]
    assert list(frame["schedule"]) == ["constant"] * 2  # was added later
    assert frame["train_loss"].isna().all()
    assert list(frame["parameters"].dropna()) == [7]
