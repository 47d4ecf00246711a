"""What a billion sets would cost, from the costs of one."""

from typing import Any

from benchmarks.tables import markdown

NUM_SETS = 1e9
CORES = 64
SETS_PER_STEP = 256  # of each process
PROCESSES = (2, 8, 64)

#: An assumption, not a measurement.
DOLLARS_PER_CORE_HOUR = 0.05


def render(part: dict[str, Any]) -> str:
    """The tables of ``docs/scaling.md``."""
    config = part["config"]
    origin = (
        f"From commit {part['commit']}, {part['time']}, with "
        f"{part['busy']:.0%} of the processors taken by others: "
        f"{config['channels']} channels, {config['slices']} slices, "
        f"{config['points']} points, single precision, one thread a process."
    )
    return "\n\n".join([origin, _embedding(part), _training(part)])


def _embedding(part: dict[str, Any]) -> str:
    config = part["config"]
    width = config["slices"] * config["points"]
    rows = []
    for check in part["checks"]:
        if check.get("mode") != "embed":
            continue
        size, seconds = check["size"], check["seconds_per_set"]
        crowding = max(
            1.0,
            next(
                other["measured"]
                for other in part["checks"]
                if other.get("mode") == "both" and other["size"] == size
            ),
        )
        core_hours = NUM_SETS * seconds * crowding / 3600
        rows.append(
            [
                f"{size:,}",
                f"{1e6 * seconds:.3g} µs",
                f"{crowding:.2f}x",
                f"{core_hours:,.3g}",
                f"{core_hours / CORES:,.3g} h",
                f"${core_hours * DOLLARS_PER_CORE_HOUR:,.3g}",
                f"{4 * size * config['channels'] / (seconds * crowding) / 2**20:,.0f} "
                "MiB/s",
                f"{4 * size * config['channels'] * NUM_SETS / 2**40:,.3g} TiB",
            ]
        )
    header = [
        "elements a set",
        "a set",
        "beside another process",
        "core-hours",
        f"on {CORES} cores",
        f"at ${DOLLARS_PER_CORE_HOUR} a core-hour (assumed)",
        "read by each core",
        "elements",
    ]
    table = markdown(header, rows)
    vectors = 4 * width * NUM_SETS / 2**40
    return (
        f"Embedding {NUM_SETS:,.0f} sets; the vectors of {width} numbers take "
        f"{vectors:.2g} TiB, half of it in half precision:\n\n{table}"
    )


def _training(part: dict[str, Any]) -> str:
    exchanges = {
        check["parameters"]: check["measured"] / 1e3
        for check in part["checks"]
        if check.get("mode") == "exchange"
    }
    rows = []
    for check in part["checks"]:
        if check.get("mode") != "train":
            continue
        step = SETS_PER_STEP * check["seconds_per_set"]
        for parameters, pair in exchanges.items():
            cells = []
            for processes in PROCESSES:
                # A ring sends 2 (P - 1) / P of the gradients, a pair all of them once.
                exchange = pair * 2 * (processes - 1) / processes
                cells.append(f"{processes * step / (step + exchange):.3g}x")
            rows.append(
                [
                    f"{check['size']:,}",
                    f"{parameters:,}",
                    f"{1e3 * step:.3g} ms",
                    f"{1e3 * pair:.3g} ms",
                    *cells,
                ]
            )
    header = ["elements a set", "parameters", "step", "exchange by two"]
    header += [f"speed-up by {processes}" for processes in PROCESSES]
    table = markdown(header, rows)
    return (
        f"Training, {SETS_PER_STEP} sets a step and process, the readout alone. The "
        f"exchange is taken to be not overlapped with the backward pass, to grow as a "
        f"ring does, and to be as fast as between two processes of one machine:\n\n"
        f"{table}"
    )
