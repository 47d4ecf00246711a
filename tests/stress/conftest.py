"""What the checks measure, and where it goes.

A file is one question. Its docstring is the title and the text of its section on the
page, ``FULL`` and ``SMALL`` are its sizes (``STRESS_SIZES=small`` takes the small
ones). A test calls ``measure`` for each number.
"""

import os
import time
from pathlib import Path

import pytest
import torch

from benchmarks.engine.measurements import Bystanders, write

SEED = 0
SCALE = "small" if os.environ.get("STRESS_SIZES") == "small" else "full"


def pytest_itemcollected(item):
    item.add_marker("stress")


@pytest.fixture(scope="module")
def sizes(request):
    return getattr(request.module, SCALE.upper())


@pytest.fixture(scope="module")
def seed():
    return SEED


@pytest.fixture(scope="module", autouse=True)  # first, so that all work is timed
def checks(request, sizes):
    """The checks of a file; they are written when its last test has ended."""
    found = []
    start, bystanders = time.perf_counter(), Bystanders()
    yield found
    if "STRESS_RESULTS" in os.environ:
        title, _, about = request.module.__doc__.strip().partition("\n\n")
        write(
            Path(os.environ["STRESS_RESULTS"]),
            request.path.stem.removeprefix("test_"),
            bystanders,
            title=title.rstrip("."),
            about=" ".join(about.split()),
            scale=SCALE,
            sizes=sizes,
            seed=SEED,
            seconds=round(time.perf_counter() - start, 1),
            checks=found,
        )


@pytest.fixture
def measure(checks, request):
    """Takes numbers; the test fails at its end if one of them was too large."""
    request.node.failed = failed = []

    def measure(name, value, limit=None, unit="", **details):
        """A number beside the largest that is right; without one it only informs."""
        holds = None if limit is None else bool(value <= limit)  # NaN does not
        check = {"check": name, "measured": value, "limit": limit, "unit": unit}
        checks.append(check | {"holds": holds} | details)
        if holds is False:
            failed.append(checks[-1])

    return measure


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    outcome = yield
    assert not getattr(pyfuncitem, "failed", None), pyfuncitem.failed
    return outcome


@pytest.fixture(autouse=True)
def _same_number_of_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
