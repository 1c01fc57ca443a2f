"""A picture of a page, with what is said around it."""

import typing


class Figure(typing.NamedTuple):
    title: str
    paper: typing.Any  # report.paper.Paper
    caption: str  # what is to be seen, and what lines and colours mean
    wide: bool = False  # takes a row by itself, and is scrolled where the screen is narrower
