"""What the actors do, without Ray; tests/stress/test_ray.py has the cluster."""

import pickle
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SCRIPT = Path(__file__).parents[2] / "examples" / "embed_with_ray.py"


@pytest.fixture
def example():
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture
def folders(example, tmp_path):
    corpus, output = tmp_path / "corpus", tmp_path / "vectors"
    example.make_corpus(corpus, num_files=3, num_sets=20, seed=0)
    return corpus, output


@pytest.fixture
def actor(example, folders):
    corpus, output = folders
    output.mkdir()
    first = pq.read_table(corpus / "part-00000.parquet")["points"]
    model = example.SetEmbedder(4, 4, random_state=0).fit(first)
    (output / example.MODEL).write_bytes(pickle.dumps(model))
    return example.FileEmbedder(output, batch_size=7)


def test_an_actor_writes_a_file_or_none(example, actor, folders):
    corpus, output = folders
    paths = sorted(map(str, corpus.glob("*.parquet")))
    assert actor({"path": paths}) == {"error": ["", "", ""]}
    table = pq.read_table(output / "part-00000.parquet")
    (whole,) = pq.read_table(paths[0]).to_batches()
    expected = example.embed(actor.model, whole)
    np.testing.assert_array_equal(
        np.array(table["vector"].to_pylist()), np.array(expected["vector"].to_pylist())
    )
    assert example.is_complete(Path(paths[0]), output / "part-00000.parquet")


def test_half_a_file_leaves_none_behind(example, actor, folders):
    """The second batch fails: what the first one wrote is no result."""
    corpus, output = folders
    path = corpus / "part-00001.parquet"
    table = pq.read_table(path)
    points = table["points"].to_pylist()
    points[12] = [[np.nan] * 8]
    table = table.set_column(1, "points", pa.array(points, table["points"].type))
    pq.write_table(table, path)
    (error,) = actor({"path": [str(path)]})["error"]
    # Its position within the batch.
    assert error.startswith(f"{path}: Set 5 of 'X' has an element with NaN")
    assert not list(output.glob("*.parquet"))
    assert not example.is_complete(path, output / path.name)


def test_a_truncated_result_is_not_complete(example, actor, folders):
    corpus, output = folders
    path = corpus / "part-00001.parquet"
    actor({"path": [str(path)]})
    target = output / path.name
    target.write_bytes(target.read_bytes()[:-100])
    assert not example.is_complete(path, target)
