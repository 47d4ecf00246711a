import re
from dataclasses import dataclass

import pytest

from benchmarks.engine import config, records
from benchmarks.engine.arguments import UsageError

YAML = """
description: A small grid
experiment: self_supervised
readout: [mean, pma]
loss: simclr
points: [1, 4]
presets:
  small: {seeds: 2, learning_rate: 1e-3}
  paper: {seeds: 3}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(YAML)
    return str(path)


def test_a_list_is_an_axis(path):
    plan = config.load(path)
    assert plan.name == "grid"
    assert plan.preset == "small"
    # The mean has no points, so that one run stands for both sizes.
    axes = [(run.seed, run.readout, run.points) for run in plan.runs]
    assert axes == [
        (seed, *rest)
        for seed in (0, 1)
        for rest in [("mean", 1), ("pma", 1), ("pma", 4)]
    ]
    assert {run.learning_rate for run in plan.runs} == {1e-3}


def test_arguments_win_over_preset_over_file(path):
    plan = config.load(
        path, ["preset=paper", "points=[2,8,16]", "readout=pma", "learning_rate=5e-4"]
    )
    assert len(plan.runs) == 9
    assert {run.points for run in plan.runs} == {2, 8, 16}
    assert {run.learning_rate for run in plan.runs} == {5e-4}
    assert {run.seed for run in plan.runs} == {0, 1, 2}
    assert {run.seed for run in config.load(path, ["seed=[7]"]).runs} == {7}
    assert config.load(path, ["train_sets=50"]).runs[0].train_sets == 50


GRIDS = """
description: Data sets with settings of their own
experiment: self_supervised
readout: [mean, pma]
learning_rate: 1e-3
presets:
  small:
    epochs: 9
    seeds: 2
    grids:
      - dataset: set_circles
      - {dataset: [set_circles_noisy, point_cloud_mnist], epochs: 3, seeds: 1}
"""


@pytest.fixture
def grids(tmp_path):
    path = tmp_path / "grids.yaml"
    path.write_text(GRIDS)
    return str(path)


def test_grids_differ_by_data_set(grids):
    runs = config.load(grids).runs
    axes = [(run.seed, run.dataset, run.epochs, run.readout) for run in runs]
    slow = ("set_circles", 9)
    fast = [("set_circles_noisy", 3), ("point_cloud_mnist", 3)]
    order = [(0, *slow), *((0, *grid) for grid in fast), (1, *slow)]
    assert axes == [(*grid, name) for grid in order for name in ("mean", "pma")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["dataset=set_circles_noisy"], {("set_circles_noisy", 3, 0)}),
        (
            ["dataset=[set_circles,point_cloud_mnist]", "seed=7"],
            {("set_circles", 9, 7), ("point_cloud_mnist", 3, 7)},
        ),
        (
            ["epochs=1", "seeds=1"],
            {
                ("set_circles", 1, 0),
                ("set_circles_noisy", 1, 0),
                ("point_cloud_mnist", 1, 0),
            },
        ),
    ],
)
def test_arguments_pick_data_sets_and_win_over_all_grids(grids, arguments, expected):
    runs = config.load(grids, arguments).runs
    assert {(run.dataset, run.epochs, run.seed) for run in runs} == expected


def test_the_engine_does_not_change_the_name_of_a_run(path):
    one, other = config.load(path), config.load(path, ["threads=2", "workers=2"])
    assert one.runs[0].identifier() == other.runs[0].identifier()
    others = config.load(path, ["learning_rate=1"])
    assert one.runs[0].identifier() != others.runs[0].identifier()


@pytest.mark.parametrize("name", config.available())
def test_every_preset_of_a_shipped_config_is_a_grid(name):
    presets = config.read_yaml(config.available()[name])["presets"]
    assert "small" in presets
    for preset in presets:
        runs = config.load(name, [f"preset={preset}"]).runs
        assert 0 < len({run.identifier() for run in runs}) == len(runs)


def test_set_circles_is_the_papers_protocol():
    plan = config.load("set_circles", ["preset=paper"])
    run = plan.runs[0]
    assert (run.epochs, run.batch_size, run.learning_rate) == (50, 32, 1e-4)
    assert run.temperature == 0.1
    for readout in ("pma", "gswe_linear", "gswe_barycentric"):
        for loss in ("simclr", "simsiam"):
            kind = (readout, loss, 50)
            runs = [r for r in plan.runs if (r.readout, r.loss, r.epochs) == kind]
            assert len(runs) == 5 * 100
            assert {r.points for r in runs} == {1, 2, 4, 8, 16}


def test_settings_that_are_added_later_leave_the_names_of_runs_as_they_are():
    @dataclass(frozen=True)
    class Old(config.RunSettings):
        epochs: int = 5

    @dataclass(frozen=True)
    class New(Old):
        schedule: str = config.added("constant")

    assert New(epochs=3).identifier() == Old(epochs=3).identifier()
    assert New(epochs=3).settings() == {"seed": 0, "epochs": 3}
    cosine = New(epochs=3, schedule="cosine")
    assert cosine.settings() == {"seed": 0, "epochs": 3, "schedule": "cosine"}
    assert cosine.identifier() != Old(epochs=3).identifier()


@pytest.mark.parametrize("path", sorted(config.RESULTS.glob("*.jsonl")), ids=str)
def test_records_on_file_keep_their_names(path):
    """What was run years ago is not run again: neither fields nor defaults move."""
    content = config.read_yaml(config.available()[path.stem])
    run_type = config.module(content["experiment"], "run").Run
    for record in records.read(path):
        run = run_type(**record["config"])
        assert run == run.canonical()
        assert run.identifier() == record["id"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "bad.yaml: while parsing"),
        ("- a", "must be a mapping"),
        ("description: d\npresets: {small: {}}", "lacks the key 'experiment'"),
        ("description: d\nexperiment: self_supervised", "lacks the key 'presets'"),
        (YAML.replace("self_supervised", "selfsupervised"), "unknown experiment"),
        (YAML.replace("self_supervised", "[a]"), "unknown experiment ['a']"),
        (YAML.replace("points:", "point:"), "did you mean 'points'"),
        (YAML.replace("[1, 4]", "[1, x]"), "points must be of type"),
        (YAML.replace("{seeds: 3}", "7"), "presets must be of type"),
        (GRIDS.replace("- dataset: set_circles", "- 7", 1), "grids must be of type"),
        (GRIDS.replace("epochs: 3", "epoch: 3"), "unknown key of a grid 'epoch'; did"),
        (GRIDS.replace("epochs: 3", "workers: 3"), "unknown key of a grid 'workers'"),
        (GRIDS.replace("epochs: 3", "epochs: x"), "epochs must be of type"),
        (GRIDS.replace("epochs: 3", "epochs: -1"), "epochs must be at least 0"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        config.load(str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("GRID pionts=3", "unknown key 'pionts'; did you mean 'points'"),
        ("GRID readout=pmaa", "unknown readout 'pmaa'; did you mean 'pma'"),
        ("GRID loss=[simclr,simsam]", "unknown loss 'simsam'; did you mean 'simsiam'"),
        ("GRID dataset=set_circle", "did you mean 'set_circles'"),
        ("GRIDS dataset=set_circle", "did you mean 'set_circles'"),
        ("GRID backbone=mlp", "unknown backbone 'mlp'"),
        ("GRID preset=papers", "did you mean 'paper'"),
        ("GRID points=four", "points must be of type"),
        ("GRID points=[]", "points must have at least one value"),
        ("GRID points=0", "points must be at least 1"),
        ("GRID seeds=0", "seeds must be at least 1"),
        ("GRID workers=0", "workers must be at least 1"),
        ("GRID backend=rai", "did you mean 'ray'"),
        ("GRID points", "the form key=value"),
        ("set_circle", "did you mean 'set_circles'"),
        ("nowhere.yaml", "there is no file"),
    ],
)
def test_bad_arguments(path, grids, arguments, message):
    name, *given = arguments.split()
    with pytest.raises(UsageError, match=re.escape(message)):
        config.load({"GRID": path, "GRIDS": grids}.get(name, name), given)
