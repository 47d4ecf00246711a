"""``python -m benchmarks neighbourhoods``: GSWE where a layer aggregates neighbours."""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.aggr import (
    Aggregation,
    MaxAggregation,
    MeanAggregation,
    MultiAggregation,
    QuantileAggregation,
)

from benchmarks import provenance
from benchmarks.report import replace_part
from benchmarks.speed_timing import MODES, Bystanders, bar, no_garbage_collection
from benchmarks.tables import markdown
from gswe_pyg import GSWEAggregation

HERE = Path(__file__).resolve().parent
PAGE, RESULTS = HERE / "README.md", HERE / "results"

CHANNELS, POINTS = 32, 4

#: Called as ``build(channels)``. What comes out has as many channels, for the layer.
AGGREGATIONS: dict[str, Callable[[int], Aggregation]] = {
    "mean": lambda channels: MeanAggregation(),
    "max": lambda channels: MaxAggregation(),
    "quantile": lambda channels: _Projected(
        QuantileAggregation([(m + 0.5) / POINTS for m in range(POINTS)]),
        POINTS * channels,
        channels,
    ),
    "gswe": lambda channels: GSWEAggregation(
        channels, channels, POINTS, out_channels=channels
    ),
    "mean_and_gswe": lambda channels: _Projected(
        MultiAggregation([MeanAggregation(), AGGREGATIONS["gswe"](channels)]),
        2 * channels,
        channels,
    ),
}
LABELS = {
    "mean": "mean",
    "max": "max",
    "quantile": f"quantile, {POINTS} levels, projected",
    "gswe": f"GSWE, {POINTS} points, projected",
    "mean_and_gswe": "mean and GSWE, projected",
}
ORDERS = ("any", "by target")

Record = dict[str, Any]


class _Projected(Aggregation):
    def __init__(self, aggr: Aggregation, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.aggr = aggr
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.lin(self.aggr(x, *args, **kwargs))


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    path = arguments.output / "neighbourhoods.json"
    if not arguments.report:
        print(f"seed {arguments.seed}, {torch.get_num_threads()} threads: {path}")
        arguments.output.mkdir(parents=True, exist_ok=True)
        results = measure(arguments.nodes, arguments.rounds, arguments.seed)
        path.write_text(json.dumps(results, indent=1) + "\n")
    elif not path.exists():
        print(f"error: no results in {path}: measure first", file=sys.stderr)
        return 2
    text = render(json.loads(path.read_text()))
    print(text)
    if arguments.output.resolve() == RESULTS:
        PAGE.write_text(replace_part(PAGE.read_text(), "neighbourhoods", text))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks neighbourhoods",
        description="Times a SAGEConv on one large graph with isolated nodes, with "
        "GSWE and with other aggregations of the neighbours.",
    )
    add = parser.add_argument
    add("--nodes", type=int, default=100_000, metavar="N")
    add("--rounds", type=int, default=7, metavar="N", help="calls of each")
    add("--seed", type=int, default=0, metavar="N", help="of the graph")
    add("--report", action="store_true", help="render what is on file, measure nothing")
    add("--output", type=Path, default=RESULTS, metavar="DIR", help="of the results")
    return parser


def make_edges(num_nodes: int, seed: int) -> Tensor:
    """Five edges a node, more of them towards low numbers, none to the last tenth."""
    generator = torch.Generator().manual_seed(seed)
    num_edges = 5 * num_nodes
    source = torch.randint(num_nodes, (num_edges,), generator=generator)
    share = torch.rand(num_edges, generator=generator, dtype=torch.float64) ** 2
    return torch.stack([source, (share * (num_nodes - num_nodes // 10)).long()])


def measure(num_nodes: int, rounds: int, seed: int) -> dict[str, Any]:
    """Median seconds of forward passes and of training steps, taking turns."""
    edges = make_edges(num_nodes, seed)
    by_target = edges[:, edges[1].argsort(stable=True)]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, CHANNELS, generator=generator)
    torch.manual_seed(seed)
    layers = {
        name: SAGEConv(CHANNELS, CHANNELS, aggr=build(CHANNELS))
        for name, build in AGGREGATIONS.items()
    }
    bystanders = Bystanders()
    seconds: dict[tuple[str, str, str], list[float]] = {}
    turns = [
        (order, mode, name) for order in ORDERS for mode in MODES for name in layers
    ]
    shuffle = random.Random(seed).shuffle
    for number in bar(range(rounds + 1), "neighbourhoods", "round"):
        shuffle(turns)
        for order, mode, name in turns:
            edge_index = edges if order == "any" else by_target
            taken = _time(layers[name], x, edge_index, mode)
            if number > 0:  # the first one warms up
                seconds.setdefault((order, mode, name), []).append(taken)
    degree = torch.bincount(edges[1], minlength=num_nodes)
    return {
        "nodes": num_nodes,
        "edges": edges.size(1),
        "isolated": int((degree == 0).sum()),
        "largest_degree": int(degree.max()),
        "channels": CHANNELS,
        "points": POINTS,
        "seed": seed,
        **provenance.of_measurement(bystanders.share()),
        "records": [
            {
                "order": order,
                "mode": mode,
                "aggregation": name,
                "seconds": median(values),
                "of_mean": median(values) / median(seconds[order, mode, "mean"]),
                "repetitions": len(values),
            }
            for (order, mode, name), values in sorted(seconds.items())
        ],
    }


def _time(layer: SAGEConv, x: Tensor, edge_index: Tensor, mode: str) -> float:
    x = x.clone().requires_grad_(mode == "training")
    with no_garbage_collection(), torch.set_grad_enabled(mode == "training"):
        start = time.perf_counter()
        out = layer(x, edge_index)
        if mode == "training":
            out.sum().backward()
        end = time.perf_counter()
    layer.zero_grad(set_to_none=True)
    return end - start


def render(results: dict[str, Any]) -> str:
    by_cell = {
        (record["aggregation"], record["order"], record["mode"]): record
        for record in results["records"]
    }
    columns = [(order, mode) for order in ORDERS for mode in MODES]
    rows = []
    for name, label in LABELS.items():
        cells = [by_cell[name, order, mode] for order, mode in columns]
        rows.append(
            [
                label,
                *(f"{1e3 * c['seconds']:.0f} ({c['of_mean']:.2f}x)" for c in cells),
            ]
        )
    header = [f"edges {order}, {mode}" for order, mode in columns]
    return "\n\n".join(
        [
            f"`SAGEConv({results['channels']}, {results['channels']})` on one graph of "
            f"{results['nodes']:,} nodes, {results['isolated']:,} of them isolated, "
            f"and {results['edges']:,} edges (largest degree "
            f"{results['largest_degree']:,}); median milliseconds, and how many times "
            f"those of mean; {results['threads']} threads, "
            f"{results['busy']:.0%} of the processors taken by others, commit "
            f"{results['commit']}.",
            markdown(["aggregation", *header], rows),
        ]
    )
