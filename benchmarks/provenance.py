"""Moved to ``benchmarks.engine.provenance``; kept until all commands have moved."""

from benchmarks.engine.provenance import *  # noqa: F403
