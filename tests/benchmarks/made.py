"""What the tests of the experiments share: tiny runs, and records made by hand."""

from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import torch

from benchmarks.engine import config
from benchmarks.engine.arguments import convert, split
from benchmarks.engine.config import RunSettings
from benchmarks.engine.grid import Context, Outcome
from benchmarks.experiments.documents.run import Run as Documents
from benchmarks.experiments.graphs.run import Run as Graphs
from benchmarks.experiments.neighbourhoods.run import Run as Neighbourhoods
from benchmarks.experiments.self_supervised.run import Run as SelfSupervised
from benchmarks.experiments.when.run import Run as When

CONTEXT = Context(torch.device("cpu"), Path("data"))
TINY = {
    "documents": Documents(epochs=2, batch_size=16, points=3),
    "graphs": Graphs(epochs=2, hidden=8, layers=2, points=4, batch_size=16),
    "neighbourhoods": Neighbourhoods(steps=40),
    "self_supervised": SelfSupervised(epochs=2, train_sets=48, test_sets=32, points=4),
    "when": When(train_sets=60, steps=3, hidden=8),
}


def tiny(text: str) -> RunSettings:
    """The name of an experiment and settings, as in ``documents fold=1 points=4``."""
    experiment, *words = text.split()
    hints = get_type_hints(type(TINY[experiment]))
    given = {key: convert(key, value, hints[key]) for key, value in map(split, words)}
    return replace(TINY[experiment], **given)


def outcome(text: str) -> Outcome:
    """Of a tiny run, without the times."""
    execute = config.module(text.split()[0], "run").execute
    found = execute(tiny(text).canonical(), CONTEXT)
    metrics = {k: v for k, v in found.metrics.items() if not k.endswith("_seconds")}
    return found._replace(metrics=metrics)


def record(run: RunSettings, **metrics: float) -> dict:
    return {
        "id": run.identifier(),
        "config": run.settings(),
        "seed": run.seed,
        "metrics": metrics,
        "parameters": 1234,
        "commit": "abc",
    }


def rows(text: str) -> list[list[str]]:
    """The cells of all Markdown tables of a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
