"""Numerical drift.

Single against double precision on the same numbers: the largest error of a point, in
units in the last place of the largest value of its set, and of a gradient, in those of
the largest one. Then a small GIN under bfloat16 autocast beside the same in single
precision: the largest difference of the losses over all steps, as a share of the first.
Training amplifies every rounding. So the same network is also trained on an input that
was rounded to bfloat16 once, of which autocast is given in multiples: ours may not be
further above it than mean pooling is, by more than the margin.
"""

from collections import defaultdict
from itertools import product
from statistics import median

import pytest
import torch
import torch.nn.functional as F
from backends import available, run
from torch.nn import Linear
from torch_geometric.nn import GIN, MeanAggregation

from benchmarks.engine.training import step
from gswe_pyg import GSWEAggregation
from gswe_pyg.ops.interpolation import INTERPOLATIONS

FULL = {"sizes": [10, 100, 1000, 10_000, 100_000, 1_000_000], "slices": 2}
FULL |= {"steps": 100, "seeds": 5}
SMALL = {"sizes": [10, 1000], "slices": 1, "steps": 5, "seeds": 5}

NUM_POINTS = 16

#: Points are sums of few products: each rounds once, and so does the sum.
MAX_ULP = {"points": 4, "gradient": 8}

MAX_LOSS_DISTANCE = 0.2

#: How many times mean pooling's multiple ours may be. Those of single seeds scatter by
#: a factor of ten, medians of five much less.
MARGIN = 1.5


def test_rounding(sizes, seed, measure):
    errors = defaultdict(dict)
    cases = product(sizes["sizes"], (0.0, 1e6), INTERPOLATIONS)
    for size, offset, interpolation in cases:
        generator = torch.Generator().manual_seed(seed)
        src = torch.randn(size, sizes["slices"], generator=generator) + offset
        grad = torch.randn(1, sizes["slices"], NUM_POINTS, generator=generator)
        arguments = (torch.tensor([0, size]), NUM_POINTS, interpolation)
        points, gradient = run(src.double(), *arguments, "torch", grad=grad)
        case = f"{size} around {offset:g}, {interpolation}"
        for name in available():
            found = run(src, *arguments, name, grad=grad)
            errors[name, "points"][case] = _ulp(found[0], points, src)
            errors[name, "gradient"][case] = _ulp(found[1], gradient, gradient)
    for (name, what), of_cases in errors.items():
        worst = max(of_cases, key=of_cases.get)
        error, limit = of_cases[worst], MAX_ULP[what]
        measure(f"{what} of '{name}'", error, limit, "ulp", worst=worst)


def _ulp(single, double, scale):
    """The largest error, in units in the last place of the largest of a scale."""
    unit = torch.finfo(torch.float32).eps * scale.abs().max().double()
    error = (single.double() - double).abs().max() / unit
    return float(error.nan_to_num(torch.inf))  # NaN is worst


READOUTS = {
    "mean pooling": MeanAggregation,
    "GSWE, one head": lambda: GSWEAggregation(32, heads=1),
    "GSWE, projected": lambda: GSWEAggregation(32, 32, 8, out_channels=32),
}
WAYS = {"rounded": "input rounded to bfloat16 once", "autocast": "bfloat16 autocast"}


@pytest.fixture(scope="module")
def drifts(sizes, seed):
    """Of each readout and way, for each seed: the distances of the losses from those in
    single precision, over all steps, as shares of the first loss."""
    found = defaultdict(list)
    seeds = range(seed, seed + sizes["seeds"])
    for name, i in product(READOUTS, seeds):
        single = losses(name, sizes["steps"], i, "single")
        for way in WAYS:
            distances = losses(name, sizes["steps"], i, way) - single
            found[name, way].append(distances.abs() / single[0])
    return found


def test_half_precision(drifts, measure):
    for name in READOUTS:
        found = [float(drift.max()) for drift in drifts[name, "autocast"]]
        limit = None if name == "mean pooling" else MAX_LOSS_DISTANCE
        label = f"bfloat16 autocast, GIN with {name}, median of the seeds"
        measure(label, median(found), limit, "%", distances=found)


@pytest.mark.xfail(
    strict=False, reason="with seed 0, the loss in single precision jumps on its way"
)
def test_half_precision_with_every_seed(drifts, measure):
    worst = max(float(drift.max()) for drift in drifts["GSWE, projected", "autocast"])
    label = "bfloat16 autocast, GIN with GSWE, projected, worst of the seeds"
    measure(label, worst, MAX_LOSS_DISTANCE, "%")


def test_half_precision_against_a_rounded_input(drifts, measure):
    limit = None
    for name in READOUTS:
        medians = {}
        for way, what in WAYS.items():
            found = [float(drift.mean()) for drift in drifts[name, way]]
            medians[way] = median(found)
            label = f"{name}, {what}, mean over the steps"
            measure(label, medians[way], None, "%", drifts=found)
        ratio = medians["autocast"] / medians["rounded"]
        measure(f"{name}, the second against the first", ratio, limit, "x")
        if name == "mean pooling":
            limit = MARGIN * ratio


def losses(name, steps, seed, way):
    """The losses of each step on one fixed batch of random graphs."""
    torch.manual_seed(seed)
    sizes = torch.randint(5, 40, (64,))
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    start = ptr[:-1].repeat_interleave(4 * sizes)
    size = sizes.repeat_interleave(4 * sizes)
    edges = (torch.rand(2, len(start)) * size).long() + start
    x, y = torch.randn(int(ptr[-1]), 8), torch.arange(64) % 4
    if way == "rounded":
        x = x.bfloat16().float()
    readout, gnn, linear = READOUTS[name](), GIN(8, 32, num_layers=3), Linear(32, 4)
    modules = torch.nn.ModuleList([readout, gnn, linear])
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.003)
    found = []
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
            out = linear(readout(gnn(x, edges), ptr=ptr).relu())
        found.append(step(optimizer, F.cross_entropy(out.float(), y)).item())
    return torch.tensor(found, dtype=torch.float64)
