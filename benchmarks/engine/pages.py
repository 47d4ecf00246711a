"""What the pages of all experiments share: claims, origins, generated parts."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.engine.arguments import UsageError
from benchmarks.engine.records import Record
from benchmarks.engine.tables import markdown

if TYPE_CHECKING:
    import pandas as pd

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

    @property
    def verdict(self) -> str:
        verdict, p = self.effect.verdict(self.margin), self.effect.sign_test()
        is_doubtful = self.margin == 0 and p is not None and p > 0.05
        return "open" if is_doubtful else verdict

    def __str__(self) -> str:
        text, p = str(self.effect), self.effect.sign_test()
        if p is not None:
            p_value = "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")
            text = f"{text[:-1]}, p {p_value})"
        return text if self.verdict == "open" else f"{text} **{self.verdict}**"


def comparison(
    ours: str, theirs: str, data: str, effect: "Difference | None", margin: float = 0.0
) -> Claim:
    verb = "is not worse than" if margin else "beats"
    return Claim(f"{ours} {verb} {theirs}", data, effect, margin)


def claims_table(claims: Iterable[Claim]) -> str:
    """Effect, interval and verdict of each claim on each data set, the longer of the
    two downwards; empty without any."""
    import pandas as pd

    found = {(c.text, c.data): str(c) for c in claims if c.effect is not None}
    if not found:
        return ""
    wide, index = pd.Series(found).unstack(sort=False), "claim"
    if wide.shape[0] < wide.shape[1]:
        wide, index = wide.T, "data"
    return f"{LEGEND}\n\n{markdown(wide, index)}"


def origin(table: "pd.DataFrame", what: str = "runs") -> str:
    """How many there are, and of which code."""
    commits = ", ".join(sorted(table["commit"].map(str).unique()))
    return f"{len(table)} {what}, commit {commits}"


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
