"""Pictures of --calibrate: measured times beside the predicted curve with its interval."""

from report import paper as ink
from report.page import chart
from report.page.collectives import MOST_GROUPS, belongs, groups_of
from report.page.figure import Figure
from report.values import positive, text

MOST_ALGORITHMS = 3  # more bands hide each other
WHISKER = 3  # half the width of its ends
DASHED = (0, (5, 3))


class Curve:
    """The predictions of an algorithm, and the measurements in both placements, by size."""

    def __init__(self, run, group, algorithm):
        self.name, self.color = algorithm, group.color(algorithm)
        self.predicted = group.series(algorithm, "time_us")
        rows = sorted(group.rows[algorithm].items())
        self.interval = [(s, *(positive(r, f"predicted_{end}_us") for end in ("low", "high"))) for s, r in rows]
        self.interval = [one for one in self.interval if one[1] and one[2]]
        self.cases = [
            r
            for r in run.of("result")
            if belongs(r, group)
            and text(r, "algorithm_asked", 40) == algorithm
            and positive(r, "size_bytes")
            and positive(r, "measured_us")
        ]

    def measured(self):
        """(size, time, least, 95th percentile) of each case."""
        for r in self.cases:
            time = positive(r, "measured_us")
            yield r["size_bytes"], time, positive(r, "measured_min_us") or time, positive(r, "measured_p95_us") or time

    def left_out(self):
        """(size, measured over predicted without that size, lower and upper end of the interval) of each case."""
        for r in self.cases:
            time, without = positive(r, "measured_us"), positive(r, "left_out_us")
            ends = [positive(r, key) for key in ("time_us", "predicted_low_us", "predicted_high_us")]
            if without and all(ends):
                yield r["size_bytes"], time / without, ends[1] / ends[0], ends[2] / ends[0]


def curves_of(run, group):
    found = [Curve(run, group, a) for a in group.rows]
    return sorted((curve for curve in found if curve.cases), key=lambda curve: -len(curve.cases))[:MOST_ALGORITHMS]


def whiskers(frame, paper, points, color):
    """Vertical lines from the least to the largest value of each size."""
    for s, low, high in points:
        x, ends = frame.x.at(s), (frame.y.at(low), frame.y.at(high))
        if high > low:
            paper.line([(x, ends[0]), (x, ends[1])], color, 1, above=3.2)
            for y in ends:
                paper.line([(x - WHISKER, y), (x + WHISKER, y)], color, 1, above=3.2)


def times(curves):
    values = [v for c in curves for _, *some in (*c.predicted, *c.interval, *c.measured()) for v in some]
    sizes = [s for c in curves for s, _ in c.predicted]
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(sizes), max(sizes), True),
        (*chart.ends_of(values), True),
        right=chart.room_for([c.name for c in curves]) + 10,
    )
    frame.axes(chart.size_ticks(frame.x), chart.duration_ticks(frame.y), "size, bytes", "time of one operation")
    for c in curves:
        frame.band([(s, low) for s, low, _ in c.interval], [(s, high) for s, _, high in c.interval], c.color)
        frame.line(c.predicted, c.color, 1.4)
        measured = list(c.measured())
        whiskers(frame, paper, [(s, low, high) for s, _, low, high in measured], c.color)
        paper.marks(frame.points([(s, time) for s, time, _, _ in measured]), c.color, ink.PAPER, "o", 5, 1.1)
    frame.names([(*c.predicted[-1], c.name, c.color, True) for c in curves])
    return Figure(
        "Prediction and measurement",
        paper,
        "Line: predicted. Shaded: the interval that held nine in ten measurements left out. Circles: measured, in both "
        "placements" + ("; bars: from the least to the 95th percentile of the samples." if any_spread(curves) else "."),
    )


def any_spread(curves):
    return any(low < high for c in curves for _, _, low, high in c.measured())


def left_out(curves):
    """Each measurement over its prediction without that size; None without such predictions."""
    curves = [c for c in curves if any(True for _ in c.left_out())]
    tested = [one for c in curves for one in c.left_out()]
    if not tested:
        return None
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(s for s, *_ in tested), max(s for s, *_ in tested), True),
        (*chart.ends_of([v for _, *some in tested for v in some]), True),
        right=chart.room_for([c.name for c in curves]) + 10,
    )
    frame.axes(chart.size_ticks(frame.x), chart.number_ticks(frame.y), "size, bytes", "measured over predicted time")
    frame.line([(frame.x.low, 1), (frame.x.high, 1)], ink.FAINT, 1, DASHED, above=1.8)
    ends = []
    for c in curves:
        points = sorted(c.left_out())
        limits = {s: (low, high) for s, _, low, high in points}
        frame.band([(s, low) for s, (low, _) in limits.items()], [(s, high) for s, (_, high) in limits.items()], c.color)
        paper.marks(frame.points([(s, v) for s, v, _, _ in points]), c.color, ink.PAPER, "o", 5, 1.1)
        ends.append((*points[-1][:2], c.name, c.color, True))
    frame.names(ends)
    return Figure(
        "Sizes left out",
        paper,
        "Circles: measured time over the time predicted without that size; that of the smallest and largest size is predicted "
        "from one side. Shaded: the interval.",
    )


def figures(run):
    """(heading or None, figures) of each group that has measurements, and notes."""
    groups, sections, notes = groups_of(run)[:MOST_GROUPS], [], []
    for group in groups:
        curves = curves_of(run, group)
        if not curves:
            continue
        sections.append((group.name() if len(groups) > 1 else None, [f for f in (times(curves), left_out(curves)) if f]))
        if len(curves) < sum(bool(Curve(run, group, a).cases) for a in group.rows):
            notes.append(f"{group.name()}: prediction and measurement of {MOST_ALGORITHMS} algorithms; the table has all")
    return sections, notes
