#!/usr/bin/env python3
"""Draws what busbench writes.

    build/topology --json node.json
    scripts/report.py node.json -o node.svg
    build/pipeline_perf --gantt --json steps.jsonl
    scripts/report.py steps.jsonl -o steps.svg --schedule 1f1b,zb-h1
    build/ddp_bucket_perf --json buckets.jsonl
    scripts/report.py buckets.jsonl -o buckets.svg

The kind of the file is told by its "kind", that of records by the first that can be drawn. Exit status: 0
drawn; 2 usage, something asked for that is not in the file, or a file that cannot be read or written; 3 no
matplotlib; 7 what is in the file cannot be drawn.
"""

import argparse
import importlib
import sys

sys.dont_write_bytecode = True

from report import files, kinds, python


def suffix(path):
    return path.rpartition(".")[2].lower() if "." in path else ""


def main():
    parser = argparse.ArgumentParser(description="Draws what busbench writes.", allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="JSON of build/topology, or records as --json writes them")
    parser.add_argument("-o", "--output", required=True, metavar="PICTURE",
                        help="where to; the suffix says what it will be: .svg, .png or .pdf")
    parser.add_argument("--run", metavar="N", type=int, help="of records: the run to draw, from 1 (default: the last)")
    parser.add_argument("--schedule", metavar="LIST", help="of pipelines: those to draw, in that order (default: all)")
    arguments = parser.parse_args()
    form = suffix(arguments.output)
    if form not in ("svg", "png", "pdf"):
        parser.error(f"{arguments.output}: its suffix must be .svg, .png or .pdf")
    try:
        schedules = arguments.schedule.split(",") if arguments.schedule is not None else None
        subject, module, note = kinds.read(arguments.file, arguments.run, schedules)
        if note:
            print(f"report.py: {arguments.file}: {note}", file=sys.stderr)
        missing = python.need_matplotlib()
        if missing:
            print(f"report.py: {missing}", file=sys.stderr)
            return 3
        files.write(arguments.output, importlib.import_module(module).draw(subject).save(form))
    except files.CannotOpen as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    except files.BadChoice as error:
        print(f"report.py: {arguments.file}: {error}", file=sys.stderr)
        return 2
    except files.BadFile as error:
        print(f"report.py: {arguments.file}: {error}", file=sys.stderr)
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
