#!/usr/bin/env python3
"""Draws records of busbench: reports, or single pictures.

    build/all_reduce_perf -g 8 --algo ring,tree,auto --json run.jsonl
    scripts/report.py run.jsonl -o reports/run/         # index.html, CSV and summary.md

    build/topology --json node.json
    scripts/report.py node.json -o node.svg
    build/pipeline_perf --gantt --json steps.jsonl
    scripts/report.py steps.jsonl -o steps.svg --schedule 1f1b,zb-h1
    build/ddp_bucket_perf --json buckets.jsonl
    scripts/report.py buckets.jsonl -o buckets.svg

A report takes any number of files, a picture one; "kind" in the file selects the picture, in records the first kind
that can be drawn. Exit status: 0 written; 2 usage, a request that the file cannot meet, or a file that cannot be
read or written; 3 no matplotlib or Jinja2; 7 content that cannot be drawn.
"""

import argparse
import importlib
import os
import sys

sys.dont_write_bytecode = True

from report import files, kinds, python


def suffix(path):
    return os.path.splitext(path)[1][1:].lower()


def say(message):
    print(f"report.py: {files.clean(str(message))}", file=sys.stderr)


def give_up(message, status):
    say(message)
    return status


class Parser(argparse.ArgumentParser):
    """Its messages quote the user's words."""

    def error(self, message):
        super().error(files.clean(message))


def draw_picture(arguments):
    """One file, one picture."""
    schedules = arguments.schedule.split(",") if arguments.schedule is not None else None
    path = arguments.files[0]
    try:
        subject, module, note = kinds.read(path, arguments.run, schedules)
        if note:
            say(f"{path}: {note}")
        missing = python.need("matplotlib")
        if missing:
            return give_up(missing, 3)
        form = suffix(arguments.output)
        files.write(arguments.output, importlib.import_module(module).draw(subject).save(form))
    except files.BadChoice as error:
        return give_up(f"{path}: {error}", 2)
    except files.BadFile as error:
        return give_up(f"{path}: {error}", 7)
    return 0


def write_report(arguments):
    from report.page import read

    try:
        source = read.read_all(arguments.files)
        missing = python.need("matplotlib", "jinja2")
        if missing:
            return give_up(missing, 3)
        report, path = importlib.import_module("report.page.build").build(source, arguments.output)
    except files.BadFile as error:
        return give_up(error, 7)
    for note in report.notes:
        say(note)
    print(files.clean(path))
    return 0


def main():
    parser = Parser(description="Draws records of busbench: reports, or single pictures.",
                    allow_abbrev=False)
    parser.add_argument("files", metavar="FILE", nargs="+",
                        help="records of --json, or JSON of build/topology and other tools")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER|PICTURE",
                        help="folder for a report of all files (the name ends in / or has no ending), or "
                        "picture of one file, in .svg, .png or .pdf")
    parser.add_argument("--run", metavar="N", type=int, help="number of the run to draw, from 1 (default: the last)")
    parser.add_argument("--schedule", metavar="LIST", help="pipeline schedules to draw, in that order (default: all)")
    arguments = parser.parse_args()
    form = suffix(arguments.output)
    folder = arguments.output.endswith("/") or os.path.isdir(arguments.output) or not form
    if folder and (arguments.run is not None or arguments.schedule is not None):
        parser.error(
            f"--run and --schedule need a single picture, which ends in .svg, .png or .pdf; {arguments.output}: "
            "a report has all"
        )
    if not folder and form not in ("svg", "png", "pdf"):
        parser.error(f"{arguments.output}: a picture ends in .svg, .png or .pdf; a folder with such a name ends in '/'")
    if not folder and len(arguments.files) > 1:
        parser.error(f"{arguments.output}: a picture shows one file; a report of several needs a folder, DIR/")
    try:
        return write_report(arguments) if folder else draw_picture(arguments)
    except files.CannotOpen as error:
        return give_up(error, 2)


if __name__ == "__main__":
    sys.exit(main())
