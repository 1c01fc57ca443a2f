"""Man pages, and completions in the shells themselves."""

import os
import pty
import re
import select
import shutil
import tempfile
import time

import kit
from kit import ROOT, Skipped, add, equal, execute, expect, test

PROMPT = "DONE>"


class Pages:
    """Man pages and completions of the build, in a folder for the test."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.name = self.folder.name
        build = kit.Settings.build
        execute(["python3", "-B", f"{ROOT}/scripts/man.py", build, f"{self.name}/man", "/usr"]).exits(0).quiet()
        execute(["python3", "-B", f"{ROOT}/scripts/completions.py", build, self.name]).exits(0).quiet()
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def environment(self):
        return {"HOME": self.name, "PATH": f"{kit.Settings.build}:{os.environ['PATH']}", "XDG_CONFIG_HOME": ""}


def need(program):
    if not shutil.which(program):
        raise Skipped(f"there is no {program}")


@test
def man_pages():
    """A page for each program, with each of its options; mandoc has no complaints."""
    need("mandoc")
    with Pages() as pages:
        names = sorted(os.listdir(f"{pages.name}/man"))
        programs = [n for n in os.listdir(kit.Settings.build) if re.search(r"_perf$|^(busbench|diagnose|topology|model_memory|acceptance)$", n)]
        equal(names, sorted(f"{name}.1" for name in programs), "pages")
        for name in names:
            page = f"{pages.name}/man/{name}"
            equal(execute(["mandoc", "-Tlint", page]).exits(0).out, "", f"complaints about {name}")
        text = re.sub(".\b", "", execute(["mandoc", "-Tutf8", f"{pages.name}/man/all_reduce_perf.1"]).exits(0).out)
        for words in ("-b, --minbytes SIZE", "GPU only", "all_reduce_perf -g 4", "EXIT STATUS", "BUSBENCH_ISA", "/usr/share/busbench"):
            expect(words in text, f"{words} is not in\n{text}")


# Line: words that complete it, and words that do not.
LINES = {
    "busbench all": ({"all_reduce", "all_gather", "alltoall", "alltoallv"}, {"topology"}),
    "busbench all_reduce --mi": ({"--minbytes"}, {"--maxbytes"}),
    "all_reduce_perf --me": ({"--memory"}, {"--minbytes"}),
    "all_reduce_perf --cache re": ({"reuse", "rewrite"}, {"rotate"}),
    "all_reduce_perf --datatype half,flo": ({"half,float", "half,float_int"}, {"half,half", "half,double"}),
    "all_reduce_perf --algo ring,t": ({"ring,tree"}, {"ring,ring"}),
    "all_reduce_perf --backend s": ({"sim"}, {"host"}),
    "all_reduce_perf --cluster hgx-h1": ({"hgx-h100", "hgx-h100-roce"}, {"hgx-b200"}),
    "barrier_perf --alg": ({"--algo"}, {"--explain"}),
    "model_memory tr": ({"train"}, {"infer"}),
    "model_memory train --zero ": ({"0", "1", "2", "3"}, {"4"}),
    "acceptance run hgx-h": ({"hgx-h100", "hgx-h200"}, {"dgx-a100"}),
    "busbench acceptance run --st": ({"--strict"}, {"--quick"}),
    "busbench acceptance compare --to": ({"--tolerance"}, {"--strict"}),
}


def in_bash(pages, line):
    """Through compgen, as bash calls it, with the line divided as bash divides it."""
    words = [word for part in line.split(" ") for word in re.split("(=)", part) if word] + [""] * line.endswith(" ")
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _busbench 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    return execute(["bash", "-c", script, f"{pages.name}/bash/busbench", *words], pages.environment()).exits(0).out.split()


def in_fish(pages, line):
    script = "set fish_complete_path $argv[1]; complete -C $argv[2]"
    out = execute(["fish", "-c", script, f"{pages.name}/fish", line], pages.environment()).exits(0).out
    return [entry.split("\t")[0] for entry in out.splitlines()]


def read_until(terminal, end):
    """What comes from TERMINAL until END(text), or nothing more."""
    text, until = "", time.monotonic() + kit.LIMIT
    while not end(text) and time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            text += os.read(terminal, 1 << 16).decode(errors="replace")
    return text


ZSH = """unsetopt beep list_beep; PROMPT=; fpath=({0} $fpath); autoload -Uz compinit; compinit -u -D
_shown() {{ zle -I; print -r -- "BEGIN $_matches"; print -r -- "{1}" }}
compadd() {{ builtin compadd -O _found "$@"; _matches+=" $_found"; builtin compadd "$@" }}
zle -C shown complete-word _collect; _collect() {{ _matches=; _main_complete; }}
zle -N shown-end _shown; bindkey '^X' shown '^Y' shown-end; typeset -g _matches; typeset -ga _found
print RE""ADY
"""


def in_zsh(pages, line):
    """In an interactive zsh: the words that its functions offer for the line."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({**pages.environment(), "TERM": "dumb", "PS1": ""})
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        os.write(terminal, ZSH.format(f"{pages.name}/zsh", "E\"\"ND").encode())
        read_until(terminal, lambda text: "READY" in text)
        os.write(terminal, line.encode() + b"\x18\x19")
        text = read_until(terminal, lambda text: "END" in text)
    finally:
        os.kill(pid, 9)
        os.close(terminal)
        os.waitpid(pid, 0)
    return re.search(r"BEGIN (.*)", text)[1].split()


def completes(shell):
    need(shell)
    with Pages() as pages:
        for line, (these, others) in LINES.items():
            found = set(globals()[f"in_{shell}"](pages, line))
            if shell == "zsh":  # offers the last item of a list
                these, others = ({word.split(",")[-1] for word in words} for words in (these, others))
            expect(these <= found and not others & found, f"{shell} completes {line!r} by {sorted(found)}")


for name in ("bash", "zsh", "fish"):
    add(f"completion of {name}", completes, name)
