from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.engine.arguments import Registry, UsageError, option, parse


@dataclass(frozen=True)
class Options:
    """Does something.

    And something else."""

    name: str | None = option(None, "which one", positional=True)
    sizes: int | list[int] = option(3, "how many")
    rate: float = option(0.5, "how fast")
    results: Path = option(Path("here"), "where to")
    fast: bool = option(False, "in a hurry")

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("rate must not be negative")


def read(*arguments: str) -> Options:
    return parse(Options, arguments, "test")


def test_defaults_types_and_positions():
    assert read() == Options()
    given = read("x", "sizes=[1,2]", "rate=1e-3", "results=a/b", "fast=true")
    assert given == Options("x", [1, 2], 1e-3, Path("a/b"), True)
    assert read("name=y", "--rate=2") == Options("y", rate=2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sizse=3"], "unknown key 'sizse'; did you mean 'sizes'?"),
        (["sizes=four"], r"sizes must be of type int \| list\[int\] \(got 'four'\)"),
        (["rate=fast"], r"rate must be of type float \(got 'fast'\)"),
        (["rate=-1"], "rate must not be negative"),
        (["x", "y"], r"the form key=value \(got 'y'\)"),
        (["--fast"], r"the form key=value \(got '--fast'\)"),
    ],
)
def test_errors_name_the_key_and_the_value(arguments, message):
    with pytest.raises(UsageError, match=message):
        read(*arguments)


def test_help(capsys):
    with pytest.raises(SystemExit) as exit:
        read("x", "--help")
    assert exit.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: python -m benchmarks test [NAME] [key=value ...]\n\n")
    assert "\nDoes something.\n\nAnd something else.\n" in out
    assert "\n  rate=0.5                   how fast\n" in out


def test_registry_names_the_nearest_entry():
    fruit = Registry("fruit", apple=1, pear=2)
    assert fruit["pear"] == 2
    with pytest.raises(UsageError, match="unknown fruit 'aple'; did you mean 'apple'"):
        fruit["aple"]
    with pytest.raises(UsageError, match="unknown fruit 'x'; there are apple, pear"):
        fruit["x"]
