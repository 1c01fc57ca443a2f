"""Reads logs of nccl-tests by the program acceptance, which prints their results as records."""

import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# The folder of busbench, which starts this report; the build folder; bin beside share/busbench/scripts/report.
FOLDERS = (os.environ.get("BUSBENCH_FOLDER"), os.path.join(HERE, "../../build"), os.path.join(HERE, "../../../../bin"))
SECONDS = 300


def records(path):
    """The records of a log, in lines; None: it is none, or there is no acceptance."""
    programs = [os.path.join(folder, "acceptance") for folder in FOLDERS if folder]
    program = next((p for p in programs if os.access(p, os.X_OK)), None)
    if not program or not os.path.isfile(path):
        return None
    try:
        done = subprocess.run([program, "check", "--records", "./" + path if path.startswith("-") else path], check=False, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
