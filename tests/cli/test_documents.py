"""README and docs: a command behind $ prints the lines that stand below it.

UPDATE_GOLDEN=1 writes the whole output below the commands that have no … below them."""

import os
import re
import shlex
import tempfile

from kit import ROOT, add, built, equal, execute, expect

PAGES = ("README.md", "docs/acceptance.md", "docs/training.md", "docs/tutorial.md")
FOLDERS = ("ci", "tests")  # that commands name


EXAMPLE = r"(?m)^    \$ (.*)\n((?:    (?!\$ ).*\n)*)"


def examples(page):
    """(command, the lines below it) of each line that begins with $."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = re.findall(EXAMPLE, file.read())
    expect(found, f"{page} has no example")
    return [(command, [line[4:] for line in lines.splitlines()]) for command, lines in found]


def perform(command, folder):
    program, *words = shlex.split(command)
    expect(program.startswith("build/"), command)
    return execute([built(program.removeprefix("build/")), *words], cwd=folder).exits(0, 7)


def page_is_written(page, folder):
    def example(found):
        command, lines = found.groups()
        if "…" in lines or not lines:
            return found.group()
        return f"    $ {command}\n" + "".join(f"    {line}".rstrip() + "\n" for line in perform(command, folder).out.splitlines())

    with open(os.path.join(ROOT, page), "r+", encoding="utf-8") as file:
        text = re.sub(EXAMPLE, example, file.read())
        file.seek(0)
        file.truncate()
        file.write(text)


def page_is_right(page):
    """Lines stand in the output in their order; … stands for any others, and ends one that is cut off."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        if os.environ.get("UPDATE_GOLDEN"):
            page_is_written(page, folder)
        for command, lines in examples(page):
            result = perform(command, folder)
            out = iter(result.out.splitlines())
            for line in lines:
                begin, cut, _ = line.partition("…")
                expect(line.strip() == "…" or any(printed.startswith(begin) if cut else printed.rstrip() == line.rstrip() for printed in out),
                       f"{page}: not printed, or not in this order:\n{line}\n{result}")


for page in PAGES:
    add(page, page_is_right, page)


def generated(page):
    """`make docs` would change nothing."""
    with open(os.path.join(ROOT, "docs", page + ".md"), encoding="utf-8") as file:
        equal(execute([built("docs/reference"), page]).exits(0).out, file.read(), f"docs/{page}.md")


for name in ("options", "records", "algorithms"):
    add(f"{name} are current", generated, name)
