#!/usr/bin/env python3
"""Draws files and prints as JSON the texts of each picture, the overlapping ones, and those beyond the paper, by the
boxes that matplotlib draws them in. --report: the pictures of one report."""

import importlib
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

from report import kinds, python

SLACK = 1  # pixel: letters do not fill their box


def look(path):
    subject, module, _ = kinds.read(path)
    return judge(importlib.import_module(module).draw(subject))


def judge(paper):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(paper.figure).get_renderer()
    texts = [(text.get_text(), text.get_window_extent(renderer)) for text in paper.axes.texts if text.get_text()]
    overlaps = [
        [a, b]
        for i, (a, one) in enumerate(texts)
        for b, other in texts[:i]
        if min(one.x1, other.x1) - max(one.x0, other.x0) > SLACK
        and min(one.y1, other.y1) - max(one.y0, other.y0) > SLACK
    ]
    outside = [
        text for text, box in texts if box.x0 < 0 or box.y0 < 0 or box.x1 > paper.width or box.y1 > paper.height
    ]
    return {"texts": [text for text, _ in texts], "overlaps": overlaps, "outside": outside, "width": paper.width}


def look_at_report(paths):
    """The pictures of a report of all files, by number and title."""
    from report.page import build, read

    report = build.Report(read.read_all(paths))
    figures = [figure for section in report.sections for _, row in section.rows for figure in row]
    return {f"{i}: {figure.title}": judge(figure.paper) for i, figure in enumerate(figures)}


if __name__ == "__main__":
    missing = python.need("matplotlib", "jinja2")
    if missing:
        sys.exit(missing)
    if sys.argv[1:2] == ["--report"]:
        print(json.dumps(look_at_report(sys.argv[2:])))
        sys.exit()
    print(json.dumps({os.path.basename(path): look(path) for path in sys.argv[1:]}))
