"""One module per command: its docstring is its line of ``python -m benchmarks --help``,
and ``main(arguments)`` returns its exit code.

They import what is slow inside of functions, so that a mistyped argument is answered at
once.
"""
