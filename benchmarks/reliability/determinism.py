"""The same seed gives the same bits."""

import hashlib
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn import MeanAggregation

from benchmarks.reliability.backends import available, ragged, random_sizes, run
from benchmarks.reliability.check import Check, answer, ask, check
from benchmarks.speed_timing import bar
from gswe_pyg import GSWEAggregation
from gswe_pyg.models import PMA
from gswe_pyg.ops.interpolation import INTERPOLATIONS

TITLE = "Determinism"
ABOUT = (
    "SHA-256 of outputs and gradients in two fresh processes, each with every number "
    "of threads. The large batch is one that the kernel starts threads for. PyTorch's "
    "own linear layer with mean pooling is beside ours: where its bits depend on the "
    "threads, those of anything behind a linear layer do."
)
FULL = {"threads": [1, 2, 4], "runs": 2, "nodes": 20_000, "slices": 128, "steps": 10}
SMALL = {"threads": [1, 2], "runs": 1, "nodes": 300, "slices": 4, "steps": 2}

#: What the names of the cases begin with.
GROUPS = {
    "kernel": "segment_quantile, all backends and interpolations",
    "slices": "GSWEAggregation on slices, outputs and gradients",
    "gswe": "GSWEAggregation with a linear slicer, parameters after training",
    "peer": "linear layer with mean pooling, parameters after training",
}


def measure(config: dict, seed: int) -> Iterator[Check]:
    seen: dict[str, set[str]] = {}
    request = {key: config[key] for key in ("nodes", "slices", "steps", "threads")}
    for _ in bar(range(config["runs"]), "determinism", "process"):
        module = "benchmarks.reliability.determinism"
        threads = max(config["threads"])
        for name, found in ask(module, request | {"seed": seed}, 900, threads).items():
            seen.setdefault(name, set()).update(found)
    differing = {
        group: [
            name
            for name, digests in seen.items()
            if name.startswith(group) and len(digests) > 1
        ]
        for group in GROUPS
    }
    limits = {"kernel": 0, "slices": 0, "gswe": len(differing["peer"]), "peer": None}
    for group, label in GROUPS.items():
        yield check(
            f"results that differ: {label}",
            len(differing[group]),
            limits[group],
            f"of {sum(name.startswith(group) for name in seen)}",
            differing=differing[group],
        )
    yield from _strict(config, seed)
    yield _ties(seed)


def digests(
    nodes: int, slices: int, steps: int, threads: list[int], seed: int
) -> dict[str, list[str]]:
    """For every case the hashes that came out with these numbers of threads."""
    cases = _cases(nodes, slices, steps, seed)
    found: dict[str, list[str]] = {name: [] for name in cases}
    for number in threads:
        torch.set_num_threads(number)
        for name, case in cases.items():
            found[name].append(_hash(case()))
    return found


def _cases(
    nodes: int, slices: int, steps: int, seed: int
) -> dict[str, Callable[[], list[Tensor]]]:
    cases: dict[str, Callable[[], list[Tensor]]] = {}
    for scale in ("small", "large"):
        num_nodes = nodes if scale == "large" else nodes // 20
        sizes = random_sizes(max(4, num_nodes // 100), 200, seed)
        src, ptr = ragged(sizes, slices, seed)
        for interpolation in INTERPOLATIONS:
            for name in available():
                label = f"kernel {scale} {interpolation} {name}"
                arguments = (src, ptr, 16, interpolation, name)
                cases[label] = lambda a=arguments: list(run(*a))
        readout = _seeded(
            seed, lambda: GSWEAggregation(slices, slices, 16, slicer="identity")
        )
        cases[f"slices {scale}"] = lambda r=readout, s=src, p=ptr: _outcome(r, s, p)
    weight = torch.rand(len(src), generator=torch.Generator().manual_seed(seed)) + 0.1
    few = src[:, :4]
    for interpolation in INTERPOLATIONS:
        for name in available():
            if name == "numpy":  # torch takes its place
                continue
            arguments = (few, ptr, 16, interpolation, name, weight)
            label = f"kernel weighted {interpolation} {name}"
            cases[label] = lambda a=arguments: list(run(*a))
    few = src[:, :16] if slices >= 16 else src
    width = few.shape[1]
    cases["gswe"] = lambda: _train(
        lambda: GSWEAggregation(width, 32, 8, out_channels=4), few, ptr, steps, seed
    )
    cases["peer"] = lambda: _train(lambda: _Pooled(width, 4), few, ptr, steps, seed)
    return cases


class _Pooled(Module):
    """PyTorch's own linear layer with PyG's mean pooling."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels)
        self.pool = MeanAggregation()

    def forward(self, x: Tensor, *, ptr: Tensor) -> Tensor:
        return self.pool(self.lin(x), ptr=ptr)


def _outcome(readout: Module, x: Tensor, ptr: Tensor) -> list[Tensor]:
    x = x.detach().clone().requires_grad_()
    out = readout(x, ptr=ptr)
    inputs = [x, *readout.parameters()]
    return [out, *torch.autograd.grad(out.square().sum(), inputs)]


def _train(
    build: Callable[[], Module], x: Tensor, ptr: Tensor, steps: int, seed: int
) -> list[Tensor]:
    module = _seeded(seed, build)
    labels = torch.arange(len(ptr) - 1) % 4
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(module(x, ptr=ptr), labels).backward()
        optimizer.step()
    return list(module.parameters())


def _seeded(seed: int, build: Callable[[], Module]) -> Module:
    torch.manual_seed(seed)
    return build()


def _hash(tensors: list[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _strict(config: dict, seed: int) -> Iterator[Check]:
    """PyTorch then refuses what is not deterministic, and fills memory that is not
    initialised with NaN: whoever reads it gives other results."""
    src, ptr = ragged(random_sizes(12, 40, seed), 6, seed)
    weight = torch.rand(len(src), generator=torch.Generator().manual_seed(seed)) + 0.1
    cases: dict[str, Callable[[], list[Tensor]]] = {}
    for interpolation in INTERPOLATIONS:
        for name in available():
            for mass in (None, weight):
                label = f"{interpolation} {name} {'' if mass is None else 'weighted'}"
                arguments = (src, ptr, 5, interpolation, name, mass)
                cases[label] = lambda a=arguments: list(run(*a))
    for label, build in {
        "GSWE": lambda: GSWEAggregation(6, 7, 5, 2, out_channels=3, encode_size=True),
        "PMA": lambda: PMA(6, num_seeds=3, heads=2),
    }.items():
        readout = _seeded(seed, build)
        cases[label] = lambda r=readout: _outcome(r, src, ptr)
    expected = {label: _hash(case()) for label, case in cases.items()}
    errors, differing = [], []
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for label, case in cases.items():
            try:
                if _hash(case()) != expected[label]:
                    differing.append(label)
            except RuntimeError as error:
                errors.append(f"{label}: {error}")
    finally:
        torch.use_deterministic_algorithms(before)
    of = f"of {len(cases)}"
    yield check(
        "errors under torch.use_deterministic_algorithms(True)",
        len(errors),
        0,
        of,
        errors=errors,
    )
    yield check(
        "results that differ under it", len(differing), 0, of, differing=differing
    )


def _ties(seed: int) -> Check:
    """Whose gradient goes to another of several equal values than PyTorch's stable
    sort in double precision says."""
    src, ptr = ragged(random_sizes(30, 60, seed), 5, seed)
    src = (src * 2).round()  # many ties, zeros of both signs among them
    wrong, count = [], 0
    for interpolation in INTERPOLATIONS:
        shape = (len(ptr) - 1, src.shape[1], 7)
        grad = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        grad = grad.mul(64).round()
        arguments = (ptr, 7, interpolation)
        expected = run(src.double(), *arguments, "torch", grad=grad)[1].float()
        for name in available():
            count += 1
            actual = run(src, *arguments, name, grad=grad)[1]
            if not torch.allclose(actual, expected, rtol=1e-5, atol=1e-3):
                wrong.append(f"{interpolation} {name}")
    return check(
        "backends that break ties otherwise", len(wrong), 0, f"of {count}", wrong=wrong
    )


if __name__ == "__main__":
    answer(digests)
