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
OF = "description: d\npresets: {small: {}}\nexperiment: "


@pytest.fixture
def load(tmp_path):
    def load(text, *arguments):
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return config.load(str(path), arguments)

    return load


def test_a_list_is_an_axis(load):
    plan = load(YAML)
    assert plan.name == "grid"
    # The mean has no points, so that one run stands for both sizes.
    axes = [(run.seed, run.readout, run.points) for run in plan.runs]
    rest = [("mean", 1), ("pma", 1), ("pma", 4)]
    assert axes == [(seed, *cell) for seed in (0, 1) for cell in rest]
    assert {run.learning_rate for run in plan.runs} == {1e-3}


def test_arguments_win_over_preset_over_file(load):
    given = ["preset=paper", "points=[2,8,16]", "readout=pma", "learning_rate=5e-4"]
    runs = load(YAML, *given).runs
    assert len(runs) == 9
    assert {run.points for run in runs} == {2, 8, 16}
    assert {run.learning_rate for run in runs} == {5e-4}
    assert {run.seed for run in runs} == {0, 1, 2}
    assert {run.seed for run in load(YAML, "seed=[7]").runs} == {7}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "circles 9 0, circles_noisy 3 0, point_cloud_mnist 3 0, circles 9 1"),
        ("dataset=set_circles_noisy", "circles_noisy 3 0"),
        (
            "dataset=[set_circles,point_cloud_mnist] seed=7 epochs=1",
            "circles 1 7, point_cloud_mnist 1 7",
        ),
    ],
)
def test_grids_differ_by_data_set_and_arguments_win(load, arguments, expected):
    """By name, epochs and seed."""
    found = [
        f"{run.dataset.removeprefix('set_')} {run.epochs} {run.seed}"
        for run in load(GRIDS, *arguments.split()).runs
    ]
    assert found[::2] == found[1::2] == expected.split(", ")  # two readouts


def test_the_engine_does_not_change_the_name_of_a_run(load):
    one, other = load(YAML), load(YAML, "threads=2", "workers=2")
    assert one.runs[0].identifier() == other.runs[0].identifier()
    assert other.engine.workers == 2


@pytest.mark.parametrize("name", config.available())
def test_every_preset_of_a_shipped_config_is_a_grid(name):
    presets = config.read_yaml(config.available()[name])["presets"]
    assert "small" in presets
    for preset in presets:
        runs = config.load(name, [f"preset={preset}"]).runs
        assert 0 < len({run.identifier() for run in runs}) == len(runs)


def test_set_circles_is_the_papers_protocol():
    runs = config.load("set_circles", ["preset=paper"]).runs
    run = runs[0]
    assert (run.epochs, run.batch_size, run.learning_rate) == (50, 32, 1e-4)
    assert run.temperature == 0.1
    for kind in [("pma", "simclr"), ("gswe_linear", "simsiam")]:
        own = [r for r in runs if (r.readout, r.loss) == kind and r.epochs == 50]
        assert len(own) == 5 * 100
        assert {r.points for r in own} == {1, 2, 4, 8, 16}


def test_settings_that_are_added_later_leave_the_names_of_runs_as_they_are():
    @dataclass(frozen=True)
    class Old(config.RunSettings):
        epochs: int = 5

    @dataclass(frozen=True)
    class New(Old):
        schedule: str = config.setting("constant", added=True)

    assert New(epochs=3).identifier() == Old(epochs=3).identifier()
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
    ("text", "arguments", "message"),
    [
        ("[", "", "grid.yaml: while parsing"),
        ("- a", "", "must be a mapping"),
        (OF, "", "lacks the key 'experiment'"),
        (YAML.replace("self_supervised", "selfsupervised"), "", "unknown experiment"),
        (YAML.replace("self_supervised", "[a]"), "", "unknown experiment ['a']"),
        (YAML.replace("points:", "point:"), "", "did you mean 'points'"),
        (YAML.replace("[1, 4]", "[1, x]"), "", "points must be of type"),
        (YAML.replace("{seeds: 3}", "7"), "", "presets must be of type"),
        (GRIDS.replace("- dataset: set_circles", "- 7", 1), "", "grids must be of"),
        (GRIDS.replace("epochs: 3", "epoch: 3"), "", "unknown key of a grid 'epoch'"),
        (GRIDS.replace("epochs: 3", "workers: 3"), "", "unknown key of a grid 'work"),
        (GRIDS.replace("epochs: 3", "epochs: -1"), "", "epochs must be at least 0"),
        (YAML, "pionts=3", "unknown key 'pionts'; did you mean 'points'"),
        (YAML, "readout=pmaa", "unknown readout 'pmaa'; did you mean 'pma'"),
        (YAML, "loss=[simclr,simsam]", "unknown loss 'simsam'; did you mean 'simsiam'"),
        (GRIDS, "dataset=set_circle", "did you mean 'set_circles'"),
        (YAML, "preset=papers", "did you mean 'paper'"),
        (YAML, "points=[]", "points must have at least one value"),
        (YAML, "points=0", "points must be at least 1"),
        (YAML, "seeds=0", "seeds must be at least 1"),
        (YAML, "backend=rai", "did you mean 'ray'"),
        (YAML, "points", "the form key=value"),
        (f"{OF}documents", "fold=5", "fold must be in 0 to 4"),
        (f"{OF}graphs", "dataset=MUTAGG", "did you mean 'MUTAG'"),
        (f"{OF}graphs", "readout=gswe", "unknown readout 'gswe'"),
        (f"{OF}graphs", "hidden=6", "hidden must be a multiple of 4"),
        (f"{OF}graphs", "dropout=1.0", "must be at least 0 and less than 1"),
        (f"{OF}graphs", "slicer=linar", "unknown slicer 'linar'; did you mean 'linea"),
        (f"{OF}graphs", "readout=[mean,gswe_heads4] points=2", "points must be at lea"),
        (f"{OF}neighbourhoods", "readout=gswe_heads4", "points must be at least 4 for"),
        (f"{OF}when", "task=shfit", "unknown task 'shfit'; did you mean 'shift'"),
    ],
)
def test_mistakes_are_named(load, text, arguments, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        load(text, *arguments.split())


def test_configs_that_do_not_exist_are_named():
    with pytest.raises(UsageError, match="did you mean 'set_circles'"):
        config.load("set_circle")
    with pytest.raises(UsageError, match=r"there is no file nowhere\.yaml"):
        config.load("nowhere.yaml")
