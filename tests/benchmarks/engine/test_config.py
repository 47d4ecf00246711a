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
    axes = [
        (run.seed, run.dataset, run.readout, run.epochs)
        for run in config.load(grids).runs
    ]
    assert axes == [
        (0, "set_circles", "mean", 9),
        (0, "set_circles", "pma", 9),
        (0, "set_circles_noisy", "mean", 3),
        (0, "set_circles_noisy", "pma", 3),
        (0, "point_cloud_mnist", "mean", 3),
        (0, "point_cloud_mnist", "pma", 3),
        (1, "set_circles", "mean", 9),
        (1, "set_circles", "pma", 9),
    ]


def test_arguments_pick_data_sets_and_win_over_all_grids(grids):
    plan = config.load(grids, ["dataset=set_circles_noisy", "readout=mean"])
    assert [(run.dataset, run.epochs) for run in plan.runs] == [
        ("set_circles_noisy", 3)
    ]
    both = config.load(grids, ["dataset=[set_circles,point_cloud_mnist]"]).runs
    assert {(run.dataset, run.epochs) for run in both} == {
        ("set_circles", 9),
        ("point_cloud_mnist", 3),
    }
    assert {run.epochs for run in config.load(grids, ["epochs=1"]).runs} == {1}
    assert {run.seed for run in config.load(grids, ["seed=7"]).runs} == {7}
    assert {run.seed for run in config.load(grids, ["seeds=3"]).runs} == {0, 1, 2}
    with pytest.raises(UsageError, match="did you mean 'set_circles'"):
        config.load(grids, ["dataset=set_circle"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- dataset: set_circles", "- epochs: 1", "list of mappings with a key"),
        ("- dataset: set_circles", "- set_circles", "list of mappings with a key"),
        ("epochs: 3", "epoch: 3", "unknown key of a grid 'epoch'; did you mean"),
        ("epochs: 3", "workers: 3", "unknown key of a grid 'workers'"),
        ("epochs: 3", "epochs: x", "epochs"),
        ("epochs: 3", "epochs: -1", "epochs must be at least 0"),
    ],
)
def test_bad_grids(tmp_path, old, new, message):
    path = tmp_path / "bad.yaml"
    path.write_text(GRIDS.replace(old, new, 1))
    with pytest.raises(UsageError, match=message):
        config.load(str(path))


def test_the_engine_does_not_change_the_name_of_a_run(path):
    one, other = config.load(path), config.load(path, ["threads=2", "workers=2"])
    assert one.runs[0].identifier() == other.runs[0].identifier()
    others = config.load(path, ["learning_rate=1"])
    assert one.runs[0].identifier() != others.runs[0].identifier()


@pytest.mark.parametrize("name", config.available())
@pytest.mark.parametrize("preset", ["paper", "small"])
def test_shipped_configs_have_both_presets(name, preset):
    plan = config.load(name, [f"preset={preset}"])
    assert plan.runs
    assert len({run.identifier() for run in plan.runs}) == len(plan.runs)


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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("pionts=3", "unknown key 'pionts'; did you mean 'points'"),
        ("readout=pna", "unknown readout 'pna'; did you mean 'pma'"),
        ("loss=[simclr,simsam]", "unknown loss 'simsam'; did you mean 'simsiam'"),
        ("dataset=set_circle", "did you mean 'set_circles'"),
        ("backbone=mlp", "unknown backbone 'mlp'"),
        ("preset=papers", "did you mean 'paper'"),
        ("points=four", "points"),
        ("points=[]", "points must have at least one value"),
        ("points=0", "points must be at least 1"),
        ("seeds=0", "seeds must be at least 1"),
        ("workers=0", "workers must be at least 1"),
        ("backend=rai", "did you mean 'ray'"),
        ("points", "the form key=value"),
    ],
)
def test_bad_arguments(path, argument, message):
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        config.load(path, [argument])


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
        ("[", "is not YAML"),
        ("- a", "must be a mapping"),
        ("description: d\npresets: {small: {}}", "lacks the key 'experiment'"),
        ("description: d\nexperiment: self_supervised", "lacks the key 'presets'"),
        (YAML.replace("self_supervised", "selfsupervised"), "unknown experiment"),
        (YAML.replace("points:", "point:"), "did you mean 'points'"),
        (YAML.replace("[1, 4]", "[1, x]"), "points"),
        (YAML.replace("self_supervised", "[a]"), r"unknown experiment \['a'\]"),
        (YAML.replace("{seeds: 3}", "7"), "preset 'paper' of bad.yaml must map"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        config.load(str(path))


def test_unknown_config():
    with pytest.raises(UsageError, match="did you mean 'set_circles'"):
        config.load("set_circle")
    with pytest.raises(UsageError, match="there is no file"):
        config.load("nowhere.yaml")
