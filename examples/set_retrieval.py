"""Finds the sets nearest to a set with a FAISS index of their vectors.

Sets of any sizes become vectors of one length, so that any index of vectors will do. It
is saved and loaded, as it would be between two jobs. Since the distance of vectors
stands for the sliced-Wasserstein distance of sets, what is found is checked against the
exact distance of each query to all sets. The sets are the digits of Point Cloud MNIST
where its files are at hand, and points on circles otherwise.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch
from tqdm import tqdm

from gswe_pyg import gsw_distance
from gswe_pyg.datasets import PointCloudMNIST, SetCircles
from gswe_pyg.sets import SetEmbedder

try:
    import faiss
except ImportError:
    sys.exit("This example needs FAISS: pip install 'gswe-pyg[sets]'")

RADII = (1.0, 1.5, 2.0, 2.5)


def load(root: Path, num_sets: int, num_queries: int, seed: int) -> tuple:
    """The sets to search in, the queries, and what they are."""
    if (root / "raw").is_dir():
        parts = PointCloudMNIST(root), PointCloudMNIST(root, train=False)
        random = np.random.default_rng(seed)
        chosen = [
            random.choice(len(part), number, replace=False)
            for part, number in zip(parts, (num_sets, num_queries), strict=True)
        ]
        batches = [p.get_batch(c) for p, c in zip(parts, chosen, strict=True)]
        return *batches, "Point Cloud MNIST"
    options = {"radii": RADII, "seed": seed}
    parts = (
        SetCircles(num_sets=num_sets, **options),
        SetCircles(train=False, num_sets=num_queries, **options),
    )
    return *(part.get_batch(range(len(part))) for part in parts), "circles"


def exact_distances(query: Tensor, sets: Batch, model: SetEmbedder) -> Tensor:
    """The distance of one set to all others, without a vector."""
    pair = torch.arange(sets.num_graphs).repeat_interleave(len(query))
    return gsw_distance(
        query.repeat(sets.num_graphs, 1),
        sets.pos,
        model.slicer_,
        x_index=pair,
        y_index=sets.batch,
    )


def build_index(vectors: np.ndarray, path: Path) -> faiss.Index:
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path))
    return faiss.read_index(str(path))


def draw(queries: Batch, sets: Batch, found: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    rows, columns = min(6, len(found)), min(8, found.shape[1])
    figure, axes = plt.subplots(
        rows, columns + 1, figsize=(columns + 1, rows), squeeze=False
    )
    for row, line in enumerate(axes):
        cells = [queries[row], *(sets[int(i)] for i in found[row, :columns])]
        for column, (cell, data) in enumerate(zip(line, cells, strict=True)):
            is_same = int(data.y) == int(cells[0].y)
            colour = "black" if column == 0 else "tab:green" if is_same else "tab:red"
            cell.scatter(*data.pos.T, s=2, c=colour, linewidths=0)
            cell.set_aspect("equal")
            cell.set_xticks([])
            cell.set_yticks([])
            cell.spines[:].set_visible(column == 0)
    axes[0, 0].set_title("query", fontsize=8)
    axes[0, 1].set_title("nearest", fontsize=8)
    figure.savefig(path, dpi=150, bbox_inches="tight")


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("data/MNIST"))
    parser.add_argument("--num-sets", type=int, default=500, help="to search in")
    parser.add_argument("--num-queries", type=int, default=10)
    parser.add_argument("--k", type=int, default=10, help="neighbours to find")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results-examples"))
    parser.add_argument("--fast", action="store_true", help="200 sets, 10 queries")
    args = parser.parse_args()
    if args.fast:
        args.num_sets, args.num_queries = 200, 10
    args.output.mkdir(parents=True, exist_ok=True)

    sizes = args.num_sets, args.num_queries
    sets, queries, name = load(args.root, *sizes, args.seed)
    print(f"{args.num_queries} queries in {args.num_sets} sets ({name}), ", end="")
    print(f"{args.k} neighbours, seed {args.seed}\n")

    # 'barycentric' misses none of a set: its distance grows to the exact one.
    options = {"interpolation": "barycentric", "standardize": False}
    models = {
        num_points: SetEmbedder(16, num_points, **options).fit(sets)
        for num_points in (4, 16, 64)
    }
    exact_distances(queries[0].pos, sets, models[4])  # the first call takes longer
    start = time.perf_counter()
    bar = tqdm(range(args.num_queries), "exact distances", leave=False, disable=None)
    truth = torch.stack([exact_distances(queries[i].pos, sets, models[4]) for i in bar])
    truth, exact_seconds = truth.numpy(), time.perf_counter() - start
    true_neighbors = truth.argsort(axis=1)[:, : args.k]

    print("points | in common | same class | distance / exact | ms a query | a second")
    print("-------|-----------|------------|------------------|------------|---------")
    row = "{:>6} | {:>9.1%} | {:>10.1%} | {:>16.4f} | {:>10.3f} | {:>8,.0f}".format
    y, query_y = sets.y.numpy(), queries.y.numpy()[:, None]
    for num_points, model in models.items():
        vectors = model.transform(sets)
        index = build_index(vectors, args.output / f"sets-{num_points}.faiss")
        model.transform(queries)
        start = time.perf_counter()
        embedded = model.transform(queries)
        found = index.search(embedded, args.k)[1]
        seconds = time.perf_counter() - start
        recall = (found[:, :, None] == true_neighbors[:, None]).any(-1).mean()
        distance = model.distance(embedded[:, None], vectors[found])
        ratio = (distance / np.take_along_axis(truth, found, 1)).mean()
        speed = 1e3 * seconds / args.num_queries, args.num_queries / seconds
        print(row(num_points, recall, (y[found] == query_y).mean(), ratio, *speed))
    speed = 1e3 * exact_seconds / args.num_queries, args.num_queries / exact_seconds
    print(row("exact", 1, (y[true_neighbors] == query_y).mean(), 1, *speed))

    picture = args.output / "set_retrieval.png"
    draw(queries, sets, found, picture)
    print("\nMore points, closer to the exact distance: 'in common' are neighbours ")
    print("that are among the nearest by the exact distance, too.")
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
