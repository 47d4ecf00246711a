"""What single and half precision cost."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn import GIN, MeanAggregation
from torch_geometric.nn.aggr import Aggregation

from benchmarks.reliability.backends import available, run
from benchmarks.reliability.check import Check, check
from benchmarks.speed_timing import bar
from gswe_pyg import GSWEAggregation
from gswe_pyg.ops.interpolation import INTERPOLATIONS

TITLE = "Numerical drift"
ABOUT = (
    "Single against double precision on the same numbers: the largest error of a point "
    "in units in the last place of the largest value of its set, and of a gradient in "
    "units of the largest one, over sets of all sizes, around zero and around 1e6. "
    "Then the training of a small GIN under bfloat16 autocast beside the same in "
    "single precision: the largest difference of the losses over all steps, as a "
    "share of the loss at the start."
)
FULL = {"sizes": [10, 100, 1000, 10_000, 100_000, 1_000_000], "slices": 2, "steps": 100}
SMALL = {"sizes": [10, 1000], "slices": 1, "steps": 5}

NUM_POINTS = 16

#: Points are sums of few products: each rounds once, and so does the sum.
MAX_POINT_ULP = 4
MAX_GRADIENT_ULP = 8
MAX_LOSS_DISTANCE = 0.2


def measure(config: dict, seed: int) -> Iterator[Check]:
    worst: dict[tuple[str, str], dict] = {}
    for size in bar(config["sizes"], "drift", "size"):
        for offset in (0.0, 1e6):
            for interpolation in INTERPOLATIONS:
                for name, errors in _errors(
                    size, config["slices"], offset, interpolation, seed
                ).items():
                    for what, error in errors.items():
                        entry = {"error": error, "size": size, "offset": offset}
                        entry["interpolation"] = interpolation
                        key = (name, what)
                        worst[key] = max(
                            worst.get(key, entry), entry, key=lambda e: e["error"]
                        )
    for (name, what), entry in worst.items():
        limit = MAX_POINT_ULP if what == "points" else MAX_GRADIENT_ULP
        yield check(f"{what} of '{name}'", entry["error"], limit, "ulp", worst=entry)
    yield from _half_precision(config["steps"], seed)


def _errors(
    size: int, num_slices: int, offset: float, interpolation: str, seed: int
) -> dict[str, dict[str, float]]:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randn(size, num_slices, generator=generator).add(offset)
    grad = torch.randn(1, num_slices, NUM_POINTS, generator=generator)
    ptr = torch.tensor([0, size])
    arguments = (ptr, NUM_POINTS, interpolation)
    exact, exact_grad = run(src.double(), *arguments, "torch", grad=grad)
    largest = float(src.abs().max())
    found = {}
    for name in available():
        out, grad_src = run(src, *arguments, name, grad=grad)
        found[name] = {
            "points": _in_ulp(out, exact, largest),
            "gradient": _in_ulp(grad_src, exact_grad, float(exact_grad.abs().max())),
        }
    return found


def _in_ulp(actual: Tensor, exact: Tensor, largest: float) -> float:
    unit = torch.finfo(actual.dtype).eps * largest
    return float((actual.double() - exact).abs().max()) / unit


def _half_precision(steps: int, seed: int) -> Iterator[Check]:
    readouts = {
        "GSWE": lambda: GSWEAggregation(32, 32, 8, out_channels=32),
        "mean pooling": MeanAggregation,
    }
    for name, build in readouts.items():
        single = losses(build, steps, seed, half=False)
        half = losses(build, steps, seed, half=True)
        pairs = zip(single, half, strict=True)
        distance = max(abs(a - b) for a, b in pairs) / single[0]
        yield check(
            f"bfloat16 autocast, GIN with {name}",
            distance,
            MAX_LOSS_DISTANCE if name == "GSWE" else None,
            "%",
            single={"first": single[0], "last": single[-1]},
            half={"first": half[0], "last": half[-1]},
        )


class _Net(Module):
    def __init__(self, readout: Aggregation) -> None:
        super().__init__()
        self.gnn = GIN(8, 32, num_layers=3)
        self.readout = readout
        self.lin = Linear(32, 4)

    def forward(self, x: Tensor, edge_index: Tensor, ptr: Tensor) -> Tensor:
        return self.lin(self.readout(self.gnn(x, edge_index), ptr=ptr).relu())


def losses(build, steps: int, seed: int, half: bool) -> list[float]:
    """The losses of each step on one fixed batch of random graphs."""
    torch.manual_seed(seed)
    sizes = torch.randint(5, 40, (64,))
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    start = ptr[:-1].repeat_interleave(4 * sizes)
    size = sizes.repeat_interleave(4 * sizes)
    edges = (torch.rand(2, len(start)) * size).long() + start
    x, y = torch.randn(int(ptr[-1]), 8), torch.arange(64) % 4
    net = _Net(build())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            out = net(x, edges, ptr)
        loss = F.cross_entropy(out.float(), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
