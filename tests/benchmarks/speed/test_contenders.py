"""The contenders of the speed benchmark, and how they take turns."""

import gc
import os
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks.speed import first_call, timing
from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.memory import PROCESS, peak_memory
from benchmarks.speed.shapes import Shape, make_batch
from benchmarks.speed.timing import MODES, take_turns, time_shape

SHAPES = [Shape(5, 7, 4, 5), Shape(3, 9, 8, 16), Shape(4, 5, 4, 2, large=40)]


def call(name, shape, batch, train=False):
    torch.manual_seed(0)
    readout = CONTENDERS[name].build(shape.slices, shape.points)
    if name == "gswe_identity":
        torch.nn.init.zeros_(readout.points)
    found = prepare(CONTENDERS[name], readout, batch, train)()
    return found[0] if train else found.view(batch.num_graphs, -1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_operator_gives_the_same_numbers(shape):
    batch = make_batch(shape, seed=3)
    for train in (False, True):
        expected = call("segment_quantile", shape, batch, train)
        for name in ("segment_quantile_torch", "padded", "gswe_identity"):
            torch.testing.assert_close(call(name, shape, batch, train), expected)
    for one, other in (("gswe_heads1", "mean"), ("fast_quantile", "quantile")):
        expected = call(other, shape, batch)
        torch.testing.assert_close(call(one, shape, batch), expected)


@pytest.mark.parametrize("name", ["segment_quantile_weights", "gswe_weights"])
def test_weights_are_seen(name):
    batch = make_batch(SHAPES[0])
    other = batch._replace(weight=batch.weight.flip(0))
    outs = (call(name, SHAPES[0], b) for b in (batch, other))
    assert not torch.equal(*outs)


def test_all_contenders_are_timed_in_both_modes():
    names = [n for n, c in CONTENDERS.items() if c.group != "network"]
    records = list(time_shape(SHAPES[0], names, 2, device="cpu"))
    found = [(line["contender"], line["mode"]) for line in records]
    assert sorted(found) == sorted((name, mode) for name in names for mode in MODES)
    for line in records:
        low, high = line["quartiles"]
        assert 0 < low <= line["seconds"] <= high


@pytest.mark.skipif(not PROCESS.exists(), reason="needs Linux")
def test_peak_memory():
    record = peak_memory(Shape(16, 1000, 64, 8), "segment_quantile")
    # The gradient at least.
    assert record["peak_bytes"] > record["slice_bytes"] > 2e6


def test_turns_are_interleaved(monkeypatch):
    now, log = [0.0], []

    def turn(name, seconds, i):
        def call():
            assert not gc.isenabled()
            now[0] += seconds
            log.append((name, i))

        now[0] += 100  # what a turn prepares is not timed
        return call

    monkeypatch.setattr(timing, "timer", lambda: now[0])
    lengths = {"a": 0.25, "b": 0.5, "c": 4.0}
    turns = {name: partial(turn, name, s) for name, s in lengths.items()}
    seconds = take_turns(turns, rounds=8)
    assert seconds == {name: [s] * 8 for name, s in lengths.items()}
    assert log[:3] == [(name, -1) for name in turns]  # warms up
    assert sorted(log[3:]) == [(name, i) for name in turns for i in range(8)]
    assert [i for _, i in log[3:]] == sorted(i for _, i in log[3:])
    assert len({name for name, _ in log[3::3]}) > 1


def test_the_second_process_finds_what_the_first_one_compiled(monkeypatch):
    found = []

    def alone(measure, name, mode):
        folder = Path(os.environ["NUMBA_CACHE_DIR"])
        found.append(len(list(folder.iterdir())))
        (folder / "kernel").touch()
        return 1.0

    before = os.environ.get("NUMBA_CACHE_DIR")
    monkeypatch.setattr(first_call, "alone", alone)
    lines = list(first_call.first_call())
    assert found == [0, 1] * (len(lines) // 2)
    assert os.environ.get("NUMBA_CACHE_DIR") == before
