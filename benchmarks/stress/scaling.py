"""What a billion sets would cost, from the costs of one."""

from typing import Any

import pandas as pd

from benchmarks.engine.tables import markdown

NUM_SETS = 1e9
CORES = 64
DOLLARS_PER_CORE_HOUR = 0.05  # an assumption, not a measurement


def render(part: dict[str, Any]) -> str:
    """The table of ``docs/scaling.md``."""
    sizes, checks = part["sizes"], part["checks"]
    width = sizes["slices"] * sizes["points"]
    return (
        f"From commit {part['commit']}, {part['time']}, with "
        f"{part['busy']:.0%} of the processors taken by others: "
        f"{sizes['channels']} channels, {sizes['slices']} slices, "
        f"{sizes['points']} points, single precision, one thread a process.\n\n"
        f"Embedding {NUM_SETS:,.0f} sets; the vectors of {width} numbers take "
        f"{4 * width * NUM_SETS / 2**40:.2g} TiB, half of it in half precision:\n\n"
        f"{markdown(_embedding(checks, sizes['channels']))}"
    )


def _of_mode(checks: list[dict[str, Any]], mode: str) -> list[dict[str, Any]]:
    return [check for check in checks if check.get("mode") == mode]


def _embedding(checks: list[dict[str, Any]], channels: int) -> pd.DataFrame:
    crowding = {c["size"]: max(1.0, c["measured"]) for c in _of_mode(checks, "both")}
    rows = []
    for check in _of_mode(checks, "embed"):
        size, seconds = check["size"], check["seconds_per_set"]
        crowded = seconds * crowding[size]
        hours, num_bytes = NUM_SETS * crowded / 3600, 4 * size * channels
        price = f"at ${DOLLARS_PER_CORE_HOUR} a core-hour (assumed)"
        rows.append(
            {
                "elements a set": f"{size:,}",
                "a set": f"{1e6 * seconds:.3g} µs",
                "beside another process": f"{crowding[size]:.2f}x",
                "core-hours": f"{hours:,.3g}",
                f"on {CORES} cores": f"{hours / CORES:,.3g} h",
                price: f"${hours * DOLLARS_PER_CORE_HOUR:,.3g}",
                "read by each core": f"{num_bytes / crowded / 2**20:,.0f} MiB/s",
                "elements": f"{num_bytes * NUM_SETS / 2**40:,.3g} TiB",
            }
        )
    return pd.DataFrame(rows)
