import json
import math

import pytest

from benchmarks.engine import records
from benchmarks.engine.records import RecordFile, identifier, without_nan

IDS = [identifier({"run": i}) for i in range(4)]


def test_identifier_ignores_the_order_of_settings():
    assert identifier({"a": 1, "b": 2}) == identifier({"b": 2, "a": 1})
    assert identifier({"a": 1}) != identifier({"a": 2})


def test_append_and_read(tmp_path):
    path = tmp_path / "new" / "grid.jsonl"
    assert records.read(path) == []
    with RecordFile(path) as file:
        file.append({"id": IDS[0], "metrics": {"accuracy": 0.5}})
        file.append({"id": IDS[1]})
        assert list(file.records) == IDS[:2]
    with RecordFile(path) as file:
        assert list(file.records) == IDS[:2]
        file.append({"id": IDS[2]})
    assert records.read(path) == [
        {"id": IDS[0], "metrics": {"accuracy": 0.5}},
        {"id": IDS[1]},
        {"id": IDS[2]},
    ]
    assert path.read_text().count("\n") == 3


@pytest.mark.parametrize(
    "damaged", ['{"id": "beef", "metr', '{"id": "beef", "metr\n', "7\n"]
)
@pytest.mark.parametrize("whole", [[], [{"id": IDS[0]}]])
def test_a_damaged_last_line_is_left_out(tmp_path, damaged, whole):
    path = tmp_path / "grid.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in whole) + damaged)
    with pytest.warns(UserWarning, match="left out the damaged last line"):
        assert records.read(path) == whole
    with pytest.warns(UserWarning, match="left out"), RecordFile(path) as file:
        file.append({"id": IDS[1]})
    assert records.read(path) == [*whole, {"id": IDS[1]}]


def test_a_broken_line_amid_the_file_is_an_error(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_text(f'{{"id": "{IDS[0]}"}}\n<<<<<<<\n{{"id": "{IDS[1]}"}}\n')
    with pytest.raises(ValueError, match=r"grid\.jsonl, line 2 is not a record"):
        records.read(path)


def test_records_hold_no_nan(tmp_path):
    metrics = {"accuracy": 0.5, "train_loss": math.nan, "epochs": 3, "worst": math.inf}
    clean = without_nan(metrics)
    assert clean == {"accuracy": 0.5, "train_loss": None, "epochs": 3, "worst": None}
    with RecordFile(tmp_path / "grid.jsonl") as file:
        with pytest.raises(ValueError, match="not JSON compliant"):
            file.append({"id": IDS[0], "metrics": metrics})
        file.append({"id": IDS[0], "metrics": clean})
    assert len(records.read(tmp_path / "grid.jsonl")) == 1


def test_a_frame_has_settings_and_metrics():
    record = {"config": {"seed": 3}, "metrics": {"accuracy": 0.5, "train_loss": None}}
    frame = records.frame([record, {**record, "parameters": 7}])
    assert list(frame["seed"]) == [3, 3]
    assert frame["train_loss"].isna().all()
    assert list(frame["parameters"].dropna()) == [7]
