"""The numbers that models, schedules and judges compute: all that stand in the output of a command line, without its words.

tests/cli/golden/numbers.txt has the command lines with their exit status; UPDATE_GOLDEN=1 writes their numbers anew."""

import itertools
import os
import re
import shlex
import textwrap

from kit import ROOT, add, built, execute, expect

GOLDEN = os.path.join(ROOT, "tests", "cli", "golden", "numbers.txt")


def numbers(line):
    """What is below LINE in the file: its exit status and numbers, or what it says instead of them."""
    program, *words = shlex.split(line)
    result = execute([built(program), *words], {"COLUMNS": "200"}, cwd=ROOT)
    text = re.sub(r"^#.*(\bPid\b|\bversion\b| virtual$).*\n", "", result.out, flags=re.M)  # ranks and this build
    found = re.findall(r"(?<![\w.])[-+]?\d[\d.]*(?:e[-+]?\d+)?(?![\w-])|(?<= )(?:N/A|NaN|inf)(?= )", text)
    expect(found, f"{result}")
    return textwrap.fill(f"exit {result.code}: {' '.join(n.rstrip('.') for n in found)}", 120)


def read():
    """{command line: its numbers}, in the order of the file."""
    with open(GOLDEN, encoding="utf-8") as file:
        blocks = re.findall(r"^\$ (.*)\n((?:[^$\n].*\n)*)", file.read(), re.M)
    return {line: text.rstrip("\n") for line, text in blocks}


WANTED = read()
if os.environ.get("UPDATE_GOLDEN"):
    WANTED = {line: numbers(line) for line in WANTED}
    with open(GOLDEN, "w", encoding="utf-8") as out:
        out.write("".join(f"$ {line}\n{text}\n" for line, text in WANTED.items()))


def compare(lines):
    wrong = [f"$ {line}\n{WANTED[line]}\nnow\n{got}" for line in lines if (got := numbers(line)) != WANTED[line]]
    expect(not wrong, "\n".join(wrong))


# Some at once, for the sake of those who run what covers a line.
for program, lines in itertools.groupby(WANTED, lambda line: line.split()[0]):
    for i, some in enumerate(iter(lambda: list(itertools.islice(lines, 8)), [])):
        add(f"{program} {i}", compare, some)
