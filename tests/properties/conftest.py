"""How many cases hypothesis generates.

``python -m pytest tests/properties`` takes the profile ``ci``: few cases, always the
same. ``--hypothesis-profile=nightly``, or ``HYPOTHESIS_PROFILE=nightly`` in the
environment, generates many, and other ones each time unless ``--hypothesis-seed`` is
given.
"""

import os

from hypothesis import HealthCheck, settings

# Generating ragged batches takes longer than hypothesis expects of plain values.
COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("ci", derandomize=True, max_examples=25, **COMMON)
settings.register_profile("nightly", max_examples=450, print_blob=True, **COMMON)

# `--hypothesis-profile` comes later, and wins.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
