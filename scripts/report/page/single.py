"""One picture of a report as a file of its own, with its title, origin and caption."""

import re

from report import files, paper as ink
from report.page.build import Report
from report.paper import TEXT, TITLE, wrap
from report.values import count, text
from report.words import Words

SIDE, GAP = 14, 10
LINES_MOST = 6


def kind_of(title):
    """The beginning of the title as a word, without article: "Time against ranks, 1M" is time-against-ranks."""
    return re.sub("^(the|a)-|[^a-z0-9]+$", "", re.sub("[^a-z0-9]+", "-", re.split("[,:]", title.lower())[0]))


def pictures_of(report):
    """(kind, section, figure, paper) of all pictures in their order."""
    for section in report.sections:
        for _, row in section.rows:
            for figure in row:
                yield kind_of(figure.title), section, figure, figure.paper
                if figure.logarithmic:
                    yield kind_of(figure.title) + "-logarithmic", section, figure, figure.logarithmic


def chosen(source, kind, number):
    """(section, figure, paper, note) of the picture. KIND: as in kind_of, of which the beginning is enough; None for the
    first of a verdict, else of the last run. NUMBER: of the run, None for the last that has it. Raises BadChoice, or
    BadFile without any picture."""
    if number is not None and not 1 <= number <= len(source.runs):
        raise files.BadChoice(f"--run {number}: there {'is' if len(source.runs) == 1 else 'are'} {count(len(source.runs), 'run')}")
    of_run = lambda section: number is None or section.identity == f"run-{number}"
    found = [one for one in pictures_of(Report(source)) if of_run(one[1])]
    if not found:
        raise files.BadFile("no record can be drawn")
    for matches in (lambda name: kind in (None, name), lambda name: name.startswith(kind)):
        those = [one for one in found if matches(one[0])]
        if those:
            break
    else:
        known = ", ".join(dict.fromkeys(one[0] for one in found))
        raise files.BadChoice(f"--picture {kind[:40]}: there is none; there are {known}")
    judged = kind is None and those[0][1].identity.startswith("file-")
    last = those[0][1] if judged else max(those, key=lambda one: run_of(one[1]))[1]
    mine = [one for one in those if one[1] is last]
    _, section, figure, paper = mine[0]
    note = f"{count(len(those), 'picture')} fit; this is {figure.title!r} of {section.title}"
    return section, figure, paper, note if kind and len(those) > 1 else None


def run_of(section):
    """The number of its run; 0 for sections that are about no run, or about several."""
    name, _, number = section.identity.partition("-")
    return int(number) if name == "run" else 0


def framed(figure, paper, where):
    """The picture between its title and its caption. A wide one has both already."""
    if figure.wide:
        return paper
    head, foot = Words(paper.width), Words(paper.width)
    head.line([(0, figure.title, TITLE, ink.INK, True, "left")], 20)
    head.space(4)
    for words, told in (head, where), (foot, figure.caption):
        for line in wrap(told, TEXT, paper.width, LINES_MOST):
            words.line([(0, line, TEXT, ink.FAINT, False, "left")])
    height = paper.height
    paper.extend(SIDE + head.height + GAP, GAP + foot.height + SIDE if figure.caption else SIDE, SIDE)
    head.draw(paper, 0, -head.height - GAP)
    foot.draw(paper, 0, height + GAP)
    return paper


def draw(source, kind, number):
    """(the paper of the picture, a note or None)"""
    section, figure, paper, note = chosen(source, kind, number)
    run = next((run for run in source.runs.values() if run.number == run_of(section)), None)
    return framed(figure, paper, section.title if run is None else where_of(run, section)), note


def where_of(run, section):
    """What was measured, where; in virtual time what was simulated."""
    given = [f"--{key} {value}" for key in ("cluster", "link") for value in [text(run.head, key, 80)] if value]
    if run.head.get("virtual_time") is True:
        return f"{section.title} · simulated with {' '.join(given) or 'a model'}; no hardware was measured"
    return f"{section.title} · {run.where()}"
