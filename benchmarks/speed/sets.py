"""``SetEmbedder``: nearest neighbours beside POT and scipy, many sets, memory."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import ot
import pandas as pd
import pyarrow as pa
from scipy.stats import wasserstein_distance

from benchmarks.engine.tables import markdown
from benchmarks.neighbours import NUM_NEAR, by_pairs, by_vectors, outlines, transport
from benchmarks.speed.memory import alone, peak, status
from benchmarks.speed.shapes import SEED
from benchmarks.speed.timing import Record
from gswe_pyg.datasets import PointCloudMNIST
from gswe_pyg.sets import SetEmbedder

EXACT, SLICED = "POT, exact", "POT, sliced"


def measure(data: Path) -> Iterator[Record]:
    yield alone(clouds, data / "MNIST")
    yield alone(stream)
    yield from search()


def search(num_sets: int = 2000, num_paired: int = 60) -> Iterator[Record]:
    """The nearest of all sets to each of as many queries. Pairs are compared for some
    queries only, and the time for all is extrapolated."""
    sets, labels = outlines(num_sets, 2 * SEED)
    queries, truth = outlines(num_sets, 2 * SEED + 1)
    few, many = (SetEmbedder(n, n, standardize=False).fit(sets) for n in (16, 64))
    directions = few.slicer_.weight.double().numpy().T

    def sliced(x: np.ndarray, y: np.ndarray) -> float:
        return ot.sliced_wasserstein_distance(x, y, projections=directions)

    def sliced_by_scipy(x: np.ndarray, y: np.ndarray) -> float:
        return sum(map(wasserstein_distance, (x @ directions).T, (y @ directions).T))

    contenders = {
        "SetEmbedder, 16 x 16": by_vectors(few.transform),
        "SetEmbedder, 64 x 64": by_vectors(many.transform),
        SLICED: by_pairs(sliced),
        "scipy, sliced": by_pairs(sliced_by_scipy),
        EXACT: by_pairs(transport),
    }
    found, seconds = {}, {}
    for name, nearest in contenders.items():
        by_vector = name.startswith("SetEmbedder")
        chosen, times = queries if by_vector else queries[:num_paired], []
        for _ in range(5 if by_vector else 1):
            start = perf_counter()
            found[name] = nearest(chosen, sets)
            times.append(perf_counter() - start)
        seconds[name] = median(times) * num_sets / len(chosen)
    for name, near in found.items():
        yield {
            "case": "search",
            "contender": name,
            "sets": num_sets,
            "queries": len(near),
            "seconds": seconds[name],
            "same_class": float(np.mean(labels[near[:, 0]] == truth[: len(near)])),
            **{
                f"{kind}_among_{k}": _agreement(near[:, :k], found[other])
                for kind, other in (("sliced", SLICED), ("exact", EXACT))
                for k in (1, NUM_NEAR)
            },
        }


def _agreement(near: np.ndarray, other: np.ndarray) -> float:
    """How often the nearest by another distance is among those found."""
    number = min(len(near), len(other))
    return float((near[:number] == other[:number, :1]).any(1).mean())


def clouds(root: Path) -> Record:
    """All digits of Point Cloud MNIST: fit, and transform."""
    parts = [PointCloudMNIST(root, train=train) for train in (True, False)]
    x = np.concatenate([part._data.pos.numpy() for part in parts])
    sizes = [part.slices["pos"].diff().numpy() for part in parts]
    ptr = np.append(0, np.cumsum(np.concatenate(sizes)))
    del parts
    embedder, seconds = SetEmbedder(16, 16, random_state=0), []
    embedder.fit_transform((x[: ptr[99]], ptr[:100]))  # compiles
    found = {"case": "clouds", "sets": len(ptr) - 1, "elements": len(x)}
    found |= {"slices": 16, "points": 16, "input_bytes": x.nbytes + ptr.nbytes}
    with peak(found):
        for _ in range(3):
            start = perf_counter()
            embedder.fit_transform((x, ptr))
            seconds.append(perf_counter() - start)
    return found | {"seconds": median(seconds), "repetitions": len(seconds)}


def stream(num_sets: int = 10_000_000, chunk: int = 100_000) -> Record:
    """Arrow columns one after the other, as from a file; vectors are not kept."""
    random = np.random.default_rng(SEED)

    def column() -> pa.Array:
        ptr = np.append(0, np.cumsum(random.integers(1, 10, chunk))).astype(np.int32)
        x = random.standard_normal(2 * ptr[-1], dtype=np.float32)
        elements = pa.FixedSizeListArray.from_arrays(x, 2)
        return pa.ListArray.from_arrays(ptr, elements)

    embedder = SetEmbedder(8, 8, random_state=0).fit(column())
    sizes, seconds = [], 0.0
    for _ in range(num_sets // chunk):
        batch = column()
        start = perf_counter()
        embedder.transform(batch)
        seconds += perf_counter() - start
        sizes.append(status("VmRSS"))
    tenth = len(sizes) // 10
    found = {"case": "stream", "sets": num_sets, "chunk": chunk, "slices": 8}
    found |= {"points": 8, "seconds": seconds, "peak_bytes": max(sizes)}
    ends = {"first_bytes": max(sizes[:tenth]), "last_bytes": max(sizes[-tenth:])}
    return found | ends


def render(records: list[Record]) -> str:
    """The section of the page."""
    of_case = {r["case"]: r for r in records}
    parts = []
    if "search" in of_case:
        rows = [_search_row(r) for r in records if r["case"] == "search"]
        sets = f"{of_case['search']['sets']:,}"
        parts = [SEARCH.format(sets=sets), markdown(pd.DataFrame(rows))]
    if "clouds" in of_case:
        r = of_case["clouds"]
        multiple = 1 + r["peak_bytes"] / r["input_bytes"]
        time, memory = _verdict(r["seconds"], 5, " s"), _verdict(multiple, 3, "x")
        parts.append(CLOUDS.format(**r, multiple=multiple, time=time, memory=memory))
    if "stream" in of_case:
        r = of_case["stream"]
        first, last = r["first_bytes"] / 2**20, r["last_bytes"] / 2**20
        ends = {"first": first, "last": last, "growth": last / first}
        verdict = _verdict(last / first, 1.05, "x")
        parts.append(STREAM.format(**r, **ends, verdict=verdict))
    return "\n\n".join(parts)


def _search_row(r: Record) -> dict[str, str]:
    number = "all" if r["queries"] == r["sets"] else r["queries"]
    columns = {"same class": "same_class", "sliced: found": "sliced_among_1"}
    columns |= {"among ten": "sliced_among_10", "exact: found": "exact_among_1"}
    columns |= {"among ten ": "exact_among_10"}
    shares = {column: f"{r[key]:.0%}" for column, key in columns.items()}
    row = {"nearest by": r["contender"], "time": f"{r['seconds']:,.2f} s"}
    return row | {"from": f"{number} queries"} | shares


def _verdict(value: float, limit: float, unit: str) -> str:
    reached = "reached" if value <= limit else "**not reached**"
    return f"demanded: at most {limit:g}{unit}, {reached}"


SEARCH = (
    "The nearest of {sets} sets to each of {sets} queries: points on triangles, "
    "squares, stars and circles, 20 to 60 a set. Vectors are made anew in the time "
    "given. Pairs are compared for some of the queries, and the time for all is "
    "extrapolated. *Found*: how often the nearest set by POT's sliced, or exact, "
    "distance is the nearest, or among the nearest ten."
)
CLOUDS = (
    "Point Cloud MNIST, {sets:,} sets of {elements:,} points, {slices} slices x "
    "{points} points, `fit_transform`: {seconds:.2f} s ({time}); memory, with input "
    "and vectors, {multiple:.2f} times the input ({memory})."
)
STREAM = (
    "{sets:,} sets in columns of {chunk:,}, {slices} slices x {points} points: "
    "{seconds:.0f} s; the process took {first:.0f} MiB in the first tenth and "
    "{last:.0f} MiB in the last, {growth:.3f} times as much ({verdict})."
)
