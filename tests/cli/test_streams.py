"""Destinations of text: closed descriptors, files with two writers, and terminal escapes."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import kit
from kit import add, equal, execute, expect, test

SMALL = "all_reduce_perf --backend sim --link 10G,5us -g 2 -b 8 -e 8"
PRINTERS = {
    "a benchmark": SMALL,
    "--help": "all_reduce_perf --help",
    "--list": "all_reduce_perf --list",
    "what is shown": "pipeline_perf --gantt --stages 2 --microbatches 2",
    "topology": "topology --system dgx-a100",
    "systems": "topology --list-systems",
    "model_memory": "model_memory zero --params 7B --dp 8",
    "acceptance": "acceptance run ci/profiles/hgx-h100.yaml --dry-run",
    "help of acceptance": "acceptance --help",
}


def words(line):
    name, *rest = line.split()
    return [kit.built(name), *rest]


def shell(redirection, *more):
    """Runs the words MORE with their descriptors set by a shell's REDIRECTION."""
    return execute(["sh", "-c", f'"$@" {redirection}', "sh", *more], cwd=kit.ROOT)


def refuses_closed_output(line):
    open_ = shell("", *words(line)).exits(0)
    expect(open_.out, "nothing is printed at all")
    shell(">&-", *words(line)).exits(2).says("standard output is closed")
    shell("<&- >&- 2>&-", *words(line)).exits(2)
    shell(">/dev/full", *words(line)).exits(1).says("cannot be written: No space left on device")


for what, command in PRINTERS.items():
    add(f"{what}: a closed standard output is an error", refuses_closed_output, command)


@test
def files_get_what_is_theirs():
    """With descriptors closed, files get the numbers of standard output and error, but not their text."""
    with tempfile.TemporaryDirectory() as folder:
        path = {name: os.path.join(folder, name) for name in ("a.jsonl", "a.csv")}
        line = [*words(SMALL), "--json", path["a.jsonl"], "--csv", path["a.csv"]]
        shell(">&-", *line).exits(2)
        expect(not any(os.path.getsize(p) for p in path.values() if os.path.exists(p)), "a refused run wrote files")
        shell("<&- >/dev/null 2>&-", *line).exits(0)
        with open(path["a.jsonl"], encoding="utf-8") as file:
            equal([json.loads(text)["kind"] for text in file][0], "run", "the first record")
        with open(path["a.csv"], encoding="utf-8") as file:
            expect(all("," in text for text in file), "something in the CSV file is no row")
        # Messages on a closed standard error do not land in the next opened file.
        shell("2>&- >/dev/null", *line, "--fault", "none:1").exits(2)
        with open(path["a.jsonl"], encoding="utf-8") as file:
            [json.loads(text) for text in file]


# ---- two writers -------------------------------------------------------------------------------


@test
def one_run_has_a_file():
    """The second run is refused, and the first one's output stays."""
    with tempfile.TemporaryDirectory() as folder:
        for option in ("--json", "--csv"):
            path = os.path.join(folder, "both" + option)
            first = kit.spawn([*words("all_reduce_perf -g 2 -b 8 -e 8 -N 0 --algo ring"), option, path],
                              stdout=subprocess.DEVNULL)  # fmt: skip
            try:
                until, head = time.monotonic() + 60, ""
                while not head.endswith("\n") and time.monotonic() < until:
                    time.sleep(0.01)
                    if os.path.exists(path):
                        with open(path, encoding="utf-8") as file:
                            head = file.readline()
                execute([*words(SMALL), option, path]).exits(2).says(path, "it is being written already")
                with open(path, encoding="utf-8") as file:
                    equal(file.readline(), head, "the first line of the first run")
            finally:
                first.terminate()
                first.communicate()
            execute([*words(SMALL), option, path]).exits(0)
        execute([*words(SMALL), "--json", "/dev/null", "--csv", "/dev/null"]).exits(0)


# ---- what a terminal would obey ----------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[2J\udc9b31m\u009b31m\x7f\rx"  # \udc9b: the byte 0x9b alone


def is_plain(what, text):
    found = re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    expect(not found, f"{what}: {found} in {text!r}")


def told(*line, code, must=True):
    result = execute([kit.built(line[0]), *line[1:]], cwd=kit.ROOT).exits(*code)
    expect(not must or "owned" in result.out + result.err, f"nothing of it is told\n{result}")
    is_plain(line[0] + " stdout", result.out)
    is_plain(line[0] + " stderr", result.err)


@test
def arguments_are_no_escapes():
    for line in (("all_reduce_perf", "--fault", EVIL), ("all_reduce_perf", EVIL), ("all_reduce_perf", "-d", EVIL),
                 ("all_reduce_perf", "--json", "/none/" + EVIL), ("all_reduce_perf", "--backend", "sim", "--cluster", EVIL),
                 ("ddp_bucket_perf", "--model", EVIL), ("topology", "--topology", EVIL), ("topology", "--system", EVIL),
                 ("model_memory", EVIL), ("model_memory", "train", "--model", EVIL), ("acceptance", EVIL),
                 ("acceptance", "check", EVIL), ("acceptance", "run", EVIL)):  # fmt: skip
        told(*line, code=(2,))
    # Accepted values are in the records, which a terminal may show too.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, EVIL.replace("/", "") + ".jsonl")
        for sink in ((), ("--json", "-"), ("--csv", "-")):
            told("all_reduce_perf", *SMALL.split()[1:], *sink, "-J", path + ".json", code=(0,), must=sink != ("--csv", "-"))


@test
def files_are_no_escapes():
    """Names in files of others are printed; none of their control characters."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "evil")

        def write(text):
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            return path

        log = "# nccl-tests version 2.17 collective: all_reduce_perf\n# Rank 0 Group 0 Pid 1 on owned" + EVIL + " device 0 [0x1] " + \
              EVIL + "\n 1048576 262144 float sum -1 100.0 10.49 18.35 0 100.0 10.49 18.35 0\n"  # fmt: skip
        told("acceptance", "check", write(log), code=(0, 2, 3, 7), must=False)
        told("model_memory", "train", "--model", write(json.dumps({"model_type": EVIL.replace("\udc9b", "")})), code=(2,))
        told("acceptance", "run", write('name: "owned\\x1b[2J\\x9b"\nsteps:\n  - {name: a, run: all_reduce_perf}\n'), code=(2,))
        xml = execute([kit.built("topology"), "--system", "dgx-a100", "--export", "-"]).exits(0).out
        told("topology", "--topology", write(xml.replace("mlx5_0", "owned\u009b31m\x7f")), code=(0, 7))


@test
def reports_are_no_escapes():
    """Messages of report.py about files, and their names, on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run" + EVIL.replace("/", "") + ".jsonl")
        for text in ("no record\n", '{"schema":99,"kind":"run","run_id":"' + json.dumps(EVIL)[1:-1] + '"}\n'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            script = os.path.join(kit.ROOT, "scripts", "report.py")
            result = execute([sys.executable, "-B", script, path, "-o", os.path.join(folder, "out") + "/"])
            is_plain("report.py", result.err + result.out)
        result = execute([sys.executable, "-B", script, path, "--" + EVIL]).exits(2)
        is_plain("report.py", result.err)
