#!/usr/bin/env python3
"""Tries an installed busbench: the commands of its README, man pages, and completions in bash, zsh and fish.

    tests/fresh/installed.py     prints each command; the last line is "N failed"

Exit: 0 nothing failed, 1 something did.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

DOCS = "/usr/share/doc/busbench"
PLANTED = 7  # exit status of examples that plant a fault
BASH = """source /usr/share/bash-completion/bash_completion
_completion_loader @tool
COMP_WORDS=(@tool @start); COMP_CWORD=1; _busbench; echo "${COMPREPLY[@]}" """

failed = []


def run(command, statuses=(0,), expected="", cwd=None):
    """Runs a line of bash and notes whether its status and output are as expected."""
    words = ["bash", "-c", command]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", cwd=cwd, check=False)
    fits = done.returncode in statuses and re.search(expected, done.stdout)
    print(f"{'ok' if fits else 'FAILED'}: {command.splitlines()[-1]} (exit {done.returncode})", flush=True)
    if not fits:
        failed.append(command)
        print(f"    expected {expected!r}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")


def readme_examples():
    """The commands of the table of tools."""
    with open(os.path.join(DOCS, "README.md"), encoding="utf-8") as file:
        text = file.read()
    table = text.split("| tool | result of the example | example |")[1].split("\n\n")[0]
    found = re.findall(r"\| `([^`|]+)` \|$", table, re.M)
    return found, re.findall(r"^    (busbench [^#\n]*[^# \n]|man [^#\n]*[^# \n])", text, re.M)


def try_readme(folder):
    examples, commands = readme_examples()
    if len(examples) < 20 or len(commands) < 3:
        failed.append("the README has no examples")
    for command in examples:
        planted = "--fault" in command
        judged = command.startswith("acceptance run")  # a busy machine may miss a gate
        run(command, (PLANTED,) if planted else (0, PLANTED) if judged else (0,), cwd=folder)
    for command in commands:
        more = " --dry-run" if "hgx-h100" in command else ""  # there are no GPUs
        run(command + more, expected="all_reduce_perf", cwd=folder)


def try_pages():
    pages = glob.glob("/usr/share/man/man1/*_perf.1.gz") + ["/usr/share/man/man1/busbench.1.gz"]
    if len(pages) < 20:
        failed.append("man pages are missing")
    for page in pages:
        name = os.path.basename(page)[: -len(".1.gz")]
        run(f'test -z "$(LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -E UTF-8 -l -Tutf8 -Z {page} 2>&1 >/dev/null)"')
        run(f"mandoc -Tlint {page}")
        run(f"MANWIDTH=80 man {name} | cat", expected="EXIT STATUS")


def try_completions(folder):
    for name, word, expected in (("busbench", "all", "all_reduce all_gather"), ("all_reduce_perf", "--mi", "--minbytes")):
        run(BASH.replace("@tool", name).replace("@start", word), expected=expected, cwd=folder)
        run(f"fish -c 'complete -C \"{name} {word}\"'", expected=expected.split()[0], cwd=folder)
        run(f"zsh -c 'autoload -Uz compinit; compinit -u -D; print $_comps[{name}]'", expected="^_busbench$", cwd=folder)
    run("fish -c 'complete -C \"busbench acceptance run hgx-h\"'", expected="hgx-h100", cwd=folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        try_readme(folder)
        run("GLOO_SOCKET_IFNAME=lo all_reduce_perf --backend gloo -t 2 -b 8 -e 1K -f 4", expected="backend=gloo", cwd=folder)
        run("mpirun --allow-run-as-root --oversubscribe -np 2 all_reduce_perf -b 8 -e 1K -f 4", expected="backend=mpi", cwd=folder)
        run("busbench --version", expected="commit: [0-9a-f]{7}", cwd=folder)
        try_completions(folder)
    try_pages()
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
