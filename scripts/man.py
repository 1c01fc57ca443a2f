#!/usr/bin/env python3
"""Writes man pages of busbench and all tools of a build, from the declarations of their options.

    scripts/man.py BUILD FOLDER PREFIX      writes FOLDER/NAME.1 for an installation in PREFIX
"""

import datetime
import os
import re
import sys
import textwrap

import schemas

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 70  # of prose in the source, before escaping
EXAMPLES = ("busbench all_reduce -g 4 --algo ring,tree", "busbench acceptance run this-machine -o out")
FILES = (
    ("~/.config/busbench/profiles", "profiles that acceptance finds by name, as NAME.yaml"),
    ("~/.config/busbench/clusters", "clusters that --cluster finds by name, as NAME.txt"),
    ("PREFIX/share/busbench", "profiles, clusters, and the report"),
    ("PREFIX/share/doc/busbench", "documentation: how each number is computed, records, options"),
)


def escaped(text):
    """TEXT in a line of roff that does not begin with a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def prose(text):
    """TEXT as lines of roff."""
    return list(map(escaped, textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)))


def bold(text):
    return f"\\fB{escaped(text)}\\fR"


def italic(text):
    return f"\\fI{escaped(text)}\\fR"


def rows(page, heading):
    """The rows of the table below HEADING in a page of docs/, without Markdown."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        part = file.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    plain = lambda cell: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("`", "")
    return [[plain(cell) for cell in row] for row in cells]


def entries(found):
    """Roff of [(word in bold, text)…]."""
    return [line for word, text in found for line in (".TP", bold(word), *prose(text))]


def head(name, build):
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.date.fromtimestamp(int(seconds)) if seconds else datetime.date.today()
    return [f'.TH {escaped(name.upper())} 1 "{day}" "busbench {schemas.version(build)}" "busbench"']


def meaning(option):
    facts = [option["values"]] if option["values"] else []
    facts += [f"default {option['default'] or 'none'}"] if option["default"] is not None else []
    return option["help"] + (f" ({'; '.join(facts)})" if facts else "")


def option_lines(option):
    label = ", ".join(map(bold, schemas.words(option)))
    return [".TP", label + (f" {italic(option['argument'])}" if option["argument"] else ""), *prose(meaning(option))]


def program_lines(program):
    lines = []
    for heading, options in program.sections():
        lines.append(f'.SS "{escaped(heading)}"')
        for option in options:
            lines += option_lines(option)
    return lines


def synopsis(program):
    operands = italic(program.operands) + " " if program.operands else ""
    return [f"{bold(program.name)} {operands}[{italic('OPTION')}]...", ".br"]


def tool_page(tool, build, prefix):
    lines = head(tool.command, build)
    lines += [".SH NAME", *prose(f"{tool.command} - {tool.brief}"), ".SH SYNOPSIS"]
    for program in tool.programs:
        lines += synopsis(program)
    lines = lines[:-1] + [".SH DESCRIPTION"]
    if len(tool.programs) == 1:
        lines += [*prose(tool.programs[0].brief.rstrip(".") + "."), ".PP"]
    lines += [f"{bold('busbench ' + tool.name)} runs it too."]
    if len(tool.programs) == 1:
        lines += [".SH OPTIONS", *program_lines(tool.programs[0])]
    else:
        lines += entries((program.subject, program.brief) for program in tool.programs)
        for program in tool.programs:
            lines += [f'.SH "OPTIONS OF {escaped(program.subject.upper())}"', *program_lines(program)]
    lines += [".SH EXAMPLES", ".nf"]
    lines += [escaped(example) for program in tool.programs for example in program.examples]
    return lines + [".fi", *tail(prefix)]


def tail(prefix):
    return [
        ".SH ENVIRONMENT", *entries(rows("options.md", "Environment")),
        ".SH EXIT STATUS", *entries(rows("options.md", "Exit status")),
        ".SH FILES", *entries((path.replace("PREFIX", prefix), text) for path, text in FILES),
    ]  # fmt: skip


def front_page(found, build, prefix):
    lines = head("busbench", build)
    lines += [".SH NAME", "busbench \\- lists and runs the tools of busbench", ".SH SYNOPSIS", ".B busbench"]
    lines += [f"{italic('TOOL')} [{italic('ARGUMENT')}]...", ".SH DESCRIPTION"]
    lines += prose("Measures and diagnoses the communication of distributed training. Without a tool the tools are listed.")
    lines += [".SH TOOLS", *entries((tool.name, tool.brief) for tool in found)]
    lines += [".SH EXAMPLES", ".nf", *map(escaped, EXAMPLES), ".fi"]
    lines += [*tail(prefix), ".SH SEE ALSO", ",\n".join(f"{bold(tool.command)}(1)" for tool in found if tool.command)]
    return lines


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    build, folder, prefix = sys.argv[1:]
    found = schemas.tools(build)
    pages = {tool.command: tool_page(tool, build, prefix) for tool in found if tool.command}
    pages["busbench"] = front_page(found, build, prefix)
    os.makedirs(folder, exist_ok=True)
    for name, lines in pages.items():
        with open(os.path.join(folder, name + ".1"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
