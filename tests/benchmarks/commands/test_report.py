import json

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import report
from benchmarks.engine import config
from benchmarks.engine.arguments import UsageError
from benchmarks.engine.pages import replace_part
from tests.benchmarks.made import record, rows


def test_replace_part(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- begin:x -->old<!-- end:x -->\n<!-- begin:y -->b")
    new = "a\n<!-- begin:x -->\n\none \\1 two\n\n<!-- end:x -->\n<!-- begin:y -->b"
    for _ in range(2):
        assert replace_part(page, "x", "one \\1 two") == new
        page.write_text(new)
    for name in ("y", "z"):
        with pytest.raises(UsageError, match=f"has no part <!-- begin:{name} -->"):
            replace_part(page, name, "text")


def test_any_folder_has_its_pages(tmp_path, capsys):
    """A config may have any name: records tell what experiment they are of."""
    for name, experiment, settings in (
        ("mine", "self_supervised", {"readout": "pma", "points": 2}),
        ("other", "graphs", {}),
    ):
        run = config.module(experiment, "run").Run(**settings)
        line = json.dumps(record(run, accuracy=0.125, train_loss=None))
        (tmp_path / f"{name}.jsonl").write_text(f"{line}\n")
    front_page = report.FRONT_PAGE.read_text()
    assert main(["report", "self_supervised", f"results={tmp_path}"]) == 0
    assert {path.name for path in tmp_path.glob("*.md")} == {"self_supervised.md"}
    (tmp_path / "other.jsonl").unlink()
    assert main(["report", f"results={tmp_path}"]) == 0
    page = (tmp_path / "self_supervised.md").read_text()
    assert page.startswith("# Learning without labels\n")
    assert "\n## mine\n" in page
    assert ["PMA, 2", "12.5 †", "nan", "1,234"] in rows(page)
    assert report.FRONT_PAGE.read_text() == front_page
    assert "graphs: no records" in capsys.readouterr().out


def test_records_of_no_experiment_are_named(tmp_path, capsys):
    (tmp_path / "odd.jsonl").write_text('{"id": "0", "config": {"a": 1}}\n')
    assert main(["report", f"results={tmp_path}"]) == 2
    assert "odd.jsonl are of no experiment" in capsys.readouterr().err
