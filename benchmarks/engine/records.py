"""Results as a file of JSON lines, which one process at a time appends to."""

import json
import math
import os
import warnings
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.arguments import UsageError

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]


def identifier(settings: Record) -> str:
    """The name of a run: the same settings, in whatever order, have the same."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> list[Record]:
    """All records of a file; a damaged last line is left out with a warning."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    records: list[Record] = []
    for line in lines:
        try:
            record = json.loads(line)
            if not line.endswith(b"\n") or "id" not in record:
                raise ValueError
        except (ValueError, TypeError):
            number = len(records) + 1
            if number < len(lines):
                raise UsageError(
                    f"{path}, line {number} is not a record; remove that line, its "
                    f"run will be done again"
                ) from None
            warnings.warn(f"left out the damaged last line of {path}", stacklevel=2)
            break
        records.append(record)
    return records


class RecordFile:
    """A results file to add to; the records that it has, by identifier."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        records = read(path)
        self.records = {record["id"]: record for record in records}
        self._file = open(path, "a+b")  # noqa: SIM115
        # Drops what a dying machine left of its last record.
        self._file.seek(0)
        whole = sum(len(self._file.readline()) for _ in records)
        self._file.truncate(whole)

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Adds one line, on disk when this returns."""
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
        self._file.write(f"{text}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[record["id"]] = record


def frame(
    records: Iterable[Record], run_type: type, evaluate: str | None = None
) -> "pd.DataFrame":
    """A row per record, or per record of a part of the data (``test`` or
    ``validation``): its settings (those that were added later have their defaults) and
    metrics as columns, and its own fields. A metric that was no number is NaN."""
    import pandas as pd

    fields = run_type.__dataclass_fields__.values()
    defaults = {field.name: field.default for field in fields}
    rows = [
        {
            **defaults,
            **record["config"],
            **{k: math.nan if v is None else v for k, v in record["metrics"].items()},
            **{k: record.get(k) for k in ("parameters", "commit")},
        }
        for record in records
        if evaluate in (None, record["config"].get("evaluate"))
    ]
    return pd.DataFrame(rows, columns=None if rows else [*defaults, "commit"])
