"""A picture of a page, with its title and caption."""

import typing


class Figure(typing.NamedTuple):
    title: str
    paper: typing.Any  # report.paper.Paper
    caption: str  # what the picture shows, and what lines and colours mean
    wide: bool = False  # has a row of its own, scrolled on a narrower screen
    logarithmic: typing.Any = None  # the same on a logarithmic axis, which a click shows
