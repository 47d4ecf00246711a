"""Nearest neighbours of sets by several distances: a table, and a picture."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import ot
import pandas as pd
from matplotlib.figure import Figure
from sklearn.neighbors import NearestNeighbors
from tqdm import tqdm

from benchmarks.engine.tables import markdown, save
from gswe_pyg.sets import SetEmbedder

Sets = list[np.ndarray]

#: From queries and sets to the numbers of the sets, the nearest of each query first.
Nearest = Callable[[Sets, Sets], np.ndarray]

NUM_NEAR = 10


def outlines(num_sets: int, seed: int) -> tuple[Sets, np.ndarray]:
    """20 to 60 points near the outlines of figures that have the same mean and
    covariance, and which figure it is."""
    random = np.random.default_rng(seed)
    figures = [_polygon(3), _polygon(4), _polygon(10, inner=0.45), _polygon(60)]
    labels = random.integers(len(figures), size=num_sets)
    sizes = random.integers(20, 60, size=num_sets, endpoint=True)
    sets = [random.choice(figures[i], n) for i, n in zip(labels, sizes, strict=True)]
    return [x + 0.1 * random.normal(size=x.shape) for x in sets], labels


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


def by_vectors(embed: Callable[[Sets], Sequence]) -> Nearest:
    """By the Euclidean distance of one vector for each set."""

    def nearest(queries: Sets, sets: Sets) -> np.ndarray:
        index = NearestNeighbors(algorithm="brute").fit(embed(sets))
        number = min(NUM_NEAR, len(sets))
        return index.kneighbors(embed(queries), number, return_distance=False)

    return nearest


def by_pairs(distance: Callable[[np.ndarray, np.ndarray], float]) -> Nearest:
    """By a distance that is computed for each query and set."""

    def nearest(queries: Sets, sets: Sets) -> np.ndarray:
        bar = tqdm(queries, "pairs", leave=False, disable=None)
        distances = [[distance(query, x) for x in sets] for query in bar]
        return np.argsort(distances, axis=1)[:, :NUM_NEAR]

    return nearest


def transport(x: np.ndarray, y: np.ndarray) -> float:
    """The exact distance: one linear program."""
    return ot.emd2([], [], ot.dist(x, y))


def compare(num_sets: int, path: Path) -> None:
    """Prints how well each distance finds a set of the same class, and in what time."""
    sets, labels = outlines(num_sets, seed=0)
    queries, truth = outlines(-(-num_sets // 6), seed=1)
    print("1. Sets to vectors, nothing trained: the nearest neighbours of")
    print(f"{len(queries):,} sets of 20 to 60 points among {num_sets:,} others.")
    print("Triangles, squares, stars and circles, of equal mean and covariance.\n")
    embedder = SetEmbedder(16, 16, random_state=0).fit(sets)
    distances = {
        "mean of the points": by_vectors(lambda x: [s.mean(0) for s in x]),
        "mean and covariance": by_vectors(lambda x: [_moments(s) for s in x]),
        "GSWE, no training": by_vectors(embedder.transform),
        "exact optimal transport": by_pairs(transport),
    }
    found, seconds = pd.DataFrame(), {}
    for name, nearest in distances.items():
        nearest(queries[:1], sets[:1])  # compiles
        start = time.perf_counter()
        found[name] = nearest(queries, sets)[:, 0]
        seconds[name] = f"{1e3 * (time.perf_counter() - start):,.0f} ms"
    is_same = found.apply(lambda near: labels[near] == truth)
    is_exact = found.eq(found["exact optimal transport"], axis=0)
    shares = {"same class": is_same.mean(), "same set as exact": is_exact.mean()}
    table = pd.DataFrame(shares).map("{:.0%}".format).assign(time=seconds)
    print(markdown(table.reset_index(names="nearest by")))
    _draw(queries, sets, found, is_same, path)


def _moments(x: np.ndarray) -> np.ndarray:
    return np.append(x.mean(0), np.cov(x.T)[np.triu_indices(2)])


def _draw(
    queries: Sets, sets: Sets, found: pd.DataFrame, is_same: pd.DataFrame, path: Path
) -> None:
    """The first queries, each beside what is nearest to it by each distance."""
    rows, columns = min(6, len(queries)), len(found.columns) + 1
    figure = Figure(figsize=(1.8 * columns, 1.6 * rows), layout="tight")
    window = {"xlim": (-1.9, 1.9), "ylim": (-1.9, 1.9), "aspect": "equal"}
    window |= {"xticks": [], "yticks": []}
    axes = figure.subplots(rows, columns, squeeze=False, subplot_kw=window)
    for i, line in enumerate(axes):
        cells = [queries[i], *(sets[near] for near in found.iloc[i])]
        colours = is_same.iloc[i].map({True: "tab:green", False: "tab:red"})
        for axis, x, colour in zip(line, cells, ["black", *colours], strict=True):
            axis.scatter(*x.T, s=6, c=colour)
    for axis, name in zip(axes[0], ["query", *found], strict=True):
        axis.set_title(name, fontsize=9)
    save(figure, path)
