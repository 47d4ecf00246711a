"""``python -m benchmarks COMMAND``: every command is the module of that name."""

import importlib
import sys

COMMANDS = {
    "quick": "a small comparison of readouts on Set-Circles: two minutes, no download",
    "run": "an experiment: its grid of runs, or what is left of it",
    "report": "tables and figures from the records on file",
    "list": "the experiments, their presets, and how much of them is done",
    "speed": "time and memory of the readouts and of the sort beneath them",
    "epoch": "a training epoch on documents, padded and not",
    "neighbourhoods": "time of GSWE as the aggregation inside a layer",
    "graphgym": "a GraphGym config, trained and tested",
    "reliability": "what the package withstands: faults, abuse, scale",
    "datasets": "statistics of the set data sets beside the paper's table",
}


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        print("usage: python -m benchmarks COMMAND [--help] ...\n")
        for name, summary in COMMANDS.items():
            print(f"  {name:<14} {summary}")
        asked_for_help = bool(argv) and argv[0] in {"-h", "--help"}
        if argv and not asked_for_help:
            print(f"\nunknown command {argv[0]!r}", file=sys.stderr)
        return 0 if asked_for_help else 2
    try:
        return importlib.import_module(f"benchmarks.{argv[0]}").main(argv[1:]) or 0
    except KeyboardInterrupt:
        print("\nstopped; what was finished is on file", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
