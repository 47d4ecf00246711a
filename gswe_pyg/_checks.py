"""Checks of arguments, with one error text for each kind of mistake."""

import operator
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from torch import Tensor


def positive_int(argument: str, value: Any, where: str = "") -> int:
    r"""The value as an :obj:`int`, if it is a whole number of at least one.

    Whatever Python takes as an index is one, such as :obj:`numpy.int64`; booleans and
    floating point numbers are not.

    Args:
        argument (str): The name of the argument, for the error.
        value: What was given.
        where (str, optional): Where it was given, such as :obj:`"in the config"`.
            (default: :obj:`""`)
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(
            f"'{argument}' must be a positive integer {_got(value, where)}"
        )
    return number


def not_negative(argument: str, value: float) -> float:
    """The value, if it is a number of at least zero; NaN is not."""
    if not value >= 0:
        raise ValueError(f"'{argument}' must not be negative {_got(value)}")
    return value


def norm_order(p: float) -> float:
    """The order of a norm, if there is such a norm: infinity is an order, NaN not."""
    if not p >= 1:
        raise ValueError(f"'p' must be at least 1 {_got(p)}")
    return p


def tensor(argument: str, value: Any, fix: str = "") -> Tensor:
    """The value, if it is a tensor; otherwise the error says how to make it one."""
    if not isinstance(value, Tensor):
        kind = type(value)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        fix = fix or f"convert it by 'torch.as_tensor({argument})'"
        raise TypeError(
            f"'{argument}' must be a tensor (got {module}{kind.__name__}): {fix}"
        )
    return value


def one_of(
    argument: str,
    value: Any,
    choices: Collection[str],
    where: str = "",
    other: str = "",
) -> str:
    """The value, if it is one of the choices; otherwise the error suggests one, and
    says what else there may be."""
    if value not in choices:
        near = get_close_matches(str(value), choices, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"'{argument}' must be one of {list(choices)} {other}"
            f"{_got(value, where)}{hint}"
        )
    return value


def _got(value: Any, where: str = "") -> str:
    return f"(got {value!r} {where})" if where else f"(got {value!r})"
