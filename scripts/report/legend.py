"""The key of a drawing. An entry is (sample, text); a sample is a function that draws itself on a paper from X on around
the height MIDDLE."""

from report.paper import TEXT, clip, width_of

SAMPLE = 24  # how wide samples are
STEP = 20  # from one line to the next


def box(edge, fill):
    return lambda paper, x, middle: paper.box(x, middle - 6, SAMPLE, 12, edge=edge, fill=fill, radius=2)


def line(color, style="-", width=2.5):
    return lambda paper, x, middle: paper.line([(x, middle), (x + SAMPLE, middle)], color, width, style)


def lines(rows, width):
    """[[(x, entry)…]…], the entries broken into lines, and their width."""
    broken, x, used = [[]], 0, 0
    for sample, text in rows:
        row = sample, clip(text, TEXT, width - SAMPLE - 6)
        needs = SAMPLE + 6 + width_of(row[1], TEXT)
        if x + needs > width and broken[-1]:
            broken.append([])
            x = 0
        broken[-1].append((x, row))
        used = max(used, x + needs)
        x += needs + 22
    return broken, used


def draw(paper, broken, x, y):
    for i, row in enumerate(broken):
        middle = y + i * STEP
        for dx, (sample, text) in row:
            sample(paper, x + dx, middle)
            paper.text(x + dx + SAMPLE + 6, middle, text, TEXT)
