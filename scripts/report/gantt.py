"""Pipeline schedules as Gantt charts: a lane for each stage, predicted above measured on one time axis."""

from report import legend, paper as ink
from report.axis import ticks
from report.paper import LINE, NAME, SMALL, TEXT, TITLE, Paper, clip, tint, width_of, wrap
from report.words import Words

WIDTH, MARGIN = 800, 20
LABELS = 44  # the numbers of the stages, left of the lanes
AXIS = 34  # below the lanes
APART = 26  # from one schedule to the next
PARTED = 4  # least width of a pass with a white edge, which would cover narrower ones
CLEAR = 4  # between the letters of a number and the edges of its pass

# Colours of chunk 0. That of the last chunk is PALE of the way to white.
COLORS = {"F": "#56b4e9", "B": "#e69f00", "W": "#12a57a"}
PALE = 0.62
NAMES = {
    "F": "F: forward", "B": "B: gradient of the input", "W": "W: gradients of the weights", "BW": "B and W at once",
}
WAITS = "#e4e4e4"
W_SHARE = 0.35  # of the height of a pass that is B and W at once


def shade(kind, chunk, chunks):
    return tint(COLORS[kind], PALE * chunk / (chunks - 1) if chunks > 1 else 0)


def lane_height(stages):
    return next(height for most, height in ((8, 18), (16, 14), (32, 11), (64, 7), (256, 4)) if stages <= most)


def percent(fraction):
    return f"{100 * fraction:.1f}%"


def milliseconds(us):
    return f"{us / 1000:#.4g}".rstrip(".") + " ms"


class Chart:
    """One schedule: its height, and its drawing."""

    def __init__(self, schedule, width):
        self.schedule, self.record, self.width = schedule, schedule.record, width
        self.lane = lane_height(self.record["stages"])
        self.lanes = self.lane * self.record["stages"]
        self.end = max(schedule.end(source) for source in schedule.sources()) or 1
        self.ticks = ticks(0, self.end / 1000, 8)

    def height(self):
        notes = LINE if self.schedule.unknown else 0
        return 20 + len(self.schedule.sources()) * (LINE + 6 + self.lanes) + AXIS + notes

    def draw(self, paper, x, y):
        self.title(paper, x, y + LINE / 2)
        top = at = y + 20
        for source in self.schedule.sources():
            paper.text(x + LABELS, at + LINE / 2 + 1, self.heading(source), TEXT, ink.FAINT, ground=ink.PAPER)
            at += LINE + 4
            self.source(paper, x, at, source)
            at += self.lanes + 2
        self.axis(paper, x + LABELS, top + LINE + 4, at)
        if self.schedule.unknown:
            told = f"{self.schedule.unknown} passes without times are not drawn"
            paper.text(x + LABELS, at + AXIS, told, TEXT, ink.WARNING)

    def title(self, paper, x, y):
        record = self.record
        name = clip(record["schedule"], NAME + 1.5, self.width / 3, True)
        paper.text(x, y, name, NAME + 1.5, bold=True)
        at = x + width_of(name, NAME + 1.5, True) + 10
        chunks = f", {record['chunks']} chunks" if record["chunks"] > 1 else ""
        shape = f"{record['stages']} stages, {record['microbatches']} microbatches{chunks}"
        paper.text(at, y, shape, TEXT, ink.FAINT)
        bubbles = [(record[key], word) for key, word in (("predicted_bubble_over_total", "predicted"),
                                                         ("bubble_over_total", self.found()))]
        known = ", ".join(f"{percent(value)} {word}" for value, word in bubbles if value is not None)
        paper.text(x + self.width, y, f"bubble: {known or 'unknown'}", TEXT, bold=True, align="right")

    def found(self):
        """The source of the passes beside the prediction."""
        return "simulated" if self.schedule.passes["simulated"] else "measured"

    def heading(self, source):
        step = self.record["predicted_us" if source == "predicted" else "p50_us"]
        told = "" if step is None else f": a step takes {milliseconds(step)}"
        if source == "predicted":
            return f"predicted{told}"
        median = " (median)" if told else ""
        return f"{source}{told}{median}; the last one, {milliseconds(self.schedule.end(source))}, is drawn"

    def at(self, us):
        """Pixels from where the lanes begin."""
        return (self.width - LABELS) * us / self.end

    def source(self, paper, x, y, source):
        stages, x0 = self.record["stages"], x + LABELS
        gap = 2 if self.lane >= 11 else 1 if self.lane >= 7 else 0
        every = next(n for n in (1, 2, 4, 8, 16, 32) if n * self.lane >= 11)
        for stage in range(0, stages, every):
            paper.text(x0 - 6, y + (stage + 0.5) * self.lane, str(stage), SMALL, ink.FAINT, align="right")
        paper.text(x, y + 0.5 * self.lane, "stage", SMALL, ink.FAINT)
        waiting = self.at(self.schedule.end(source))
        paper.boxes([(x0, y + i * self.lane, waiting, self.lane - gap) for i in range(stages)], WAITS, above=1)
        for (kind, chunk), rectangles in self.rectangles(x0, y, source, self.lane - gap).items():
            color = shade(kind, chunk, self.record["chunks"])
            for parted in (True, False):
                alike = [one for one in rectangles if (one[2] >= PARTED and self.lane >= 7) == parted]
                if alike:
                    paper.boxes(alike, color, ink.PAPER if parted else "none", 0.5 if parted else 0)
        if self.lane >= 11:
            self.numbers(paper, x0, y, source, self.lane - gap)

    def rectangles(self, x, y, source, height):
        """Rectangles by pass and chunk, which have one colour."""
        found = {}
        for one in self.schedule.passes[source]:
            left, top = x + self.at(one["from_us"]), y + one["stage"] * self.lane
            width = x + self.at(one["to_us"]) - left
            if one["pass"] == "BW":
                part = height * (1 - W_SHARE)
                found.setdefault(("B", one["chunk"]), []).append((left, top, width, part))
                found.setdefault(("W", one["chunk"]), []).append((left, top + part, width, height - part))
            else:
                found.setdefault((one["pass"], one["chunk"]), []).append((left, top, width, height))
        return found

    def numbers(self, paper, x, y, source, height):
        """Draws numbers of microbatches where there is room."""
        for one in self.schedule.passes[source]:
            room = self.at(one["to_us"] - one["from_us"]) - CLEAR
            text = str(one["microbatch"])
            if width_of(text, SMALL) <= room:
                middle = x + self.at((one["from_us"] + one["to_us"]) / 2)
                share = 1 - W_SHARE if one["pass"] == "BW" else 1
                paper.text(middle, y + one["stage"] * self.lane + height * share / 2, text, SMALL, align="center")

    def axis(self, paper, x, top, bottom):
        for value, text in self.ticks:
            at = x + self.at(value * 1000)
            paper.line([(at, top), (at, bottom + 4)], "#bbbbbb", 0.7, above=0.5)
            paper.text(at, bottom + 12, text, SMALL, ink.FAINT, align="center")
        paper.line([(x, bottom), (x + self.width - LABELS, bottom)], ink.FAINT, 0.8)
        middle = x + (self.width - LABELS) / 2
        paper.text(middle, bottom + 25, "time since the step began, ms", SMALL, ink.FAINT, align="center")


# ---- all together --------------------------------------------------------------------------------------


def both(paper, x, middle):
    part = 12 * (1 - W_SHARE)
    paper.boxes([(x, middle - 6, legend.SAMPLE, part)], COLORS["B"])
    paper.boxes([(x, middle - 6 + part, legend.SAMPLE, 12 - part)], COLORS["W"])


def plain(color):
    return lambda paper, x, middle: paper.boxes([(x, middle - 6, legend.SAMPLE, 12)], color)


def chunk_shades(chunks):
    """A strip from the shade of the first chunk to that of the last."""
    shown = min(chunks, 4)
    width = legend.SAMPLE / shown

    def draw(paper, x, middle):
        for i in range(shown):
            paper.boxes([(x + i * width, middle - 6, width, 12)], shade("F", i, shown))

    return draw


def key_rows(schedules):
    rows = [(plain(COLORS[kind]), NAMES[kind]) for kind in COLORS if any(one.has(kind) for one in schedules)]
    if any(one.has("BW") for one in schedules):
        rows.append((both, NAMES["BW"]))
    rows.append((plain(WAITS), "waiting"))
    chunks = max(one.record["chunks"] for one in schedules)
    if chunks > 1:
        rows.append((chunk_shades(chunks), "chunks of a stage, the first to the last"))
    return rows


def heading(pipelines, width):
    words = Words(width)
    words.line([(0, "Pipeline schedules", TITLE, ink.INK, True, "left")], 20)
    words.space(4)
    computes = sorted({one.record["compute"] for one in pipelines.schedules} - {None})
    told = pipelines.run.where() + (f", computations: {', '.join(computes)}" if computes else "")
    for text in wrap(told, TEXT, width, 3):
        words.line([(0, text, TEXT, ink.FAINT, False, "left")])
    told = "Numbers: microbatches, where there is room. Bubble: the share of a step in which stages wait."
    words.line([(0, told, TEXT, ink.FAINT, False, "left")])
    return words


def draw(pipelines):
    """The picture of the schedules, below each other."""
    width = WIDTH - 2 * MARGIN
    head, charts = heading(pipelines, width), [Chart(one, width) for one in pipelines.schedules]
    key, _ = legend.lines(key_rows(pipelines.schedules), width)
    top = MARGIN + head.height + 18
    first = top + legend.STEP * len(key) + 4
    paper = Paper(WIDTH, first + sum(chart.height() + APART for chart in charts) - APART + MARGIN)
    head.draw(paper, MARGIN, MARGIN)
    legend.draw(paper, key, MARGIN, top)
    y = first
    for chart in charts:
        chart.draw(paper, MARGIN, y)
        y += chart.height() + APART
    return paper
