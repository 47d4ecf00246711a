import numpy as np
import pytest

from benchmarks.speed import sets

CLOUDS = {
    "case": "clouds",
    "sets": 70_000,
    "elements": 10**7,
    "slices": 16,
    "points": 16,
    "seconds": 6.0,
    "input_bytes": 100,
    "peak_bytes": 150,
}
STREAM = {
    "case": "stream",
    "sets": 10**7,
    "chunk": 10**5,
    "slices": 8,
    "points": 8,
    "seconds": 30.0,
    "first_bytes": 2**20,
    "last_bytes": 2**20,
}


def test_pairs_and_vectors_find_the_same():
    found = {r["contender"]: r for r in sets.search(12, budget=60, seed=0)}
    assert {r["queries"] for r in found.values()} == {12}
    for name in (sets.EXACT, sets.SLICED):
        kind = name.removeprefix("POT, ")
        assert found[name][f"{kind}_among_1"] == 1
    # Both have POT's directions or many, and 64 points are about as many as elements.
    assert found["SetEmbedder, 64 x 64"]["sliced_among_10"] == 1
    page = sets.render(list(found.values()))
    assert page.count("all queries") == 5


def test_what_takes_too_long_is_extrapolated():
    some = next(r for r in sets.search(12, budget=1e-9, seed=0) if r["queries"] < 12)
    assert some["queries"] == 1
    assert "| 1 queries |" in sets.render([some])


def test_the_agreement_of_neighbours():
    near = np.array([[3, 1], [0, 2], [5, 4]])
    assert sets._agreement(near, np.array([[1, 9], [0, 9]])) == 1
    assert sets._agreement(near[:, :1], np.array([[1, 9], [0, 9]])) == 0.5


@pytest.mark.skipif(not sets.CLEAR.exists(), reason="needs Linux")
def test_a_stream_of_columns():
    found = sets._stream(num_sets=200, chunk=10, seed=0)
    assert found["sets"] == 200
    assert 0 < found["first_bytes"] <= found["peak_bytes"]


def test_what_is_demanded_is_judged():
    page = sets.render([CLOUDS, STREAM])
    assert "6.00 s (demanded: at most 5 s, **not reached**)" in page
    assert "2.50 times the input (demanded: at most 3x, reached)" in page
    assert "1.000 times as much (demanded: at most 1.05x, reached)" in page
