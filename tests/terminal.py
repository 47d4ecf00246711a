"""Runs a command as a person does: in a terminal of a given size."""

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Session:
    """What came of a command: its exit code, and all that the terminal showed."""

    returncode: int
    output: str

    @property
    def lines(self) -> list[str]:
        """What was shown, without colours; a bar that moved is several lines."""
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.output)
        return [line.rstrip() for line in re.split(r"[\r\n]+", plain)]

    def check(self) -> "Session":
        """Raises unless the command ended well: exit code 0 and no traceback."""
        assert self.returncode == 0, self.output
        assert "Traceback" not in self.output, self.output
        return self


def run_python(
    *command: str | Path, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """``python COMMAND`` without a terminal, in which this repository is imported."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return process


def start_python(
    *command: str, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.Popen[str]:
    """In a session of its own, so that all it starts can be killed with it."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=reset_signals,
    )


def reset_signals() -> None:
    """For ``preexec_fn``: under ``nohup ... &``, children inherit an ignored SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_in_terminal(
    command: Sequence[str],
    columns: int = 80,
    rows: int = 24,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> Session:
    """Runs ``python COMMAND`` with a terminal as input, output and error output.

    ``command`` is what stands behind ``python``, for example
    ``["-m", "benchmarks", "list"]``. The package of this repository is imported,
    wherever the command is run.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"}  # they would hide the window's size
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**inherited, "PYTHONPATH": path, "TERM": "xterm", **(env or {})},
        start_new_session=True,
        preexec_fn=reset_signals,
    )
    os.close(theirs)
    try:
        output = _read(ours, process, time.monotonic() + timeout)
    finally:
        os.close(ours)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Session(process.returncode, output)


def _read(terminal: int, process: subprocess.Popen, deadline: float) -> str:
    """Reads until the command has ended, whoever else still holds the terminal."""
    parts = []
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                part = os.read(terminal, 1 << 16)
            except OSError as error:
                if error.errno != errno.EIO:  # Linux's way to say that all have left
                    raise
                part = b""
            if not part:
                process.wait(max(1.0, deadline - time.monotonic()))
                break
            parts.append(part)
        elif process.poll() is not None:
            break
        if time.monotonic() > deadline:
            text = b"".join(parts).decode(errors="replace")
            raise TimeoutError(f"{process.args} is still running; it has shown: {text}")
    return b"".join(parts).decode(errors="replace")
