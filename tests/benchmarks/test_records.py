import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from benchmarks import records
from benchmarks.records import RecordFile, identifier

IDS = [identifier({"run": i}) for i in range(4)]


def test_identifier_ignores_the_order_of_settings():
    assert identifier({"a": 1, "b": 2}) == identifier({"b": 2, "a": 1})
    assert identifier({"a": 1}) != identifier({"a": 2})


def test_append_and_read(tmp_path):
    path = tmp_path / "grid.jsonl"
    with RecordFile(path) as file:
        assert file.done() == set()
        file.append({"id": IDS[0], "metrics": {"accuracy": 0.5}})
        file.append({"id": IDS[1]})
        assert file.done() == set(IDS[:2])
    assert records.read(path) == [
        {"id": IDS[0], "metrics": {"accuracy": 0.5}},
        {"id": IDS[1]},
    ]
    assert path.read_text().count("\n") == 2


def test_done_sees_what_others_append(tmp_path):
    path = tmp_path / "grid.jsonl"
    with RecordFile(path) as file:
        file.append({"id": IDS[0]})
        assert file.done() == {IDS[0]}
        with open(path, "a") as other:
            other.write(json.dumps({"id": IDS[1]}) + "\n")
        assert file.done() == set(IDS[:2])


@pytest.mark.parametrize(
    "torn", ['{"id": "beef", "metr', '{"id": "beef", "metr\n', "7\n"]
)
def test_a_torn_last_line_is_set_aside(tmp_path, torn):
    path = tmp_path / "grid.jsonl"
    path.write_text(json.dumps({"id": IDS[0]}) + "\n" + torn)
    with pytest.warns(UserWarning, match="torn last line"):
        assert records.read(path) == [{"id": IDS[0]}]
    with RecordFile(path) as file:
        file.append({"id": IDS[1]})
    assert [record["id"] for record in records.read(path)] == IDS[:2]
    assert (tmp_path / "grid.jsonl.torn").read_text() == torn.rstrip("\n") + "\n"


def test_a_file_that_is_nothing_but_a_torn_line(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_text('{"id": ')
    with RecordFile(path) as file:
        file.append({"id": IDS[1]})
    assert records.read(path) == [{"id": IDS[1]}]


def test_a_broken_line_amid_the_file_is_an_error(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_text(f'{{"id": "{IDS[0]}"}}\n<<<<<<<\n{{"id": "{IDS[1]}"}}\n')
    with pytest.raises(ValueError, match=r"grid\.jsonl, line 2 is not a record"):
        records.read(path)


def test_a_missing_file_has_no_records(tmp_path):
    assert records.read(tmp_path / "grid.jsonl") == []


# Claims are between processes, so the rivals here are other processes.
CLAIM = """
    import sys
    from pathlib import Path
    from benchmarks.records import RecordFile

    with RecordFile(Path(sys.argv[1])) as file, file.claim(sys.argv[2]) as mine:
        print(mine, flush=True)
        sys.stdin.read()
"""


def rival(path, run_id):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLAIM), str(path), run_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def test_a_claim_keeps_others_away_until_its_process_is_killed(tmp_path):
    path = tmp_path / "grid.jsonl"
    holder, answer = rival(path, IDS[0])
    assert answer == "True"
    with RecordFile(path) as file:
        with file.claim(IDS[0]) as mine:
            assert not mine
        with file.claim(IDS[1]) as mine:
            assert mine
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with file.claim(IDS[0]) as mine:
            assert mine
            second, answer = rival(path, IDS[0])
            assert answer == "False"
            second.communicate()
    holder.stdin.close()
    holder.stdout.close()


def test_a_run_on_file_cannot_be_claimed(tmp_path):
    path = tmp_path / "grid.jsonl"
    with RecordFile(path) as file:
        with file.claim(IDS[0]) as mine:
            assert mine
            file.append({"id": IDS[0]})
        with file.claim(IDS[0]) as mine:
            assert not mine
