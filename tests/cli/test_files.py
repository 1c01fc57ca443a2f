"""Files that users name: anything but a regular file or a pipe is refused with a sentence by every reader."""

import os
import re
import sys
import tempfile

import kit
from kit import add, execute, expect, run, test

SIM = "all_reduce_perf --backend sim -g 2 -b 8 -e 8"
# Every option and operand that names an input file; {} is the file.
READERS = {
    "--calibrate": SIM + " --calibrate {}",
    "--matrix": "alltoallv_perf --backend sim -g 2 --link 1GB/s,1us --matrix {}",
    "--cluster": SIM + " --cluster {}",
    "--model of a benchmark": "ddp_bucket_perf --predict --model {}",
    "--model of a calculator": "model_memory train --model {}",
    "--ds-config": "model_memory train --params 1B --ds-config {}",
    "--topology": "topology --topology {}",
    "acceptance check": "acceptance check {}",
    "a profile": "acceptance run {}",
    "--cluster of acceptance": "acceptance run ci/profiles/hgx-h100.yaml --dry-run --cluster {}",
    "report.py": "python scripts/report.py {} -o /tmp/busbench-report/",
    "a log after --": "acceptance check -- {}",
}
ENDLESS = 1 << 41  # bytes of a sparse file: more than a disk or memory has


def read(line, path):
    name, *words = line.format(path).split()
    program = [sys.executable, "-B"] if name == "python" else [kit.built(name)]
    return execute([*program, *words], cwd=kit.ROOT)


def refuses(line):
    """Devices, folders, missing and oversized files: never status 0, never a signal."""
    with tempfile.TemporaryDirectory(suffix=".d") as folder:
        endless, missing = os.path.join(folder, "endless.json"), os.path.join(folder, "missing.json")
        with open(endless, "wb") as file:
            file.truncate(ENDLESS)
        cases = [(missing, "No such file"), ("/dev/zero", "not a regular file or a pipe")]
        if "report.py" not in line:  # a folder of records has a report, and that of a model its config.json
            cases.append((folder, "config.json: cannot be opened" if "--model" in line else "a folder, not a file"))
        for path, why in cases:
            read(line, path).exits(2).says(path, why)
        # report.py uses the beginning of a large file if it is usable.
        result = read(line, endless).exits(2, 7).says(endless)
        expect(re.search("l(arger|onger) than", result.err), f"no limit is told\n{result}")


for what, command in READERS.items():
    add(f"{what} refuses what is no file", refuses, command)


@test
def reads_pipes():
    """A pipe is read once, as of <(command) in a shell."""
    records = run("all_reduce --backend sim --link 10G,5us -g 2 -b 1K -e 64K --algo ring --json -").exits(0).out
    xml = execute([kit.built("topology"), "--system", "hgx-h100", "--export", "-"]).exits(0).out
    for line, text in ((SIM + " --calibrate {}", records), (SIM + " --cluster {}:1", xml), ("topology --topology {}", xml),
                       ("acceptance run ci/profiles/hgx-h100.yaml --dry-run --cluster {}:2", xml)):  # fmt: skip
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            name, *words = line.format("/dev/stdin").split()
            execute(["sh", "-c", 'cat "$0" | "$@"', file.name, kit.built(name), *words], cwd=kit.ROOT).exits(0)


@test
def every_reader_is_held():
    """Every option that reads a file is in the table above."""
    held = " ".join(READERS.values())
    for name in ("all_reduce_perf", "ddp_bucket_perf", "zero_perf", "topology", "diagnose"):
        for line in execute([kit.built(name), "--help-all"]).exits(0).out.splitlines():
            words = line.split()
            if len(words) > 1 and words[0].startswith("--") and "FILE" in words[1]:
                expect(words[0] in held or words[0] in ("--csv", "--json", "--export", "--tuner-conf"), f"{name} {words[0]} is not held")
