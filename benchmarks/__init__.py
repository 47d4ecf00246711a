"""The experiments behind the numbers in the README: ``python -m benchmarks``."""
