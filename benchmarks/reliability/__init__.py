"""``python -m benchmarks reliability``: what the package withstands, as records.

A part is a module with a ``TITLE``, a sentence ``ABOUT`` it, the settings ``FULL`` and
``SMALL``, and ``measure(config, seed)``, which yields checks. A check has a number
and, unless it only informs, the largest number that is still right.
"""

from benchmarks.reliability.command import main

__all__ = ["main"]
