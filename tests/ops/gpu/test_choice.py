import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from gswe_pyg.ops import backend

# The package shows the function of that name.
module = importlib.import_module("gswe_pyg.ops.segment_quantile")


def like(device, dtype=torch.float32):
    return SimpleNamespace(device=torch.device(device), dtype=dtype)


@pytest.mark.parametrize(
    ("has_triton", "src", "name"),
    [
        (True, like("cuda"), "triton"),
        (True, like("cuda:1", torch.bfloat16), "triton"),
        (True, like("cuda", torch.float64), "torch"),
        (True, like("mps"), "torch"),
        (False, like("cuda"), "torch"),
    ],
)
def test_gpus_get_triton_where_it_is(has_triton, src, name, monkeypatch):
    monkeypatch.setattr(module, "_HAS_TRITON", has_triton)
    monkeypatch.setattr(module, "_forced", None)
    assert module._choose_backend(src) == name


def test_forced_backend_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(module, "_HAS_TRITON", True)
    with backend("triton"), pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
        module._choose_backend(like("cpu"))
    monkeypatch.setattr(module, "_HAS_TRITON", False)
    with pytest.raises(ValueError, match="pip install triton"):
        backend("triton").__enter__()


def test_triton_is_not_imported_without_need():
    code = (
        "import sys, torch_geometric; before = set(sys.modules); import gswe_pyg.ops\n"
        "new = set(sys.modules) - before\n"
        "assert not [name for name in new if name.split('.')[0] == 'triton']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
