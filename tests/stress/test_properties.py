"""Properties.

The tests in `tests/properties`, for which hypothesis generates shapes, precisions,
ragged sizes of 0 to 2,000, ties, huge and tiny values, infinities, permutations and
weights: the operator against a loop in double precision, gradients against finite
differences, backends against each other, and every readout against its invariants.
"""

import base64
import re

import pytest
from fresh import run_tests

pytestmark = pytest.mark.stress

FULL = {"profile": "nightly", "cases": 5000}
SMALL = {"profile": "ci", "cases": 250}


def test_generated_cases(sizes, seed, measure, tmp_path):
    options = [f"--hypothesis-profile={sizes['profile']}"]
    if sizes["profile"] != "ci":  # which is always the same
        options.append(f"--hypothesis-seed={seed}")
    passed, failed, report = run_tests(tmp_path, "tests/properties", *options)
    statistics = [
        base64.b64decode(entry.get("value")).decode()
        for entry in report.findall(".//property")
        if entry.get("name").startswith("hypothesis-statistics")
    ]
    # "25 passing, 0 failing, and 1 invalid test cases"; once, "25 passing examples".
    found = re.findall(r"(\d+) passing(?: \w+)?, (\d+) failing", "\n".join(statistics))
    cases = sum(int(number) for pair in found for number in pair)
    measure("properties that held", passed)
    measure("generated cases", cases)
    measure("properties that failed", len(failed), 0, failed=failed)
    # As a shortfall, so that less is better here, too.
    measure("cases short of the plan", max(0, sizes["cases"] - cases), 0)
