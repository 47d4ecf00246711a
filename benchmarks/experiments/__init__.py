"""One module per kind of experiment.

Each has ``Run``, a frozen dataclass that says what determines one run;
``execute(run, context)``, which does it and returns an ``Outcome``; and
``report(name, records, folder)``, which draws figures into a folder and returns the
Markdown for ``benchmarks/README.md``.
"""
