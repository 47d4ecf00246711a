"""What the pages of all experiments share: protocols, origins, claims."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.engine.arguments import UsageError
from benchmarks.engine.records import Record
from benchmarks.engine.tables import markdown

if TYPE_CHECKING:
    from benchmarks.engine.statistics import Difference

#: How to read a table of claims.
LEGEND = (
    "Each claim as a difference, paired by seed or fold, in percentage points: mean ± "
    "half-width of its 95 % t-interval (pairs better / equal / worse; from six pairs "
    "that differ on, the p-value of their sign test). It **holds** if the whole "
    "interval is above zero, or, for *not worse* claims, above -1; it **fails** if the "
    "whole interval is below; else, with two pairs, or if the sign test does not agree "
    "(p above .05), it is open."
)
NOT_WORSE = 1.0  # points


class Claim(NamedTuple):
    """A sentence, the data it is checked on, and what the records say."""

    text: str
    data: str
    effect: "Difference | None"
    margin: float = 0.0


def claims_table(claims: Iterable[Claim]) -> str:
    """Effect, interval and verdict of each claim on each data set, the longer of the
    two downwards; empty without any."""
    import pandas as pd

    found = {(c.text, c.data): _verdict(c) for c in claims if c.effect is not None}
    if not found:
        return ""
    wide = pd.Series(found).unstack(sort=False).rename_axis("claim")
    if wide.shape[0] < wide.shape[1]:
        wide = wide.T.rename_axis("data")
    return f"{LEGEND}\n\n{markdown(wide.rename_axis(columns=None).reset_index())}"


def _verdict(claim: Claim) -> str:
    verdict, p = claim.effect.verdict(claim.margin), claim.effect.sign_test()
    if claim.margin == 0 and p is not None and p > 0.05:
        verdict = "open"
    text = str(claim.effect)
    if p is not None:
        text = f"{text[:-1]}, p {'< .001' if p < 0.001 else f'{p:.3f}'.lstrip('0')})"
    return text if verdict == "open" else f"{text} **{verdict}**"


def protocols(
    records: Iterable[Record], axes: Iterable[str]
) -> list[tuple[str, list[Record]]]:
    """Records that differ in nothing but the axes, the most of them first: what
    differs in epochs or data is not averaged."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        fixed = (
            f"{key}={value}"
            for key, value in record["config"].items()
            if key not in axes and value is not None
        )
        groups.setdefault(", ".join(fixed), []).append(record)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def commits(records: Iterable[Record]) -> str:
    return ", ".join(sorted({str(record.get("commit")) for record in records}))


def diverged(records: Collection[Record]) -> str:
    """``4 of 10 runs diverged``; empty if none did."""
    number = sum(record.get("diverged", False) for record in records)
    return f"{number} of {len(records)} runs diverged" if number else ""


def spread(counts: Iterable[int]) -> str:
    """``3`` or ``2-5``."""
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least}-{most}"


def replace_part(page: Path, name: str, text: str) -> str:
    """A page with text between ``<!-- begin:name -->`` and ``<!-- end:name -->``."""
    begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise UsageError(f"{page} has no part {begin} ... {end}")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
