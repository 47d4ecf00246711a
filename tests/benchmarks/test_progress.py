import warnings

import pytest

from benchmarks.progress import Bars


def test_the_bar_ends_at_the_number_of_runs_without_a_warning(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # tqdm warns of a bar beyond its end
        bars = Bars("grid", total=7, done=1, workers=2)
        for run in range(6):
            listener = bars.listener(run % 2)
            listener.start("readout", epochs=5)  # fifths add up to more than 7
            for _ in range(5):
                listener.epoch()
                bars.grid.refresh()
            listener.finish()
        bars.close()
    assert bars.grid.n == pytest.approx(7)
    assert "7/7 runs" in capsys.readouterr().err


def test_a_run_without_epochs_counts_as_one_run():
    bars = Bars("grid", total=3, done=0)
    listener = bars.listener()
    listener.start("readout", epochs=50)
    listener.finish()
    assert bars.grid.n == pytest.approx(1)
    bars.close()
