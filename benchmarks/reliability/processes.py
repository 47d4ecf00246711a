"""Many threads and processes at once: right, without deadlock, without a crowd."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear
from torch.utils.data import DataLoader, Dataset
from torch_geometric.nn import MeanAggregation

from benchmarks.reliability.backends import available, ragged, random_sizes, run
from benchmarks.reliability.check import Check, answer, ask, check
from benchmarks.speed_timing import bar
from gswe_pyg import GSWEAggregation
from gswe_pyg.ops import segment_quantile

TITLE = "Threads and processes"
ABOUT = (
    "Results of the kernel in several Python threads at once, in the workers of a "
    "`DataLoader` and in processes that were forked (after the kernel had started "
    "threads) or spawned, beside those of one thread; whoever hangs is killed and all "
    "its results count as wrong. PyTorch's own threads do not survive a fork: a "
    "forked process has to call `torch.set_num_threads(1)`, as the `DataLoader` does "
    "for its workers, or a plain sum of a large tensor hangs. Then the crowd: two "
    "processes with two threads each on two cores, as a multiple of the time with one "
    "thread each. PyTorch's threads wait for each other by spinning, which costs its "
    "linear layer and mean pooling as well: ours may not be worse than these by more "
    "than the margin."
)
FULL = {
    "calls": 200,
    "threads": 4,
    "nodes": 20_000,
    "slices": 128,
    "seconds": 2.0,
    "rounds": 2,
}
SMALL = {
    "calls": 8,
    "threads": 2,
    "nodes": 300,
    "slices": 4,
    "seconds": 0.1,
    "rounds": 1,
}

MODULE = "benchmarks.reliability.processes"

#: A process that takes longer has come to a halt.
MAX_SECONDS = 300

#: The same where it is to be expected, not to wait for long.
HANGING_SECONDS = 20

NUM_BATCHES = 8

WAYS = {
    "threads": "Python threads",
    "loader fork": "DataLoader workers started by fork",
    "loader spawn": "DataLoader workers started by spawn",
    "spawn 2": "a spawned process with two threads",
    "fork 1": "a forked process with one thread",
    "fork peer": "sums by PyTorch in a forked process with two threads",
    "fork 2": "a forked process with two threads",
}

#: How many times the peer's slowdown ours may be: two such ratios scatter.
MARGIN = 1.25


def measure(config: dict, seed: int) -> Iterator[Check]:
    request = {key: config[key] for key in ("calls", "threads", "nodes", "slices")}
    wrong: dict[str, int] = {}
    for way, label in bar(WAYS.items(), "processes", "way"):
        try:
            # Two threads, so that the kernel has threads of its own before a fork.
            wrong[way] = ask(
                MODULE, request | {"seed": seed, "way": way}, MAX_SECONDS, 2
            )
            details = {}
        except Exception as error:  # a deadlock, or a crash
            wrong[way], details = NUM_BATCHES, {"error": str(error)[-500:]}
        limit = {"fork peer": None, "fork 2": wrong.get("fork peer")}.get(way, 0)
        yield check(f"wrong results in {label}", wrong[way], limit, **details)
    yield from _crowd(config, seed)


def count_wrong(
    way: str, calls: int, threads: int, nodes: int, slices: int, seed: int
) -> int:
    """How many calls in threads or processes give other bits than here."""
    torch.set_num_threads(2)
    batches = _batches(nodes, slices, seed)
    expected = [_outcome(*batch) for batch in batches]
    how, _, method = way.partition(" ")
    if how == "threads":
        with ThreadPoolExecutor(threads) as executor:
            jobs = [i % len(batches) for i in range(calls)]
            results = executor.map(lambda i: (i, _outcome(*batches[i])), jobs)
            return sum(not _same(found, expected[i]) for i, found in results)
    if how == "loader":
        loader = DataLoader(
            _Embedded(nodes, slices, seed, calls),
            batch_size=None,
            num_workers=2,
            timeout=MAX_SECONDS,
            multiprocessing_context=method,
        )
        return sum(
            not _same(found, expected[i % len(batches)])
            for i, found in enumerate(loader)
        )
    context = multiprocessing.get_context(how)
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, method, nodes, slices, seed)
    child = context.Process(target=_send_outcomes, args=arguments, daemon=True)
    if method == "peer":
        expected = [_sum(*batch) for batch in batches]
    child.start()
    sender.close()
    may_hang = how == "fork" and method != "1"
    if not receiver.poll(HANGING_SECONDS if may_hang else MAX_SECONDS / 2):
        child.kill()
        return NUM_BATCHES
    found = [[torch.from_numpy(x) for x in outcome] for outcome in receiver.recv()]
    child.join()
    pairs = zip(found, expected, strict=True)
    return sum(not _same(a, b) for a, b in pairs)


class _Embedded(Dataset):
    """Batches that are embedded where they are loaded."""

    def __init__(self, nodes: int, slices: int, seed: int, calls: int) -> None:
        self.arguments, self.calls = (nodes, slices, seed), calls
        self.batches: list | None = None

    def __len__(self) -> int:
        return self.calls

    def __getitem__(self, i: int) -> list[Tensor]:
        if self.batches is None:
            self.batches = _batches(*self.arguments)
        return _outcome(*self.batches[i % len(self.batches)])


def _batches(nodes: int, slices: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Seven small ones, and one that is worth threads."""
    batches = []
    for i in range(NUM_BATCHES):
        num_sets = max(4, nodes // (100 if i == 0 else 5000))
        batches.append(
            ragged(random_sizes(num_sets, 200, seed + i), slices, seed=seed + i)
        )
    return batches


def _outcome(src: Tensor, ptr: Tensor) -> list[Tensor]:
    # The choice of a backend holds for all threads, so it is not made here.
    src = src.detach().clone().requires_grad_()
    out = segment_quantile(src, ptr, 8)
    (grad,) = torch.autograd.grad(out.square().sum(), src)
    return [out.detach(), grad]


def _same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(x.equal(y) for x, y in zip(a, b, strict=True))


def _sum(src: Tensor, ptr: Tensor) -> list[Tensor]:
    """What PyTorch does with threads of its own, without us."""
    return [src.mul(2).sum(0)]


def _send_outcomes(pipe: Any, method: str, nodes: int, slices: int, seed: int) -> None:
    torch.set_num_threads(1 if method == "1" else 2)
    outcome = _sum if method == "peer" else _outcome
    batches = _batches(nodes, slices, seed)
    pipe.send([[x.numpy() for x in outcome(*batch)] for batch in batches])


# The crowd ############################################################################


def _crowd(config: dict, seed: int) -> Iterator[Check]:
    """Slowdown by more threads than cores, ours and PyTorch's own."""
    names = ["readout", *(f"kernel {name}" for name in available()), "peer"]
    times: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    request = {key: config[key] for key in ("nodes", "slices", "seconds")}
    request |= {"names": names, "seed": seed}
    rounds = [threads for _ in range(config["rounds"]) for threads in (1, 2)]
    for threads in bar(rounds, "crowd", "pair"):
        times[threads] += ask(MODULE, request | {"threads": threads}, 900, threads)
    medians = {
        name: {
            threads: median(t[name] for t in found) for threads, found in times.items()
        }
        for name in names
    }
    slowdown = {name: of[2] / of[1] for name, of in medians.items()}
    limit = max(1.0, slowdown["peer"]) * MARGIN
    labels = {
        "readout": "GSWEAggregation, linear slicer",
        "peer": "PyTorch's linear layer with mean pooling",
    }
    for name in names:
        yield check(
            f"2 processes x 2 threads against 2 x 1: {labels.get(name, name)}",
            slowdown[name],
            None if name == "peer" else limit,
            "x",
            milliseconds=medians[name],
        )


def pair_milliseconds(**request: Any) -> list[dict[str, float]]:
    """The times of two processes that do the same at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.SimpleQueue()
    pair = [
        context.Process(target=_one_of_a_pair, args=(barrier, queue, request))
        for _ in range(2)
    ]
    for process in pair:
        process.start()
    found = [queue.get() for _ in pair]
    for process in pair:
        process.join()
    return found


def _one_of_a_pair(barrier: Any, queue: Any, request: dict[str, Any]) -> None:
    queue.put(milliseconds(barrier=barrier, **request))


def milliseconds(
    barrier: Any,
    names: list[str],
    threads: int,
    nodes: int,
    slices: int,
    seconds: float,
    seed: int,
) -> dict[str, float]:
    """The median time of a forward and backward pass, one after the other: threads
    that spin after one call would disturb the next one, if they took turns."""
    torch.set_num_threads(threads)
    found = {}
    for name in names:
        call = _call(name, nodes, slices, seed)
        call()
        barrier.wait()
        times: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not times:
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        found[name] = median(times)
    return found


def _call(name: str, nodes: int, slices: int, seed: int) -> Callable[[], None]:
    sizes = random_sizes(max(4, nodes // 100), 200, seed)
    src, ptr = ragged(sizes, slices, seed)
    if name.startswith("kernel"):
        name = name.removeprefix("kernel ")

        def kernel() -> None:
            run(src, ptr, 16, "linear", name)

        return kernel

    torch.manual_seed(seed)
    x = src.requires_grad_()
    if name == "readout":
        module = GSWEAggregation(slices, slices, 16)
    else:
        linear, pool = Linear(slices, slices), MeanAggregation()

        def module(x: Tensor, ptr: Tensor) -> Tensor:
            return pool(linear(x), ptr=ptr)

    def readout() -> None:
        module(x, ptr=ptr).sum().backward()

    return readout


def serve(**request: Any) -> Any:
    call = count_wrong if "way" in request else pair_milliseconds
    return call(**request)


if __name__ == "__main__":
    answer(serve)
