"""One module per command: ``SUMMARY``, and ``main(arguments)`` with its exit code.

They import what is slow inside of functions, so that a mistyped argument is answered at
once.
"""
