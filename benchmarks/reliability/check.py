"""What a part consists of, and how it starts processes of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.speed_timing import Bystanders

ROOT = Path(__file__).resolve().parents[2]

Check = dict[str, Any]


def check(
    name: str,
    measured: float,
    limit: float | None = None,
    unit: str = "",
    **details: Any,
) -> Check:
    """A number beside the largest that is right; without a limit it only informs."""
    verdict = None if limit is None else bool(measured <= limit)  # NaN is not
    return {
        "check": name,
        "measured": measured,
        "limit": limit,
        "unit": unit,
        "verdict": verdict,
        **details,
    }


class Others(Bystanders):
    """How much of the processors is taken by processes that we did not start."""

    #: Of our processes that nobody has waited for, since their parent was killed.
    orphaned_seconds = 0.0

    @classmethod
    def _busy_seconds(cls) -> float:
        times = os.times()
        ours = times.children_user + times.children_system + cls.orphaned_seconds
        return Bystanders._busy_seconds() - ours


def ask(
    module: str, request: dict[str, Any], timeout: float = 600, threads: int = 1
) -> Any:
    """The answer of a part's module, run in a process of its own.

    A process that hangs is killed after ``timeout`` seconds and raises.
    """
    answer = subprocess.run(
        [sys.executable, "-m", module, json.dumps(request)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if answer.returncode != 0:
        raise RuntimeError(f"{module} failed: {answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def answer(function: Any) -> None:
    """The other end of :func:`ask`."""
    print(json.dumps(function(**json.loads(sys.argv[1]))))
