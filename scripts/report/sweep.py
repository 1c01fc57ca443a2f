"""Bucket sizes side by side: the time of a step, and below it the exposed part of the reductions."""

import math

from report import legend, paper as ink
from report.axis import ticks
from report.paper import NAME, SMALL, TEXT, TITLE, Paper, tint, width_of, wrap
from report.words import Words

WIDTH, MARGIN = 800, 20
LEFT = 58  # the numbers beside a panel
STEPS, REDUCTIONS = 300, 150  # heights of the panels
TITLES, NAMES = 24, 40  # above a panel, and below it
END = 34  # from an edge of a panel to the first and last size
BROKEN = 70  # between "tensor" or "one" and the sizes on the log axis
SHARE = 0.8  # of the room between sizes, for bars
BEYOND = 0.5  # share of the span of all points by which intervals may widen the axis
DODGE = 4  # between points of one size
PALE = 0.7  # of the way to white, for hidden reductions

# A colour per algorithm; further ones have other shapes.
COLORS = ink.SERIES
SHAPES = "osD"
FLOOR = "#555555"
PREDICTED = (0, (4, 2.5))  # how lines of the model are dashed


def to_ms(us):
    return us / 1000


class Scale:
    """Heights of a panel that goes from TOP down, for values from LOW to HIGH."""

    def __init__(self, top, height, low, high):
        self.top, self.height, self.low, self.high = top, height, low, high if high > low else low + 1

    def at(self, value):
        return self.top + self.height * (self.high - value) / (self.high - self.low)


class Places:
    """The place of each size: bytes on a log axis, "tensor" and "one" at its ends."""

    def __init__(self, sweep, left, right):
        self.sweep, self.x = sweep, {}
        first = left + END + (BROKEN if sweep.has_tensor else 0)
        last = right - END - (BROKEN if sweep.has_one else 0)
        if sweep.has_tensor:
            self.x["tensor"] = left + END
        if sweep.has_one:
            self.x["one"] = right - END
        if sweep.sizes:
            low, high = math.log(sweep.sizes[0]), math.log(sweep.sizes[-1])
            for size in sweep.sizes:
                share = (math.log(size) - low) / (high - low) if high > low else 0.5
                self.x[size] = first + (last - first) * share
        self.order = sorted(self.x.values())
        self.least = min((b - a for a, b in zip(self.order, self.order[1:])), default=BROKEN)

    def labels(self):
        """(x, text) of the labels that fit beside the previous one."""
        end, shown = -math.inf, []
        for size in self.sweep.places():
            text, x = self.sweep.name(size), self.x[size]
            half = width_of(text, TEXT) / 2
            if x - half > end + 6:
                shown.append((x, text))
                end = x + half
        return shown


class Look:
    """The look of a series: a colour per algorithm; without overlap hollow points and thin lines."""

    def __init__(self, sweep, number):
        one = sweep.series[number]
        algorithms = list(dict.fromkeys(series.algorithm for series in sweep.series))
        index = algorithms.index(one.algorithm)
        self.color, self.shape = COLORS[index % len(COLORS)], SHAPES[index // len(COLORS) % len(SHAPES)]
        self.hollow, self.width = one.overlap == "off", 1.1 if one.overlap == "off" else 2
        self.style = "-" if sweep.measured else PREDICTED
        self.marked = sweep.measured

    def sample(self, paper, x, middle):
        paper.line([(x, middle), (x + legend.SAMPLE, middle)], self.color, self.width, self.style)
        if self.marked:
            self.marks(paper, [(x + legend.SAMPLE / 2, middle)])

    def marks(self, paper, points):
        paper.marks(points, self.color, ink.PAPER if self.hollow else self.color, self.shape, 6)


def span(sweep):
    """Range of the times of steps in ms: all points and lines, and intervals as far as these stay readable."""
    def values(*keys):
        return [to_ms(row[key]) for row in sweep.rows for key in keys if row[key] is not None]

    points = values("step_us", "predicted_step_us", "compute_us")
    least, most = min(points), max(points)
    room = BEYOND * (most - least)
    low = max(min(points + values("low_us")), least - room)
    high = min(max(points + values("high_us")), most + room)
    margin = 0.06 * (high - low) or 0.1 * high or 1
    return max(low - margin, 0), high + margin


def is_cut(sweep):
    """Whether an interval ends outside of the panel."""
    low, high = span(sweep)
    return any(row["low_us"] is not None and to_ms(row["low_us"]) < low
               or row["high_us"] is not None and to_ms(row["high_us"]) > high for row in sweep.rows)


class Drawing:
    def __init__(self, sweep, paper, left, right):
        self.sweep, self.paper, self.left, self.right = sweep, paper, left, right
        self.places = Places(sweep, left, right)
        self.looks = [Look(sweep, i) for i in range(len(sweep.series))]

    def panel(self, title, scale, y_ticks):
        paper = self.paper
        paper.text(self.left - LEFT, scale.top - TITLES / 2 - 2, title, NAME, bold=True)
        for value, text in y_ticks:
            y = scale.at(value)
            paper.line([(self.left, y), (self.right, y)], "#dddddd", 0.7, above=0.5)
            paper.text(self.left - 7, y, text, SMALL, ink.FAINT, align="right")
        bottom = scale.top + scale.height
        paper.line([(self.left, bottom), (self.right, bottom)], ink.FAINT, 0.8)
        for x in self.places.order:
            paper.line([(x, bottom), (x, bottom + 4)], ink.FAINT, 0.8)
        for x, text in self.places.labels():
            paper.text(x, bottom + 13, text, TEXT, align="center")
        end = "bucket size in bytes, log axis; tensor: a bucket per tensor, one: a single bucket"
        paper.text((self.left + self.right) / 2, bottom + 29, end, SMALL, ink.FAINT, align="center")

    # ---- steps

    def steps(self, top):
        scale = Scale(top, STEPS, *span(self.sweep))
        title = "Time of a step, ms" + (": median" if self.sweep.measured else ", predicted")
        self.panel(title, scale, ticks(scale.low, scale.high, 8))
        for floor in sorted({row["compute_us"] for row in self.sweep.rows} - {None}):
            y = scale.at(to_ms(floor))
            self.paper.line([(self.left, y), (self.right, y)], FLOOR, 1.4, (0, (1, 1.2)), above=1.5)
        for number in range(len(self.sweep.series)):
            self.one(number, scale)

    def one(self, number, scale):
        """The lines of a series, beside those of the others."""
        series, look, n = self.sweep.series[number], self.looks[number], len(self.sweep.series)
        apart = min(DODGE, 0.5 * self.places.least / n) * (number - (n - 1) / 2)

        def points(key):
            rows = [(size, series.rows[size]) for size in self.sweep.places() if size in series.rows]
            return [(self.places.x[size] + apart, scale.at(to_ms(row[key]))) for size, row in rows
                    if row[key] is not None]

        if points("predicted_step_us"):
            self.paper.line(points("predicted_step_us"), look.color, look.width * 0.7, PREDICTED)
        if not points("step_us"):
            return
        self.paper.line(points("step_us"), look.color, look.width, above=2.5)
        for size, row in series.rows.items():
            if row["step_us"] is not None:
                self.point(self.places.x[size] + apart, row, scale, look)
        look.marks(self.paper, points("step_us"))

    def point(self, x, row, scale, look):
        """Its confidence interval, and a ring where it is marked."""
        if row["low_us"] is not None and row["high_us"] is not None:
            self.interval(x, to_ms(row["low_us"]), to_ms(row["high_us"]), scale, look.color)
        ring = best_ring if row["best"] == 1 else good_ring if row["as_good"] == 1 else None
        if ring:
            ring(self.paper, x, scale.at(to_ms(row["step_us"])))

    def interval(self, x, low, high, scale, color):
        """A line with a bar at either end, or an arrow where it continues outside the panel."""
        ends = [min(max(end, scale.low), scale.high) for end in (low, high)]
        self.paper.line([(x, scale.at(end)) for end in ends], color, 1.1, above=2.6)
        for end, shown, arrow in zip((low, high), ends, "v^"):
            y = scale.at(shown)
            if end != shown:
                self.paper.marks([(x, y)], color, color, arrow, 6)
            else:
                self.paper.line([(x - 3, y), (x + 3, y)], color, 1.1, above=2.6)

    # ---- reductions

    def reductions(self, top):
        whole, waited = "reduce_us", "exposed_us"
        values = [to_ms(row[key]) for row in self.sweep.rows for key in (whole, waited) if row[key] is not None]
        scale = Scale(top, REDUCTIONS, 0, 1.05 * max(values + [0]))
        title = "Reductions, ms: solid the exposed part, faint the hidden one; in the order of the key"
        self.panel(title, scale, ticks(0, scale.high, 5))
        width = min(SHARE * self.places.least / len(self.sweep.series), 16)
        for number, (series, look) in enumerate(zip(self.sweep.series, self.looks)):
            shift = (number - len(self.sweep.series) / 2) * width
            for key, fill in ((whole, tint(look.color, PALE)), (waited, look.color)):
                bars = [(size, row[key]) for size, row in series.rows.items() if (row[key] or 0) > 0]
                tops = [(self.places.x[size] + shift, scale.at(to_ms(us))) for size, us in bars]
                boxes = [(x, y, width * 0.88, scale.at(0) - y) for x, y in tops]
                if boxes:
                    self.paper.boxes(boxes, fill, above=2 if key == whole else 3)


# ---- all together --------------------------------------------------------------------------------------


def best_ring(paper, x, y):
    paper.marks([(x, y)], ink.INK, "none", "o", 14, 1.8)


def good_ring(paper, x, y):
    paper.marks([(x, y)], ink.FAINT, "none", "o", 12, 0.8)


def in_key(ring):
    return lambda paper, x, middle: ring(paper, x + legend.SAMPLE / 2, middle)


def interval(paper, x, middle):
    at = x + legend.SAMPLE / 2
    for points in ([(at, middle - 6), (at, middle + 6)], [(at - 3, middle - 6), (at + 3, middle - 6)],
                   [(at - 3, middle + 6), (at + 3, middle + 6)]):
        paper.line(points, ink.INK, 1.1)


def arrow(paper, x, middle):
    at = x + legend.SAMPLE / 2
    paper.line([(at, middle - 3), (at, middle + 7)], ink.INK, 1.1)
    paper.marks([(at, middle - 4)], ink.INK, ink.INK, "^", 6)


def key_rows(sweep):
    rows = [(Look(sweep, i).sample, one.name()) for i, one in enumerate(sweep.series)]
    if not sweep.measured:
        return rows
    known = lambda key: any(row[key] is not None for row in sweep.rows)
    rows += [(legend.line(ink.INK, PREDICTED, 1.4), "predicted by the model")] if known("predicted_step_us") else []
    rows += [(interval, "95% confidence interval")] if known("low_us") else []
    rows += [(arrow, "continues outside")] if is_cut(sweep) else []
    rows += [(legend.line(FLOOR, (0, (1, 1.2)), 1.4), "computations alone")] if known("compute_us") else []
    rows += [(in_key(best_ring), "shortest step with this overlap")] if sweep.best() else []
    as_good = any(row["as_good"] == 1 and row["best"] != 1 for row in sweep.rows)
    return rows + ([(in_key(good_ring), "tied with it: the intervals overlap")] if as_good else [])


def heading(sweep, width):
    words, first = Words(width), sweep.first
    words.line([(0, "Gradient buckets", TITLE, ink.INK, True, "left")], 20)
    words.space(4)
    what = ", ".join(text for text in (first["model"], first["dtype"], f"{first['nranks']} ranks") if text)
    for text in [*wrap(what, NAME, width, 2), *[line for told in sweep.run.answers() for line in wrap(told, NAME, width, 3)]]:
        words.line([(0, text, NAME, ink.INK, False, "left")])
    for text in wrap(sweep.run.where(), TEXT, width, 3):
        words.line([(0, text, TEXT, ink.FAINT, False, "left")])
    return words


def draw(sweep):
    """The picture of one run: both panels above each other."""
    width = WIDTH - 2 * MARGIN
    head = heading(sweep, width)
    key, _ = legend.lines(key_rows(sweep), width)
    top = MARGIN + head.height + 18
    steps = top + legend.STEP * len(key) + TITLES + 4
    reductions = steps + STEPS + NAMES + TITLES + 14
    paper = Paper(WIDTH, reductions + REDUCTIONS + NAMES + MARGIN)
    head.draw(paper, MARGIN, MARGIN)
    legend.draw(paper, key, MARGIN, top)
    drawing = Drawing(sweep, paper, MARGIN + LEFT, WIDTH - MARGIN)
    drawing.steps(steps)
    drawing.reductions(reductions)
    return paper
