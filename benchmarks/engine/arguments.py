"""``key=value`` arguments into the fields of a dataclass, and errors that help."""

import dataclasses
import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")
ROOT = Path(__file__).resolve().parents[2]


class UsageError(ValueError):
    """A mistake of whoever gave the command; shown as one line, exit code 2."""


class Registry(dict[str, Any]):
    """A dictionary whose missing keys are explained by the nearest present one."""

    def __init__(self, kind: str, **entries: Any) -> None:
        super().__init__(entries)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        check_known(self.kind, [name], self)


def check_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises for a name that does not exist, with the one that is nearest."""
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else ""
            hint = hint or f"there are {', '.join(known)}"
            raise UsageError(f"unknown {kind} {name!r}; {hint}")


def option(
    default: Any,
    help: str = "",
    choices: Collection[str] | None = None,
    least: int | None = None,
    **more: Any,
) -> Any:
    """A field of a `Checked` dataclass: one of the choices, or ``None`` or at least so
    large. Options of a command that are ``positional`` may go without ``key=``."""
    metadata = {"help": help, "choices": choices, "least": least, **more}
    return dataclasses.field(default=default, metadata=metadata)


class Checked:
    """A dataclass whose values are what its fields allow."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), field.name
            choices, least = map(field.metadata.get, ("choices", "least"))
            if choices is not None:
                check_known(name, [value], choices)
            if None not in (least, value) and value < least:
                raise UsageError(
                    f"{name} must be at least {least} (got {name}={value})"
                )


def parse(kind: type[Options], arguments: Sequence[str], command: str) -> Options:
    """The options of a command, an instance of the dataclass ``kind``, whose docstring
    and fields are what ``--help`` prints."""
    fields = dataclasses.fields(kind)
    free = [field.name for field in fields if field.metadata.get("positional")]
    if asks_for_help(arguments):
        words = "".join(f" [{name.upper()}]" for name in free)
        print(f"usage: python -m benchmarks {command}{words} [key=value ...]\n")
        print(f"{inspect.cleandoc(kind.__doc__)}\n\n{describe(kind)}")
        sys.exit(0)
    hints, given = get_type_hints(kind), {}
    for argument in arguments:
        if "=" not in argument and not argument.startswith("-") and free:
            key, value = free.pop(0), argument
        else:
            key, value = split(argument)
        check_known("key", [key], hints)
        given[key] = convert(key, value, hints[key])
    try:
        return kind(**given)
    except ValueError as error:  # from __post_init__
        raise UsageError(str(error)) from error


def split(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals or not key.lstrip("-"):
        raise UsageError(f"arguments have the form key=value (got {argument!r})")
    return key.lstrip("-"), value


def convert(key: str, value: Any, hint: Any) -> Any:
    """A value of an argument (text) or of a YAML file, as the type says."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=hint)
    try:
        if isinstance(value, str):
            return parser.parse_args([f"--value={value}"]).value
        return parser.parse_object({"value": value}).value
    except Exception as error:  # ArgumentError, or whatever YAML makes of the text
        name = hint.__name__ if isinstance(hint, type) else hint
        raise UsageError(f"{key} must be of type {name} (got {value!r})") from error


def asks_for_help(arguments: Sequence[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def describe(kind: type) -> str:
    """A line for each option: its default, and what it does."""
    lines = []
    for field in dataclasses.fields(kind):
        default = "" if field.default is None else str(field.default)
        entry = f"{field.name}={default.removeprefix(f'{ROOT}/')}"
        lines.append(f"  {entry:<26} {field.metadata['help']}")
    return "\n".join(lines)
