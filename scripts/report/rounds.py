"""Rounds of an algorithm as pictures: who sends which part of the data to whom. Plain SVG, without any module."""

import math
import re
import typing

from report.colors import FAINT, INK, PAPER, SERIES, tint
from report.values import count, number, short, text

MOST_RANKS = 32
MOST_ROUNDS = 64
MOST_MESSAGES = 2000  # of all rounds
MOST_ALGORITHMS = 12
LABELLED = 16  # ranks
LABEL = 12  # characters
NODE, SMALL_NODE = 12, 9  # radius
SIDE, TOP = 34, 22  # margins of trees
OUTSIDE = 66, 18  # room for labels beside and above a circle
LEAF, LEVEL = 54, 56  # distances in a tree
GRID = 14  # between frames
HEAD = 20  # height of a frame's title
CHORDS = 2  # across a circle: more have no labels
LETTERS, LETTER = 10, 6  # height of text, width of a letter
LINK = tint(FAINT, 0.6)


class Message(typing.NamedTuple):
    """FROM and TO are different ranks. PART: which of the parts of the data, counted from 0."""

    round: int
    sender: int
    receiver: int
    channel: int
    part: int
    adds: bool
    content: str


class Arrow(typing.NamedTuple):
    """A quadratic curve from START to END with a point that it bends to."""

    start: tuple
    bend: tuple
    end: tuple
    head: list  # of its point
    color: str
    dashed: bool
    label: str
    at: tuple  # of the label
    anchor: str  # start, middle or end of the label is there


class Frame(typing.NamedTuple):
    title: str
    told: str  # what it shows in words
    arrows: list


# ---- records ----------------------------------------------------------------------------------------------


def rank_of(record, key, ranks):
    value = number(record, key)
    return int(value) if value is not None and 0 <= value < ranks else None


def message_of(record, ranks, rounds):
    """The message; None for a copy within a rank, or if a value cannot be used."""
    ends = rank_of(record, "from", ranks), rank_of(record, "to", ranks)
    at = number(record, "round")
    if None in ends or ends[0] == ends[1] or at is None or not 1 <= at <= rounds:
        return None
    part, channel = number(record, "part"), number(record, "channel")
    return Message(int(at), *ends, int(channel or 0), int(part or 0), record.get("adds") is True,
                   text(record, "content", 60) or "")


def schedules_of(run):
    """The algorithms of a run of --explain, as far as they can be drawn, and notes about the others."""
    groups, notes = [], []
    for record in run.of("schedule", "message"):
        if record["kind"] == "schedule":
            groups.append((record, []))
        elif groups:
            groups[-1][1].append(record)
    found = []
    for head, records in groups[:MOST_ALGORITHMS]:
        one = Schedule(head, records)
        if one.refused:
            notes.append(f"no picture of {one.title}: {one.refused}")
        else:
            found.append(one)
    if len(groups) > MOST_ALGORITHMS:
        notes.append(f"pictures of the first {MOST_ALGORITHMS} of {len(groups)} algorithms")
    return found, notes


class Schedule:
    """An algorithm for some ranks, with its messages."""

    def __init__(self, head, records):
        self.collective, self.algorithm = text(head, "collective", 40) or "?", text(head, "algorithm", 60) or "?"
        self.meaning, self.reduces = text(head, "meaning"), head.get("reduces") is True
        self.ranks, self.rounds = int(number(head, "nranks") or 0), int(number(head, "rounds") or 0)
        self.title = f"{self.collective} by {self.algorithm}, {count(self.ranks, 'rank')}"
        matrix = text(head, "matrix", 40)
        self.title += f", {matrix}" if matrix else ""
        self.refused = self.refusal(len(records))
        found = [] if self.refused else [message_of(r, self.ranks, self.rounds) for r in records]
        self.messages = [m for m in found if m]
        if not self.refused and not self.messages:
            self.refused = "no rank sends anything"
        parts = sorted({m.part for m in self.messages})
        self.colors = {part: SERIES[i % len(SERIES)] for i, part in enumerate(parts)}

    def refusal(self, records):
        for n, most, what in ((self.ranks, MOST_RANKS, "rank"), (self.rounds, MOST_ROUNDS, "round"),
                              (records, MOST_MESSAGES, "message")):
            if n > most:
                return f"it has {count(n, what)}, of which at most {most:,} are drawn"
        return None

    def caption(self):
        """What lines and colours mean."""
        told = "Arrows are messages; a colour is a part of the data, and the text at an arrow is its content."
        if self.reduces:
            told += " A solid line: the receiver adds it to its own; a dashed one: it replaces what is there."
        return " ".join(filter(None, (self.meaning, told)))


def label_of(content, ranks):
    """The content without values: "c0+c3=4" is c0+c3, "a0..3=0 .. d0..3=12" a–d 0..3, and without ranks if it is the
    sum over all of several elements."""
    names = re.sub(r"=\d+", "", content).replace(" .. ", " ").split()
    if names[-1:] == [".."]:
        return short(names[0], LABEL - 1) + "…"
    if len(names) < 2:
        return short("".join(names), LABEL)
    (one, of), (other, last) = (split_name(name) for name in (names[0], names[-1]))
    if "=" not in content or of != last:
        return short(f"{names[0]}–{names[-1]}", LABEL)
    start, _, end = of.partition("..")
    everywhere = of.count("+") == ranks - 1 or end and (int(end) - int(start)) % ranks == ranks - 1
    return short(f"{one}–{other}" + (f" {of}" if not everywhere else ""), LABEL)


def split_name(name):
    """(the element, the ranks of its sum): "a1+a2" is a and 1+2."""
    element = re.match(r"[a-z]|\(\d+\)|", name)[0]
    return element, name.removeprefix(element).replace("+" + element, "+")


# ---- where ranks are --------------------------------------------------------------------------------------


class Tree:
    """The links of one channel, if they are a tree with branches."""

    def __init__(self, messages, ranks):
        self.links = {frozenset((m.sender, m.receiver)) for m in messages}
        self.near = {r: sorted(set().union(*(link for link in self.links if r in link)) - {r}) for r in range(ranks)}
        self.levels, self.children = {}, {}
        self.root = self.find_root(messages)
        if self.root is not None:
            self.descend()

    def is_tree(self, ranks):
        branches = any(len(near) > 2 for near in self.near.values())
        return branches and len(self.links) == ranks - 1 and len(self.levels) == ranks

    def find_root(self, messages):
        """The only rank that receives nothing but what it adds; else the only one that never sends."""
        ranks = set(self.near)
        for others in ({m.receiver for m in messages if not m.adds}, {m.sender for m in messages}):
            if len(ranks - others) == 1:
                return min(ranks - others)
        return None

    def descend(self):
        self.levels[self.root], queue = 0, [self.root]
        for rank in queue:
            self.children[rank] = [other for other in self.near[rank] if other not in self.levels]
            for child in self.children[rank]:
                self.levels[child] = self.levels[rank] + 1
            queue += self.children[rank]

    def place(self, left, top):
        """({rank: point}, the width)"""
        points, leaves = {}, 0

        def put(rank):
            nonlocal leaves
            for child in self.children[rank]:
                put(child)
            below = [points[child][0] for child in self.children[rank]]
            points[rank] = (sum(below) / len(below) if below else left + leaves * LEAF, top + self.levels[rank] * LEVEL)
            leaves += not below

        put(self.root)
        return points, (leaves - 1) * LEAF


class Sheet:
    """The places of ranks in all frames of a schedule: {channel: {rank: point}}, as trees or one circle."""

    def __init__(self, schedule):
        self.schedule, self.names = schedule, []
        ranks = schedule.ranks
        self.depth = 0  # levels of trees below the first
        self.radius = NODE if ranks <= LABELLED else SMALL_NODE
        channels = sorted({m.channel for m in schedule.messages})
        of = {c: [m for m in schedule.messages if m.channel == c] for c in channels}
        trees = {c: Tree(of[c], ranks) for c in channels}
        if all(tree.is_tree(ranks) for tree in trees.values()):
            self.plant(trees)
        else:
            self.encircle(ranks, channels)
        self.links = [(self.points[c][min(link)], self.points[c][max(link)])
                      for c in channels for link in sorted(trees[c].links, key=sorted)]

    def plant(self, trees):
        self.points, left = {}, SIDE
        for i, (channel, tree) in enumerate(trees.items()):
            self.points[channel], width = tree.place(left, TOP + LETTERS)
            if len(trees) > 1:
                self.names.append((left + width / 2, LETTERS / 2, f"tree {i + 1}"))
            left += width + LEAF
            self.depth = max(self.depth, *tree.levels.values())
        self.width, self.height = left - LEAF + SIDE, TOP + LETTERS + self.depth * LEVEL + TOP
        self.round = False

    def encircle(self, ranks, channels):
        wide = max(70, ranks * 4.8 * self.radius / (2 * math.pi))
        self.middle, self.wide = (wide + OUTSIDE[0], wide + self.radius + OUTSIDE[1]), wide
        turns = [2 * math.pi * r / ranks for r in range(ranks)]
        left, top = self.middle
        points = {r: (left + wide * math.sin(t), top - wide * math.cos(t)) for r, t in enumerate(turns)}
        self.points = {channel: points for channel in channels}
        self.width, self.height, self.round = 2 * self.middle[0], 2 * self.middle[1], True

    def nodes(self):
        """(x, y, name), each place once."""
        found = [(*point, str(rank)) for points in self.points.values() for rank, point in points.items()]
        return list(dict.fromkeys(found))

    def frames(self):
        found = []
        for at in sorted({m.round for m in self.schedule.messages}):
            messages = [m for m in self.schedule.messages if m.round == at]
            told = "; ".join(f"{m.sender} sends {m.content or 'data'} to {m.receiver}" for m in messages[:LABELLED])
            told += f"; and {len(messages) - LABELLED} more messages" if len(messages) > LABELLED else ""
            found.append(Frame(f"Round {at} of {self.schedule.rounds}", told, self.arrows(messages)))
        return found

    def arrows(self, messages):
        labelled = self.schedule.ranks <= LABELLED and len(messages) <= 2 * self.schedule.ranks
        chords = sum(self.round and not self.are_neighbours(m) for m in messages)
        ways = {(m.sender, m.receiver, m.channel) for m in messages}
        found, taken = [], []
        for m in messages:
            start, end = self.points[m.channel][m.sender], self.points[m.channel][m.receiver]
            near = not self.round or self.are_neighbours(m)
            back = (m.receiver, m.sender, m.channel) in ways
            bend = 0.18 if near and (self.round or back) else 0.07 if self.round else 0
            line = arrow(start, end, self.radius + 2, bend)
            label = label_of(m.content, self.schedule.ranks) if labelled and (near or chords <= CHORDS) else ""
            label, at, anchor = free_place(label, self.label_places(m, line), taken)
            dashed = self.schedule.reduces and not m.adds
            found.append(Arrow(*line, self.schedule.colors[m.part], dashed, label, at, anchor))
        return found

    def are_neighbours(self, m):
        return (m.sender - m.receiver) % self.schedule.ranks in (1, self.schedule.ranks - 1)

    def label_places(self, m, line):
        """(place, anchor) of a label, the best first: outside of a circle; on a branch, nearer to the child, where branches
        are apart; else along the line."""
        start, bent, end, _ = line
        along = lambda *shares: [(curve_point(start, bent, end, share), "middle") for share in shares]
        if not self.round:
            points = self.points[m.channel]
            down = points[m.receiver][1] > points[m.sender][1]
            return along(*(share if down else 1 - share for share in (0.62, 0.8, 0.4)))
        on = curve_point(start, bent, end, 0.5)
        far = math.dist(on, self.middle)
        if not self.are_neighbours(m) or far < 1:
            return along(0.5, 0.3, 0.7)
        inside = far < self.wide * math.cos(math.pi / self.schedule.ranks)
        out = (-8 if inside else 8) / far
        at = tuple(p + (p - q) * out for p, q in zip(on, self.middle))
        across = at[0] - self.middle[0]
        beside = "middle" if abs(across) < 0.3 * self.wide else "start" if (across > 0) != inside else "end"
        return [(at, beside)] + along(0.5, 0.35, 0.65)


def free_place(label, options, taken):
    """(label, place, anchor): the first of OPTIONS where the label covers none of TAKEN, to which it is added; without
    such a place an empty label."""
    wide, high = LETTER * len(label) + 2, LETTERS + 1
    for at, anchor in options:
        left = at[0] - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        box = left, at[1] - high / 2, left + wide, at[1] + high / 2
        if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            taken += [box] * bool(label)
            return label, at, anchor
    return "", *options[0]


def arrow(start, end, gap, bend):
    """(start, point to bend to, end, head); GAP: between its ends and the centres of ranks; BEND: to the left, as a
    share of its length."""
    across, down = end[0] - start[0], end[1] - start[1]
    middle = ((start[0] + end[0]) / 2 + 2 * bend * down, (start[1] + end[1]) / 2 - 2 * bend * across)
    toward = lambda a, b, far: tuple(p + (q - p) * far / (math.dist(a, b) or 1) for p, q in zip(a, b))
    gap = min(gap, math.hypot(across, down) / 3)
    begin, tip = toward(start, middle, gap), toward(end, middle, gap)
    stop = toward(tip, middle, 7)
    side = ((tip[1] - stop[1]) * 0.48, (stop[0] - tip[0]) * 0.48)
    head = [tip, (stop[0] + side[0], stop[1] + side[1]), (stop[0] - side[0], stop[1] - side[1])]
    return begin, middle, stop, head


def curve_point(a, b, c, t):
    return tuple((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t * t * r for p, q, r in zip(a, b, c))


# ---- SVG --------------------------------------------------------------------------------------------------


def plain(value):
    return f"{value:.1f}".removesuffix(".0")


def points_text(*points):
    return " ".join(f"{plain(x)},{plain(y)}" for x, y in points)


def escaped(value):
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def texts(found, size, color, more=""):
    """(x, y of the middle, text) as elements."""
    down = size * 0.35
    inside = "".join(f'<text x="{plain(x)}" y="{plain(y + down)}">{escaped(t)}</text>' for x, y, t in found)
    return f'<g font-size="{size}" text-anchor="middle" fill="{color}"{more}>{inside}</g>' if found else ""


def ground(sheet):
    """The elements of all frames: ranks and their links."""
    links = "".join(f"M{points_text(a)}L{points_text(b)}" for a, b in sheet.links)
    nodes = sheet.nodes()
    circles = "".join(f'<circle cx="{plain(x)}" cy="{plain(y)}" r="{sheet.radius}"/>' for x, y, _ in nodes)
    return (
        f'<path d="{links}" stroke="{LINK}" fill="none"/>'
        f'<g fill="{PAPER}" stroke="{INK}" stroke-width="1.4">{circles}</g>'
        + texts(nodes, LETTERS if sheet.radius == NODE else LETTERS - 1, INK)
        + texts(sheet.names, LETTERS, FAINT)
    )


HALO = f' stroke="{PAPER}" stroke-width="4" paint-order="stroke" stroke-linejoin="round"'  # readable on lines


def moving(frame):
    """The elements of one frame: its arrows, in one shape of each colour, and their labels."""
    found = []
    for color, dashed in dict.fromkeys((a.color, a.dashed) for a in frame.arrows):
        those = [a for a in frame.arrows if (a.color, a.dashed) == (color, dashed)]
        lines = "".join(f"M{points_text(a.start)}Q{points_text(a.bend, a.end)}" for a in those)
        heads = "".join(f"M{points_text(*a.head)}Z" for a in those)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        found.append(f'<path d="{lines}" stroke="{color}" stroke-width="2" fill="none"{dash}/>')
        found.append(f'<path d="{heads}" fill="{color}"/>')
    for anchor in ("start", "middle", "end"):
        labels = [(*a.at, a.label) for a in frame.arrows if a.label and a.anchor == anchor]
        found.append(texts(labels, LETTERS - 0.5, INK, HALO).replace('"middle"', f'"{anchor}"', 1))
    return "".join(found)


def svg(sheet, frame):
    """A frame alone, which a page shows with its title."""
    return (f'<svg class="round" role="img" viewBox="0 0 {sheet.width:.0f} {sheet.height:.0f}" '
            f'aria-label="{escaped(frame.title)}: {escaped(frame.told)}">{ground(sheet)}{moving(frame)}</svg>')


def places(sheet, n, most):
    """(upper left corners of N frames, width, height of all) in rows of at most MOST pixels."""
    columns = max(1, min(n, int((most + GRID) // (sheet.width + GRID))))
    across, down = sheet.width + GRID, sheet.height + HEAD + GRID
    corners = [(i % columns * across, i // columns * down) for i in range(n)]
    return corners, columns * across - GRID, -(-n // columns) * down - GRID


WIDEST = 1020  # pixels of all rounds in a row


def strip(schedule):
    """All rounds in one SVG file."""
    sheet = Sheet(schedule)
    frames = sheet.frames()
    corners, width, height = places(sheet, len(frames), WIDEST)
    inside = "".join(
        f'<g transform="translate({plain(x)},{plain(y)})">'
        f"{texts([(sheet.width / 2, HEAD / 2, frame.title)], LETTERS + 1, FAINT)}"
        f'<g transform="translate(0,{HEAD})"><use href="#ranks"/>{moving(frame)}</g></g>\n'
        for frame, (x, y) in zip(frames, corners)
    )
    told = " ".join(f"{frame.title}: {frame.told}." for frame in frames)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">\n'
        f"<title>{escaped(schedule.title)}</title><desc>{escaped(told)}</desc>\n"
        f'<defs><g id="ranks">{ground(sheet)}</g></defs><rect width="100%" height="100%" fill="{PAPER}"/>\n'
        f"{inside}</svg>\n"
    )


# ---- a sheet of matplotlib ----------------------------------------------------------------------------------


def dots(a):
    """Points along an arrow's line."""
    return [curve_point(a.start, a.bend, a.end, i / 12) for i in range(13)]


def paper(schedule):
    """All rounds as a picture that can be saved as PNG and PDF too."""
    from report.paper import Paper

    sheet = Sheet(schedule)
    frames = sheet.frames()
    corners, width, height = places(sheet, len(frames), WIDEST)
    drawn = Paper(width, height)
    for frame, (left, top) in zip(frames, corners):
        put_frame(drawn, sheet, frame, lambda point: (point[0] + left, point[1] + top + HEAD))
    return drawn


def put_frame(drawn, sheet, frame, at):
    """AT: from a point of the frame to that of the sheet."""
    drawn.text(*at((sheet.width / 2, -HEAD / 2)), frame.title, LETTERS + 1, FAINT, align="center")
    for link in sheet.links:
        drawn.line([at(point) for point in link], LINK, 1)
    for a in frame.arrows:
        drawn.line([at(point) for point in dots(a)], a.color, 1.5, "--" if a.dashed else "-")
        drawn.area([at(point) for point in a.head], a.color, 1, above=2.5)
        if a.label:
            align = {"start": "left", "middle": "center", "end": "right"}[a.anchor]
            drawn.text(*at(a.at), a.label, LETTERS - 1, align=align, ground=PAPER if align == "center" else None)
    drawn.marks([at((x, y)) for x, y, _ in sheet.nodes()], INK, PAPER, "o", 2 * sheet.radius, 1.1)
    for x, y, name in sheet.nodes():
        drawn.text(*at((x, y)), name, LETTERS - 1, align="center")
    for x, y, name in sheet.names:
        drawn.text(*at((x, y)), name, LETTERS - 1, FAINT, align="center")
