"""Writes docs/training_systems.md: how each way to group, code and apply gradients does on this machine, over a shaped
link and on a simulated cluster, beside its formula.

Every cell is a median, and in brackets by how much the formula of the row differs from it. The formula of a DDP step is
its recurrence with parts as measured alone; that of zero_perf is the recurrence of FSDP's passes with mean times of the
collectives. Codes pay below a bus bandwidth of the plain all-reduce, as measured; the formula is the bytes saved over
the time of coding, as if both exchanges used links equally well."""

import json
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", folder) for folder in ("tests", "scripts")]
import programs  # noqa: E402
from hosts import Hosts, Link  # noqa: E402

RATE = "1gbit"
MODEL = ["--model", "linear:16x512"]
DDP = ["ddp_bucket_perf", "--buckets", "4M", "--overlap", "on"]
FUSION = [*DDP, "--fusion", "all", "--fusion-threshold", "4M", "--bytes-per-pack", "4M"]
OPTIMIZER = [*DDP, "--optimizer", "all"]
ZERO = ["zero_perf", "--stages", "3", "-d", "half", "--overflow", "0", "-n", "3"]
ONEBIT = ["zero_perf", "--ds-config", "tests/cli/ds_onebit_adam.json"]
CODES = ["quantised_all_reduce_perf", "--coding", "int8,int4,fp8-e4m3,mxfp8-e4m3,sign", "--error-feedback", "on"]

# Units of FSDP, then ZeRO++: options of zero_perf.
UNITS = [[], ["--prefetch", "0"], ["--backward-prefetch", "post"], ["--separate-groups"], ["--reshard", "2"],
         ["--reduce-dtype", "float"], ["--padding", "parameter"], ["--qwz"], ["--qwz", "--hpz", "2", "--qgz", "2"]]


class Place:
    """Where a command runs: on this machine, or on two hosts."""

    def __init__(self, build, name, words, small=True, hosts=None):
        self.build, self.name, self.words, self.small, self.hosts = build, name, words, small, hosts

    def records(self, command, kind, *words):
        """Records of KIND of COMMAND with WORDS."""
        line = [os.path.abspath(f"{self.build}/{command[0]}"), *command[1:], *words, *self.words]
        if not self.hosts:
            return programs.records(line, kind)
        done = self.hosts.execute(["mpirun", "--host", self.hosts.names(2), "-np", "4", *line, "--json", "-"])
        if done.code != 0:
            sys.exit(str(done))
        return [r for r in map(json.loads, done.out.splitlines()) if r["kind"] == kind]

    def ddp(self, command):
        work = [*MODEL, "--step-time", "100ms", "-n", "4"] if self.small else ["--model", "gpt2", "--step-time", "60ms"]
        return self.records(command, "data_parallel", *work)

    def zero(self, command):
        work = [*MODEL, "--step-time", "100ms"] if self.small else ["--model", "llama2-7b", "--seq", "1024",
                                                                     "--flops", "400T"]
        return self.records(command, "zero", *work)

    def codes(self, scheme):
        size = "8M" if self.small else "64M"
        one_node = ["--node-ranks", str(int(self.words[-1]) // 2)] if scheme == "two-hops" and "-g" in self.words else []
        return self.records([*CODES, "--scheme", scheme, *one_node], "quantised", "-b", size, "-e", size)


def cell(measured, formula, unit="ms"):
    if not measured or not formula:
        return "-"
    return f"{measured:.4g} {unit} ({100 * (formula / measured - 1):+.1f}%)"


def ddp_rows(place):
    for r in place.ddp(FUSION):
        if r["grouping"] == "cap" or r["rule"] not in ("ddp", None):
            yield f"fusion: {r['rule']}", cell(1e-3 * r["step_us"], 1e-3 * r["predicted_step_us"])
    for r in place.ddp(OPTIMIZER):
        if r["grouping"] == "cap":
            yield f"optimizer: {r['optimizer']}", cell(1e-3 * r["step_us"], 1e-3 * r["predicted_step_us"])


def zero_rows(place):
    for options in UNITS:
        for r in place.zero([*ZERO, *options]):
            measured = r["forward_us"] + r["backward_us"]
            formula = (r["formula_forward_us"] or 0) + (r["formula_backward_us"] or 0)
            yield "stage 3" + " ".join(["", *options]), cell(1e-3 * measured, 1e-3 * formula)
    for r in place.zero(ONEBIT):
        yield f"1-bit Adam, {r['phase']}: bytes sent", cell(1e-6 * r["wire_bytes"], 1e-6 * r["formula_wire_bytes"], "MB")


def code_rows(place):
    for scheme in ("alltoall", "two-hops"):
        for r in place.codes(scheme):
            yield (f"{r['coding']} by {scheme}: pays below",
                   cell(r["break_even_GBps"], r["model_break_even_GBps"], "GB/s"))


def column(place):
    rows = {}
    for part in (ddp_rows, zero_rows, code_rows):
        for name, text in part(place):
            rows.setdefault(name, text)
    return rows


def main(build):
    link = Link(rate=RATE)
    with Hosts(2, links={1: link, 2: link}, limit=1800) as hosts:
        places = [
            Place(build, "4 ranks on host", ["--backend", "host", "-g", "4"]),
            Place(build, "8 ranks on host", ["--backend", "host", "-g", "8"]),
            Place(build, f"2 hosts, {RATE[0]} Gbit/s, 4 ranks", [], hosts=hosts),
            Place(build, "hgx-h100:16, simulated", ["--backend", "sim", "--cluster", "hgx-h100:16"], small=False),
        ]
        columns = []
        for place in places:
            print(place.name, file=sys.stderr, flush=True)
            columns.append(column(place))
    print("# Training systems, measured\n")
    print("Written by `make systems` (studies/systems.py). " + " ".join(__doc__.split("\n\n")[1].split()) + "\n")
    print(f"Measured on {os.cpu_count()} cores with `linear:16x512` (4.2 million parameters) and arrays of 8 MiB; simulated "
          "with gpt2, llama2-7b and 64 MiB. Ranks that share cores wait for each other, which no formula knows. Between the two "
          "hosts MPI's progress needs the cores that compute, so that rows of that column differ by up to a factor of 3 "
          "between runs, and their formulas with them.\n")
    print("| | " + " | ".join(place.name for place in places) + " |")
    print("| --- |" + " ---: |" * len(places))
    for name in dict.fromkeys(name for rows in columns for name in rows):
        print(f"| {name} | " + " | ".join(rows.get(name, "-") for rows in columns) + " |")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build")
