"""Lines, bars and cells on a sheet that is readable on a narrow screen, and beside others on a wide one."""

import math
import re

from report import paper as ink
from report.axis import ticks
from report.values import duration, size
from report.paper import Paper, broken, clip, width_of

WIDTH, HEIGHT = 460, 300
NUMBERS, NAMES = 11, 12  # heights of letters: at ticks, at lines
GRID, AXIS = "#e4e4e4", "#999999"
DOTTED = (0, (1.2, 2))
LEFT, TOP, BOTTOM = 56, 26, 40
STEP = 14  # between names at the ends of lines


class Scale:
    """From LOW to HIGH on a part of the paper that begins at START and ends at END."""

    def __init__(self, low, high, start, end, log=True):
        self.log = log
        if log:
            low, high = (low, high) if high > low else (low / 2, low * 2)
        elif not high > low:
            high = low + 1
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value):
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, -0.02), 1.02)

    def has(self, value):
        """True if it lies on the scale, whatever rounding does at its ends."""
        rounding = 1e-9 * max(abs(self.low), abs(self.high))
        return self.low - rounding <= value <= self.high + rounding

    def decades(self, name):
        """Ticks of a log axis, each named."""
        low, high = math.log10(self.low), math.log10(self.high)
        if math.floor(high) - math.ceil(low) >= 2:
            step = max(1, math.ceil((high - low) / 7))
            powers = [p for p in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1) if p % step == 0]
            return [(10.0**p, name(10.0**p)) for p in powers]
        for steps in (1, 2, 5), (1, 1.5, 2, 3, 5, 7):
            found = [m * 10.0**p for p in range(math.floor(low), math.ceil(high) + 1) for m in steps]
            found = [v for v in found if self.has(v)]
            if len(found) > 2:
                return [(v, name(v)) for v in found]
        return [(v, name(v)) for v, _ in ticks(self.low, self.high, 4) if v > 0]

    def sizes(self, most=7):
        """Powers of two, as sizes and numbers of ranks have them."""
        low, high = math.log2(self.low), math.log2(self.high)
        step = next((s for s in (1, 2, 3, 5, 10, 20) if (high - low) / s <= most - 1), 40)
        first = math.ceil(low - 1e-9)
        return [2.0**e for e in range(first, math.floor(high + 1e-9) + 1, step)]

    def plain(self, most=6):
        return ticks(self.low, self.high, most)


class Frame:
    """A panel with axes: x to the right, y upwards."""

    def __init__(self, paper, x, y, right=0, bottom=BOTTOM, left=LEFT, top=TOP):
        """X, Y: (low, high, log)."""
        self.paper = paper
        self.left, self.right = left, paper.width - max(right, 12)
        self.top, self.bottom = top, paper.height - bottom
        self.x = Scale(x[0], x[1], self.left + 6, self.right, x[2])
        self.y = Scale(y[0], y[1], self.bottom, self.top, y[2])

    def axes(self, x_ticks, y_ticks, x_name, y_name):
        paper = self.paper
        paper.text(4, 10, y_name, NUMBERS, ink.FAINT)
        paper.text((self.left + self.right) / 2, self.bottom + 31, x_name, NUMBERS, ink.FAINT, align="center")
        for value, text in y_ticks:
            if not self.y.has(value):
                continue
            y = self.y.at(value)
            paper.line([(self.left, y), (self.right, y)], GRID, 0.8, above=0.5)
            paper.text(self.left - 6, y, text, NUMBERS, ink.FAINT, align="right")
        paper.line([(self.left, self.bottom), (self.right, self.bottom)], AXIS, 0.9, above=1)
        end = -math.inf
        for value, text in x_ticks:
            if not self.x.has(value):
                continue
            x, half = self.x.at(value), width_of(text, NUMBERS) / 2
            paper.line([(x, self.bottom), (x, self.bottom + 4)], AXIS, 0.9)
            middle = min(x, paper.width - 2 - half)  # a long name at the end of the axis stays on the paper
            if middle - half > end + 5:
                paper.text(middle, self.bottom + 14, text, NUMBERS, ink.FAINT, align="center")
                end = middle + half

    def points(self, pairs):
        return [(self.x.at(x), self.y.at(y)) for x, y in pairs]

    def line(self, pairs, color, width=1.8, style="-", marks=False, above=3):
        if len(pairs) > 1:
            self.paper.line(self.points(pairs), color, width, style, above=above)
        if pairs and (marks or len(pairs) == 1):
            self.paper.marks(self.points(pairs), ink.PAPER, color, "o", 5.5, 0.7, above=above + 0.5)

    def band(self, low, high, color):
        """Between two lines that have the same x."""
        if len(low) > 1:
            self.paper.area(self.points(low) + self.points(high)[::-1], color, 0.18)

    def names(self, ends):
        """Writes names beside the ends of lines, in their order: (x, y, text, color, bold) each."""
        start = self.right + 10
        ends = sorted(((self.y.at(y), self.x.at(x), *rest) for x, y, *rest in ends), key=lambda one: one[0])
        texts = [broken(text, NAMES, self.paper.width - start - 2, bold) for *_, text, _, bold in ends]
        heights = [STEP * len(lines) for lines in texts]
        middles = spread([end[0] for end in ends], heights, self.top - STEP / 2, self.bottom + STEP / 2)
        for middle, lines, (y, x, _, color, bold) in zip(middles, texts, ends):
            style = DOTTED if start - x > 4 * STEP else "-"  # a long line would be taken for data
            self.paper.line([(x + 4, y), (start - 2, middle)], color, 0.7, style, above=2)
            write_lines(self.paper, start, middle, lines, color, bold)


def write_lines(paper, x, middle, lines, color=ink.INK, bold=False, align="left", ground=None):
    """Lines below each other, around the height MIDDLE."""
    for i, line in enumerate(lines):
        paper.text(x, middle + (i - (len(lines) - 1) / 2) * STEP, line, NAMES, color, bold, align, ground)


def spread(wanted, heights, low, high):
    """Middles near those WANTED, which ascend, of neighbours with these HEIGHTS, within LOW to HIGH if there is room."""
    placed = []
    for y, height in zip(wanted, heights):
        placed.append(max(y, low + height / 2))
        low = placed[-1] + height / 2
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], high - heights[i] / 2)
        high = placed[i] - heights[i] / 2
    return placed


def room_for(names, bold=True):
    return min(150, 14 + max((width_of(name, NAMES, bold) for name in names), default=0))


def sheet(height=HEIGHT, width=WIDTH):
    return Paper(width, height)


NARROWEST = 1.1  # log axis, from end to end


def ends_of(values, margin=0.06, log=True):
    """(low, high) of an axis for all VALUES. It spans at least a factor of NARROWEST, so that a small difference does not
    look large and ticks need at most four digits."""
    low, high = min(values), max(values)
    if log:
        grow = max((high / low) ** margin, (NARROWEST * low / high) ** 0.5) if high > low else 2
        return low / grow, high * grow
    room = (high - low) * margin or abs(high) * 0.1 or 1
    return low - room, high + room


def duration_ticks(scale):
    return [(v, duration(v, "g")) for v, _ in scale.decades(str)]


def from_zero(values):
    """(low, high) of a linear axis that shows values as shares of each other."""
    return 0, max(values) * 1.06


def number_ticks(scale):
    return scale.decades(lambda v: f"{v:g}" if v < 1e6 else f"{v:.0e}") if scale.log else scale.plain()


def size_ticks(scale):
    return [(v, size(v)) for v in scale.sizes()]


def rank_ticks(scale, most=8):
    return [(v, f"{v:g}" if v < 1e6 else f"{v:.0e}") for v in scale.sizes(most) if v >= 1]


# ---- bars ---------------------------------------------------------------------------------------------


BAR, BETWEEN = 20, 11
LONGEST = 170  # name beside a bar; longer ones stand above it


def bars(rows, parts, write, x_name, mark=None):
    """Horizontal bars, one per row, stacked from PARTS. ROWS: (name, {part: value}, text at the end); PARTS: (key, name,
    color); WRITE: text of a value at the axis; MARK: {number of a row: value}, a line across the bar."""
    mark = mark or {}
    totals = [sum(max(values.get(key) or 0, 0) for key, _, _ in parts) for _, values, _ in rows]
    longest = 10 + max(width_of(name, NAMES) for name, _, _ in rows)
    above = longest > LONGEST
    left, names = (8 if above else longest), [broken(name, NAMES, WIDTH - 12) for name, _, _ in rows]
    steps = [BAR + BETWEEN + (STEP * len(lines) + 2) * above for lines in names]
    right = 12 + max(width_of(text, NAMES) for _, _, text in rows)
    used = [part for part in parts if any((values.get(part[0]) or 0) > 0 for _, values, _ in rows)]
    key_rows = key_lines([(name, color) for _, name, color in used], WIDTH - 8) if len(used) > 1 else []
    top = 8 + 18 * len(key_rows)
    bottom = top + sum(steps)
    paper = sheet(bottom + 40)
    draw_key(paper, key_rows)
    scale = Scale(0, max(totals + list(mark.values()) + [1e-9]), left, WIDTH - right, False)
    for value, _ in scale.plain(4):
        x = scale.at(value)
        paper.line([(x, top), (x, bottom)], GRID, 0.8, above=0.5)
        paper.text(x, bottom + 10, shortest(write(value)), NUMBERS, ink.FAINT, align="center" if x > 30 else "left")
    paper.text((left + WIDTH - right) / 2, bottom + 27, x_name, NUMBERS, ink.FAINT, align="center")
    for i, (name, values, text) in enumerate(rows):
        y, x = top + sum(steps[: i + 1]) - BAR - BETWEEN / 2, 0
        middle = y + BAR / 2
        if above:
            write_lines(paper, left, y - STEP * len(names[i]) / 2 - 2, names[i], ground=ink.PAPER)
        else:
            paper.text(left - 8, middle, name, NAMES, align="right")
        for key, _, color in used:
            value = max(values.get(key) or 0, 0)
            if value > 0:
                start, end = scale.at(x), scale.at(x + value)
                paper.boxes([(start, y, max(end - start, 0.6), BAR)], color)
                x += value
        if i in mark:
            at = scale.at(mark[i])
            paper.line([(at, y - 3), (at, y + BAR + 3)], ink.INK, 1.6, above=4)
        paper.text(max(scale.at(x), scale.at(mark.get(i, 0))) + 7, middle, text, NAMES)
    return paper


def shortest(text):
    """TEXT without needless zeros behind the decimal point."""
    return re.sub(r"(\.\d*?)0+(?!\d)", lambda m: m[1].rstrip("."), text)


def key_lines(samples, width):
    """(name, color) broken into lines."""
    lines, x = [[]], 0
    for name, color in samples:
        needs = 16 + width_of(name, NAMES) + 14
        if x + needs > width and lines[-1]:
            lines.append([])
            x = 0
        lines[-1].append((x, name, color))
        x += needs
    return lines


def draw_key(paper, lines, top=2):
    for i, line in enumerate(lines):
        y = top + 18 * i + 8
        for x, name, color in line:
            paper.boxes([(x + 2, y - 5, 10, 10)], color)
            paper.text(x + 17, y, name, NAMES)


# ---- cells --------------------------------------------------------------------------------------------


# From low to high in one hue, so that grey paper and colour-blind readers see the same order. On a dark page it runs from
# dark to bright, so captions say "stronger", not "darker".
RAMP = ("#f1f6fa", "#d3e4f1", "#aacde4", "#74afd2", "#3f8cbd", "#1369a2", "#004a80", "#002f57")
UNKNOWN = "#ececec"


def ramp(share):
    """The colour of 0 to 1."""
    at = min(max(share, 0), 1) * (len(RAMP) - 1)
    low = min(int(at), len(RAMP) - 2)
    first, second = ([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in RAMP[low : low + 2])
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(first, second))


STEPS = 32  # colours of cells: cells of one colour are one shape


def cells(values, row_names, column_names, write, x_name, y_name, low=None, power=1):
    """A map of VALUES[row][column]; None is unknown. LOW: lower end of the scale (default: the least value). POWER: below 1
    it separates small values better."""
    rows, columns = len(values), max(len(row) for row in values)
    found = [v for row in values for v in row if v is not None]
    least, most = low if low is not None else min(found), max(found)
    share_of = lambda v: 0.5 if most <= least else max((v - least) / (most - least), 0) ** power
    left = 22 + min(80, max([width_of(n, NUMBERS) for n in row_names] + [0]) + 8)
    wide = (WIDTH - left - 8) / columns
    high = min(max(min(wide, 46), 6), 30) if rows * min(wide, 46) > 320 else min(max(wide, 14), 40)
    high = max(min(high, 420 / rows), 2)
    top, bottom = 24, 72
    paper = sheet(math.ceil(top + rows * high + bottom))
    by_color = {}
    for r, row in enumerate(values):
        for c, v in enumerate(row):
            color = UNKNOWN if v is None else ramp(round(share_of(v) * STEPS) / STEPS)
            by_color.setdefault(color, []).append((left + c * wide, top + r * high, wide, high))
    apart = 1 if wide > 8 and high > 8 else 0
    for color, boxes in by_color.items():
        paper.boxes([(x, y, w - apart, h - apart) for x, y, w, h in boxes], color)
    text_size = min(NUMBERS, high - 4)
    if text_size >= 8 and max(width_of(write(v), text_size) for v in found) <= wide - 4:
        for r, row in enumerate(values):
            for c, v in enumerate(row):
                if v is not None:
                    color = ink.PAPER if share_of(v) > 0.52 else ink.INK
                    paper.text(
                        left + (c + 0.5) * wide - apart / 2,
                        top + (r + 0.5) * high,
                        write(v),
                        text_size,
                        color,
                        align="center",
                    )
    name_rows(paper, row_names, left, top, high)
    name_columns(paper, column_names, left, top + rows * high, wide)
    paper.text(4, 10, y_name, NUMBERS, ink.FAINT)
    end = top + rows * high
    paper.text(left, end + 34, x_name, NUMBERS, ink.FAINT)
    middle = least + (most - least) * 0.5 ** (1 / power)
    scale_bar(paper, end + 46, [write(v) for v in (least, middle, most)], left)
    return paper


def name_rows(paper, names, left, top, high):
    every = max(1, math.ceil(12 / high))
    for i in range(0, len(names), every):
        paper.text(
            left - 6, top + (i + 0.5) * high, clip(names[i], NUMBERS, left - 8), NUMBERS, ink.FAINT, align="right"
        )


def name_columns(paper, names, left, y, wide):
    """As many names as fit, evenly spaced."""
    every = max(1, math.ceil((max(width_of(name, NUMBERS) for name in names) + 5) / wide))
    for i in range(0, len(names), every):
        x = left + (i + 0.5) * wide
        if x + width_of(names[i], NUMBERS) / 2 < WIDTH:
            paper.text(x, y + 11, names[i], NUMBERS, ink.FAINT, align="center")


def scale_bar(paper, y, names, left):
    """NAMES: of its beginning, middle and end."""
    wide = 6
    for i in range(STEPS + 1):
        paper.boxes([(left + i * wide, y, wide + 0.2, 8)], ramp(i / STEPS))
    ends = ((left, "left"), (left + wide * (STEPS + 1) / 2, "center"), (left + wide * (STEPS + 1), "right"))
    for name, (x, align) in zip(names, ends):
        paper.text(x, y + 17, name, NUMBERS, ink.FAINT, align=align)
