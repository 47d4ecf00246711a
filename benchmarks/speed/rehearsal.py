"""What the benchmark would measure on a device that this machine does not have."""

from pathlib import Path

import pandas as pd

from benchmarks.engine.tables import markdown
from benchmarks.speed.contenders import LABELS
from benchmarks.speed.parts import ALL, PARTS, Setting
from benchmarks.speed.shapes import SIX, SKEWED, Shape

#: Bytes a second that the memory of two devices can move (SXM, 80 GB).
BANDWIDTH = {"A100": 2.04e12, "H100": 3.35e12}

TEMPLATE = Path(__file__).with_name("rehearsal.md").read_text().strip()


def render(setting: Setting, parts: list[str]) -> str:
    """The parts, the contenders, and the least time by bytes."""
    return TEMPLATE.format(
        device=setting.device,
        parts=", ".join(f"{name} ({PARTS[name].title.lower()})" for name in parts),
        contenders="; ".join(LABELS[name] for name in setting.names(*ALL)),
        roofline=markdown(pd.DataFrame(map(roofline, (*SIX, SKEWED)))),
    )


def roofline(shape: Shape) -> dict[str, str]:
    """Values are read, the order is written and read, and gradients are written, four
    bytes each; points are written, and their gradients read."""
    num_graphs = shape.graphs + bool(shape.large)
    num_nodes = shape.graphs * shape.nodes + shape.large
    num_bytes = (16 * num_nodes + 8 * num_graphs * shape.points) * shape.slices
    row = {"shape": str(shape), "MB": f"{num_bytes / 1e6:.1f}"}
    for device, bandwidth in BANDWIDTH.items():
        row[f"{device}, us"] = f"{1e6 * num_bytes / bandwidth:.1f}"
    return row
