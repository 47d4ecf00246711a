"""Results as an append-only file of JSON lines that many processes may share."""

import fcntl
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def identifier(settings: Record) -> str:
    """The name of a run: the same settings, in whatever order, have the same."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> list[Record]:
    """All whole records of a file; a torn last line is left out with a warning."""
    return list(_Tail(path).new_records())


class RecordFile:
    """A results file opened for work: who may do a run, and what came of it.

    All locks are byte ranges of one lock file: byte 0 while appending, one byte
    per run while that run is being done. The system drops the locks of a process
    that dies, however it dies, so that no claim outlives its worker. A process
    must open a file only once: its locks do not exclude itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        locks = path.parent / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(locks / f"{path.name}.lock", os.O_RDWR | os.O_CREAT)
        self._tail = _Tail(path)
        self._done: set[str] = set()

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def done(self) -> set[str]:
        """The runs on file, those of other processes included."""
        fcntl.lockf(self._lock, fcntl.LOCK_SH, 1, 0)  # not amid an append
        try:
            self._done.update(record["id"] for record in self._tail.new_records())
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, 0)
        return self._done

    @contextmanager
    def claim(self, run_id: str) -> Iterator[bool]:
        """Whether this process may do the run; nobody else may meanwhile."""
        offset = 1 + int(run_id, 16) % (1 << 60)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except OSError:
            yield False
            return
        try:
            # Somebody may have finished it between our last look and the claim.
            yield run_id not in self.done()
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, offset)

    def append(self, record: Record) -> None:
        """Adds one line, on disk when this returns."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        fcntl.lockf(self._lock, fcntl.LOCK_EX, 1, 0)
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                _set_torn_line_aside(file, self.path)
                end = os.fstat(file).st_size
                if os.write(file, line) != len(line):  # a full disk
                    os.ftruncate(file, end)
                    raise OSError(f"could not write a whole record to {self.path}")
                os.fsync(file)
            finally:
                os.close(file)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, 0)


class _Tail:
    """Reads what was added to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.line = 0

    def new_records(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            lines = file.read().splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            last = number == len(lines)
            try:
                record = _parse(line)
            except ValueError:
                if not last:
                    raise ValueError(
                        f"{self.path}, line {self.line + 1} is not a record; "
                        f"remove that line, its run will be done again"
                    ) from None
                warnings.warn(
                    f"set the torn last line of {self.path} aside", stacklevel=2
                )
                return
            self.offset += len(line)
            self.line += 1
            yield record


def _parse(line: bytes) -> Record:
    if not line.endswith(b"\n"):
        raise ValueError("the line has no end")
    record = json.loads(line)
    if not isinstance(record, dict) or "id" not in record:
        raise ValueError("the line is not a record")
    return record


def _set_torn_line_aside(file: int, path: Path) -> None:
    """Moves what a dying machine left of its last record to ``<file>.torn``."""
    size = os.fstat(file).st_size
    start = max(0, size - (1 << 16))
    tail = os.pread(file, size - start, start)
    last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
    if not last:
        return
    try:
        _parse(last)
    except ValueError:
        with open(path.with_suffix(path.suffix + ".torn"), "ab") as aside:
            aside.write(last.rstrip(b"\n") + b"\n")
        os.ftruncate(file, size - len(last))
