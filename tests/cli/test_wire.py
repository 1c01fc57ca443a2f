"""Two processes over TCP under AddressSanitizer with a proxy between them that alters messages: tests/fuzz/proxy.py for
a while, the same runs every time."""

import os
import sys

import kit
from kit import expect, test

sys.path.insert(0, os.path.join(kit.ROOT, "tests", "fuzz"))
import proxy  # noqa: E402

RUNS = 60


@test(full=True)
def altered_messages():
    folder = os.path.dirname(kit.built("all_reduce_perf", "address-undefined"))
    try:
        runs, altered, statuses = proxy.campaign(folder, range(1, RUNS + 1), 4)
    except proxy.Bad as bad:
        raise kit.Failure(str(bad)) from None
    expect(runs == RUNS and altered >= RUNS / 2, f"{altered} messages altered in {runs} runs")
    expect(statuses[3] > 0 and statuses[0] > 0, f"exit statuses {statuses}")
