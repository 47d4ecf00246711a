"""One folder per question, found by its ``run.py``.

``run.py`` has ``Run``, a frozen dataclass that says what determines one run, and
``execute(run, context)``, which does it and returns an ``Outcome``. From records,
``report.py`` makes ``summary(records)`` for a terminal, and for the page of the
experiment, which has the text of ``protocol.md``: ``message(records by config)``, which
opens the page, ``claims(records by config)``, if there are any, and ``part(name,
records, folder)``, with figures in the folder. ``configs/`` has a YAML file for each
grid.
"""
