"""``SetEmbedder``: nearest neighbours beside POT and scipy, many sets, memory."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import ot
import pandas as pd
import pyarrow as pa
import torch
from scipy.stats import wasserstein_distance
from sklearn.neighbors import NearestNeighbors

from benchmarks.engine.tables import markdown
from benchmarks.neighbours import Sets, outlines
from benchmarks.speed.memory import CLEAR, status
from benchmarks.speed.timing import Record
from gswe_pyg.datasets import PointCloudMNIST
from gswe_pyg.sets import SetEmbedder

NUM_SETS = 2000  # and as many queries
NUM_NEAR = 10
NUM_STREAMED, CHUNK = 10_000_000, 100_000

#: What is demanded: seconds, multiples of the input (itself included), and growth of a
#: process after the first tenth of the sets.
MAX_SECONDS, MAX_MULTIPLE, MAX_GROWTH = 5.0, 3.0, 1.05

EXACT, SLICED = "POT, exact", "POT, sliced"


def measure(data: Path, quick: bool, seed: int) -> Iterator[Record]:
    scale = 100 if quick else 1
    yield from search(NUM_SETS // scale, budget=20 / scale, seed=seed)
    jobs = [(_stream, NUM_STREAMED // scale, CHUNK // scale, seed)]
    if (data / "MNIST").is_dir():
        jobs.insert(0, (_clouds, data / "MNIST"))
    for job, *arguments in jobs if CLEAR.exists() else ():
        # What an earlier call has left to the allocator would not be counted.
        with ProcessPoolExecutor(1, get_context("spawn")) as executor:
            threads = torch.get_num_threads()
            yield executor.submit(_alone, threads, job, *arguments).result()


# The same answer, by vectors and by pairs #############################################


def search(num_sets: int, budget: float, seed: int) -> Iterator[Record]:
    """The nearest of all sets to each of as many queries. Pairs are compared for the
    first queries only, until the budget of seconds is used up, and the time for all is
    extrapolated."""
    sets, labels = outlines(num_sets, 2 * seed)
    queries, truth = outlines(num_sets, 2 * seed + 1)
    found = {}
    for size in (16, 64):
        embedder = SetEmbedder(size, size, standardize=False).fit(sets)
        found[f"SetEmbedder, {size} x {size}"] = _by_vectors(embedder, queries, sets)
        if size == 16:
            directions = embedder.slicer_.weight.double().numpy().T
    by_pair = {
        SLICED: lambda x, y: ot.sliced_wasserstein_distance(
            x, y, projections=directions
        ),
        "scipy, sliced": lambda x, y: sum(
            wasserstein_distance(*pair)
            for pair in zip((x @ directions).T, (y @ directions).T, strict=True)
        ),
        EXACT: lambda x, y: ot.emd2([], [], ot.dist(x, y)),
    }
    for name, distance in by_pair.items():
        found[name] = _by_pairs(distance, queries, sets, budget)
    for name, (near, seconds) in found.items():
        yield {
            "case": "search",
            "contender": name,
            "sets": num_sets,
            "queries": len(near),
            "seconds": seconds * num_sets / len(near),
            "same_class": float(np.mean(labels[near[:, 0]] == truth[: len(near)])),
            **{
                f"{other}_among_{k}": _agreement(near[:, :k], found[contender][0])
                for other, contender in (("sliced", SLICED), ("exact", EXACT))
                for k in (1, NUM_NEAR)
            },
        }


def _by_vectors(
    embedder: SetEmbedder, queries: Sets, sets: Sets
) -> tuple[np.ndarray, float]:
    """The nearest of each query, and the median time, which includes the vectors."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        index = NearestNeighbors(algorithm="brute").fit(embedder.transform(sets))
        vectors = embedder.transform(queries)
        near = index.kneighbors(vectors, NUM_NEAR, return_distance=False)
        seconds.append(time.perf_counter() - start)
    return near, median(seconds)


def _by_pairs(
    distance: Callable[..., float], queries: Sets, sets: Sets, budget: float
) -> tuple[np.ndarray, float]:
    near: list[np.ndarray] = []
    start = time.perf_counter()
    for query in queries:
        near.append(np.argsort([distance(query, s) for s in sets])[:NUM_NEAR])
        if time.perf_counter() - start > budget:
            break
    return np.array(near), time.perf_counter() - start


def _agreement(near: np.ndarray, other: np.ndarray) -> float:
    """How often the nearest by another distance is among those found."""
    number = min(len(near), len(other))
    return float((near[:number] == other[:number, :1]).any(1).mean())


# Many sets, in a process of their own #################################################


def _alone(threads: int, job: Callable[..., Record], *arguments: object) -> Record:
    torch.set_num_threads(threads)
    return job(*arguments)


def _clouds(root: Path, num_slices: int = 16, num_points: int = 16) -> Record:
    """All digits of Point Cloud MNIST: fit, and transform."""
    parts = [PointCloudMNIST(root, train=train) for train in (True, False)]
    x = np.concatenate([part._data.pos.numpy() for part in parts])
    sizes = [part.slices["pos"].diff().numpy() for part in parts]
    ptr = np.append(0, np.cumsum(np.concatenate(sizes)))
    del parts
    few = x[: ptr[99]], ptr[:100]
    embedder = SetEmbedder(num_slices, num_points, random_state=0)
    embedder.fit_transform(few)  # compiles
    seconds = []
    CLEAR.write_text("5")  # the peak starts from here
    before = status("VmRSS")
    for _ in range(3):
        start = time.perf_counter()
        embedder.fit_transform((x, ptr))
        seconds.append(time.perf_counter() - start)
    return {
        "case": "clouds",
        "sets": len(ptr) - 1,
        "elements": len(x),
        "slices": num_slices,
        "points": num_points,
        "seconds": median(seconds),
        "repetitions": len(seconds),
        "input_bytes": x.nbytes + ptr.nbytes,
        "peak_bytes": status("VmHWM") - before,
    }


def _stream(num_sets: int, chunk: int, seed: int) -> Record:
    """Arrow columns one after the other, as from a file; vectors are not kept."""
    random = np.random.default_rng(seed)

    def column() -> pa.Array:
        ptr = np.append(0, np.cumsum(random.integers(1, 10, chunk))).astype(np.int32)
        x = random.standard_normal(2 * ptr[-1], dtype=np.float32)
        elements = pa.FixedSizeListArray.from_arrays(x, 2)
        return pa.ListArray.from_arrays(ptr, elements)

    embedder = SetEmbedder(8, 8, random_state=0).fit(column())
    sizes, seconds = [], 0.0
    for _ in range(num_sets // chunk):
        batch = column()
        start = time.perf_counter()
        embedder.transform(batch)
        seconds += time.perf_counter() - start
        sizes.append(status("VmRSS"))
    tenth = len(sizes) // 10
    return {
        "case": "stream",
        "sets": num_sets,
        "chunk": chunk,
        "slices": 8,
        "points": 8,
        "seconds": seconds,
        "first_bytes": max(sizes[:tenth]),
        "last_bytes": max(sizes[-tenth:]),
        "peak_bytes": max(sizes),
    }


# The page #############################################################################


def render(records: list[Record]) -> str:
    of_case = {case: [r for r in records if r["case"] == case] for case in _TEXTS}
    return "\n\n".join(_TEXTS[case](found) for case, found in of_case.items() if found)


def _search_text(records: list[Record]) -> str:
    rows = [
        {
            "nearest by": r["contender"],
            "time": f"{r['seconds']:,.2f} s",
            "from": "all queries"
            if r["queries"] == r["sets"]
            else f"{r['queries']} queries",
            "same class": f"{r['same_class']:.0%}",
            "sliced: found": f"{r['sliced_among_1']:.0%}",
            "among ten": f"{r[f'sliced_among_{NUM_NEAR}']:.0%}",
            "exact: found": f"{r['exact_among_1']:.0%}",
            "among ten ": f"{r[f'exact_among_{NUM_NEAR}']:.0%}",
        }
        for r in records
    ]
    sets = f"{records[0]['sets']:,}"
    return (
        f"The nearest of {sets} sets to each of {sets} queries: points on triangles, "
        "squares, stars and circles, 20 to 60 a set. Vectors are made anew in the time "
        "given. Pairs are compared for some of the queries, and the time for all is "
        "extrapolated. *Found*: how often the nearest set by POT's sliced, or exact, "
        "distance is the nearest, or among the nearest ten.\n\n"
        + markdown(pd.DataFrame(rows))
    )


def _clouds_text(records: list[Record]) -> str:
    (r,) = records
    multiple = 1 + r["peak_bytes"] / r["input_bytes"]
    return (
        f"Point Cloud MNIST, {r['sets']:,} sets of {r['elements']:,} points, "
        f"{r['slices']} slices x {r['points']} points, `fit_transform`: "
        f"{r['seconds']:.2f} s ({_verdict(r['seconds'], MAX_SECONDS, ' s')}); memory, "
        f"with input and vectors, {multiple:.2f} times the input "
        f"({_verdict(multiple, MAX_MULTIPLE, 'x')})."
    )


def _stream_text(records: list[Record]) -> str:
    (r,) = records
    growth = r["last_bytes"] / r["first_bytes"]
    return (
        f"{r['sets']:,} sets in columns of {r['chunk']:,}, {r['slices']} slices x "
        f"{r['points']} points: {r['seconds']:.0f} s; the process took "
        f"{r['first_bytes'] / 2**20:.0f} MiB in the first tenth and "
        f"{r['last_bytes'] / 2**20:.0f} MiB in the last, {growth:.3f} times as much "
        f"({_verdict(growth, MAX_GROWTH, 'x')})."
    )


def _verdict(value: float, limit: float, unit: str) -> str:
    reached = "reached" if value <= limit else "**not reached**"
    return f"demanded: at most {limit:g}{unit}, {reached}"


_TEXTS = {"search": _search_text, "clouds": _clouds_text, "stream": _stream_text}
