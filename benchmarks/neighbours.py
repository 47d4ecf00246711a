"""Nearest neighbours of sets by several distances: a table, and a picture."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import ot
import pandas as pd
from sklearn.metrics import pairwise_distances_argmin
from tqdm import tqdm

from benchmarks.engine.tables import markdown, save
from gswe_pyg.sets import SetEmbedder

Sets = list[np.ndarray]

NUM_POINTS = (20, 60)
NOISE = 0.1


def compare(num_sets: int, path: Path) -> None:
    """Prints how well each distance finds a set of the same class, and in what time."""
    sets, labels = outlines(num_sets, seed=0)
    queries, truth = outlines(-(-num_sets // 6), seed=1)
    print("1. Sets to vectors, nothing trained: the nearest neighbours of")
    print(f"{len(queries):,} sets of 20 to 60 points among {num_sets:,} others.")
    print("Triangles, squares, stars and circles, of equal mean and covariance.\n")
    embedder = SetEmbedder(16, 16, random_state=0)
    distances = {
        "mean of the points": _by_vectors(lambda x: [s.mean(0) for s in x]),
        "mean and covariance": _by_vectors(lambda x: [_moments(s) for s in x]),
        "GSWE, no training": _by_vectors(embedder.fit(sets).transform),
        "exact optimal transport": by_transport,
    }
    found, seconds = {}, {}
    for name, nearest in distances.items():
        nearest(queries[:1], sets[:1])  # compiles
        start = time.perf_counter()
        found[name] = nearest(queries, sets)
        seconds[name] = time.perf_counter() - start
    exact = found["exact optimal transport"]
    rows = [
        {
            "nearest by": name,
            "same class": f"{np.mean(labels[near] == truth):.0%}",
            "same set as exact": f"{np.mean(near == exact):.0%}",
            "time": f"{1e3 * seconds[name]:,.0f} ms",
        }
        for name, near in found.items()
    ]
    print(markdown(pd.DataFrame(rows)))
    draw(queries, truth, sets, labels, found, path)


def outlines(num_sets: int, seed: int) -> tuple[Sets, np.ndarray]:
    """Points near the outlines of figures, all of the same mean and covariance."""
    random = np.random.default_rng(seed)
    figures = [_polygon(3), _polygon(4), _polygon(10, inner=0.45), _polygon(60)]
    labels = random.integers(len(figures), size=num_sets)
    sizes = random.integers(*NUM_POINTS, size=num_sets, endpoint=True)
    sets = [random.choice(figures[i], n) for i, n in zip(labels, sizes, strict=True)]
    return [x + NOISE * random.normal(size=x.shape) for x in sets], labels


def _polygon(corners: int, inner: float = 1.0) -> np.ndarray:
    """Many points of a regular polygon; of a star, if every other corner is nearer to
    the centre."""
    turns = np.arange(corners + 1)
    angle = 2 * np.pi * turns / corners
    corner = np.where(turns % 2, inner, 1.0) * np.stack([np.sin(angle), np.cos(angle)])
    length = np.append(0, np.cumsum(np.linalg.norm(np.diff(corner), axis=0)))
    places = np.linspace(0, length[-1], 1200, endpoint=False)
    points = np.stack([np.interp(places, length, axis) for axis in corner], axis=1)
    return points / np.sqrt(np.square(points).sum(1).mean())


def _moments(x: np.ndarray) -> np.ndarray:
    return np.append(x.mean(0), np.cov(x.T)[np.triu_indices(2)])


def _by_vectors(embed: Callable) -> Callable[[Sets, Sets], np.ndarray]:
    def nearest(queries: Sets, sets: Sets) -> np.ndarray:
        return pairwise_distances_argmin(embed(queries), embed(sets))

    return nearest


def by_transport(queries: Sets, sets: Sets) -> np.ndarray:
    """One linear program for each pair, by POT."""
    bar = tqdm(queries, "exact transport", leave=False, disable=None)
    costs = [[ot.emd2([], [], ot.dist(query, s)) for s in sets] for query in bar]
    return np.argmin(costs, axis=1)


def draw(
    queries: Sets,
    truth: np.ndarray,
    sets: Sets,
    labels: np.ndarray,
    found: dict[str, np.ndarray],
    path: Path,
) -> None:
    """The first queries, each beside what is nearest to it by each distance."""
    import matplotlib.pyplot as plt

    rows, columns = min(6, len(queries)), len(found) + 1
    size = 1.8 * columns, 1.6 * rows
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for query, line in enumerate(axes):
        cells = [(queries[query], "black")]
        for near in (near[query] for near in found.values()):
            is_same = labels[near] == truth[query]
            cells.append((sets[near], "tab:green" if is_same else "tab:red"))
        for axis, (x, colour) in zip(line, cells, strict=True):
            axis.scatter(*x.T, s=6, c=colour)
            axis.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), xticks=[], yticks=[])
            axis.set_aspect("equal")
    for axis, name in zip(axes[0], ["query", *found], strict=True):
        axis.set_title(name, fontsize=9)
    figure.tight_layout()
    save(figure, path)
    plt.close(figure)
