"""A sheet for drawing in pixels, with the origin at its top left."""

import functools
import io
import logging
import math
import warnings

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from report.colors import BLUE, FAINT, GREEN, INK, PAPER, PURPLE, SERIES, SKY, WARNING, tint
from report.files import clean

DPI = 100  # of the sheet's pixels
PNG_SCALE, PNG_LEAST = 2, 1800  # pixels of a PNG for one of the sheet, and least width: a slide is as wide

SMALL, TEXT, NAME, TITLE = 9, 10.5, 11.5, 17  # heights of letters
LINE = 14  # from one line of text to the next
GAP = 8  # between neighbours

matplotlib.rcParams.update(
    {
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans", "Verdana"],  # an SVG names both: they are as wide as each other
        "svg.fonttype": "none",  # text stays text: it can be searched and copied
        "svg.hashsalt": "busbench",  # the same picture is the same file
        "pdf.fonttype": 42,
    }
)
logging.getLogger("matplotlib").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="Glyph")  # a box stands for a character the font lacks


@functools.lru_cache(None)
def font(size, bold):
    return FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")


@functools.lru_cache(4096)
def width_of(text, size, bold=False):
    return text_to_path.get_text_width_height_descent(text, font(size, bold), False)[0]


def clip(text, size, width, bold=False):
    """TEXT, or as much as fits and an ellipsis."""
    text = clean(text)[:2000]
    if width_of(text, size, bold) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if width_of(text[:middle] + "…", size, bold) <= width:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def wrap(text, size, width, most):
    """At most MOST lines that fit the width; longer text ends in an ellipsis."""
    lines = []
    words = clean(text)[:4000].split()
    while words and len(lines) < most:
        line = words.pop(0)
        while words and width_of(f"{line} {words[0]}", size) <= width:
            line += " " + words.pop(0)
        lines.append(line)
    if words:
        lines[-1] += " " + " ".join(words)
    return [clip(line, size, width) for line in lines]


BREAKS = " +", "_-:/"  # a line may end with one of the first, else of the others


def broken(text, size, width, bold=False):
    """All of TEXT, in lines that fit the width."""
    lines, text = [], clean(text)[:400]
    while width_of(text, size, bold) > width and len(text) > 1:
        fits = max(len(clip(text, size, width, bold)) - 1, 1)
        found = (max(text.rfind(sign, 1, fits) for sign in signs) + 1 for signs in BREAKS)
        at = next(filter(None, found), fits)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return lines + [text]


class Paper:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
        self.axes = self.figure.add_axes([0, 0, 1, 1])
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.axes.axis("off")

    def text(self, x, y, text, size, color=INK, bold=False, align="left", ground=None, above=5):
        """One line whose middle is at height Y. GROUND: a colour behind it."""
        return self.axes.text(
            x, y, text.replace("$", r"\$"),  # else text between two would be a formula
            fontsize=size * 72 / DPI, color=color, weight="bold" if bold else "normal", ha=align,
            va="center_baseline", zorder=above,
            bbox={"facecolor": ground, "edgecolor": "none", "pad": 1.2} if ground else None,
        )

    def box(self, x, y, width, height, edge=INK, fill=PAPER, line=1.2, radius=4, above=3):
        self.axes.add_patch(
            FancyBboxPatch(
                (x + radius, y + radius), width - 2 * radius, height - 2 * radius, edgecolor=edge, facecolor=fill,
                boxstyle=f"round,pad={radius},rounding_size={radius}", linewidth=line, zorder=above,
            )
        )

    def boxes(self, rectangles, fill, edge="none", line=0, above=3):
        """Sharp-cornered (x, y, width, height), all alike: one shape, however many there are."""
        corners, codes = [], [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(rectangles)
        for x, y, width, height in rectangles:
            corners += [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
        # Not add_patch: it looks for the limits of each shape, which the sheet has.
        self.axes.add_artist(
            PathPatch(Path(corners, codes), facecolor=fill, edgecolor=edge, linewidth=line, zorder=above)
        )

    def line(self, points, color=INK, width=1.4, style="-", above=2):
        self.axes.plot(*zip(*points), color=color, linewidth=width, linestyle=style, solid_capstyle="butt",
                       solid_joinstyle="round", zorder=above)

    def area(self, points, fill, share, above=1.5):
        """A closed shape; SHARE: how opaque it is."""
        self.axes.fill(*zip(*points), facecolor=fill, alpha=share, linewidth=0, zorder=above)

    def marks(self, points, edge, fill, shape, size, width=1.4, above=4):
        """Draws marks of SIZE at the points; SHAPE is matplotlib's letter."""
        self.axes.plot(*zip(*points), linestyle="none", marker=shape, markersize=size * 72 / DPI, markerfacecolor=fill,
                       markeredgecolor=edge, markeredgewidth=width, zorder=above)

    def curve(self, points, color, width, above=2):
        """A cubic Bézier curve of four points."""
        codes = [Path.MOVETO] + [Path.CURVE4] * 3
        self.axes.add_patch(
            PathPatch(Path(points, codes), edgecolor=color, facecolor="none", linewidth=width, zorder=above)
        )

    def extend(self, above, below, side):
        """Adds room around it. What is there keeps its place: what is above has negative heights."""
        self.figure.set_size_inches((self.width + 2 * side) / DPI, (self.height + above + below) / DPI)
        self.axes.set_xlim(-side, self.width + side)
        self.axes.set_ylim(self.height + below, -above)

    def save(self, form):
        """The picture as bytes of a file of that format."""
        out = io.BytesIO()
        when = {"svg": "Date", "pdf": "CreationDate"}.get(form)
        scale = max(PNG_SCALE, math.ceil(PNG_LEAST / self.width))
        self.figure.savefig(out, format=form, dpi=DPI * scale if form == "png" else DPI,
                            metadata={when: None} if when else None)
        return out.getvalue()
