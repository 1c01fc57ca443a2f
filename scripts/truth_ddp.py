"""Rows of make truth: steps of data-parallel training over paced links, against the same in virtual time."""

import json
import subprocess
import sys

LINK = "100MB/s,100us"
SWEEP = ["--model", "linear:20x512", "--buckets", "1M,5M,10M", "--step-time", "400ms", "--algo", "ring", "-g", "4",
         "-n", "5", "--link", LINK, "-T", "600"]


def steps(build, *words):
    """Records of the sweep by what they are about."""
    command = [f"{build}/ddp_bucket_perf", *SWEEP, *words, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {(r["grouping"], r["cap_bytes"], r["overlap"]): r for r in records if r["kind"] == "data_parallel"}


def rows(build):
    truth = steps(build, "--backend", "sim")
    for key, record in steps(build, "--backend", "host").items():
        grouping, cap, overlap = key
        buckets = f"{cap >> 20}M" if cap else grouping
        for name, of in (("step_us", "step"), ("exposed_us", "exposed")):
            expected, got = truth[key][name], record[name]
            yield [f"{of}, buckets of {buckets}, overlap {overlap}", f"4 ranks, ring, link {LINK}",
                   f"{expected / 1e3:.1f} ms", f"{got / 1e3:.1f} ms",
                   # Of what is exposed as a share of the step.
                   f"{100 * (got - expected) / truth[key]['step_us']:+.1f}%"]
