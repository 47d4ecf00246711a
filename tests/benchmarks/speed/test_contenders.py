"""The contenders of the speed benchmark, and how they take turns."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.speed import timing
from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.memory import CLEAR, peak_memory
from benchmarks.speed.shapes import SKEWED, Shape, make_batch
from benchmarks.speed.timing import MODES, take_turns, time_shape

SHAPES = [Shape(5, 7, 4, 5), Shape(3, 9, 8, 16), Shape(4, 5, 4, 2, large=40)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def call(name, shape, batch, train=False, points=None):
    contender = CONTENDERS[name]
    readout = contender.build(shape.slices, shape.points)
    if points is not None:
        torch.nn.init.constant_(readout.points, points)
    return prepare(contender, readout, batch, train)()


@shapes
def test_batches(shape):
    batch = make_batch(shape, seed=3)
    sizes = batch.ptr.diff()
    assert torch.equal(batch.index.bincount(), sizes)
    assert batch.x.shape == (len(batch.index), shape.slices)
    assert batch.num_graphs == shape.padded[0] == len(sizes)
    assert shape.nodes // 2 <= sizes.min() <= sizes.max() <= shape.padded[1]
    assert torch.equal(make_batch(shape, seed=3).x, batch.x)


@shapes
def test_the_same_operator_gives_the_same_numbers(shape):
    batch = make_batch(shape)
    for train in (False, True):
        expected, *others = (
            call(name, shape, batch, train, points)
            for name, points in {
                "segment_quantile": None,
                "segment_quantile_torch": None,
                "padded": None,
                "gswe_identity": 0.0,
            }.items()
        )
        expected = expected[0] if train else expected
        for other in others:
            other = other[0] if train else other.view_as(expected)
            torch.testing.assert_close(other, expected)
    torch.testing.assert_close(
        call("gswe_identity_heads1", shape, batch), call("mean", shape, batch)
    )


@shapes
def test_pyg_reads_quantiles_at_other_positions(shape):
    # As many quantiles for the same q, but where numpy's default has them.
    batch = make_batch(shape)
    q = (np.arange(shape.points) + 0.5) / shape.points
    graphs = np.split(batch.x.double().numpy(), batch.ptr[1:-1])
    expected = [np.quantile(x, q, axis=0).reshape(-1) for x in graphs]
    for name in ("quantile", "fast_quantile"):
        out = call(name, shape, batch)
        np.testing.assert_allclose(out, np.stack(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["segment_quantile_weights", "gswe_weights"])
def test_weights_are_seen(name):
    batch = make_batch(SHAPES[0])
    other = batch._replace(weight=batch.weight.flip(0))
    torch.manual_seed(0)
    out = call(name, SHAPES[0], batch)
    torch.manual_seed(0)
    assert not torch.equal(out, call(name, SHAPES[0], other))


def test_what_cannot_be_measured_is_recorded(monkeypatch):
    assert CONTENDERS["padded"].obstacle(SKEWED) == "needs 30 GB"
    assert CONTENDERS["segment_quantile"].obstacle(SKEWED) is None
    absent = replace(CONTENDERS["fsw"], requires="no_such_package")
    assert absent.obstacle(SHAPES[0]) == "not installed"
    records = [*time_shape(SKEWED, ["padded"], 2, budget=0.01, device="cpu")]
    records.append(peak_memory(SKEWED, "padded"))
    assert [line["skipped"] for line in records] == ["needs 30 GB"] * 3


def test_all_contenders_are_timed_in_both_modes():
    names = [n for n, c in CONTENDERS.items() if c.group != "network"]
    names = [n for n in names if not CONTENDERS[n].obstacle(SHAPES[0])]
    records = list(time_shape(SHAPES[0], names, 2, budget=0.01, device="cpu"))
    found = [(line["contender"], line["mode"]) for line in records]
    assert sorted(found) == sorted((name, mode) for name in names for mode in MODES)
    for line in records:
        low, high = line["quartiles"]
        assert 0 < low <= line["seconds"] <= high
        assert line["repetitions"] == 2


@pytest.mark.skipif(not CLEAR.exists(), reason="needs Linux")
def test_peak_memory():
    record = peak_memory(Shape(16, 1000, 64, 8), "segment_quantile")
    # The gradient at least.
    assert record["peak_bytes"] > record["slice_bytes"] > 2e6


class Clock:
    """Stands still but for the calls that are timed."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def turn(self, name, seconds):
        def make(i):
            def call():
                assert not gc.isenabled()
                self.now += seconds
                self.log.append((name, i))

            self.now += 100  # what a turn prepares is not timed
            return call

        return make


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", lambda: clock.now)
    return clock


def test_rounds_are_interleaved(clock):
    turns = {name: clock.turn(name, 0.25) for name in "abc"}
    assert take_turns(turns, rounds=4) == {name: [0.25] * 4 for name in "abc"}
    rounds = [clock.log[i : i + 3] for i in range(6, 18, 3)]
    assert clock.log[:2] == [("a", -1), ("a", -2)]  # warms up
    for i, of_round in enumerate(rounds):
        assert sorted(of_round) == [("a", i), ("b", i), ("c", i)]
    assert len({tuple(name for name, _ in of_round) for of_round in rounds}) > 1


def test_slow_ones_take_fewer_turns_evenly_spread(clock):
    lengths = {"fast": 0.01, "slow": 0.5, "4 s": 4.0, "60 s": 60.0}
    turns = {name: clock.turn(name, seconds) for name, seconds in lengths.items()}
    seconds = take_turns(turns, rounds=16, budget=2.0)
    assert len(seconds["fast"]) == 16
    assert [i for name, i in clock.log if name == "slow"] == [-1, -2, 3, 7, 11, 15]
    assert seconds["4 s"] == [4.0] * 3  # at least
    assert seconds["60 s"] == [60.0]  # what takes very long is not repeated


def test_devices_are_synchronised_before_and_after(clock, monkeypatch):
    wait = lambda: clock.log.append(("wait", 0))  # noqa: E731
    monkeypatch.setattr(timing.torch.accelerator, "synchronize", wait)
    take_turns({"a": clock.turn("a", 1.0)}, rounds=1, device="cuda")
    assert [name for name, _ in clock.log] == ["wait", "a", "wait"] * 3
