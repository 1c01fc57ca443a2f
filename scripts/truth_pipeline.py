"""Rows of make truth: steps of pipelines against what virtual time says, with the hop of the same run."""

import json
import subprocess
import sys

SHAPES = ((2, 8), (4, 8), (8, 64))
STEPS = 5


def measured(build, stages, microbatches):
    """The records of all schedules, passes sleeping for 10 ms. At worst as late as sleepers wake."""
    command = [f"{build}/pipeline_perf", "--stages", str(stages), "--microbatches", str(microbatches),
               "-n", str(STEPS), "-c", "0", "-T", "600", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return [record for record in records if record["kind"] == "pipeline"]


def rows(build):
    for stages, microbatches in SHAPES:
        for record in measured(build, stages, microbatches):
            yield [f"{record['schedule']}, {stages} stages, {microbatches} microbatches",
                   f"passes 10 ms, hop {record['hop_us']:.0f} us", f"{record['predicted_us'] / 1e3:.2f} ms",
                   f"{record['p50_us'] / 1e3:.2f} ms", f"{record['off_percent']:+.2f}%"]
