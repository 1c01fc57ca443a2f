"""Pictures of several runs together: what becomes of a collective as ranks are added."""

from report.page import chart
from report.page.collectives import groups_of
from report.page.figure import Figure
from report.page.read import nranks_of, program_of
from report.page.values import duration, positive, size, text
from report import paper as ink

MOST_FIGURES = 4


def families(runs):
    """{(program, backend, link, group): {ranks: group}} of runs that differ in ranks; the last of a number."""
    found = {}
    for run in runs:
        for group in groups_of(run):
            key = program_of(run), text(run.head, "backend", 40), text(run.head, "link", 80), group.name()
            if nranks_of(run):
                found.setdefault(key, {})[nranks_of(run)] = group
    return {key: groups for key, groups in found.items() if len(groups) > 1}


def lines_of(groups, bytes_, key):
    """{algorithm: [(ranks, value)]} at one size."""
    found = {}
    for ranks, group in sorted(groups.items()):
        for a, rows in group.rows.items():
            value = positive(rows.get(bytes_, {}), key)
            if value:
                found.setdefault(a, []).append((ranks, value))
    return found


def against_ranks(groups, bytes_, key, y_name, y_ticks):
    lines = lines_of(groups, bytes_, key)
    values = [v for points in lines.values() for _, v in points]
    if not values:
        return None
    ranks = sorted(groups)
    paper = chart.sheet()
    frame = chart.Frame(
        paper, (min(ranks), max(ranks), True), (*chart.ends_of(values), True), right=chart.room_for(lines) + 10
    )
    frame.axes(chart.rank_ticks(frame.x), y_ticks(frame.y), "ranks", y_name)
    colors = {a: ink.SERIES[i % len(ink.SERIES)] for i, a in enumerate(lines)}
    for a, points in lines.items():
        frame.line(points, colors[a], marks=True)
    frame.names([(*points[-1], a, colors[a], True) for a, points in lines.items()])
    return paper


def figures(runs):
    drawn = []
    for (program, backend, link, name), groups in families(runs).items():
        common = sorted(set.intersection(*(set(group.sizes()) for group in groups.values())))
        if not common:
            continue
        where = ", ".join(part for part in (name, f"backend {backend}" if backend else None, link) if part)
        least, most = common[0], common[-1]
        told = "computed in virtual time" if backend == "sim" else "measured"
        for bytes_ in dict.fromkeys((least, most)):
            paper = against_ranks(
                groups, bytes_, "time_us", f"time of one operation at {size(bytes_)}", chart.duration_ticks
            )
            drawn.append(paper and Figure(f"Time against ranks, {size(bytes_)}", paper, f"{where}; {told}."))
        paper = against_ranks(groups, most, "busbw_GBps", f"bus bandwidth at {size(most)}, GB/s", chart.number_ticks)
        drawn.append(paper and Figure(f"Bus bandwidth against ranks, {size(most)}", paper, f"{where}; {told}."))
    return [figure for figure in drawn if figure][: 3 * MOST_FIGURES]
