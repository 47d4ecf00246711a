"""What the checks measure, and where it goes.

A file is one question. Its docstring is the title and the text of its section on the
page, ``FULL`` and ``SMALL`` are its sizes (``STRESS_SIZES=small`` takes the small
ones). A test calls ``measure`` for each number. ``python -m benchmarks stress`` runs
all of them and writes the page.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.engine.measurements import Bystanders, write

SEED = 0


@pytest.fixture(scope="module")
def sizes(request: pytest.FixtureRequest) -> dict[str, Any]:
    small = os.environ.get("STRESS_SIZES") == "small"
    return request.module.SMALL if small else request.module.FULL


@pytest.fixture(scope="module")
def seed() -> int:
    return SEED


@pytest.fixture(scope="module", autouse=True)  # first, so that all work is timed
def checks(request: pytest.FixtureRequest, sizes: dict[str, Any]) -> Iterator[list]:
    """The checks of a file; they are written when its last test has ended."""
    found: list[dict[str, Any]] = []
    start, bystanders = time.perf_counter(), Bystanders()
    yield found
    if "STRESS_RESULTS" in os.environ:
        name = Path(request.module.__file__).stem.removeprefix("test_")
        title, _, about = request.module.__doc__.strip().partition("\n\n")
        write(
            Path(os.environ["STRESS_RESULTS"]),
            name,
            bystanders,
            title=title.rstrip("."),
            about=" ".join(about.split()),
            scale="full" if sizes is request.module.FULL else "small",
            sizes=sizes,
            seed=SEED,
            seconds=round(time.perf_counter() - start, 1),
            checks=found,
        )


class Measure:
    """Takes numbers; the test fails at its end if one of them was too large."""

    def __init__(self, checks: list[dict[str, Any]]) -> None:
        self.checks = checks
        self.failed: list[dict[str, Any]] = []

    def __call__(
        self,
        name: str,
        value: float,
        limit: float | None = None,
        unit: str = "",
        **details: Any,
    ) -> None:
        """A number beside the largest that is right; without one it only informs."""
        holds = None if limit is None else bool(value <= limit)  # NaN does not
        check = {"check": name, "measured": value, "limit": limit, "unit": unit}
        self.checks.append(check | {"holds": holds} | details)
        if holds is False:
            self.failed.append(self.checks[-1])


@pytest.fixture
def measure(checks: list[dict[str, Any]]) -> Measure:
    return Measure(checks)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    outcome = yield
    measure = pyfuncitem.funcargs.get("measure")
    assert measure is None or not measure.failed, measure.failed
    return outcome


@pytest.fixture(autouse=True)
def _same_number_of_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
