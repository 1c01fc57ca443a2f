#!/usr/bin/env python3
"""Draws what busbench writes.

    build/topology --json node.json
    scripts/report.py node.json -o node.svg

The kind of the file is told by its "kind". Exit status: 0 drawn; 2 usage, or a file that cannot be read or
written; 3 no matplotlib; 7 what is in the file cannot be drawn.
"""

import argparse
import importlib
import sys

sys.dont_write_bytecode = True

from report import files, machine, python


def suffix(path):
    return path.rpartition(".")[2].lower() if "." in path else ""


# What makes of a file's values something to draw, the module that draws it, what writes such files.
KINDS = {"topology": (machine.Machine, "report.topology", "build/topology --json FILE")}


def read(path):
    """What the file is about, and the module that draws it."""
    values = files.read_values(path)
    kind = values[0].get("kind") if isinstance(values[0], dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        told = f"kind {kind[:40]!r} cannot be drawn" if isinstance(kind, str) else 'it has no "kind"'
        can = "; ".join(f"{name} (written by {source})" for name, (_, _, source) in KINDS.items())
        raise files.BadFile(f"{told}; what can be: {can}")
    return KINDS[kind][0](values), KINDS[kind][1]


def main():
    parser = argparse.ArgumentParser(description="Draws what busbench writes.", allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="JSON, such as of build/topology --json FILE")
    parser.add_argument("-o", "--output", required=True, metavar="PICTURE",
                        help="where to; the suffix says what it will be: .svg, .png or .pdf")
    arguments = parser.parse_args()
    form = suffix(arguments.output)
    if form not in ("svg", "png", "pdf"):
        parser.error(f"{arguments.output}: its suffix must be .svg, .png or .pdf")
    try:
        subject, module = read(arguments.file)
        missing = python.need_matplotlib()
        if missing:
            print(f"report.py: {missing}", file=sys.stderr)
            return 3
        files.write(arguments.output, importlib.import_module(module).draw(subject).save(form))
    except files.CannotOpen as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    except files.BadFile as error:
        print(f"report.py: {arguments.file}: {error}", file=sys.stderr)
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
