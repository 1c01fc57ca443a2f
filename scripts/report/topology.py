"""The picture of a machine, as on a whiteboard: packages with their NUMA nodes, below them PCIe switches and devices,
and in the middle the links between GPUs. Large machines are drawn in two rows, the second upside down, so that GPUs face
each other."""

from report import legend, paper as ink
from report.columns import (
    BRIDGE_HEIGHT, BRIDGE_STEP, CPU_HEIGHT, DROP, INDENT, Heights, device_lines, fitting, inner_width,
)
from report.fabric import C2C, NVLINK, Fabric, FabricDrawing, count_label, link_width, nvlink_name
from report.machine import BOUNDS, bytes_text
from report.paper import GAP, LINE, NAME, TEXT, TITLE, Paper, clip, width_of, wrap
from report.values import count
from report.words import Words

WIDTH, WIDTH_LEAST = 1200, 600
MARGIN = 20

KINDS = {"gpu": (ink.GREEN, "#e3f4ee"), "nvme": (ink.PURPLE, "#f7eaf2")}
LAYERS = {"InfiniBand": (ink.BLUE, "#e2eff7"), "Ethernet": (ink.SKY, "#eef7fc"), None: (ink.FAINT, "#f2f2f2")}
PCIE = "#555555"
BETWEEN = (0, (1.5, 0.8))  # how the line between packages is dashed


def colors(device):
    return LAYERS[device.device["layer"]] if device.kind == "nic" else KINDS[device.kind]


# ---- a row -------------------------------------------------------------------------------------------


class RowDrawing:
    """Draws a row whose outer edge is at height Y; UP: upside down."""

    def __init__(self, paper, row, heights, to_cpu, y, up):
        self.paper, self.row, self.heights, self.start, self.sign = paper, row, heights, y, -1 if up else 1
        self.to_cpu = to_cpu  # links between GPUs and their CPU

    def y(self, depth):
        """Height at that distance from the outer edge."""
        return self.start + self.sign * depth

    def box(self, x, depth, width, height, **how):
        self.paper.box(x, min(self.y(depth), self.y(depth + height)), width, height, **how)

    def lines(self, x, middle, lines):
        """Lines of text, centred around a height."""
        for i, (text, size, color, bold) in enumerate(lines):
            y = middle + (i - (len(lines) - 1) / 2) * LINE
            self.paper.text(x, y, text, size, color, bold, align="center")

    def draw(self):
        for place in self.row.places:
            self.package(place)
        for a, b in zip(self.row.places, self.row.places[1:]):
            if a.part.name and b.part.name:
                self.paper.line([(a.x + a.width, self.y(CPU_HEIGHT / 2)), (b.x, self.y(CPU_HEIGHT / 2))], ink.INK, 2, BETWEEN)
        for place in self.row.gpus:
            for link in self.to_cpu:
                if link["from"] == place.part.name:
                    self.cpu_link(place, link)
        for numa in self.row.numas:
            self.numa(numa)
            for child in numa.below:
                self.below(child, CPU_HEIGHT - 8, 0)

    def package(self, place):
        package = place.part
        if not package.name:
            return
        self.box(place.x, 0, place.width, CPU_HEIGHT, edge=ink.INK, fill="#f3f1ea", above=1)
        x = place.x + INDENT
        self.paper.text(x, self.y(13), package.name, NAME, bold=True)
        x += width_of(package.name, NAME, True) + GAP
        self.paper.text(x, self.y(13), clip(package.model, TEXT, place.x + place.width - x - INDENT + 1), TEXT, ink.FAINT)

    def numa(self, place):
        numa, room = place.part, place.width - 10
        known = numa.number is not None
        name = f"NUMA node {numa.number}" if known else "NUMA node unknown"
        texts = [text for text in (known and (bytes_text(numa.bytes) if numa.bytes else "memory unknown"), numa.cpus and f"threads {numa.cpus}") if text]
        both = ", ".join(texts)
        rest = [both] if width_of(both, TEXT) <= room else texts
        lines = [(clip(name, NAME, room, True), NAME, ink.INK, True)]
        lines += [(clip(text, TEXT, room), TEXT, ink.INK, False) for text in rest]
        self.box(place.x, 24, place.width, CPU_HEIGHT - 32, edge=ink.FAINT, fill="#fbfaf6", above=2)
        self.lines(place.middle, self.y(24 + (CPU_HEIGHT - 32) / 2), lines)

    def below(self, place, start, level):
        """Draws PLACE and everything below it; its line begins at depth START."""
        if isinstance(place.part, list):
            self.stack(place, start)
        elif place.below:
            self.bridge(place, start, level)
        else:
            self.gpu(place, start)

    def down(self, x, start, end, warned):
        self.paper.line([(x, self.y(start)), (x, self.y(end))], ink.WARNING if warned else PCIE, 1.6)

    def bridge(self, place, start, level):
        bridge, room = place.part, place.width - 8
        top = CPU_HEIGHT + DROP + level * BRIDGE_STEP
        self.down(place.middle, start, top, bridge.warned)
        name = f"{bridge.kind} {bridge.name}".strip()
        if width_of(name, TEXT) > room:
            name = bridge.kind
        edge = ink.WARNING if bridge.warned else PCIE
        lines = [(clip(name, TEXT, room), TEXT, ink.INK, False)]
        if bridge.pcie:
            color = ink.WARNING if bridge.warned else ink.FAINT
            lines.append((clip(bridge.pcie, TEXT, room, bridge.warned), TEXT, color, bridge.warned))
        self.box(place.x, top, place.width, BRIDGE_HEIGHT, edge=edge, fill="#ececec")
        self.lines(place.middle, self.y(top + BRIDGE_HEIGHT / 2), lines)
        for child in place.below:
            self.below(child, top + BRIDGE_HEIGHT, level + 1)

    def device(self, device, x, depth, width, height):
        edge, fill = colors(device)
        warned = bool(device.findings)
        self.box(x, depth, width, height, edge=ink.WARNING if warned else edge, fill=fill, line=2.2 if warned else 1.4)
        self.lines(x + width / 2, self.y(depth + height / 2), device_lines(device, width))

    def gpu(self, place, start):
        top = self.heights.gpu(self.row)
        to_cpu = any(link["from"] == place.part.name for link in self.to_cpu)
        self.down(place.x + place.width * (0.2 if to_cpu else 0.5), start, top, place.part.has_slow_pcie())
        self.device(place.part, place.x, top, place.width, self.heights.box)

    def stack(self, place, start):
        depth, several = self.heights.top(self.row), len(place.part) > 1
        width = inner_width(place)
        inner = place.x + place.width - width
        if not several:
            self.down(place.middle, start, depth, place.part[0].has_slow_pcie())
        for device, height in zip(place.part, self.heights.stack(place)):
            if several:
                x, y = place.x + 2, self.y(depth + height / 2)
                self.paper.line([(x, y), (inner, y)], ink.WARNING if device.has_slow_pcie() else PCIE, 1.6)
            self.device(device, inner, depth, width, height)
            depth += height + GAP
        if several:
            self.down(x, start, depth - GAP - height / 2, False)

    def cpu_link(self, place, link):
        """The link of a GPU to its CPU beside PCIe, drawn behind switches."""
        x = place.x + place.width * 0.45
        top = self.heights.gpu(self.row)
        color = ink.WARNING if link["down"] else C2C if link["kind"] == "c2c" else NVLINK
        self.paper.line([(x, self.y(CPU_HEIGHT - 8)), (x, self.y(top))], color, link_width(link), above=1.5)
        self.paper.text(x + 6, self.y(top - DROP / 2), count_label(link), TEXT, color, bold=True)


# ---- words around it -----------------------------------------------------------------------------------


def heading(machine, width):
    words = Words(width)
    name, source = machine.topology["name"] or "a machine", machine.topology["source"] or ""
    name = clip(name, TITLE, width / 2, True)
    at = width_of(name, TITLE, True) + 10
    words.line([(0, name, TITLE, ink.INK, True, "left"),
                (at, clip(source, TEXT, width - at), TEXT, ink.FAINT, False, "left")], 20)
    words.space(4)
    for summary in machine.summary():
        for text in wrap(summary, NAME, width, 3):
            words.line([(0, text, NAME, ink.INK, False, "left")])
    return words


def bounds(machine, words):
    topology = machine.topology
    known = [(name, topology["bounds"][name]) for name in BOUNDS if name in topology["bounds"]]
    if not known:
        return
    ranks, nodes = topology["bounds"]["ranks"], topology["nodes"]
    title = f"Speed of light of {count(ranks, 'GPU')} on {count(nodes, 'node')}, GB/s"
    words.line([(0, title, NAME, ink.INK, True, "left")])
    words.space(2)
    for name, bound in known:
        value = "–" if bound["GBps"] is None else f"{bound['GBps']:.4g}"
        for i, text in enumerate(wrap(bound["why"] or "", TEXT, words.width - 160, 4) or [""]):
            first = [(0, name, TEXT, ink.INK, False, "left"), (140, value, TEXT, ink.INK, True, "right")]
            words.line((first if i == 0 else []) + [(160, text, TEXT, ink.FAINT, False, "left")])
    words.space(12)


LINES_MOST = 100  # of one finding


def findings(machine, words):
    words.line([(0, "Findings", NAME, ink.INK, True, "left")])
    words.space(2)
    if not machine.findings:
        words.line([(0, "none", TEXT, ink.INK, False, "left")])
    for finding in machine.findings:
        for i, text in enumerate(wrap(finding, TEXT, words.width - 16, LINES_MOST)):
            mark = [(4, "!", TEXT, ink.WARNING, True, "left")] if i == 0 else []
            words.line(mark + [(16, text, TEXT, ink.WARNING, False, "left")])


def key_rows(machine, fabric):
    """(function that draws a sample, text) of each kind of element in the picture."""
    rows = [(legend.box(PCIE, "#ececec"), "PCIe switch")] if has_bridge(machine) else []
    rows += [(legend.box(*KINDS["gpu"]), "GPU")] if machine.of("gpu") else []
    layers = [device.device["layer"] for device in machine.of("nic")]
    rows += [(legend.box(*LAYERS[layer]), f"NIC, {layer}" if layer else "NIC") for layer in LAYERS if layer in layers]
    rows += [(legend.box(*KINDS["nvme"]), "NVMe disk")] if machine.of("nvme") else []
    rows += [(legend.line(PCIE), "PCIe")] if any(device.pcie for device in machine.devices.values()) else []
    nvlinks = fabric.pairs + fabric.switched + [link for link in fabric.cpu if link["kind"] == "nvlink"]
    if nvlinks:
        rate = nvlinks[0]["link_GBps"]
        per_link = f" ({rate:.4g} GB/s each way)" if rate else ""
        rows.append((legend.line(NVLINK), f"{nvlink_name(nvlinks[0])}: number of links{per_link}"))
    rows += [(legend.line(C2C), "NVLink-C2C: number of links")] if any(l["kind"] == "c2c" for l in fabric.cpu) else []
    if sum(bool(package.name) for package in machine.packages) > 1:
        rows.append((legend.line(ink.INK, BETWEEN), "between packages"))
    if any(device.findings for device in machine.devices.values()):
        rows.append((legend.box(ink.WARNING, ink.PAPER), "named in a finding"))
    return rows


def has_bridge(machine):
    return any(bridge.kind == "PCIe switch" for p in machine.packages for numa in p.numas for bridge in bridges(numa))


def bridges(part):
    for below in part.below:
        if hasattr(below, "below"):
            yield below
            yield from bridges(below)


# ---- all together ------------------------------------------------------------------------------------------


SIDE = 14  # for what joins the packages, left of two rows


def draw(machine):
    """The picture of one machine."""
    rows = fitting(machine.packages, WIDTH - 2 * MARGIN - SIDE)
    fabric, heights, words = Fabric(machine, rows), Heights(rows), Words(WIDTH - 2 * MARGIN)
    head = heading(machine, words.width)
    key, key_used = legend.lines(key_rows(machine, fabric), words.width)
    bounds(machine, words)
    findings(machine, words)
    used = max(SIDE + max(row.width for row in rows), head.used(), words.used(), key_used)
    top = MARGIN + head.height + 22
    bottom = top + sum(heights.row(row) for row in rows) + fabric.height()
    below = bottom + 30 + legend.STEP * len(key)
    paper = Paper(max(used + 2 * MARGIN, WIDTH_LEAST), below + words.height + MARGIN)
    head.draw(paper, MARGIN, MARGIN)
    for i, row in enumerate(rows):
        row.move(MARGIN + (SIDE if len(rows) > 1 else 0))
        RowDrawing(paper, row, heights, fabric.cpu, bottom if i else top, i > 0).draw()
    last = heights.row(rows[1]) if len(rows) > 1 else 0
    FabricDrawing(paper, fabric, top + heights.row(rows[0]), bottom - last).draw()
    if len(rows) > 1:
        between(paper, rows, top + CPU_HEIGHT / 2, bottom - CPU_HEIGHT / 2)
    legend.draw(paper, key, MARGIN, bottom + 30)
    words.draw(paper, MARGIN, below)
    return paper


def between(paper, rows, top, bottom):
    """The link between the packages of two rows."""
    first, second = rows[0].places[0].x, rows[1].places[0].x
    paper.line([(first, top), (MARGIN, top), (MARGIN, bottom), (second, bottom)], ink.INK, 2, BETWEEN)
