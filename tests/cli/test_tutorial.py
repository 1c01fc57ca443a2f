"""docs/tutorial.md: each command prints the lines that stand below it."""

import os
import re
import shlex

from kit import ROOT, add, built, execute, expect

NAME = re.compile(r"build/(\w+)$")


def examples():
    """(command, the lines below it) of each block that begins with $."""
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as file:
        blocks = re.findall(r"(?m)^    \$ (.*)\n((?:    .*\n)*)", file.read())
    expect(len(blocks) >= 10, f"{len(blocks)} examples")
    return [(command, [line[4:] for line in lines.splitlines()]) for command, lines in blocks]


def prints(command, lines):
    """LINES stand in the output in this order; … stands for any others."""
    program, *words = shlex.split(command)
    expect(NAME.match(program), program)
    out = iter(execute([built(NAME.match(program)[1]), *words]).exits(0).out.splitlines())
    for line in lines:
        if line != "…":
            expect(any(line.rstrip() == printed.rstrip() for printed in out), f"{command}: no line, in this order:\n{line}")


for number, (command, lines) in enumerate(examples(), 1):
    add(f"example_{number}", prints, command, lines)
