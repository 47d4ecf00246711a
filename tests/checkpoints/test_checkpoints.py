from pathlib import Path

import pytest
import torch
from make_checkpoint import build, main

import gswe_pyg

FILES = sorted(Path(__file__).parent.glob("*.pt"))


def test_the_first_version_has_one():
    assert "0.1.0.pt" in [path.name for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_checkpoints_of_all_versions_can_be_loaded(path):
    assert path.stat().st_size < 100_000
    content = torch.load(path, weights_only=True)
    assert len(content["models"]) >= 13
    for name, saved in content["models"].items():
        module = build(saved["kind"], saved["arguments"])
        module.load_state_dict(saved["state_dict"])
        with torch.no_grad():
            out = module(content["x"], content["index"], dim_size=5)
        torch.testing.assert_close(
            out, saved["out"], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_checkpoints_are_not_overwritten(capsys):
    path = Path(__file__).parent / f"{gswe_pyg.__version__}.pt"
    if not path.exists():
        pytest.skip("this version has no checkpoint yet")
    before = path.read_bytes()
    assert main() == 1
    assert path.read_bytes() == before
    assert "must stay as it is" in capsys.readouterr().err
