"""What the tests of the experiments share: records made by hand, and a context."""

from pathlib import Path

import torch

from benchmarks.engine.config import RunSettings
from benchmarks.engine.grid import Context

CONTEXT = Context(torch.device("cpu"), Path("data"))


def record(run: RunSettings, **metrics: float) -> dict:
    return {
        "id": run.identifier(),
        "config": run.settings(),
        "seed": run.seed,
        "metrics": metrics,
        "parameters": 1234,
        "commit": "abc",
    }
