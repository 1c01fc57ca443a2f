"""Lines of text around a drawing."""

from report.paper import LINE, width_of


class Words:
    """Lines of text, laid out before the paper exists, because its height depends on them."""

    def __init__(self, width):
        self.width, self.height, self.items = width, 0, []

    def line(self, parts, step=LINE + 2):
        """PARTS: (x, text, size, color, bold, align)."""
        self.height += step
        for part in parts:
            self.items.append((self.height, part))

    def space(self, height):
        self.height += height

    def used(self):
        """Their width."""
        return max([x + width_of(text, size, bold) for _, (x, text, size, _, bold, _) in self.items], default=0)

    def draw(self, paper, x, y):
        for height, (dx, text, size, color, bold, align) in self.items:
            paper.text(x + dx, y + height - LINE / 2, text, size, color, bold, align)
