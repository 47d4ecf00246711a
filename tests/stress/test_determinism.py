"""Determinism.

The bits of outputs and gradients in two fresh processes, each with every number of
threads; the large batch is one that the kernel starts threads for. Where the bits of
PyTorch's own linear layer depend on the threads, those of anything behind it do.
"""

import copy
from collections import defaultdict
from functools import partial
from itertools import product

import joblib
import torch
import torch.nn.functional as F
from backends import available, ragged, random_sizes, run
from fresh import call
from torch_geometric.nn import MeanAggregation, Sequential

from benchmarks.engine.training import step
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA
from gswe_pyg.ops.interpolation import INTERPOLATIONS

FULL = {"threads": [1, 2, 4], "runs": 2, "nodes": 20_000, "slices": 128, "steps": 10}
SMALL = {"threads": [1, 2], "runs": 1, "nodes": 300, "slices": 4, "steps": 2}

#: What the names of the cases begin with.
GROUPS = {
    "peer": "linear layer with mean pooling, parameters after training",
    "kernel": "segment_quantile, all backends and interpolations",
    "slices": "GSWEAggregation on slices, outputs and gradients",
    "gswe": "GSWEAggregation with a linear slicer, parameters after training",
}


def test_the_same_bits(sizes, seed, measure):
    seen = defaultdict(set)
    for _ in range(sizes["runs"]):
        for name, found in call(hashes, sizes, seed).items():
            seen[name] |= found
    limits = {"peer": None, "gswe": len(seen["peer"]) - 1}
    for group, what in GROUPS.items():
        cases = [name for name in seen if name.startswith(group)]
        differing = [name for name in cases if len(seen[name]) > 1]
        limit, of = limits.get(group, 0), f"of {len(cases)}"
        name = f"results that differ: {what}"
        measure(name, len(differing), limit, of, differing=differing)


def hashes(sizes, seed):
    """Of every case, with each number of threads."""
    cases, found = make_cases(sizes, seed), defaultdict(set)
    for number in sizes["threads"]:
        torch.set_num_threads(number)
        for name, case in cases.items():
            found[name].add(_hash(case()))
    return found


def make_cases(sizes, seed):
    torch.manual_seed(seed)
    cases, nodes, slices = {}, sizes["nodes"], sizes["slices"]
    for scale, num_nodes in {"small": nodes // 20, "large": nodes}.items():
        numbers = random_sizes(max(4, num_nodes // 100), 200, seed)
        x, ptr = ragged(slices, numbers, seed=seed, boundaries=True)
        for name, interpolation in product(available(), INTERPOLATIONS):
            label = f"kernel {scale} {interpolation} {name}"
            cases[label] = partial(run, x, ptr, 16, interpolation, name)
        readout = GSWEAggregation(slices, slices, 16, slicer="identity")
        cases[f"slices {scale}"] = partial(_outcome, readout, x, ptr)
    masses = _masses(x, seed)
    for name, interpolation in product(available(), ("linear", "step", "barycentric")):
        label = f"kernel weighted {interpolation} {name}"
        cases[label] = partial(run, x[:, :4], ptr, 16, interpolation, name, masses)
    x = x[:, :16]
    gswe = GSWEAggregation(x.shape[1], 32, 8, out_channels=4)
    linear, pool = torch.nn.Linear(x.shape[1], 4), MeanAggregation()
    layers = [(linear, "x -> x"), (pool, "x, index, ptr -> x")]
    peer = Sequential("x, index, ptr", layers)
    cases["gswe"] = partial(_train, gswe, x, ptr, sizes["steps"])
    cases["peer"] = partial(_train, peer, x, ptr, sizes["steps"])
    return cases


def _masses(x, seed):
    return torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) + 0.1


def _outcome(readout, x, ptr):
    x = x.detach().clone().requires_grad_()
    out = readout(x, ptr=ptr)
    return [out, *torch.autograd.grad(out.square().sum(), [x, *readout.parameters()])]


def _train(module, x, ptr, steps):
    module = copy.deepcopy(module)
    labels = torch.arange(len(ptr) - 1) % 4
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(steps):
        step(optimizer, F.cross_entropy(module(x, None, ptr), labels))
    return list(module.parameters())


def _hash(tensors):
    return joblib.hash([tensor.detach().numpy() for tensor in tensors])


def test_deterministic_algorithms(seed, measure, request):
    """PyTorch then refuses what is not deterministic, and fills memory that is not
    initialised with NaN: whoever reads it gives other results."""
    cases = make_cases(SMALL, seed)
    x, ptr = ragged(6, random_sizes(12, 40, seed), seed=seed, boundaries=True)
    gswe = GSWEAggregation(6, 7, 5, 2, out_channels=3, encode_size=True)
    cases["all options"] = partial(_outcome, gswe, x, ptr)
    cases["PMA"] = partial(_outcome, PMA(6, num_seeds=3, heads=2), x, ptr)
    expected = {label: _hash(case()) for label, case in cases.items()}
    errors, differing = [], []
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    torch.use_deterministic_algorithms(True)
    for label, case in cases.items():
        try:
            if _hash(case()) != expected[label]:
                differing.append(label)
        except RuntimeError as error:
            errors.append(f"{label}: {error}")
    of = f"of {len(cases)}"
    name = "errors under torch.use_deterministic_algorithms(True)"
    measure(name, len(errors), 0, of, errors=errors)
    name = "results that differ under it"
    measure(name, len(differing), 0, of, differing=differing)


def test_ties(seed, measure):
    """The gradient goes to that of several equal values that PyTorch's stable sort in
    double precision says."""
    src, ptr = ragged(5, random_sizes(30, 60, seed), seed=seed, boundaries=True)
    src = (src * 2).round()  # many ties, zeros of both signs among them
    generator = torch.Generator().manual_seed(seed)
    grad = torch.randn(len(ptr) - 1, 5, 7, generator=generator).mul(64).round()
    wrong = []
    for interpolation, name in product(INTERPOLATIONS, available()):
        arguments = (ptr, 7, interpolation)
        expected = run(src.double(), *arguments, "torch", grad=grad)[1].float()
        actual = run(src, *arguments, name, grad=grad)[1]
        if not torch.allclose(actual, expected, rtol=1e-5, atol=1e-3):
            wrong.append(f"{interpolation} {name}")
    of = f"of {len(INTERPOLATIONS) * len(available())}"
    measure("backends that break ties otherwise", len(wrong), 0, of, wrong=wrong)
