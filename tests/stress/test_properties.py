"""Properties.

The tests in `tests/properties` on cases that hypothesis generates: the operator against
a loop in double precision, gradients against finite differences, backends against each
other, and every readout against its invariants.
"""

import re

from fresh import run_tests

FULL = {"profile": "nightly", "cases": 5000}
SMALL = {"profile": "ci", "cases": 250}


def test_generated_cases(sizes, seed, measure):
    options = [f"--hypothesis-profile={sizes['profile']}"]
    if sizes["profile"] != "ci":  # which is always the same
        options.append(f"--hypothesis-seed={seed}")
    options.append("--hypothesis-show-statistics")
    passed, failed, shown = run_tests("tests/properties", *options)
    # "25 passing, 0 failing, and 1 invalid test cases"; once, "25 passing examples".
    found = re.findall(r"(\d+) passing(?: \w+)?, (\d+) failing", shown)
    cases = sum(int(number) for pair in found for number in pair)
    measure("properties that held", passed)
    measure("generated cases", cases)
    measure("properties that failed", len(failed), 0, failed=failed)
    # As a shortfall, so that less is better here, too.
    measure("cases short of the plan", max(0, sizes["cases"] - cases), 0)
