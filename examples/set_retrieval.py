"""Finds the sets nearest to a set by the Euclidean distance of embeddings.

Sets of any sizes become vectors of one length, so that any index of vectors will do:
faiss if it is installed, and a matrix of distances otherwise. Since the distance of
embeddings stands for the sliced-Wasserstein distance of sets, what is found is checked
against the exact distance of each query to all sets.
"""

import argparse
import time

import torch
from torch import Tensor
from torch_geometric.data import Batch
from tqdm import tqdm

from gswe_pyg import GSWEAggregation, gsw_distance
from gswe_pyg.datasets import SetCircles

RADII = (1.0, 1.5, 2.0, 2.5)


def whole(data: SetCircles) -> Batch:
    return data.get_batch(range(len(data)))


def nearest(queries: Tensor, points: Tensor, k: int) -> tuple[Tensor, str]:
    """The rows of the ``k`` nearest points of each query, and how they were found."""
    try:
        import faiss
    except ImportError:
        distance = torch.cdist(
            queries, points, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return distance.topk(k, largest=False).indices, "torch.cdist"
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points.numpy())
    return torch.from_numpy(index.search(queries.numpy(), k)[1]), "faiss"


def exact_distances(query: Tensor, sets: Batch, readout: GSWEAggregation) -> Tensor:
    """The distance of one set to all others, without an embedding."""
    pair = torch.arange(sets.num_graphs).repeat_interleave(len(query))
    return gsw_distance(
        query.repeat(sets.num_graphs, 1),
        sets.pos,
        readout.slicer,
        x_index=pair,
        y_index=sets.batch,
    )


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-sets", type=int, default=2000, help="to search in")
    parser.add_argument("--num-queries", type=int, default=50)
    parser.add_argument("--k", type=int, default=10, help="neighbours to find")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="200 sets, 10 queries")
    args = parser.parse_args()
    num_sets, num_queries = args.num_sets, args.num_queries
    if args.fast:
        num_sets, num_queries = 200, 10

    torch.manual_seed(args.seed)
    options = {"radii": RADII, "seed": args.seed}
    sets = whole(SetCircles(num_sets=num_sets, **options))
    queries = whole(SetCircles(train=False, num_sets=num_queries, **options))
    print(f"{num_queries} queries in {num_sets} sets, {args.k} neighbours, ", end="")
    print(f"seed {args.seed}\n")

    readouts = {
        # 'barycentric' misses none of a set: its distance grows to the exact one.
        num_points: GSWEAggregation(2, 16, num_points, interpolation="barycentric")
        for num_points in (4, 16, 64)
    }
    for readout in readouts.values():  # the same slices for all
        readout.slicer.load_state_dict(readouts[4].slicer.state_dict())

    exact_distances(queries[0].pos, sets, readouts[4])  # the first call compiles
    start = time.perf_counter()
    bar = tqdm(range(num_queries), "exact distances", leave=False, disable=None)
    truth = [exact_distances(queries[i].pos, sets, readouts[4]) for i in bar]
    truth = torch.stack(truth)
    exact_seconds = time.perf_counter() - start
    true_neighbors = truth.topk(args.k, largest=False).indices

    print("points | in common | same class | distance / exact | ms a query")
    print("-------|-----------|------------|------------------|-----------")
    for num_points, readout in readouts.items():
        points = readout(sets.pos, ptr=sets.ptr)
        nearest(points[:1], points, args.k)  # the first call imports faiss
        start = time.perf_counter()
        embedded = readout(queries.pos, ptr=queries.ptr)
        found, how = nearest(embedded, points, args.k)
        seconds = time.perf_counter() - start
        both = (found[:, :, None] == true_neighbors[:, None]).any(-1)
        same_class = sets.y[found] == queries.y[:, None]
        distance = readout.distance(embedded[:, None], points[found])
        ratio = (distance / truth.gather(1, found)).mean().item()
        print(
            f"{num_points:>6} | {both.double().mean():>9.1%} | "
            f"{same_class.double().mean():>10.1%} | {ratio:>16.4f} | "
            f"{1e3 * seconds / num_queries:>10.3f}"
        )
    same_class = sets.y[true_neighbors] == queries.y[:, None]
    print(
        f" exact | {1:>9.1%} | {same_class.double().mean():>10.1%} | {1:>16.4f} | "
        f"{1e3 * exact_seconds / num_queries:>10.3f}"
    )
    print(f"\nNeighbours by {how}. More points, closer to the exact distance. ", end="")
    print("Times are those of later calls: the first one compiles.")


if __name__ == "__main__":
    main()
