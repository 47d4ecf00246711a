import json

import pytest

from benchmarks import overview


def record(readout, points, accuracy, seed=0, epochs=50):
    return {
        "id": f"{readout}-{points}-{seed}-{epochs}",
        "config": {
            "readout": readout,
            "loss": "simclr",
            "points": points,
            "seed": seed,
            "epochs": epochs,
        },
        "seed": seed,
        "metrics": {"accuracy": accuracy},
    }


SMALL = {"graphs": 2, "nodes": 3, "slices": 4, "points": 5, "large": 0}
SKEWED = {**SMALL, "large": 1000}


def timing(contender, seconds):
    return {
        "shape": SMALL,
        "contender": contender,
        "mode": "training",
        "seconds": seconds,
    }


@pytest.fixture
def results(tmp_path):
    runs = [
        record("mean", 1, 0.5),
        record("mean", 1, 0.7, seed=1),
        record("mean", 1, 0.1, seed=2),  # a seed that GSWE does not have
        record("gswe_linear", 4, 0.75),
        record("gswe_linear", 4, 1.0, seed=1),
        record("gswe_linear", 8, 0.1),  # not among the sizes shown
        record("gswe_linear", 4, 0.1, epochs=1),  # another protocol
    ]
    lines = [json.dumps(run) + "\n" for run in runs]
    (tmp_path / "set_circles.jsonl").write_text("".join(lines))
    memory = {"slice_bytes": 100, "shape": SMALL}
    epoch = {"hidden": 8, "batch_size": 4, "data": "toy"}
    speed = {
        "shapes": {
            "threads": 3,
            "records": [timing("ours", 2.0), timing("mean", 1.0), timing("sort", 9.0)],
        },
        "memory": {
            "records": [
                {**memory, "contender": "ours", "peak_bytes": 250},
                {
                    **memory,
                    "contender": "transformer",
                    "shape": SKEWED,
                    "skipped": "needs 7 GB",
                },
            ]
        },
        "end_to_end": {
            "records": [
                {**epoch, "readout": "mean", "epoch_seconds": 2.0},
                {**epoch, "readout": "gswe", "epoch_seconds": 2.5},
            ]
        },
    }
    (tmp_path / "speed.json").write_text(json.dumps(speed))
    return tmp_path


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {(row[0], len(row)): row[1:] for row in cells}


def test_render(results):
    text = overview.render(results)
    table = rows(text)
    assert table["readout", 2] == ["Set-Circles, SimCLR"]
    assert table["mean", 2] == ["60.0 ± 14.1"]
    assert table["**GSWE**", 2] == ["87.5 ± 17.7"]
    assert ("PMA (Set Transformer)", 2) not in table  # no records
    assert table["mean", 5] == ["0.5x", "1.00x", "-", "-"]
    assert table["`SortAggregation`", 5] == ["4.5x", "-", "-", "-"]
    assert table["`SetTransformerAggregation`", 5] == ["-", "-", "-", "needs 7 GB"]
    assert table["**GSWE**", 5] == ["1x", "1.25x", "2.5x", "-"]
    assert "Set-Circles 2." in text
    assert "with 3 threads" in text
    assert "beside one of 1,000" in text


def test_documents(results):
    assert "Documents" not in overview.render(results)
    run = {"points": 4, "references": 2, "fold": 0, "seed": 0, "epochs": 50}
    run |= {"evaluate": "test", "weighted": False, "start": 0.1, "slicer": "identity"}
    lines = [
        json.dumps(
            {
                "id": readout,
                "config": {**run, "readout": readout, "scale": "none"},
                "metrics": {"accuracy": accuracy, "train_loss": 0.1},
            }
        )
        for readout, accuracy in [("mean", 0.25), ("gswe_linear", 0.75)]
    ]
    (results / "twitter.jsonl").write_text("\n".join(lines) + "\n")
    text = overview.render(results)
    assert rows(text)["mean", 2] == ["25.0"]
    assert rows(text)["GSWE, linear", 2] == ["75.0 (2x4)"]
    assert "twitter: 50 epochs, 1 folds" in text


def test_ranks_of_graphs(results):
    assert "Graph networks" not in overview.render(results)
    lines = [
        json.dumps(
            {
                "id": f"{dataset}-{readout}",
                "config": {
                    "dataset": dataset,
                    "readout": readout,
                    "evaluate": "test",
                },
                "seed": 0,
                "metrics": {
                    "test": test,
                    "valid": 0.5,
                    "train_loss": 0.1,
                    "epoch_seconds": seconds,
                },
                "parameters": 1000,
            }
        )
        for dataset, readout, test, seconds in [
            ("MUTAG", "mean", 0.8, 1.0),
            ("MUTAG", "gswe_linear", 0.9, 1.5),
            ("ogbg-molesol", "mean", 1.0, 2.0),
            ("ogbg-molesol", "gswe_linear", 1.0, 3.0),
        ]
    ]
    (results / "graphs.jsonl").write_text("\n".join(lines) + "\n")
    text = overview.render(results)
    assert rows(text)["GSWE, linear", 6] == ["1.25", "1.50", "1.50", "1,000", "1.50x"]
    assert rows(text)["mean", 6] == ["1.75", "1.50", "1.50", "1,000", "1.00x"]
    assert "over 2 data sets (MUTAG, ogbg-molesol; 1 is best)" in text
