"""Numbers over seeds or folds, and tables of them."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from scipy.stats import sem, t


def mean_and_deviation(values: Sequence[float], scale: float = 100.0) -> str:
    """``97.3 ± 1.2``, by default in per cent; the deviation is that of a sample."""
    middle = f"{scale * mean(values):.1f}"
    return f"{middle} ± {scale * stdev(values):.1f}" if len(values) > 1 else middle


def paired_difference(ours: dict[Any, float], theirs: dict[Any, float]) -> str:
    """``+1.2 ± 0.3 (8/1/1)``: the mean of the differences seed by seed (or fold by
    fold), in points, the half-width of its 95 % interval (Student's t, as there may be
    few), and the seeds that are better, equal and worse: a mean may come from a single
    one."""
    differences = [100 * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]
    if not differences:
        return ""
    better = sum(difference > 0 for difference in differences)
    worse = sum(difference < 0 for difference in differences)
    counts = f"({better}/{len(differences) - better - worse}/{worse})"
    if len(differences) == 1:
        return f"{differences[0]:+.1f} {counts}"
    half = t.ppf(0.975, len(differences) - 1) * sem(differences)
    return f"{mean(differences):+.1f} ± {half:.1f} {counts}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned in plain text, too; numbers to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = (
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join(
        "-" * (width + 2) if i == 0 else "-" * (width + 1) + ":"
        for i, width in enumerate(widths)
    )
    return "\n".join([line(cells[0]), rule + "|", *map(line, cells[1:])])
