"""Tables, figures and verdicts from the results of ``python -m benchmarks speed``."""

from pathlib import Path
from typing import Any

from benchmarks import speed_bars, speed_figures
from benchmarks.report import replace_part
from benchmarks.speed_contenders import CONTENDERS, OURS
from benchmarks.speed_shapes import GROWTH, Shape
from benchmarks.speed_timing import MODES, Record
from benchmarks.tables import markdown

Results = dict[str, Any]

READOUT_LABELS = {"mean": "mean", "transformer": "Set Transformer", "gswe": "GSWE"}


def render(results: Results, figures: Path, link: str = "results") -> str:
    """The whole report as Markdown; figures go to the folder given."""
    sections = [_origin(results)]
    if "shapes" in results:
        speed_figures.draw_ratios(results["shapes"]["records"], figures / "speed.png")
        sections += [
            _times("shapes", results),
            f"![Ratios to the readouts of others]({link}/speed.png)",
        ]
    if "skewed" in results:
        sections.append(_times("skewed", results))
    if "memory" in results:
        sections.append(_memory(results["memory"]["records"]))
    if "growth" in results:
        records = results["growth"]["records"]
        speed_figures.draw_growth(records, figures / "speed_growth.png")
        sections += [
            _growth(records),
            f"![Growth of the time]({link}/speed_growth.png)",
        ]
    if "end_to_end" in results:
        sections.append(_end_to_end(results["end_to_end"]["records"]))
    sections.append(verdicts(results))
    return "\n\n".join(sections)


def refresh(page: Path, results: Results, figures: Path) -> None:
    """Rewrites the part of a page that is marked for it, if there is one."""
    if not page.exists() or "<!-- begin:speed -->" not in page.read_text():
        return
    link = figures.resolve().relative_to(page.resolve().parent).as_posix()
    text = render(results, figures, link)
    page.write_text(replace_part(page.read_text(), "speed", text))
    print(f"{page.name}: refreshed")


def verdicts(results: Results) -> str:
    """What the project demands of itself, and what came out."""
    rows = [
        [bar.name, bar.demand, bar.result, "yes" if bar.is_reached else "**no**"]
        for bar in speed_bars.bars(results)
    ]
    return markdown(["bar", "demanded", "measured", "reached"], rows)


def _origin(results: Results) -> str:
    lines = []
    for name, part in results.items():
        line = f"{name}: {part['threads']} threads, seed {part['seed']}"
        line += f", commit {part['commit']}"
        if name != "memory":
            line += f", {part['busy']:.0%} of the processors taken by others"
        lines.append(f"- {line}")
    versions = " ".join(
        f"{name} {number}," for name, number in part["versions"].items()
    )
    return "\n".join([f"Medians of interleaved calls; {versions[:-1]}.", "", *lines])


def _times(part: str, results: Results) -> str:
    """Milliseconds of our own, and how many times as long the others take."""
    tables = []
    for mode in MODES:
        records = [r for r in results[part]["records"] if r["mode"] == mode]
        shapes = list(dict.fromkeys(Shape(**r["shape"]) for r in records))
        times = {
            name: [_find(records, shape, name) for shape in shapes]
            for name in CONTENDERS
        }
        header = ["B, n, L, M", *map(str, shapes)]
        ours = times[OURS]
        rows = [[_label(OURS), *(f"{1e3 * r['seconds']:.2f} ms" for r in ours)]]
        for name, theirs in times.items():
            if name != OURS:
                pairs = zip(theirs, ours, strict=True)
                rows.append([_label(name), *(_ratio(r, s) for r, s in pairs)])
        if len(shapes) > 1:
            header.append("geometric mean")
            for row, name in zip(rows, times, strict=True):
                row.append(_mean_ratio(records, name))
        title = "Forward" if mode == "forward" else "Forward and backward"
        tables.append(f"{title}:\n\n{markdown(header, rows)}")
    return "\n\n".join(tables)


def _label(name: str) -> str:
    return CONTENDERS[name].label


def _find(records: list[Record], shape: Shape, name: str) -> Record:
    for record in records:
        if Shape(**record["shape"]) == shape and record["contender"] == name:
            return record
    return {"skipped": "-"}


def _ratio(record: Record, ours: Record) -> str:
    if "skipped" in record:
        return record["skipped"]
    return f"{_short(record['seconds'] / ours['seconds'])}x"


def _mean_ratio(records: list[Record], name: str) -> str:
    if name == OURS:
        return "1x"
    ratios = speed_bars.ratios(records, name)
    num_shapes = len({Shape(**record["shape"]) for record in records})
    if not ratios:
        return "-"
    note = "" if len(ratios) == num_shapes else f" ({len(ratios)} of {num_shapes})"
    return f"{_short(speed_bars.geometric_mean(ratios))}x{note}"


def _short(value: float) -> str:
    """Three digits, or as many as the number has before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _memory(records: list[Record]) -> str:
    shapes = list(dict.fromkeys(Shape(**r["shape"]) for r in records))
    rows = [
        [_label(name), *(_peak(_find(records, shape, name)) for shape in shapes)]
        for name in CONTENDERS
        if any(r["contender"] == name for r in records)
    ]
    table = markdown(["peak extra memory", *map(str, shapes)], rows)
    return f"In multiples of the slice matrix, forward and backward:\n\n{table}"


def _peak(record: Record) -> str:
    if "skipped" in record:
        return record["skipped"]
    return f"{record['peak_bytes'] / record['slice_bytes']:.1f}x"


def _growth(records: list[Record]) -> str:
    rows = []
    for axis, shapes in GROWTH.items():
        for mode in MODES:
            of_mode = [r for r in records if r["mode"] == mode]
            ours = [_find(of_mode, shape, OURS)["seconds"] for shape in shapes]
            cells = [f"{1e3 * seconds:.2f}" for seconds in ours]
            values = " / ".join(str(getattr(shape, axis)) for shape in shapes)
            work = speed_bars.growth(of_mode, shapes)
            rows.append([f"{axis}: {values}", mode, *cells, f"{work:.2f}"])
    header = ["growing", "mode", *("ms" for _ in range(4)), "worst step / (N L log n)"]
    return markdown(header, rows)


def _end_to_end(records: list[Record]) -> str:
    rows = []
    for record in records:
        mean = next(r for r in records if r["readout"] == "mean" and _same(r, record))
        rows.append(
            [
                READOUT_LABELS[record["readout"]],
                str(record["hidden"]),
                str(record["batch_size"]),
                f"{1e3 * record['step_seconds']:.1f}",
                f"{record['epoch_seconds']:.1f}",
                f"{record['epoch_seconds'] / mean['epoch_seconds']:.3f}x",
            ]
        )
    header = ["readout", "channels", "batch", "ms a step", "s an epoch", "of mean"]
    steps, source = records[0]["steps_timed"], records[0]["data"]
    title = (
        f"Training of a GIN with five layers ({source}, {steps} steps each, "
        f"interleaved, scaled to the epoch, collating not included):"
    )
    return f"{title}\n\n{markdown(header, rows)}"


def _same(a: Record, b: Record) -> bool:
    return (a["hidden"], a["batch_size"]) == (b["hidden"], b["batch_size"])
