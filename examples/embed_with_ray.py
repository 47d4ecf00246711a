"""Embeds a corpus of Parquet files on a Ray cluster, one node of which is killed.

Ray Data hands the files to actors, each of which loads the embedder once, reads a file
in batches and writes the vectors to a file of the same name. A file is written whole or
not at all, so that nothing is lost or doubled if a node dies, and a second run goes on
where the first one was stopped. A file that cannot be read is named, and stops none of
the others. In the end, the vectors are compared with those of a single process.

Without arguments, the corpus is made up and the cluster is local. In earnest, pass
``--corpus`` and ``--output``, folders that all nodes see, and ``--address``.
"""

import argparse
import logging
import os
import pickle
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gswe_pyg.sets import SetEmbedder

MODEL = "_embedder.pickle"  # not data, by the convention of Parquet folders


def embed(model: SetEmbedder, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The vectors of a column of sets, which is used as it lies in memory."""
    vectors = model.transform(batch["points"])
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
    return pa.record_batch({"id": batch["id"], "vector": column})


class FileEmbedder:
    """An actor: keeps the model, and gets one path after the other."""

    def __init__(self, output: Path, batch_size: int) -> None:
        self.output, self.batch_size = output, batch_size
        self.model = pickle.loads((output / MODEL).read_bytes())

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list]:
        return {"error": [self.embed_file(Path(path)) for path in batch["path"]]}

    def embed_file(self, path: Path) -> str:
        temporary = self.output / f".{path.name}.{os.getpid()}.tmp"
        writer = None
        try:
            for batch in pq.ParquetFile(path).iter_batches(self.batch_size):
                vectors = embed(self.model, batch)
                writer = writer or pq.ParquetWriter(temporary, vectors.schema)
                writer.write_batch(vectors)
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            return f"{path}: {error}"
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:  # a file without rows has no vectors
            temporary.replace(self.output / path.name)  # whole or absent
        return ""


def is_complete(source: Path, target: Path) -> bool:
    try:
        rows = [pq.read_metadata(path).num_rows for path in (source, target)]
    except (OSError, pa.ArrowException):
        return False
    return rows[0] == rows[1]


def run(corpus: Path, output: Path, args: argparse.Namespace) -> list[str]:
    """Embeds what is not embedded yet; returns what went wrong."""
    import ray.data

    output.mkdir(parents=True, exist_ok=True)
    for rest in output.glob(".*.tmp"):  # of workers that died
        rest.unlink()
    sources = sorted(corpus.glob("*.parquet"))
    todo = [path for path in sources if not is_complete(path, output / path.name)]
    print(f"{len(todo)} of {len(sources)} files to embed", flush=True)
    if not todo:
        return []
    if not (output / MODEL).exists():  # a later run must use the same
        first = pq.read_table(sources[0])["points"]
        model = SetEmbedder(args.slices, args.points, random_state=args.seed).fit(first)
        (output / MODEL).write_bytes(pickle.dumps(model))
    paths = [{"path": str(path)} for path in todo]
    outcome = ray.data.from_items(paths, override_num_blocks=len(paths)).map_batches(
        FileEmbedder,
        fn_constructor_args=(output, args.batch_size),
        batch_size=1,
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=args.nodes),
    )
    return [row["error"] for row in outcome.take_all() if row["error"]]


# A corpus, a cluster, a fault #########################################################


def make_corpus(folder: Path, num_files: int, num_sets: int, seed: int) -> None:
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for file in range(num_files):
        sizes = random.integers(0, 60, num_sets)
        ptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
        x = random.normal(size=(ptr[-1], 8)).astype(np.float32)
        elements = pa.FixedSizeListArray.from_arrays(x.ravel(), 8)
        ids = np.arange(num_sets) + num_sets * file
        table = {"id": ids, "points": pa.ListArray.from_arrays(ptr, elements)}
        pq.write_table(pa.table(table), folder / f"part-{file:05d}.parquet")


def start_cluster(num_nodes: int) -> tuple:
    """A head without work, and nodes with one processor each."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=1, wait=False) for _ in range(num_nodes)]
    cluster.wait_for_nodes()
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    return cluster, nodes


def kill_when_some_are_done(cluster, node, output: Path, num_files: int) -> None:
    while len(list(output.glob("*.parquet"))) < num_files:
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)
    done = len(list(output.glob("*.parquet")))
    print(f"a node was killed when {done} files were written", flush=True)


def compare(corpus: Path, output: Path, batch_size: int) -> None:
    """All vectors against those of this process."""
    model = pickle.loads((output / MODEL).read_bytes())
    sources = sorted(corpus.glob("*.parquet"))
    expected = pa.Table.from_batches(
        embed(model, batch)
        for path in sources
        for batch in pq.ParquetFile(path).iter_batches(batch_size)
    )
    found = pq.read_table(output).sort_by("id")
    ids, wanted = found["id"].to_numpy(), expected["id"].to_numpy()
    same = found["vector"].combine_chunks() == expected["vector"].combine_chunks()
    print(f"vectors            | {len(ids):,}")
    print(f"missing            | {len(np.setdiff1d(wanted, ids))}")
    print(f"twice              | {len(ids) - len(np.unique(ids))}")
    print(f"as of one process  | {'all' if same else 'not all'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="with 'id' and 'points' (lists)")
    parser.add_argument("--output", type=Path, help="folder of the vectors")
    parser.add_argument("--address", help="of a Ray cluster; by default, a local one")
    parser.add_argument("--nodes", type=int, default=2, help="or actors, at most")
    parser.add_argument("--slices", type=int, default=32)
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=1000, help="sets at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="few sets, much overhead")
    args = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray.data
    except ImportError:
        sys.exit("This example needs Ray: pip install 'gswe-pyg[ray]'")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)

    with tempfile.TemporaryDirectory() as folder:
        corpus = args.corpus or Path(folder) / "corpus"
        output = args.output or Path(folder) / "vectors"
        if args.corpus is None:
            num_files, num_sets = (12, 1000) if args.fast else (24, 10_000)
            make_corpus(corpus, num_files, num_sets, args.seed)
        if args.address is not None:
            ray.init(args.address, log_to_driver=False, logging_level=logging.ERROR)
            errors = run(corpus, output, args)
        else:
            cluster, nodes = start_cluster(args.nodes)
            print(f"a head and {args.nodes} nodes are up, seed {args.seed}", flush=True)
            if args.corpus is None:
                fault = (cluster, nodes[0], output, num_files // 3)
                threading.Thread(
                    target=kill_when_some_are_done, args=fault, daemon=True
                ).start()
            start = time.perf_counter()
            errors = run(corpus, output, args)
            print(f"{time.perf_counter() - start:.1f} s, start of the actors included")
            ray.shutdown()
            cluster.shutdown()
        if errors:
            sys.exit("\n".join(["These files could not be embedded:", *errors]))
        if args.corpus is None:
            compare(corpus, output, args.batch_size)


if __name__ == "__main__":
    main()
