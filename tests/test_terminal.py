import signal

import pytest

from tests.terminal import run_in_terminal


def test_a_command_sees_a_terminal_of_that_size():
    script = "import os, sys; print(sys.stderr.isatty(), os.get_terminal_size())"
    session = run_in_terminal(["-c", script], columns=91, rows=33).check()
    assert "True os.terminal_size(columns=91, lines=33)" in session.lines


def test_the_interrupt_is_not_ignored_even_where_ours_is():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        script = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
        session = run_in_terminal(["-c", script]).check()
    finally:
        signal.signal(signal.SIGINT, previous)
    assert "default_int_handler" in session.lines


def test_failures_and_endless_commands_are_told():
    failed = run_in_terminal(["-c", "print('\\x1b[1mred\\x1b[0m'); 1 / 0"])
    assert failed.returncode == 1
    assert "red" in failed.lines
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        failed.check()
    endless = "import time; print('started', flush=True); time.sleep(60)"
    with pytest.raises(TimeoutError, match="it has shown: started"):
        run_in_terminal(["-c", endless], timeout=3)
