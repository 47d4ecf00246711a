"""What the benchmark would measure on a device that this machine does not have."""

from dataclasses import replace

import pandas as pd
import torch

from benchmarks.engine.tables import markdown
from benchmarks.speed.contenders import CONTENDERS, prepare
from benchmarks.speed.parts import ALL, PARTS, Setting
from benchmarks.speed.shapes import SIX, SKEWED, Shape, make_batch

#: Bytes a second that the memory of two devices can move (SXM, 80 GB).
BANDWIDTH = {"A100": 2.04e12, "H100": 3.35e12}


def is_available(device: str) -> bool:
    try:
        torch.empty(1, device=device)
    except (AssertionError, RuntimeError, NotImplementedError):  # depends on the build
        return False
    return True


def render(setting: Setting, parts: list[str]) -> str:
    """The parts and contenders, each called once here, and the least time by bytes."""
    names = setting.names(*ALL)
    for name in names:
        _call(name)
    labels = ", ".join(CONTENDERS[name].label for name in names)
    titles = ", ".join(f"{name} ({PARTS[name].title.lower()})" for name in parts)
    return "\n\n".join(
        [
            f"There is no device {setting.device!r} here: nothing is measured.",
            f"Where there is one, these parts are measured, forward and in training, "
            f"with a synchronisation before and after every call: {titles}.",
            f"Contenders, each of which was just called once on the CPU: {labels}.",
            "The least time of forward and backward by bytes alone (arithmetic, not "
            "measured), to compare the times of `segment_quantile` with:",
            markdown(pd.DataFrame(map(_roofline, (*SIX, SKEWED)))),
        ]
    )


def _call(name: str) -> None:
    shape = replace(SIX[0], graphs=2, nodes=5, slices=4)
    readout, batch = CONTENDERS[name].build(shape), make_batch(shape, seed=0)
    for train in (False, True):
        prepare(CONTENDERS[name], readout, batch, train)()


def _roofline(shape: Shape) -> dict[str, str]:
    """Values are read, the order is written and read, and gradients are written, four
    bytes each; points are written, and their gradients read."""
    num_graphs = shape.graphs + bool(shape.large)
    num_nodes = shape.graphs * shape.nodes + shape.large
    points = num_graphs * shape.points
    num_bytes = (16 * num_nodes + 8 * points) * shape.slices
    row = {"shape": str(shape), "MB": f"{num_bytes / 1e6:.1f}"}
    for device, bandwidth in BANDWIDTH.items():
        row[f"{device}, us"] = f"{1e6 * num_bytes / bandwidth:.1f}"
    return row
