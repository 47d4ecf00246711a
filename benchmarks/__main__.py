"""``python -m benchmarks COMMAND``: every command is a module in ``commands/``."""

import ast
import importlib
import os
import signal
import sys
from pathlib import Path

from benchmarks.engine.arguments import UsageError, check_known

FILES = sorted(Path(__file__).parent.glob("commands/[a-z]*.py"))
COMMANDS = [path.stem for path in FILES]


def main(arguments: list[str]) -> int:
    """Runs a command and returns its exit code; errors of users are one line."""
    try:
        if not arguments or arguments[0] in {"-h", "--help", "help"}:
            print(usage())
            code = 0 if arguments else 2
        else:
            check_known("command", arguments[:1], COMMANDS)
            command = importlib.import_module(f"benchmarks.commands.{arguments[0]}")
            code = command.main(arguments[1:]) or 0
        sys.stdout.flush()
        return code
    except SystemExit as end:  # after help, or stopped with a word about it
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("\nstopped; what was finished is on file", file=sys.stderr)
        return 130
    except BrokenPipeError:  # by whoever reads only the first lines of our output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in {"benchmarks", "gswe_pyg"}:
            raise  # a mistake of ours
        print(f'error: {error}: pip install ".[benchmarks]"', file=sys.stderr)
        return 2
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def usage() -> str:
    lines = ["usage: python -m benchmarks COMMAND [--help] [key=value ...]", ""]
    for path in FILES:
        summary = ast.get_docstring(ast.parse(path.read_text()))
        lines.append(f"  {path.stem:<10} {summary}")
    return "\n".join(lines)


if __name__ == "__main__":
    # As Ctrl-C, so that the workers of a grid end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
