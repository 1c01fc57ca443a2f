"""Pictures of --accuracy: rounding errors of sums against ranks, by datatype and algorithm."""

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.values import positive, size, text

MOST_LINES = 12
DASHED, DOTTED = (0, (5, 3)), (0, (1.2, 2))
STYLES = ("-", DASHED, DOTTED)


def lines_of(records):
    """{(datatype, algorithm): [(ranks, RMS error in %)]}, of runs and steps, in the order of the ranks; single points
    only if there is nothing else."""
    lines = {}
    for r in records:
        ranks, error = positive(r, "nranks"), positive(r, "rms_error")
        if ranks and error:
            key = text(r, "dtype", 16) or "unnamed", text(r, "algorithm", 24) or "unnamed"
            lines.setdefault(key, {})[ranks] = 100 * error
    most = max((len(found) for found in lines.values()), default=0)
    return {key: sorted(found.items()) for key, found in lines.items() if len(found) > 1 or most == 1}


def against_ranks(lines):
    dtypes, algorithms = ([*dict.fromkeys(key[i] for key in lines)] for i in (0, 1))
    ranks = [n for line in lines.values() for n, _ in line]
    errors = [e for line in lines.values() for _, e in line]
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(ranks), max(ranks), True),
        (*chart.ends_of(errors), True),
        right=chart.room_for([" ".join(key) for key in lines]) + 10,
    )
    frame.axes(chart.rank_ticks(frame.x), chart.number_ticks(frame.y), "ranks", "RMS error of a sum, % of its RMS")
    names = []
    for key, line in lines.items():
        color = ink.SERIES[dtypes.index(key[0]) % len(ink.SERIES)]
        frame.line(line, color, style=STYLES[algorithms.index(key[1]) % len(STYLES)], marks=True)
        names.append((*line[-1], " ".join(key), color, True))
    frame.names(names)
    return paper


def figures(run):
    """(heading, figures) of each size, and notes."""
    by_size, rows, notes = {}, [], []
    for r in run.of("accuracy"):
        by_size.setdefault((text(r, "collective", 40) or "collective", positive(r, "size_bytes") or 0), []).append(r)
    for (name, bytes_), records in by_size.items():
        lines = lines_of(records)
        shown = dict([*lines.items()][:MOST_LINES])
        if len(shown) < len(lines):
            notes.append(f"{name} at {size(bytes_)}: errors of the first {len(shown)} of {len(lines)} datatypes and algorithms.")
        if shown:
            told = "Sums of normal numbers against exact ones. A color is a datatype, a style of line an algorithm."
            rows.append((None, [Figure(f"Rounding errors of {name}, {size(bytes_)}", against_ranks(shown), told)]))
    return rows[:4], notes
