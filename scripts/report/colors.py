"""Colours of pictures."""

# Okabe and Ito's colours, distinct for any kind of colour vision, and tints of them.
INK, FAINT, PAPER = "#222222", "#666666", "#ffffff"
BLUE, SKY, GREEN, PURPLE = "#0072b2", "#56b4e9", "#009e73", "#b0528c"
WARNING = "#c24400"  # their vermilion, darker: readable as text
# Of series, one after the other: Okabe and Ito's, readable on white.
SERIES = (BLUE, "#d55e00", GREEN, PURPLE, "#c48a00", SKY, INK, "#8a6a4a")


def tint(color, share):
    """The colour, SHARE of the way to white."""
    parts = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
