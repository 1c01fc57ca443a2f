"""README and docs: a command behind $ prints the lines that stand below it."""

import os
import re
import shlex
import tempfile

from kit import ROOT, add, built, execute, expect

PAGES = ("README.md", "docs/acceptance.md", "docs/training.md", "docs/tutorial.md")
FOLDERS = ("ci", "tests")  # that commands name


def examples(page):
    """(command, the lines below it) of each line that begins with $."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = re.findall(r"(?m)^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", file.read())
    expect(found, f"{page} has no example")
    return [(command, [line[4:] for line in lines.splitlines()]) for command, lines in found]


def page_is_right(page):
    """Lines stand in the output in their order; … stands for any others, and ends one that is cut off."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        for command, lines in examples(page):
            program, *words = shlex.split(command)
            expect(program.startswith("build/"), command)
            result = execute([built(program.removeprefix("build/")), *words], cwd=folder).exits(0, 7)
            out = iter(result.out.splitlines())
            for line in lines:
                begin, cut, _ = line.partition("…")
                expect(line.strip() == "…" or any(printed.startswith(begin) if cut else printed.rstrip() == line.rstrip() for printed in out),
                       f"{page}: not printed, or not in this order:\n{line}\n{result}")


for page in PAGES:
    add(page, page_is_right, page)
