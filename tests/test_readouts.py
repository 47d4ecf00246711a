"""Every readout in the package, driven through :mod:`gswe_pyg.testing`."""

import pytest
import torch
from torch_geometric.nn.aggr import MeanAggregation

from gswe_pyg import GSWEAggregation
from gswe_pyg.models import MLP, PMA, SAB, ApproxRepSet, RepSet, SetModel
from gswe_pyg.ops import backend
from gswe_pyg.testing import assert_readout

GSWE = {
    "linear": {},
    "mlp": {"slicer": "mlp"},
    "polynomial": {"slicer": "polynomial"},
    "identity": {"slicer": "identity"},
    "step": {"interpolation": "step"},
    "barycentric": {"interpolation": "barycentric"},
    "pswe": {"interpolation": "pswe"},
    "references": {"num_references": 3},
    "slice": {"reference": "slice"},
    "projected": {"out_channels": 4},
    "with size": {"encode_size": True},
    "all": {
        "num_references": 2,
        "slicer": "mlp",
        "reference": "slice",
        "out_channels": 3,
        "encode_size": True,
    },
}

OTHERS = {
    "mean": MeanAggregation,
    "PMA": lambda: PMA(4, num_seeds=3, heads=2),
    "RepSet": lambda: RepSet(4, num_hidden_sets=3, num_elements=5),
    "ApproxRepSet": lambda: ApproxRepSet(4, num_hidden_sets=3, num_elements=5),
    "MLP + mean": lambda: SetModel(MLP(4, [8], 5), MeanAggregation()),
    "SAB + PMA": lambda: SetModel(SAB(4, 6, heads=2), PMA(6)),
    "MLP + GSWE": lambda: SetModel(MLP(4, [8], 5), GSWEAggregation(5, 3, 2)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", GSWE.values(), ids=GSWE.keys())
def test_gswe(options, weighted, dtype):
    if weighted and options.get("interpolation") == "pswe":
        pytest.skip("pswe has no weights")
    torch.manual_seed(0)
    assert_readout(
        lambda: GSWEAggregation(4, 4, 3, **options), 4, weighted=weighted, dtype=dtype
    )


@pytest.mark.parametrize("interpolation", ["linear", "barycentric"])
def test_gswe_on_torch(interpolation):
    torch.manual_seed(0)
    with backend("torch"):
        assert_readout(GSWEAggregation(4, 4, 3, interpolation=interpolation), 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("build", OTHERS.values(), ids=OTHERS.keys())
def test_others(build, dtype):
    torch.manual_seed(0)
    assert_readout(build, 4, dtype=dtype)
