"""The links between the GPUs of a machine, drawn between the rows of its picture: NVSwitches or NVLinks."""

from report import paper as ink
from report.paper import NAME, TEXT, clip, width_of
from report.values import count

NVLINK, C2C = ink.GREEN, ink.PURPLE
BAR, BAR_GAP = 44, 38  # the box of NVSwitches; to the GPUs
BAR_LEAST = 320
SAMPLES, CELL = 240, 5  # of curves, and pixels of the squares that they go through


def nvlink_name(link):
    return f"NVLink{link['version']}" if link["version"] else "NVLink"


def count_label(link):
    return f"×{link['count']}" + (f" of {link['count'] + link['down']}" if link["down"] else "")


def link_width(link):
    return min(1.2 + 0.5 * link["count"], 6)


class Fabric:
    """The links between GPUs, and the room that they need between the rows."""

    def __init__(self, machine, rows):
        self.machine = machine
        self.place = {p.part.name: p for row in rows for p in row.gpus}
        self.row = {p.part.name: i for i, row in enumerate(rows) for p in row.gpus}
        self.order = {p.part.name: i for row in rows for i, p in enumerate(row.gpus)}
        links = machine.topology["links"]
        self.cpu = [link for link in links if link["to"] == "cpu"]
        self.switched = [link for link in links if link["to"] == "switch"]
        self.pairs = self.both_ways([link for link in links if link["to"] in self.place])
        self.rows = len(rows)
        self.arcs = [max([self.depth(p) for p in self.pairs if self.is_arc(p, i)], default=0) for i in range(self.rows)]

    def both_ways(self, links):
        """One link of each pair, the smaller one if they differ."""
        pairs = {}
        for link in links:
            key = frozenset((link["from"], link["to"]))
            if key not in pairs or (link["count"], -link["down"]) < (pairs[key]["count"], -pairs[key]["down"]):
                pairs[key] = link
        return list(pairs.values())

    def is_arc(self, link, row):
        return self.row[link["from"]] == self.row[link["to"]] == row

    def depth(self, link):
        return 14 + 24 * abs(self.order[link["from"]] - self.order[link["to"]])

    def height(self):
        """Height of the links between the rows, or below the only one."""
        bar = BAR_GAP * min(self.rows, 2) + BAR if self.switched else 0
        if self.rows == 1:
            return bar + (self.arcs[0] + 16 if self.arcs[0] else 0)
        return max(bar + sum(self.arcs) + (50 if self.pairs else 0), 40)

    def warned(self, link):
        """True if a finding concerns the link. If a GPU lacks links, all of its links count."""
        device = self.machine.devices[link["from"]]
        missing = device.finds("NVLinks, where others") and link["to"] == "switch"
        return link["down"] > 0 or missing or device.finds(f"NVLinks to {link['to']},")


class FabricDrawing:
    """Draws the links between the heights TOP and BOTTOM, where the two rows end."""

    def __init__(self, paper, fabric, top, bottom):
        self.paper, self.fabric, self.top, self.bottom = paper, fabric, top, bottom
        self.taken = set()  # cells that have text
        self.crossed = {}  # cell: the links whose lines go through it

    def edge(self, name):
        """The edge of the GPU's row, and the direction away from it."""
        return (self.top, 1) if self.fabric.row[name] == 0 else (self.bottom, -1)

    def draw(self):
        if self.fabric.switched:
            self.switches()
        self.pairs()

    def switches(self):
        fabric, topology = self.fabric, self.fabric.machine.topology
        places = [fabric.place[link["from"]] for link in fabric.switched]
        left, right = min(p.x for p in places), max(p.x + p.width for p in places)
        middle = self.top + fabric.arcs[0] + BAR_GAP + BAR / 2
        right = max(right, left + BAR_LEAST)
        self.paper.box(left, middle - BAR / 2, right - left, BAR, edge=NVLINK, fill="#cdebdf", line=1.8)
        self.taken.update(cells((left, middle - BAR / 2, right, middle + BAR / 2)))
        n, sharing = topology["nvswitches"], topology["nvlink_nodes"]
        name = count(n, "NVSwitch", "NVSwitches") if n else "NVSwitches"
        rate = next((link["link_GBps"] for link in fabric.switched if link["link_GBps"]), None)
        kind = nvlink_name(fabric.switched[0]) + (f", a link {rate:.4g} GB/s each way" if rate else "")
        kind = (f"shared by {sharing} nodes, " if sharing > 1 else "") + kind
        center = (left + right) / 2
        self.paper.text(center, middle - 8, name, NAME, bold=True, align="center")
        self.paper.text(center, middle + 9, clip(kind, TEXT, right - left - 10), TEXT, align="center")
        for link, place in zip(fabric.switched, places):
            edge, away = self.edge(link["from"])
            self.switch_link(link, place.middle, edge, middle - away * BAR / 2)

    def switch_link(self, link, x, start, end):
        warned = self.fabric.warned(link)
        color = ink.WARNING if warned else NVLINK
        self.paper.line([(x, start), (x, end)], color, link_width(link))
        middle, text = (start + end) / 2, count_label(link)
        self.paper.text(x + 7, middle, text, TEXT, color, bold=True)
        self.taken.update(cells((x - 4, middle - 8, x + 9 + width_of(text, TEXT, True), middle + 8)))

    def ports(self):
        """{(GPU, link): x where the link begins}, ordered so that arcs do not cross there."""
        ports = {}
        for name, place in self.fabric.place.items():
            mine = [link for link in self.fabric.pairs if name in (link["from"], link["to"])]
            mine.sort(key=lambda link: self.port_order(name, link))
            for i, link in enumerate(mine):
                ports[name, id(link)] = place.x + place.width * (0.12 + 0.76 * (i + 0.5) / len(mine))
        return ports

    def port_order(self, name, link):
        """To the left first, near before far; then to the other row; then to the right, far before near."""
        other = link["to"] if link["from"] == name else link["from"]
        away = self.fabric.order[other] - self.fabric.order[name]
        if self.fabric.row[other] != self.fabric.row[name]:
            return (1, away)
        return (0, -away) if away < 0 else (2, -away)

    def pairs(self):
        ports, curves = self.ports(), []
        for link in self.fabric.pairs:
            ends = []
            for name in (link["from"], link["to"]):
                edge, away = self.edge(name)
                ends.append((ports[name, id(link)], edge, away))
            (xa, ya, away), (xb, yb, _) = ends
            if ya == yb:
                reach = ya + away * self.fabric.depth(link) * 4 / 3
                points = [(xa, ya), (xa, reach), (xb, reach), (xb, yb)]
            else:
                points = [(xa, ya), (xa, (ya + yb) / 2), (xb, (ya + yb) / 2), (xb, yb)]
            warned = self.fabric.warned(link)
            self.paper.curve(points, ink.WARNING if warned else NVLINK, link_width(link))
            curves.append((link, [bezier(points, t / SAMPLES) for t in range(SAMPLES + 1)]))
            for x, y in curves[-1][1]:
                self.crossed.setdefault((x // CELL, y // CELL), set()).add(id(link))
        for link, points in curves:
            self.label(link, points)

    def label(self, link, points):
        """Draws the count, near the middle, where it covers the least."""
        text = count_label(link)
        width, height = width_of(text, TEXT, True) + 6, 15

        def box(at):
            x, y = points[at]
            return x - width / 2, y - height / 2, x + width / 2, y + height / 2

        def covered(at):
            below = list(cells(box(at)))
            lines = set().union(*(self.crossed.get(cell, ()) for cell in below)) - {id(link)}
            return 10 * (not self.taken.isdisjoint(below)) + len(lines) + abs(at / SAMPLES - 0.5)

        at = min(range(SAMPLES // 8, SAMPLES * 7 // 8, 4), key=covered)
        self.taken.update(cells(box(at)))
        warned = self.fabric.warned(link)
        color = ink.WARNING if warned else NVLINK
        self.paper.text(*points[at], text, TEXT, color, True, align="center", ground=ink.PAPER)


def bezier(points, t):
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return tuple(sum(w * p[axis] for w, p in zip(weights, points)) for axis in (0, 1))


def cells(box):
    """The squares of CELL pixels that a box (left, top, right, bottom) touches."""
    left, top, right, bottom = (int(edge // CELL) for edge in box)
    return ((x, y) for x in range(left, right + 1) for y in range(top, bottom + 1))
