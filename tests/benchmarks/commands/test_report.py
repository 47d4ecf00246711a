import json

import pytest

from benchmarks import report


def test_replace_part():
    page = "a\n<!-- begin:x -->old<!-- end:x -->\n<!-- begin:y -->\n<!-- end:y -->\nb"
    new = report.replace_part(page, "x", "one \\1 two")
    assert new == (
        "a\n<!-- begin:x -->\n\none \\1 two\n\n<!-- end:x -->\n"
        "<!-- begin:y -->\n<!-- end:y -->\nb"
    )
    assert report.replace_part(new, "x", "one \\1 two") == new


@pytest.mark.parametrize(
    "page", ["", "<!-- begin:x -->", 2 * "<!-- begin:x --><!-- end:x -->"]
)
def test_replace_part_needs_one_place(page):
    with pytest.raises(ValueError, match="exactly one part <!-- begin:x -->"):
        report.replace_part(page, "x", "text")


def test_refresh_touches_only_what_has_records(tmp_path, capsys):
    readme, results = tmp_path / "README.md", tmp_path / "results"
    results.mkdir()
    record = {
        "id": "0",
        "config": {"readout": "pma", "points": 2, "loss": "simclr", "seed": 0},
        "seed": 0,
        "metrics": {"accuracy": 0.125},
        "cpu_seconds": 1.0,
        "parameters": 7,
        "commit": None,
    }
    (results / "set_circles.jsonl").write_text(json.dumps(record) + "\n")
    parts = "<!-- begin:set_circles -->\n<!-- end:set_circles -->\n"
    other = "<!-- begin:point_cloud_mnist -->kept<!-- end:point_cloud_mnist -->\n"
    readme.write_text("# Title\n" + parts + other)
    report.refresh(readme, results)
    page = readme.read_text()
    assert page.startswith("# Title\n")
    assert page.endswith(other)
    assert "12.5" in page
    assert "point_cloud_mnist: no records" in capsys.readouterr().out
    assert (results / "set_circles.png").exists()


def test_the_page_has_a_part_for_every_config():
    page = report.README.read_text()
    for name in report.config.available():
        assert report.replace_part(page, name, "") != page


def test_usage(capsys):
    assert report.main(["--help"]) == 0
    assert report.main(["nonsense"]) == 2
    assert "usage: python -m benchmarks report" in capsys.readouterr().out
