"""Rows of make truth: steps of data-parallel training over paced links, against virtual time."""

import programs

LINK = "100MB/s,100us"
SWEEP = ["--model", "linear:20x512", "--buckets", "1M,5M,10M", "--step-time", "400ms", "--algo", "ring", "-g", "4",
         "-n", "5", "--link", LINK, "-T", "600"]


def steps(build, *words):
    """Records of the sweep by buckets and overlap."""
    found = programs.records([f"{build}/ddp_bucket_perf", *SWEEP, *words], "data_parallel")
    return {(r["grouping"], r["cap_bytes"], r["overlap"]): r for r in found}


def rows(build):
    truth = steps(build, "--backend", "sim")
    for key, record in steps(build, "--backend", "host").items():
        grouping, cap, overlap = key
        buckets = f"{cap >> 20}M" if cap else grouping
        for name, of in (("step_us", "step"), ("exposed_us", "exposed")):
            expected, got = truth[key][name], record[name]
            yield [f"{of}, buckets of {buckets}, overlap {overlap}", f"4 ranks, ring, link {LINK}",
                   f"{expected / 1e3:.1f} ms", f"{got / 1e3:.1f} ms",
                   # The exposed part too is off by a share of the step.
                   f"{100 * (got - expected) / truth[key]['step_us']:+.1f}%"]
