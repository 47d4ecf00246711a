"""``SetEmbedder``: nearest neighbours beside POT, many sets, memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from timeit import repeat

import numpy as np
import ot
import pandas as pd
import psutil

from benchmarks.engine.tables import markdown
from benchmarks.neighbours import NUM_NEAR, by_pairs, by_vectors, outlines, transport
from benchmarks.speed.memory import alone, peak_bytes
from benchmarks.speed.shapes import SEED
from benchmarks.speed.timing import Record
from gswe_pyg.datasets import PointCloudMNIST
from gswe_pyg.sets import SetEmbedder

TEMPLATE = Path(__file__).with_name("sets.md").read_text().strip()


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

    contenders = {
        "SetEmbedder, 16 x 16": (by_vectors(few.transform), num_sets, 5),
        "SetEmbedder, 64 x 64": (by_vectors(many.transform), num_sets, 5),
        "POT, sliced": (by_pairs(sliced), num_paired, 1),
        "POT, exact": (by_pairs(transport), num_paired, 1),
    }
    found, seconds = {}, {}
    for name, (nearest, number, repetitions) in contenders.items():
        times = []
        for _ in range(repetitions):
            start = perf_counter()
            found[name] = nearest(queries[:number], sets)
            times.append(perf_counter() - start)
        seconds[name] = median(times) * num_sets / number
    for name, near in found.items():
        yield {
            "case": "search",
            "contender": name,
            "sets": num_sets,
            "queries": len(near),
            "seconds": seconds[name],
            "same_class": float(np.mean(labels[near[:, 0]] == truth[: len(near)])),
            **{
                f"{kind}_among_{k}": _agreement(near[:, :k], found[f"POT, {kind}"])
                for kind in ("sliced", "exact")
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
    embedder = SetEmbedder(16, 16, random_state=0)
    embedder.fit_transform((x[: ptr[99]], ptr[:100]))  # compiles
    call = partial(embedder.fit_transform, (x, ptr))
    peak = peak_bytes(call)
    return {
        "case": "clouds",
        "sets": len(ptr) - 1,
        "elements": len(x),
        "input_bytes": x.nbytes + ptr.nbytes,
        "peak_bytes": peak,
        "seconds": median(repeat(call, number=1, repeat=3)),
    }


def stream(num_sets: int = 10_000_000, chunk: int = 100_000) -> Record:
    """Arrow columns one after the other, as from a file; vectors are not kept."""
    import pyarrow as pa  # an extra of its own, which the page does not need

    random = np.random.default_rng(SEED)

    def column() -> "pa.Array":
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
        sizes.append(psutil.Process().memory_info().rss)
    tenth = len(sizes) // 10
    return {
        "case": "stream",
        "sets": num_sets,
        "chunk": chunk,
        "seconds": seconds,
        "first_bytes": max(sizes[:tenth]),
        "last_bytes": max(sizes[-tenth:]),
    }


def render(records: list[Record]) -> str:
    """The section of the page."""
    search = [r for r in records if r["case"] == "search"]
    of_case = {r["case"]: r for r in records}
    clouds, stream = of_case["clouds"], of_case["stream"]
    multiple = 1 + clouds["peak_bytes"] / clouds["input_bytes"]
    first, last = stream["first_bytes"] / 2**20, stream["last_bytes"] / 2**20
    return TEMPLATE.format(
        sets=search[0]["sets"],
        table=markdown(pd.DataFrame(map(_search_row, search))),
        clouds=clouds,
        time=_verdict(clouds["seconds"], 5, " s"),
        multiple=multiple,
        memory=_verdict(multiple, 3, "x"),
        stream=stream,
        first=first,
        last=last,
        growth=last / first,
        verdict=_verdict(last / first, 1.05, "x"),
    )


def _search_row(r: Record) -> dict[str, str]:
    number = "all" if r["queries"] == r["sets"] else r["queries"]
    return {
        "nearest by": r["contender"],
        "time": f"{r['seconds']:,.2f} s",
        "from": f"{number} queries",
        "same class": f"{r['same_class']:.0%}",
        "sliced: found": f"{r['sliced_among_1']:.0%}",
        "among ten": f"{r['sliced_among_10']:.0%}",
        "exact: found": f"{r['exact_among_1']:.0%}",
        "among ten ": f"{r['exact_among_10']:.0%}",
    }


def _verdict(value: float, limit: float, unit: str) -> str:
    reached = "reached" if value <= limit else "**not reached**"
    return f"demanded: at most {limit:g}{unit}, {reached}"
