"""Pictures inside a page: colours follow the page's theme, names are unique."""

import functools
import re

HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
BOX = re.compile(r"M(\S+) (\S+)L(\S+) \2L\3 (\S+)L\1 \4z")  # of compacted()


def linear(part):
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def gamma(part):
    part = min(max(part, 0), 1)
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055


def to_oklab(color):
    """https://bottosson.github.io/posts/oklab: lightness and two axes of colour."""
    r, g, b = (linear(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))
    l, m, s = (
        max(v, 0) ** (1 / 3)
        for v in (
            0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
            0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
            0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
        )
    )
    return (
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    )


def from_oklab(lightness, a, b):
    l, m, s = (
        v**3
        for v in (
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        )
    )
    parts = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    return "#" + "".join(f"{round(255 * gamma(part)):02x}" for part in parts)


PAPER = "#ffffff"  # the page's own
PAPER_LIGHTNESS = 0.21  # of the dark page


@functools.lru_cache(4096)
def dark(color):
    """The same hue on dark paper: further from it than COLOR is from white, as thin lines need more there."""
    lightness, a, b = to_oklab(color)
    return from_oklab(PAPER_LIGHTNESS + (1 - lightness) ** 0.7 * (1.02 - PAPER_LIGHTNESS), a, b)


def compacted(path):
    """The commands of an SVG path in few letters: hundredths of a point cannot be seen."""
    path = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", path)
    path = re.sub(r"\s*([A-Za-z])\s*", r"\1", path).strip()
    return BOX.sub(r"M\1 \2H\3V\4H\1z", path)


class Pictures:
    """Prepares the SVG pictures of one page, and collects their colours."""

    def __init__(self):
        self.colors, self.n = set(), 0

    def embed(self, paper, label):
        """The element, in which LABEL says what it shows to those who do not see it. LABEL must be
        escaped."""
        self.n += 1
        data = paper.save("svg").decode("utf-8")
        data = data[data.index("<svg") :]
        # Its style would apply to the whole page, which has its own for pictures.
        data = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", data, flags=re.S)
        # Keep only names that are referred to, and make them unique.
        used = set(re.findall(r'(?:url\(#|xlink:href="#)([\w-]+)', data))
        data = re.sub(r' id="([\w-]+)"', lambda m: f' id="p{self.n}-{m[1]}"' if m[1] in used else "", data)
        data = re.sub(r'(url\(#|xlink:href="#)([\w-]+)', rf"\1p{self.n}-\2", data)
        data = re.sub(r' d="([^"]*)"', lambda m: f' d="{compacted(m[1])}"', data)
        data = re.sub(r">\s+<", "><", data)
        data = self.colored(data).replace("'DejaVu Sans', 'Verdana'", "var(--sans)")
        head = (
            f'<svg class="picture" role="img" aria-label="{label}" viewBox="0 0 {paper.width * 0.72:g} '
            f'{paper.height * 0.72:g}" style="max-width: {paper.width * 1.2:.0f}px" '
            f'xmlns:xlink="http://www.w3.org/1999/xlink">'
        )
        return head + data[data.index(">") + 1 :]

    def colored(self, data):
        """The SVG in colours of the page."""
        tags = re.split(r"(<[^>]*>)", data)  # text between tags keeps what looks like a colour
        tags[1::2] = [HEX.sub(self.color, tag) for tag in tags[1::2]]
        return "".join(tags)

    def color(self, match):
        color = match[0].lower()
        if color == PAPER:
            return "var(--paper)"
        self.colors.add(color)
        return f"var(--c{color[1:]})"

    def style(self):
        """Two lists of declarations: of the light page, and of the dark one."""
        found = sorted(self.colors)
        return ("".join(f"--c{c[1:]}:{c};" for c in found), "".join(f"--c{c[1:]}:{dark(c)};" for c in found))
