#!/usr/bin/env python3
"""Draws records of busbench: reports, or single pictures.

    build/all_reduce_perf -g 8 --algo ring,tree,auto --json run.jsonl
    scripts/report.py run.jsonl -o reports/run/         # index.html, CSV and summary.md
    scripts/report.py run.jsonl -o busbw.png --picture bus-bandwidth
    scripts/report.py acceptance-run/                   # the same of a folder, in acceptance-run/report/

    build/topology --json node.json
    scripts/report.py node.json -o node.svg
    build/pipeline_perf --gantt --json steps.jsonl
    scripts/report.py steps.jsonl -o steps.svg --schedule 1f1b,zb-h1
    build/ddp_bucket_perf --json buckets.jsonl
    scripts/report.py buckets.jsonl -o buckets.svg

Without --picture a machine, pipelines with their passes or bucket sizes have a picture of their own; of other files it
is the first of the report. --format writes for other tools instead. Exit status: 0 written; 2 usage, a request that the
file cannot meet, or a file that cannot be read or written; 3 no matplotlib or Jinja2; 7 content that cannot be drawn.
"""

import argparse
import importlib
import os
import sys

sys.dont_write_bytecode = True

from report import files, kinds, outputs, python


def suffix(path):
    return os.path.splitext(path)[1][1:].lower()


def say(message):
    print(f"report.py: {files.clean(str(message))}", file=sys.stderr)


def give_up(message, status):
    say(message)
    return status


class Missing(Exception):
    """No Python here has the modules; the message names them."""


class Parser(argparse.ArgumentParser):
    """Its messages quote the user's words."""

    def error(self, message):
        super().error(files.clean(message))


def own_picture(path, arguments):
    """The paper of a kind of record or document that has one picture, and a note."""
    schedules = arguments.schedule.split(",") if arguments.schedule is not None else None
    subject, module, note = kinds.read(path, arguments.run, schedules)
    missing = python.need("matplotlib")
    if missing:
        raise Missing(missing)
    return importlib.import_module(module).draw(subject), note


def report_picture(paths, arguments, otherwise):
    """The paper of a picture of the report about the files, and a note. OTHERWISE: the error to raise without any."""
    from report.page import read

    try:
        source = read.read_all(paths)
        missing = python.need("matplotlib", "jinja2")
        if missing:
            raise Missing(missing)
        return importlib.import_module("report.page.single").draw(source, arguments.picture, arguments.run)
    except files.BadFile as error:
        raise otherwise or error from None


def draw_picture(arguments):
    """One picture: that which --picture names, that of its kind of record, or the first of the report."""
    paths = files.expanded(arguments.files)
    try:
        try:
            own = len(paths) == 1 and arguments.picture is None
            paper, note = own_picture(paths[0], arguments) if own else report_picture(paths, arguments, None)
        except files.NoPicture as error:
            if arguments.schedule is not None:
                raise
            paper, note = report_picture(paths, arguments, error)
    except files.BadChoice as error:
        return give_up(f"{', '.join(arguments.files)[:200]}: {error}", 2)
    except files.BadFile as error:
        return give_up(f"{', '.join(arguments.files)[:200]}: {error}", 7)
    if note:
        say(f"{', '.join(arguments.files)[:200]}: {note}")
    files.write(arguments.output, paper.save(suffix(arguments.output)))
    return 0


def write_report(arguments):
    from report.page import read

    try:
        source = read.read_all(files.expanded(arguments.files))
        missing = python.need("matplotlib", "jinja2")
        if missing:
            raise Missing(missing)
        report, path = importlib.import_module("report.page.build").build(source, arguments.output)
    except files.BadFile as error:
        return give_up(error, 7)
    for note in report.notes:
        say(note)
    print(files.clean(path))
    return 0


def write_format(arguments):
    """The content of the files in the format of another tool; needs no module."""
    from report.page import read

    try:
        source = read.read_all(files.expanded(arguments.files))
    except files.BadFile as error:
        return give_up(error, 7)
    for note in source.notes:
        say(note)
    data = outputs.FORMATS[arguments.format](source)
    if arguments.output in (None, "-"):
        print(data, end="")
    else:
        files.write(arguments.output, data.encode("utf-8"))
    return 0


def main():
    parser = Parser(description="Draws records of busbench: reports, or single pictures.",
                    allow_abbrev=False)
    parser.add_argument("files", metavar="FILE|FOLDER", nargs="+",
                        help="records of --json, JSON of build/topology and other tools, or a folder of them, such as "
                        "that of an acceptance run")
    parser.add_argument("-o", "--output", metavar="FOLDER|PICTURE",
                        help="folder for a report of all files (the name ends in / or has no ending; default: report/ "
                        "in the folder of the first), or a picture, in .svg, .png or .pdf")
    parser.add_argument("--picture", metavar="KIND",
                        help="picture of the report to draw, by the beginning of its title, such as bus-bandwidth or "
                        "winners; for another word the kinds of the files are listed (default: the first)")
    parser.add_argument("--format", choices=tuple(outputs.FORMATS),
                        help="instead of a page: gauges for node_exporter's textfile collector, the two lists of "
                        "github-action-benchmark, annotations of what failed as GitHub's workflow commands or GitLab's "
                        "Code Quality; to the file -o (default: standard output)")
    parser.add_argument("--run", metavar="N", type=int, help="number of the run to draw, from 1 (default: the last)")
    parser.add_argument("--schedule", metavar="LIST", help="pipeline schedules to draw, in that order (default: all)")
    arguments = parser.parse_args()
    if arguments.format is not None:
        if (arguments.run, arguments.schedule, arguments.picture) != (None, None, None):
            parser.error("--picture, --run and --schedule need a picture; --format has all")
        return tried(write_format, arguments)
    first = arguments.files[0]
    if arguments.output is None:
        arguments.output = os.path.join(first if os.path.isdir(first) else os.path.dirname(first), "report", "")
    form = suffix(arguments.output)
    folder = arguments.output.endswith("/") or os.path.isdir(arguments.output) or not form
    if folder and (arguments.run, arguments.schedule, arguments.picture) != (None, None, None):
        parser.error(
            f"--picture, --run and --schedule need a single picture, which ends in .svg, .png or .pdf; "
            f"{arguments.output}: a report has all"
        )
    if arguments.schedule is not None and arguments.picture is not None:
        parser.error("--schedule chooses what the picture of pipelines shows; no --picture")
    if not folder and form not in ("svg", "png", "pdf"):
        parser.error(f"{arguments.output}: a picture ends in .svg, .png or .pdf; a folder with such a name ends in '/'")
    return tried(write_report if folder else draw_picture, arguments)


def tried(work, arguments):
    try:
        return work(arguments)
    except files.FullDisk as error:
        return give_up(error, 1)
    except files.CannotOpen as error:
        return give_up(error, 2)
    except Missing as error:
        return give_up(error, 3)


if __name__ == "__main__":
    sys.exit(main())
