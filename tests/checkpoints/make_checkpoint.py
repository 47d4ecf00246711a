"""``python tests/checkpoints/make_checkpoint.py``: the checkpoint of this version.

A file that is there already is never overwritten: what was saved by a version must be
readable by all that follow. A new version, or a new kind of module, adds a file.
"""

import sys
from pathlib import Path

import torch

import gswe_pyg
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import MLP, PMA, SAB, SetModel, SharedSAB, StackedSAB

FOLDER = Path(__file__).parent

#: What a checkpoint may ask for, by name and arguments.
MODULES = {
    "GSWEAggregation": GSWEAggregation,
    "PMA": PMA,
    "MLP": MLP,
    "SAB": SAB,
    "SharedSAB": SharedSAB,
    "StackedSAB": StackedSAB,
}

GSWE = {"in_channels": 3, "num_slices": 4, "num_points": 2}

MODELS = {
    "linear": ["GSWEAggregation", GSWE],
    "mlp": ["GSWEAggregation", GSWE | {"slicer": "mlp"}],
    "polynomial": ["GSWEAggregation", GSWE | {"slicer": "polynomial"}],
    "slice": ["GSWEAggregation", GSWE | {"reference": "slice"}],
    "step": ["GSWEAggregation", GSWE | {"interpolation": "step"}],
    "barycentric": ["GSWEAggregation", GSWE | {"interpolation": "barycentric"}],
    "pswe": ["GSWEAggregation", GSWE | {"interpolation": "pswe"}],
    "all": [
        "GSWEAggregation",
        GSWE | {"num_references": 2, "out_channels": 3, "encode_size": True},
    ],
    "one head": ["GSWEAggregation", {"in_channels": 3, "heads": 1}],
    "heads": [
        "GSWEAggregation",
        GSWE | {"heads": 2, "extremes": True, "reference": "input"},
    ],
    "extremes": ["GSWEAggregation", GSWE | {"extremes": True, "reference": None}],
    "PMA": ["PMA", {"in_channels": 3, "num_seeds": 2}],
    "MLP": ["MLP", {"in_channels": 3, "hidden_channels": [4], "out_channels": 3}],
    "SAB": ["SAB", {"in_channels": 3, "out_channels": 3}],
    "SharedSAB": [
        "SharedSAB",
        {"in_channels": 3, "hidden_channels": 4, "out_channels": 3, "num_layers": 2},
    ],
    "StackedSAB": [
        "StackedSAB",
        {"in_channels": 3, "channels": [4, 3], "heads": [2, 1]},
    ],
}


def build(kind: str, arguments: dict) -> torch.nn.Module:
    """A readout as it is, a backbone with a readout behind it."""
    module = MODULES[kind](**arguments)
    if kind in ("GSWEAggregation", "PMA"):
        return module
    return SetModel(module, GSWEAggregation(3, 2, 2))


def main() -> int:
    path = FOLDER / f"{gswe_pyg.__version__}.pt"
    if path.exists():
        print(f"{path.name} is there already and must stay as it is", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    x, index = torch.randn(12, 3), torch.tensor([0] * 5 + [2] * 6 + [3])
    models = {}
    for name, (kind, arguments) in MODELS.items():
        module = build(kind, arguments)
        with torch.no_grad():
            out = module(x, index, dim_size=5)
        state = {key: value.clone() for key, value in module.state_dict().items()}
        models[name] = {
            "kind": kind,
            "arguments": arguments,
            "state_dict": state,
            "out": out,
        }
    torch.save({"x": x, "index": index, "models": models}, path)
    print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
