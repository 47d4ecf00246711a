"""Times and memory on file: a part for each question, until it is measured again."""

import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.engine import provenance


class Bystanders:
    """How much of the processors other processes take, from now on.

    Where that is much, those that use many threads suffer more than those that use
    one: better to measure again.
    """

    def __init__(self) -> None:
        self.start, self.before = time.perf_counter(), self._seconds()

    def share(self) -> float:
        import psutil

        wall = time.perf_counter() - self.start
        others = self._seconds() - self.before
        return max(0.0, others / (wall * psutil.cpu_count()))

    @staticmethod
    def _seconds() -> float:
        """Processor time of all but us and the processes that we have waited for."""
        import psutil

        everyone = psutil.cpu_times()
        idle = everyone.idle + getattr(everyone, "iowait", 0.0)
        return sum(everyone) - idle - sum(os.times()[:4])


def write(path: Path, part: str, bystanders: Bystanders, **content: Any) -> None:
    """Replaces one part of the results, and leaves what other runs have measured."""
    import torch

    results = read(path)
    results[part] = {
        "threads": torch.get_num_threads(),
        "busy": round(bystanders.share(), 3),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": provenance.commit(),
        "versions": provenance.versions("triton"),
        **content,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
