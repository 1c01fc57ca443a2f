"""The layout of a machine's picture: columns, rows, widths and heights."""

from report import paper as ink
from report.machine import model_text, rate_text
from report.paper import GAP, LINE, NAME, SMALL, TEXT, clean, clip, width_of, wrap

COLUMN_LEAST, COLUMN_MOST = 70, 150
COLUMNS_IN_A_ROW = 10  # more are divided into two rows, if there are several packages
STACK_MOST = 12  # NICs and disks above each other
STACK_INDENT = 8
INDENT = 10
NUMA_LEAST = 146
PACKAGE_WORDS = 360  # limit of a package's width by the name of its CPU

CPU_HEIGHT = 84  # a package with its NUMA nodes
BRIDGE_HEIGHT, BRIDGE_STEP = 34, 56
DROP = 24  # above a device


class Place:
    """A part of the machine, and its horizontal extent."""

    def __init__(self, part, x, width, below=()):
        self.part, self.x, self.width, self.below = part, x, width, list(below)

    @property
    def middle(self):
        return self.x + self.width / 2


def arrange(parts, x, column, stack):
    """Places of PARTS side by side from X on. Up to STACK devices other than GPUs are stacked: a Place whose part is
    the list of them."""
    places, others = [], []
    for part in parts:
        if hasattr(part, "below"):
            below = arrange(part.below, x, column, stack)
            places.append(Place(part, x, below[-1].x + below[-1].width - x, below))
        elif part.kind == "gpu":
            places.append(Place(part, x, column))
        else:
            others.append(part)
            continue
        x += places[-1].width + GAP
    for i in range(0, len(others), stack):
        places.append(Place(others[i : i + stack], x, column))
        x += column + GAP
    return places


def arrange_package(package, x, column, stack):
    start, numas = x, []
    x += GAP
    for numa in package.numas:
        below = arrange(numa.below, x + GAP, column, stack)
        width = below[-1].x + below[-1].width - x + GAP if below else 0
        numas.append(Place(numa, x, max(width, NUMA_LEAST), below))
        x += numas[-1].width + GAP
    needs = min(package_words(package), PACKAGE_WORDS) if package.name else 0
    if numas:
        numas[-1].width += max(needs - (x - start), 0)
    return Place(package, start, max(x - start, needs), numas)


def package_words(package):
    """Width of the text in its box."""
    return 2 * INDENT + width_of(package.name, NAME, True) + GAP + width_of(clean(package.model), TEXT)


class Row:
    """Packages side by side."""

    def __init__(self, packages, column, stack):
        self.places, x = [], 0
        for package in packages:
            self.places.append(arrange_package(package, x, column, stack))
            x += self.places[-1].width + 2 * GAP
        self.width = x - 2 * GAP
        self.numas = [numa for place in self.places for numa in place.below]
        self.levels = max([levels(numa.below) for numa in self.numas], default=0)
        self.gpus, self.stacks = [], []
        for numa in self.numas:
            self.collect(numa.below)

    def collect(self, places):
        for place in places:
            self.collect(place.below)
            if isinstance(place.part, list):
                self.stacks.append(place)
            elif not place.below:
                self.gpus.append(place)

    def move(self, x):
        def shift(places):
            for place in places:
                place.x += x
                shift(place.below)

        shift(self.places)

    def columns(self):
        return len(self.gpus) + len(self.stacks)


def levels(places):
    return max([1 + levels(p.below) if p.below else 0 for p in places], default=0)


def parted(packages):
    """The packages in one row, or in two rows with about equal numbers of devices."""
    sizes = [Row([p], COLUMN_LEAST, 1).columns() for p in packages]
    if sum(sizes) <= COLUMNS_IN_A_ROW or sum(size > 0 for size in sizes) < 2:
        return [packages]
    cut = min(range(1, len(packages)), key=lambda i: abs(sum(sizes[:i]) - sum(sizes[i:])))
    return [packages[:cut], packages[cut:]]


def fitting(packages, room):
    """Rows of columns of the greatest width, with stacks of the least height."""
    halves = parted(packages)

    def rows(column, stack):
        return [Row(half, column, stack) for half in halves]

    def excess(column, stack):
        return max(0, max(row.width for row in rows(column, stack)) - room)

    stack = min(range(1, STACK_MOST + 1), key=lambda s: (excess(COLUMN_LEAST, s), s))
    column = next((c for c in range(COLUMN_MOST, COLUMN_LEAST, -1) if not excess(c, stack)), COLUMN_LEAST)
    return rows(column, stack)


# ---- heights -------------------------------------------------------------------------------------


def device_lines(device, width):
    """(text, size, color, bold) of each line in its box."""

    def room(text, most):
        return wrap(text, TEXT, width - 8, most)

    size = next((s for s in (NAME, TEXT) if width_of(clean(device.name), s, True) <= width - 6), SMALL)
    lines = [(clip(device.name, size, width - 4, True), size, ink.INK, True)]
    most = 1 if device.kind == "nvme" else 2
    lines += [(text, TEXT, ink.INK, False) for text in room(model_text(device.device), most)]
    if device.kind == "nic":
        color = ink.WARNING if device.finds("its model run at") else ink.INK
        lines += [(text, TEXT, color, False) for text in room(rate_text(device.device), 2)]
        lines += [(text, TEXT, ink.INK, False) for text in room(device.device["interface"] or "", 1)]
    if device.down:
        lines.append(("down", TEXT, ink.WARNING, True))
    if device.pcie:
        warned = device.has_slow_pcie()
        lines += [(text, TEXT, ink.WARNING if warned else ink.FAINT, warned) for text in room(device.pcie, 2)]
    return lines


def box_height(device, width):
    return LINE * len(device_lines(device, width)) + 10


class Heights:
    """Heights of the boxes of devices, equal so that they are aligned, and of rows."""

    def __init__(self, rows):
        boxes = [(p.part, p.width) for row in rows for p in row.gpus]
        boxes += [(device, inner_width(p)) for row in rows for p in row.stacks for device in p.part]
        self.box = max([box_height(device, width) for device, width in boxes], default=0)
        stacks = [sum(height + GAP for height in self.stack(p)) - GAP for row in rows for p in row.stacks]
        self.devices = max(stacks, default=self.box)
        if any(row.gpus for row in rows):
            self.devices = max(self.devices, self.box)

    def stack(self, place):
        """Height of each box in a stack; a single one is as high as GPUs."""
        if len(place.part) == 1:
            return [self.box]
        return [box_height(device, inner_width(place)) for device in place.part]

    def row(self, row):
        """From the packages' outer edge to where the devices end."""
        return self.top(row) + self.devices if row.columns() else CPU_HEIGHT

    def top(self, row):
        """From the packages' outer edge to where the devices begin."""
        return CPU_HEIGHT + DROP + row.levels * BRIDGE_STEP

    def gpu(self, row):
        """To where GPUs begin: at the inner edge, where they face each other."""
        return self.row(row) - self.box


def inner_width(stack):
    """Width of the boxes of a stack; the line to several of them needs room at the left."""
    return stack.width - (STACK_INDENT if len(stack.part) > 1 else 0)
