import gc

from benchmarks.speed import timing
from benchmarks.speed.shapes import Shape
from benchmarks.speed.timing import record, take_turns, time_shape


class Clock:
    """Stands still but for the calls that are timed."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def turn(self, name, seconds):
        def make(i):
            def call():
                assert not gc.isenabled()
                self.now += seconds
                self.log.append((name, i))

            self.now += 100  # what a turn prepares is not timed
            return call

        return make


def test_rounds_are_interleaved():
    clock = Clock()
    turns = {name: clock.turn(name, 0.25) for name in "abc"}
    seconds = take_turns(turns, rounds=4, clock=clock)
    assert seconds == {name: [0.25] * 4 for name in "abc"}
    rounds = [clock.log[i : i + 3] for i in range(6, 18, 3)]
    assert clock.log[:2] == [("a", -1), ("a", -2)]  # warms up
    for i, of_round in enumerate(rounds):
        assert sorted(of_round) == [("a", i), ("b", i), ("c", i)]
    assert len({tuple(name for name, _ in of_round) for of_round in rounds}) > 1


def test_slow_ones_take_fewer_turns_evenly_spread():
    clock = Clock()
    turns = {
        name: clock.turn(name, seconds)
        for name, seconds in {"fast": 0.01, "slow": 0.5, "4 s": 4.0, "60 s": 60}.items()
    }
    seconds = take_turns(turns, rounds=16, budget=2.0, clock=clock)
    assert len(seconds["fast"]) == 16
    assert [i for name, i in clock.log if name == "slow"] == [-1, -2, 3, 7, 11, 15]
    assert seconds["4 s"] == [4.0] * 3  # at least
    assert seconds["60 s"] == [60.0]  # what takes very long is not repeated


def test_devices_are_synchronised_before_and_after(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(
        timing.torch.accelerator,
        "synchronize",
        lambda: clock.log.append(("synchronize", 0)),
    )
    take_turns({"a": clock.turn("a", 1.0)}, rounds=1, device="cuda", clock=clock)
    names = [name for name, _ in clock.log]
    assert names == ["synchronize", "a", "synchronize"] * 3


def test_records():
    line = record(Shape(1, 2, 3, 4), "mean", "forward", [3.0, 1.0, 2.0], more=5)
    assert line == {
        "case": "1, 2, 3, 4",
        "contender": "mean",
        "mode": "forward",
        "seconds": 2.0,
        "quartiles": [1.5, 2.5],
        "repetitions": 3,
        "more": 5,
    }
    assert record("x", "mean", "forward", [3.0])["quartiles"] == [3.0, 3.0]
    assert "seconds" not in record("x", "mean", "forward", skipped="no data")


def test_a_shape_is_timed_in_both_modes():
    names = ["segment_quantile", "mean", "numpy_sort"]
    records = list(time_shape(Shape(5, 7, 4, 3), names, 2, budget=0.01, seed=0))
    found = [(line["mode"], line["contender"]) for line in records]
    assert sorted(found) == sorted((m, n) for m in timing.MODES for n in names)
    for line in records:
        low, high = line["quartiles"]
        assert 0 < low <= line["seconds"] <= high
        assert line["repetitions"] == 2


def test_what_cannot_be_timed_is_recorded(monkeypatch):
    monkeypatch.setattr("benchmarks.speed.contenders.MAX_BYTES", 100)
    records = list(time_shape(Shape(5, 7, 4, 3), ["padded"], 2, budget=0.01, seed=0))
    assert [line["skipped"] for line in records] == ["needs 0 GB"] * 2
