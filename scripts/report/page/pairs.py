"""Pictures of pairs of ranks and of memory."""

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.values import duration, number, positive, short, size, speed, text, three

MOST_MAPS = 8
MOST_RANKS = 128
MOST_BARS = 24


def maps_of(run):
    """{measurement: {(from, to): record}}, in the order of the records."""
    found = {}
    for r in run.of("pair"):
        ends = number(r, "from"), number(r, "to")
        if None in ends or not all(0 <= end < 1 << 20 and end == int(end) for end in ends):
            continue
        key = (
            text(r, "quantity", 20),
            text(r, "route", 40),
            text(r, "p2p", 8),
            text(r, "direction", 20),
            positive(r, "size_bytes"),
        )
        found.setdefault(key, {})[ends] = r
    return found


def pair_map(key, records):
    quantity, route, p2p, direction, bytes_ = key
    latency = quantity == "latency"
    field, write = ("p50_us", duration) if latency else ("GBps", three)
    values = {ends: positive(r, field) for ends, r in records.items()}
    ranks = sorted({end for ends in values for end in ends})[:MOST_RANKS]
    found = [[values.get((a, b)) for b in ranks] for a in ranks]
    told = [v for (a, b), v in values.items() if v and a in ranks and b in ranks]
    if len(ranks) < 2 or not told:
        return None
    names = [f"{rank:g}" for rank in ranks]
    map_ = chart.cells(
        found,
        names,
        names,
        write if latency else lambda v: three(v),
        "to rank",
        "from rank",
        0 if not latency else None,
    )
    title = "Latency" if latency else "Bandwidth, GB/s"
    how = ", ".join(part for part in (route, direction) if part)
    with_ = ", ".join(
        part for part in (f"P2P {p2p}" if p2p else None, f"{size(bytes_)} at a time" if bytes_ else None) if part
    )
    return Figure(f"{title}: {how}", map_, caption(latency, records, with_))


def caption(latency, records, with_):
    told = "Half a round trip, median" if latency else "Median of the rounds; the stronger the cell, the faster"
    told += f". {with_}." if with_ else "."
    if any(a == b for a, b in records):
        told += " On the diagonal: a private copy."
    paths = {text(r, "path", 60) for (a, b), r in records.items() if a != b} - {None}
    return told + (f" Paths: {', '.join(sorted(paths)[:6])}." if paths else "")


def memory_bars(run):
    """Bars of memory, one per place and work."""
    records = [
        r for r in run.of("pair") if text(r, "ends") == "memory" and (positive(r, "GBps") or positive(r, "p50_us"))
    ]
    figures = []
    for latency in (False, True):
        mine = [r for r in records if (text(r, "quantity") == "latency") == latency][:MOST_BARS]
        key, write = ("p50_us", duration) if latency else ("GBps", three)
        rows = [
            (memory_name(r), {key: positive(r, key)}, (duration if latency else speed)(positive(r, key)))
            for r in mine
            if positive(r, key)
        ]
        if rows:
            title = "Latency of memory" if latency else "Bandwidth of memory"
            axis = "time of one access" if latency else "GB/s"
            marks = {i: r["bound_GBps"] for i, r in enumerate(mine) if not latency and positive(r, "bound_GBps")}
            told = "Line across a bar: the bound." if marks else ""
            figures.append(Figure(title, chart.bars(rows, [(key, title, ink.BLUE)], write, axis, marks), told))
    return figures


def memory_name(r):
    where = text(r, "memory_from", 20) or text(r, "memory_to", 20) or ""
    workers = number(r, "workers")
    return short(
        " ".join(part for part in (text(r, "route", 20), where, f"× {workers:g}" if workers else "") if part), 40
    )


def figures(run):
    maps = maps_of(run)
    drawn = [pair_map(key, records) for key, records in list(maps.items())[:MOST_MAPS]]
    drawn = [figure for figure in drawn if figure] + memory_bars(run)
    notes = (
        [f"maps of {MOST_MAPS} of {len(maps)} quantities, routes and sizes; the table has all"]
        if len(maps) > MOST_MAPS
        else []
    )
    return [(None, drawn)], notes
