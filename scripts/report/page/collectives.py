"""Pictures of collectives: bandwidth and time against size, winners, iterations, arrivals."""

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.values import (
    duration,
    number,
    numbers,
    positive,
    positives,
    size,
    text,
)

MOST_GROUPS = 4  # combinations of datatype, operation and root with pictures
MOST_ALGORITHMS = 8
DASHED = (0, (5, 3))


class Group:
    """Results of one collective, datatype, operation and root: by algorithm, then size. Out-of-place results are
    shown if there are any, as in the comparison, and the last of several cycles."""

    def __init__(self, key, records):
        self.collective, self.dtype, self.op, self.root = key
        self.in_place = all(r.get("in_place") is True for r in records)
        self.rows = {}
        for r in records:
            bytes_ = positive(r, "size_bytes")
            if (r.get("in_place") is True) == self.in_place and bytes_ and positive(r, "time_us"):
                self.rows.setdefault(text(r, "algorithm_asked", 40) or "unnamed", {})[bytes_] = r
        nearest = {a: self.nearest(rows) for a, rows in self.rows.items()}
        shown = sorted(nearest, key=nearest.get)[:MOST_ALGORITHMS]
        self.left_out = len(self.rows) - len(shown)
        self.rows = {a: rows for a, rows in self.rows.items() if a in shown}

    def nearest(self, rows):
        """How many times as long as the fastest an algorithm takes, at the size where it does best."""
        best = lambda s: min(others[s]["time_us"] for others in self.rows.values() if s in others)
        return min(r["time_us"] / best(s) for s, r in rows.items())

    def name(self):
        parts = [
            self.collective,
            self.dtype,
            self.op if self.op != "none" else None,
            f"root {self.root}" if self.root is not None and self.root >= 0 else None,
        ]
        return " ".join(part for part in parts if part) + (", in place" if self.in_place else "")

    def color(self, algorithm):
        return ink.SERIES[list(self.rows).index(algorithm)]

    def series(self, algorithm, key):
        found = sorted(self.rows[algorithm].items())
        return [(s, positive(r, key)) for s, r in found if positive(r, key)]

    def sizes(self):
        return sorted({s for rows in self.rows.values() for s in rows})

    def label(self, algorithm):
        """Its name, and what ran at the largest size if the name does not tell (auto, a stand-in)."""
        last = self.rows[algorithm][max(self.rows[algorithm])]
        ran = text(last, "library_algorithm", 30) or text(last, "algorithm", 30) or algorithm
        return algorithm if ran.partition(":")[0] == algorithm or ran == algorithm else f"{algorithm} ({ran})"


def key_of(r):
    return text(r, "collective", 40), text(r, "dtype", 20), text(r, "op", 20), number(r, "root")


def groups_of(run):
    found = {}
    for r in run.of("result"):
        found.setdefault(key_of(r), []).append(r)
    return [group for group in (Group(key, records) for key, records in found.items()) if group.rows]


def belongs(r, group):
    return key_of(r) == (group.collective, group.dtype, group.op, group.root)


# ---- lines against size ---------------------------------------------------------------------------------


def against_size(group, key, low, high, bound, y_name, y_ticks, log=True, turns=()):
    """LOG: how values are drawn; sizes are logarithmic. TURNS: sizes marked by vertical lines."""
    lines = {a: group.series(a, key) for a in group.rows}
    lines = {a: points for a, points in lines.items() if points}
    bounds = {a: group.series(a, bound) for a in lines}
    values = [v for points in [*lines.values(), *bounds.values()] for _, v in points]
    sizes = [s for points in lines.values() for s, _ in points]
    if not values:
        return None
    shared = len({tuple(points) for points in bounds.values() if points}) == 1 and len(lines) > 1
    labels = {a: group.label(a) for a in lines}
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(sizes), max(sizes), True),
        (*(chart.ends_of(values) if log else chart.from_zero(values)), log),
        right=chart.room_for(labels.values()) + 10,
    )
    frame.axes(chart.size_ticks(frame.x), y_ticks(frame.y), "size, bytes", y_name)
    for place in turns:
        if frame.x.low <= place <= frame.x.high:
            paper.line(
                [(frame.x.at(place), frame.top), (frame.x.at(place), frame.bottom)], ink.FAINT, 1, chart.DOTTED, above=1
            )
    for a, points in lines.items():
        color = group.color(a)
        rows = sorted(group.rows[a].items())
        ends = [(s, positive(r, low), positive(r, high)) for s, r in rows]
        ends = [(s, l, h) for s, l, h in ends if l and h]
        frame.band([(s, l) for s, l, _ in ends], [(s, h) for s, _, h in ends], color)
        if bounds[a]:
            level = [(end, bounds[a][0][1]) for end in (frame.x.low, frame.x.high)]  # a single point has no dashes
            frame.line(bounds[a] if len(bounds[a]) > 1 else level, ink.FAINT if shared else color, 1, DASHED, above=1.8)
        frame.line(points, color, marks=True)
    frame.names([(*points[-1], labels[a], group.color(a), True) for a, points in lines.items()])
    return paper


def caption(group):
    """Explains the lines that the picture has."""
    rows = [r for rows in group.rows.values() for r in rows.values()]
    told = []
    if any(positive(r, "ci_low_us") for r in rows):
        told.append(
            "Lines: mean of the loop. Shaded: 95 % confidence interval of the median sample; "
            "a few slow samples, or ranks that differ, move the mean out of it."
        )
    if any(positive(r, "bound_us") for r in rows):
        sources = {text(r, "bound_source", 160) for r in rows} - {None}
        why = f" ({'; '.join(sorted(sources)[:2])})" if sources else ""
        told.append(f"Dashed: the bound of the algorithm{why}.")
    return " ".join(told)


def bandwidth(group):
    fields = "busbw_GBps", "busbw_low_GBps", "busbw_high_GBps", "bound_busbw_GBps"
    linear, log = (
        against_size(group, *fields, "bus bandwidth, GB/s", chart.number_ticks, log) for log in (False, True)
    )
    return linear and Figure("Bus bandwidth", linear, caption(group), logarithmic=log)


def crossing_of(run, group):
    """The record of ring and tree, else of the only pair; None without."""
    found = [r for r in run.of("crossing") if belongs(r, group)]
    wanted = [r for r in found if {text(r, "ahead"), text(r, "behind")} == {"ring", "tree"}]
    return (wanted or found)[0] if wanted or len(found) == 1 else None


def time(run, group):
    crossing = crossing_of(run, group) or {}
    turns = positives(crossing, "crossing_bytes", 8)
    names = "time_us", "ci_low_us", "ci_high_us", "bound_us", "time of one operation"
    paper = against_size(group, *names, chart.duration_ticks, turns=turns)
    told = f"Dotted: crossover of {text(crossing, 'ahead', 40)} and {text(crossing, 'behind', 40)}." if turns else ""
    return paper and Figure("Time", paper, " ".join(filter(None, (told, caption(group)))))


def percent(group):
    lines = {a: group.series(a, "percent_of_bound") for a in group.rows}
    lines = {a: points for a, points in lines.items() if points}
    if not lines:
        return None
    values = [v for points in lines.values() for _, v in points]
    sizes = [s for points in lines.values() for s, _ in points]
    paper = chart.sheet()
    frame = chart.Frame(
        paper, (min(sizes), max(sizes), True), (0, max(100, *values) * 1.04, False), right=chart.room_for(lines) + 10
    )
    frame.axes(
        chart.size_ticks(frame.x),
        [(v, t + " %") for v, t in frame.y.plain()],
        "size, bytes",
        "percent of the bound",
    )
    frame.line([(frame.x.low, 100), (frame.x.high, 100)], ink.FAINT, 1, DASHED, above=1.8)
    for a, points in lines.items():
        frame.line(points, group.color(a), marks=True)
    frame.names([(*points[-1], a, group.color(a), True) for a, points in lines.items()])
    note = "100 %: the algorithm's bytes at the speed of the bound."
    doubts = {(a, text(r, "bound_doubt")) for a, rows in group.rows.items() for r in rows.values() if text(r, "bound_doubt")}
    note = " ".join([note, *(f"{a} beats its bound: {why}." for a, why in sorted(doubts))])
    return Figure("Percent of the bound", paper, note)


# ---- winners ---------------------------------------------------------------------------------------------


def crossing_sentence(r):
    """A sentence about the crossover of two algorithms; None if the record lacks one."""
    ahead, behind = text(r, "ahead", 40), text(r, "behind", 40)
    places = [size(v) for v in positives(r, "crossing_bytes", 8)]
    if not ahead or not behind:
        return None
    if not places:
        return f"{ahead} is faster than {behind} at every size."
    if len(places) == 1:
        return f"{ahead} is faster than {behind} below about {places[0]}, slower above."
    return f"{ahead} begins faster than {behind}; they cross at about {', '.join(places[:-1])} and {places[-1]}."


def winners(run, group):
    """The fastest algorithm at each size."""
    records = {
        positive(r, "size_bytes"): r
        for r in run.of("winner")
        if belongs(r, group) and (r.get("in_place") is True) == group.in_place
    }
    sizes = [s for s in group.sizes() if s in records]
    names = [a for a in group.rows]
    if len(sizes) < 2 or len(names) < 2:
        return None
    left = 12 + min(140, max(chart.width_of(a, chart.NAMES, True) for a in names))
    labels = {a: chart.broken(a, chart.NAMES, left - 10, True) for a in names}
    high = max(30, 2 + chart.STEP * max(map(len, labels.values())))
    wide, top = (chart.WIDTH - left - 6) / len(sizes), 24
    paper = chart.sheet(top + high * len(names) + 44)
    paper.text(4, 10, "fastest algorithm at each size, and its speed relative to the second", chart.NUMBERS, ink.FAINT)
    for i, a in enumerate(names):
        y = top + i * high
        chart.write_lines(paper, left - 8, y + high / 2, labels[a], group.color(a), True, "right")
        paper.boxes([(left + c * wide, y, wide - 1, high - 1) for c in range(len(sizes))], "#f3f3f3", above=1)
    for c, s in enumerate(sizes):
        asked = text(records[s], "algorithm_asked", 40)
        if asked not in names:
            continue
        y, lead = top + names.index(asked) * high, number(records[s], "times_second")
        paper.boxes([(left + c * wide, y, wide - 1, high - 1)], group.color(asked), above=2)
        told = f"{lead:.1f}×" if lead is not None and lead < 100 else ""
        for letters in (chart.NUMBERS, 9):
            if told and chart.width_of(told, letters) <= wide - 3:
                paper.text(left + (c + 0.5) * wide, y + high / 2, told, letters, ink.PAPER, align="center")
                break
    chart.name_columns(paper, [size(s) for s in sizes], left, top + high * len(names), wide)
    paper.text((left + chart.WIDTH) / 2, paper.height - 12, "size, bytes", chart.NUMBERS, ink.FAINT, align="center")
    told = [crossing_sentence(r) for r in run.of("crossing") if belongs(r, group)]
    return Figure("Winners", paper, " ".join(t for t in told[:4] if t))


# ---- iterations -------------------------------------------------------------------------------------------


def sampled(group):
    """(algorithm, record) of the largest size that has samples."""
    for s in reversed(group.sizes()):
        found = [
            (a, rows[s]) for a, rows in group.rows.items() if s in rows and len(numbers(rows[s], "samples_us")) > 1
        ]
        if found:
            return s, found
    return None, []


def time_line(group):
    s, found = sampled(group)
    if not found:
        return None
    series = {a: positives(r, "samples_us", 2000) for a, r in found}
    values = [v for samples in series.values() for v in samples]
    if not values:
        return None
    most = max(len(samples) for samples in series.values())
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (1, max(most, 2), False),
        (*chart.ends_of(values), True),
        right=chart.room_for(series) + 10,
    )
    frame.axes(
        [(v, t) for v, t in frame.x.plain() if float(v).is_integer()],
        chart.duration_ticks(frame.y),
        "iteration",
        f"time of each iteration at {size(s)}",
    )
    for a, r in found:
        frame.line(list(enumerate(series[a], 1)), group.color(a), 1.1, marks=most <= 60)
        if positive(r, "p50_us"):
            frame.line(
                [(1, positive(r, "p50_us")), (max(most, 2), positive(r, "p50_us"))], group.color(a), 1, chart.DOTTED, above=2
            )
    frame.names(
        [
            (len(series[a]), positive(r, "p50_us") or series[a][-1], a, group.color(a), True)
            for a, r in found
            if series[a]
        ]
    )
    return Figure("Iterations in order", paper, "Time of the slowest rank. Dotted: the median.")


def distribution(group):
    s, found = sampled(group)
    series = {a: sorted(positives(r, "samples_us")) for a, r in found}
    series = {a: samples for a, samples in series.items() if samples}
    if not series:
        return None
    values = [v for samples in series.values() for v in samples]
    paper = chart.sheet()
    frame = chart.Frame(paper, (*chart.ends_of(values), True), (0, 100, False))
    frame.axes(
        chart.duration_ticks(frame.x),
        [(v, f"{v} %") for v in (0, 25, 50, 75, 100)],
        f"time at {size(s)}",
        "iterations that take at most this long",
    )
    for place, (a, r) in enumerate(one for one in found if one[0] in series):
        samples, n = series[a], len(series[a])
        steps = [(samples[0], 0)]
        for i, v in enumerate(samples):
            steps += [(v, 100 * i / n), (v, 100 * (i + 1) / n)]
        frame.line(steps, group.color(a), 1.6)
        for key, share in (("p50_us", 50), ("p95_us", 95), ("p99_us", 99)):
            if positive(r, key):
                frame.line([(positive(r, key), share)], group.color(a), marks=True)
        share = (place + 1) / (len(series) + 1)
        name = chart.clip(a, chart.NAMES, 380, True)
        x = min(frame.x.at(samples[int(share * (n - 1))]) + 8, frame.right - chart.width_of(name, chart.NAMES, True))
        paper.text(x, frame.y.at(100 * share), name, chart.NAMES, group.color(a), True, ground=ink.PAPER)
    return Figure(
        "Distribution of the iterations", paper, "The steeper, the steadier. Dots: p50, p95 and p99 as recorded."
    )


def arrivals(run, group):
    """For each algorithm at the largest size: the lateness of each rank in each iteration."""
    records = [r for r in run.of("arrival") if belongs(r, group) and (r.get("in_place") is True) == group.in_place]
    figures = []
    for a in list(group.rows)[:3]:
        mine = [r for r in records if text(r, "algorithm_asked", 40) == a and positive(r, "size_bytes")]
        if not mine:
            continue
        s = max(positive(r, "size_bytes") for r in mine)
        rows = {number(r, "rank"): numbers(r, "late_us", 400) for r in mine if positive(r, "size_bytes") == s}
        rows = {rank: late for rank, late in sorted((k, v) for k, v in rows.items() if k is not None and v)[:256]}
        if len(rows) < 2:
            continue
        n = max(len(late) for late in rows.values())
        paper = chart.cells(
            [late + [None] * (n - len(late)) for late in rows.values()],
            [f"{rank:g}" for rank in rows],
            [str(i + 1) for i in range(n)],
            lambda us: duration(us) if us else "0",
            "iteration",
            "rank",
            0,
            0.5,
        )
        figures.append(Figure(f"Arrivals, {a} at {size(s)}", paper, arrival_sentence(group.rows[a].get(s))))
    return figures


def arrival_sentence(r):
    told = (
        "Time from the first rank's entry into an iteration to that of each rank: the stronger the cell, the later. "
        "A strong row is a rank that keeps the others waiting."
    )
    last, share, late = (r and number(r, key) for key in ("last_rank", "last_share", "last_late_us"))
    if last is None or share is None or late is None:
        return told
    often = f"in {100 * share:.0f} % of the iterations, {duration(late)} after the median rank"
    return f"{told} Rank {last:g} came last {often}."


# ---- all ---------------------------------------------------------------------------------------------------


def figures(run):
    """(heading or None, figures) of each group, and notes."""
    groups = groups_of(run)
    sections, notes = [], []
    for group in groups[:MOST_GROUPS]:
        drawn = [
            bandwidth(group),
            time(run, group),
            winners(run, group),
            percent(group),
            time_line(group),
            distribution(group),
            *arrivals(run, group),
        ]
        sections.append((group.name() if len(groups) > 1 else None, [figure for figure in drawn if figure]))
        if group.left_out:
            notes.append(f"{group.name()}: {group.left_out} more algorithms are in the table, not in the pictures")
    if len(groups) > MOST_GROUPS:
        notes.append(f"pictures of {MOST_GROUPS} of {len(groups)} datatypes, operations and roots; the table has all")
    return sections, notes
