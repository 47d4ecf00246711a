"""Generated cases: the tests in ``tests/properties`` with many of them."""

from collections.abc import Iterator

from benchmarks.reliability.check import Check, check
from benchmarks.reliability.pytest_run import run_tests

TITLE = "Properties"
ABOUT = (
    "The tests in `tests/properties`, for which hypothesis generates shapes, "
    "precisions, ragged sizes of 0 to 2,000, ties, huge and tiny values, infinities, "
    "permutations and weights: the operator against a loop in double precision, "
    "gradients against finite differences, backends against each other, and every "
    "readout against its invariants."
)
FULL = {"profile": "nightly", "cases": 5000}
SMALL = {"profile": "ci", "cases": 250}


def measure(config: dict, seed: int) -> Iterator[Check]:
    options = [f"--hypothesis-profile={config['profile']}"]
    options += [f"--hypothesis-seed={seed}", "--hypothesis-show-statistics"]
    if config["profile"] == "ci":  # which is always the same
        options.pop(1)
    found = run_tests(["tests/properties"], options, timeout=3600)
    yield check("properties that failed", found.failed, 0, tail=found.tail)
    yield check("properties that held", found.passed)
    # As a shortfall, so that less is better here, too.
    yield check("generated cases", found.cases)
    yield check("cases short of the plan", max(0, config["cases"] - found.cases), 0)
