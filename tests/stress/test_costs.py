"""Costs.

One thread embeds sets in batches, alone and beside a second process that does the same;
one step of training; and the exchange of gradients between two processes on gloo. Cores
share caches: a second process slows down PyTorch's layers, too, which stand beside it.
[docs/scaling.md](../../docs/scaling.md) extrapolates from these.
"""

from functools import partial
from statistics import mean, median
from timeit import repeat

import torch
import torch.distributed as dist
from fresh import call, call_together, median_seconds
from torch_geometric.nn import MeanAggregation

from gswe_pyg import GSWEAggregation

FULL = {"sizes": [10, 100, 1000], "channels": 64, "slices": 64, "points": 8}
FULL |= {"elements": 20_000, "seconds": 3.0, "parameters": [10_000, 1_000_000]}
SMALL = FULL | {"sizes": [10], "elements": 500, "seconds": 0.05, "parameters": [100]}

#: As long as the one does not wait for the other.
MAX_CROWDING = 1.3

#: How many times the peer's crowding ours may be: two such ratios scatter.
MARGIN = 1.25

MODES = {
    "peer": "PyTorch's linear layer with mean pooling",
    "embed": "forward",
    "train": "forward and backward",
}


def test_a_set(sizes, seed, measure):
    alone = call(set_seconds, sizes, seed)
    both = call_together(set_seconds, sizes, seed)
    for (size, mode), seconds in alone.items():
        cost = 1e9 * seconds / (size * sizes["slices"])
        details = {"size": size, "mode": mode, "seconds_per_set": seconds}
        measure(f"sets of {size}, {MODES[mode]}", cost, None, "ns a value", **details)
    for size in sizes["sizes"]:
        peer, ours = (
            mean(found[size, mode] for found in both) / alone[size, mode]
            for mode in ("peer", "embed")
        )
        name = f"sets of {size}, two processes against one"
        measure(f"{name}: PyTorch's layer", peer, None, "x", size=size)
        measure(name, ours, MAX_CROWDING, "x", size=size, mode="both")
        measure(f"{name}: ours against it", ours / max(1.0, peer), MARGIN, "x")


def set_seconds(sizes, seed):
    """The time that one set of each size takes in a batch, in each mode."""
    torch.manual_seed(seed)
    channels, slices = sizes["channels"], sizes["slices"]
    readout = GSWEAggregation(channels, slices, sizes["points"])
    linear, pool = torch.nn.Linear(channels, slices), MeanAggregation()

    def train(x, ptr):
        readout(x.detach().requires_grad_(), ptr=ptr).sum().backward()

    steps = {
        "peer": torch.no_grad()(lambda x, ptr: pool(linear(x), ptr=ptr)),
        "embed": torch.no_grad()(lambda x, ptr: readout(x, ptr=ptr)),
        "train": train,
    }
    found = {}
    for size in sizes["sizes"]:
        num_sets = max(1, sizes["elements"] // size)
        x, ptr = torch.randn(num_sets * size, channels), torch.arange(num_sets + 1)
        for mode, step in steps.items():
            seconds = median_seconds(partial(step, x, ptr * size), sizes["seconds"])
            found[size, mode] = seconds / num_sets
    return found


def test_exchange(sizes, measure):
    for number in sizes["parameters"]:
        seconds, _ = call_together(exchange_seconds, number)
        details = {"parameters": number, "mode": "exchange"}
        name = f"exchange of {number:,} gradients"
        measure(name, 1e3 * seconds, None, "ms", **details)


def exchange_seconds(parameters):
    """The median time of an all-reduce of so many float32."""
    exchange = partial(dist.all_reduce, torch.zeros(parameters))
    return median(repeat(exchange, dist.barrier, number=1, repeat=30))
