"""Numerical drift.

Single against double precision on the same numbers: the largest error of a point in
units in the last place of the largest value of its set, and of a gradient in units of
the largest one, over sets of all sizes, around zero and around 1e6. Then the training
of a small GIN under bfloat16 autocast beside the same in single precision: the largest
difference of the losses over all steps, as a share of the loss at the start. Training
amplifies every rounding, in some networks more than in others. So the same network is
also trained in single precision on an input that was rounded to bfloat16 once, and
autocast is given in multiples of that: ours may not be further above it than mean
pooling is, by more than the margin.
"""

from collections.abc import Callable
from itertools import product
from statistics import mean, median

import pytest
import torch
import torch.nn.functional as F
from backends import available, run
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn import GIN, MeanAggregation

from gswe_pyg import GSWEAggregation
from gswe_pyg.ops.interpolation import INTERPOLATIONS

pytestmark = pytest.mark.stress

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
    worst = dict.fromkeys(product(available(), MAX_ULP), (-1.0, None))
    for size, offset in product(sizes["sizes"], (0.0, 1e6)):
        generator = torch.Generator().manual_seed(seed)
        src = torch.randn(size, sizes["slices"], generator=generator) + offset
        shape = (1, sizes["slices"], NUM_POINTS)
        grad = torch.randn(shape, generator=generator)
        for interpolation in INTERPOLATIONS:
            arguments = (torch.tensor([0, size]), NUM_POINTS, interpolation)
            exact = run(src.double(), *arguments, "torch", grad=grad)
            units = (src.abs().max(), exact[1].abs().max())
            for name in available():
                outcome = run(src, *arguments, name, grad=grad)
                for what, a, b, unit in zip(
                    MAX_ULP, outcome, exact, units, strict=True
                ):
                    eps = torch.finfo(a.dtype).eps * float(unit)
                    error = float((a.double() - b).abs().max()) / eps
                    if not error <= worst[name, what][0]:  # or is NaN
                        case = {"size": size, "offset": offset}
                        case["interpolation"] = interpolation
                        worst[name, what] = (error, case)
    for (name, what), (error, case) in worst.items():
        measure(f"{what} of '{name}'", error, MAX_ULP[what], "ulp", worst=case)


READOUTS: dict[str, Callable[[], Module]] = {
    "mean pooling": MeanAggregation,
    "GSWE, one head": lambda: GSWEAggregation(32, heads=1),
    "GSWE, projected": lambda: GSWEAggregation(32, 32, 8, out_channels=32),
}
WAYS = {"rounded": "input rounded to bfloat16 once", "autocast": "bfloat16 autocast"}


@pytest.fixture(scope="module")
def drifts(sizes, seed):
    """Of each readout and way, for each seed: the distances of the losses from those in
    single precision, over all steps, as shares of the first loss."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for name, way in product(READOUTS, WAYS):
        found[name, way] = []
        for i in range(seed, seed + sizes["seeds"]):
            single = losses(name, sizes["steps"], i, "single")
            other = losses(name, sizes["steps"], i, way)
            pairs = zip(single, other, strict=True)
            found[name, way].append([abs(x - y) / single[0] for x, y in pairs])
    return found


def test_half_precision(drifts, measure):
    for name in READOUTS:
        found = [max(of_steps) for of_steps in drifts[name, "autocast"]]
        limit = None if name == "mean pooling" else MAX_LOSS_DISTANCE
        label = f"bfloat16 autocast, GIN with {name}, median of the seeds"
        measure(label, median(found), limit, "%", distances=found)


@pytest.mark.xfail(
    strict=False, reason="with seed 0, the loss in single precision jumps on its way"
)
def test_half_precision_with_every_seed(drifts, measure):
    worst = max(map(max, drifts["GSWE, projected", "autocast"]))
    label = "bfloat16 autocast, GIN with GSWE, projected, worst of the seeds"
    measure(label, worst, MAX_LOSS_DISTANCE, "%")


def test_half_precision_against_a_rounded_input(drifts, measure):
    control = None
    for name in READOUTS:
        medians = {}
        for way, what in WAYS.items():
            found = [mean(of_steps) for of_steps in drifts[name, way]]
            medians[way] = median(found)
            label = f"{name}, {what}, mean over the steps"
            measure(label, medians[way], None, "%", drifts=found)
        ratio = medians["autocast"] / medians["rounded"]
        limit = None if control is None else MARGIN * control
        control = ratio if control is None else control
        measure(f"{name}, the second against the first", ratio, limit, "x")


class Net(Module):
    def __init__(self, readout: Module) -> None:
        super().__init__()
        self.gnn = GIN(8, 32, num_layers=3)
        self.readout = readout
        self.lin = Linear(32, 4)

    def forward(self, x: Tensor, edge_index: Tensor, ptr: Tensor) -> Tensor:
        return self.lin(self.readout(self.gnn(x, edge_index), ptr=ptr).relu())


def losses(name: str, steps: int, seed: int, way: str) -> list[float]:
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
    net = Net(READOUTS[name]())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
            out = net(x, edges, ptr)
        loss = F.cross_entropy(out.float(), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
