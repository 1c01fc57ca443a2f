"""Failures are found, named and survived: slow and dying ranks, timeouts, signals, full disks."""

import csv
import fcntl
import json
import os
import re
import resource
import signal
import tempfile
import time

import kit
from accept import Folder, acceptance, profile, step
from kit import COLLECTIVES, add, built, equal, execute, expect, run, test

CORES = 1 / 2  # ranks that are slow on purpose, or wait


def results(text):
    return [r for r in map(json.loads, text.splitlines()) if r["kind"] == "result"]


# ---- a slow rank -------------------------------------------------------------------------------


def slow(name, rank, algorithm):
    """The records name the rank that arrives last, and its lateness."""
    line = f"{name} -g 4 -b 4K -e 4K -n 4 -w 1 --algo {algorithm} --fault slow:{rank}:200ms --json -"
    for r in results(run(line).exits(0).out):
        what = f"{name} {algorithm}: {r['last_rank']=} {r['last_share']=} {r['last_late_us']=}"
        # A busy machine delays others by tens of milliseconds.
        expect(r["last_rank"] == rank and r["last_share"] >= 0.5, what)
        expect(r["last_late_us"] > 0 and r["skew_max_us"] >= r["skew_p50_us"] > 0, what)


for name in COLLECTIVES:
    add(f"slow rank in {name}", slow, name, 2, "auto", full=name not in ("all_reduce", "gather"))
for algorithm in ("ring", "tree", "halving_doubling", "naive"):
    add(f"slow rank under {algorithm}", slow, "all_reduce", 1, algorithm, full=algorithm != "tree")


# ---- a rank that dies --------------------------------------------------------------------------


def die(name, rank, n, algorithm):
    """The run ends before -T expires and names the rank."""
    result = run(f"{name} -g {n} -b 1K -e 1M -T {kit.LONG} --algo {algorithm} --fault die:{rank}")
    result.exits(3).says(f"rank {rank}")
    equal(len(result.err.strip().splitlines()), 1, "sentences on stderr")


for name in COLLECTIVES:
    add(f"rank 1 dies in {name}", die, name, 1, 4, "auto", full=name not in ("all_reduce", "gather"))
for algorithm in ("ring", "tree", "naive"):
    add(f"rank 0 dies under {algorithm}", die, "all_reduce", 0, 3, algorithm)
add("the only rank dies", die, "all_reduce", 0, 1, "auto")
add("the last of 32 ranks dies", die, "all_reduce", 31, 32, "ring")


# ---- every fault of every program ----------------------------------------------------------------

SMALL = {  # programs other than collectives, with options that make them quick
    "barrier_perf": "",
    "data_parallel_perf": "--train 4",
    "ddp_bucket_perf": "--step-time 2ms",
    "hybrid_parallel_perf": "",
    "mem_bandwidth_perf": "-b 64K -e 64K",
    "moe_alltoall_perf": "",
    "p2p_bandwidth_perf": "-b 4K -e 4K",
    "p2p_latency_perf": "",
    "pipeline_perf": "--schedule 1f1b",
    "quantised_all_reduce_perf": "-b 64K -e 64K",
    "tensor_parallel_perf": "",
    "zero_perf": "--model 1001",
}
FAULTS = {  # one of each kind, with its exit status if all programs have the same
    "corrupt": ("corrupt:1", 7),
    "swap": ("swap:1", 7),
    "die": ("die:1", 3),
    "slow": ("slow:1:1ms", None),
    "slow_link": ("slow_link:0:1:2", None),
    "late": ("late:1:1ms", None),
}


def every_fault(program, words):
    """Faults that --help-all lists are planted, others are refused."""
    text = kit.execute([built(program), "--help-all"]).exits(0).out
    kinds = re.findall(r"^ {6}(\w+):\S+", text.split("\nKinds of --fault:")[1].split("\nMore kinds")[0], re.M)
    expect(set(kinds) <= {*FAULTS, "slow_node"} and "die" in kinds, f"{program}: {kinds}")
    for kind, (fault, code) in FAULTS.items():
        line = [built(program), *f"-g 2 -n 2 -w 0 {words} -T {kit.LONG} --fault {fault}".split()]
        if kind not in kinds:
            kit.execute(line).exits(2).says(fault, "die:RANK")
        elif code:
            kit.execute(line).exits(code)


for program, words in SMALL.items():
    add(f"every fault of {program}", every_fault, program, words)


# ---- time is up --------------------------------------------------------------------------------


def expires(line, least):
    """Exit status 4, not too early, with the ranks that had arrived and those that had not."""
    result = run(line).exits(4)
    result.require(least <= result.seconds, f"took {result.seconds:.1f} s, not {least} at least")
    result.require("rank" in result.err, "names no rank")
    return result


@test
def a_slow_rank_exceeds_the_time():
    expires(f"all_reduce -g 3 -b 8 -e 8 -n 100000 -T {kit.BRIEF} --fault slow:1:60s", kit.BRIEF).says("had not: 1")


@test
def a_slow_link_exceeds_the_time():
    expires(f"all_reduce -g 2 -b 1M -e 1M --algo ring -T {kit.BRIEF} --link 100KB/s", kit.BRIEF)


@test
def each_case_has_its_own_time():
    """-T applies to a case, not to the run: eight sizes of 0.8 s each."""
    result = run("sendrecv -g 2 -b 8 -e 1K -n 10 -w 0 -T 6 --fault slow:0:40ms").exits(0)
    result.require(result.seconds > 6, f"took only {result.seconds:.1f} s")


def paused(line, after):
    """LINE, which stands still for 9 s, AFTER so many seconds."""
    process = kit.spawn([built("all_reduce_perf"), *line.split()])
    time.sleep(after)
    process.send_signal(signal.SIGSTOP)
    time.sleep(9)
    process.send_signal(signal.SIGCONT)
    return kit.finish(process)


@test(cores=1 / 4)
def a_pause_is_no_hang():
    """A process that stood still, as with a suspended machine, has as much time more: two iterations of 2 s and the pause
    end under -T 8."""
    paused("-g 2 -b 8 -e 8 -n 2 -w 0 -c 0 -T 8 --fault slow:1:2s", after=1).exits(0)


@test(cores=1 / 4)
def a_pause_between_short_cases():
    """Likewise where each case has just begun: thousands of them, of which none lasts 8 s."""
    paused("-g 2 -b 8 -e 24K -i 8 -n 2 -w 0 -T 8 --algo ring", after=0.4).exits(0)


# ---- signals -----------------------------------------------------------------------------------


def told_to_stop(number, name):
    """Complete rows are in the files, and the exit status names the signal."""
    with tempfile.TemporaryDirectory() as folder:
        table, lines = os.path.join(folder, "a.csv"), os.path.join(folder, "a.jsonl")
        words = [built(f"{name}_perf"), "-g", "4", "-b", "8", "-e", "1K", "-N", "0", "--csv", table, "--json", lines]
        process = kit.spawn(words)
        kit.wait_for(lambda: kit.has_rows(table), "rows")
        process.send_signal(number)
        kit.finish(process).exits(128 + number).says("interrupted")
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with open(lines, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    expect(len(rows) > 8 and all(row["end_unix_s"] for row in rows), "rows are missing or cut")
    equal([r["kind"] for r in records[::len(records) - 1]], ["run", "end"], "first and last record")
    equal(len([r for r in records if r["kind"] == "result"]), len(rows), "results in CSV and JSON lines")
    equal((records[-1]["verdict"], records[-1]["exit_status"]), ("interrupted", 128 + number), "verdict")


add("SIGINT", told_to_stop, signal.SIGINT, "all_reduce")
add("SIGTERM", told_to_stop, signal.SIGTERM, "alltoall")
add("SIGHUP", told_to_stop, signal.SIGHUP, "all_reduce")


@test
def an_ignored_signal_stays_ignored():
    """A background command of a script ignores SIGINT, and nohup's SIGHUP; SIGTERM ends it."""
    ignored = (signal.SIGINT, signal.SIGHUP)
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.csv")
        words = [built("all_reduce_perf"), "-g", "2", "-b", "8", "-e", "1K", "-N", "0", "--csv", table]
        process = kit.spawn(words, preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in ignored])
        kit.wait_for(lambda: kit.has_rows(table), "rows", lambda: process.poll() is None)
        for number in ignored:
            process.send_signal(number)
        before = os.path.getsize(table)
        kit.wait_for(lambda: os.path.getsize(table) > before + 10000, "more rows", lambda: process.poll() is None)
        process.send_signal(signal.SIGTERM)
        kit.finish(process).exits(143)


@test
def stopped_while_ranks_wait():
    """A signal ends a run whose ranks all wait in a collective."""
    process = kit.spawn([built("all_reduce_perf"), *"-g 3 -b 8 -e 8 --fault slow:1:60s".split()])
    kit.wait_for_guard(process)
    process.send_signal(signal.SIGTERM)
    kit.finish(process).exits(143)


@test
def killed():
    """Even after SIGKILL, complete rows are complete."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.csv")
        process = kit.spawn([built("all_reduce_perf"), *"-g 2 -b 8 -e 1K -N 0 --csv".split(), table])
        kit.wait_for(lambda: kit.has_rows(table), "rows")
        process.kill()
        kit.finish(process)
        with open(table, encoding="utf-8") as file:
            text = file.read()
    expect(text.endswith("\n") and len(text.splitlines()) > 8, "rows are missing or cut")


# ---- nowhere to write --------------------------------------------------------------------------


@test
def the_disk_is_full():
    for flag in ("--csv", "--json"):
        run(f"all_reduce -g 2 -b 8 -e 64 {flag} /dev/full").exits(1).says("/dev/full", "No space left")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "full.json")
        os.symlink("/dev/full", path)
        run(f"all_reduce -g 2 -b 8 -e 64 --csv {path}").exits(1).says("No space left")


@test
def a_file_at_its_limit():
    """ulimit -f makes a write fail with a message; its signal ends nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.json")
        for line in (f"{built('all_reduce_perf')} --backend null -b 8 -e 1G --json {path}",
                     f"{built('topology')} --system hgx-h100 --json {path}"):  # fmt: skip
            if os.path.exists(line.split()[0]):
                execute(["sh", "-c", f"ulimit -f 1; exec {line} >/dev/null"]).exits(1).says("long.json", "written")


def small_files(most):
    """Every file may have so many bytes; a write beyond that fails as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def cut_back(flag, to_stdout):
    """What was written before the disk was full ends with a whole row."""
    line = f"all_reduce --backend null -b 8 -e 1G --algo all {flag} "
    for most in (9000, 20001, 30011):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            with open(path if to_stdout else os.devnull, "w", encoding="utf-8") as file:
                result = run(line + ("-" if to_stdout else path), stdout=file, preexec_fn=small_files(most))
            result.exits(1).says("File too large", "cannot be written")
            with open(path, encoding="utf-8") as file:
                text = file.read()
        expect(len(text) > most - 4000, f"{len(text)} bytes of {most}")
        if flag == "-J":
            expect(json.loads(text)["results"], "no results")
            continue
        expect(text.endswith("\n"), f"ends in {text[-50:]!r}")
        rows = list(csv.reader(text.splitlines())) if flag == "--csv" else [json.loads(row) for row in text.splitlines()]
        expect(len(rows) > 3 and (flag != "--csv" or len({len(row) for row in rows}) == 1), "rows are cut")


for flag in ("--csv", "--json"):
    for to_stdout in (False, True):
        add(f"{flag} {'to standard output ' if to_stdout else ''}on a full disk", cut_back, flag, to_stdout)
add("-J on a full disk", cut_back, "-J", False)


@test
def tools_on_a_full_disk():
    """Each exits 1 with the reason, and half a document is none."""
    full = {"preexec_fn": small_files(3000)}
    with Folder() as f:
        records, document = os.path.join(f.name, "a.jsonl"), os.path.join(f.name, "a.json")
        run(f"all_reduce --backend null -b 8 -e 1K --json {records}").exits(0)
        if os.path.exists(os.path.join(kit.Settings.build, "topology")):
            execute([built("topology"), "--system", "hgx-h100", "--json", document], **full).exits(1).says("a.json", "File too large")
            equal(os.path.getsize(document), 0, "bytes of half a document")
        path = f.profile(profile(step("all_reduce_perf --backend null -b 8 -e 1G", "")))
        # The step fails, and for run alone, whose own files are smaller, that means that it cannot judge.
        f.run(path, **full).exits(3).prints("exit status 1: all_reduce_perf: ", "File too large")
        acceptance("baseline", path, "-n", "2", "--quiet", "-o", os.path.join(f.name, "b"), **full).exits(1).says("File too large")
        f.run(path, out="small", preexec_fn=small_files(100)).exits(1).says("File too large")
        report = os.path.join(kit.ROOT, "scripts", "report.py")
        drawn = execute(["python3", "-B", report, records, "-o", os.path.join(f.name, "r") + "/"], **full)
        drawn.exits(1, 3).require(drawn.code == 3 or "File too large" in drawn.err, "no reason")


@test
def standard_output_is_full():
    for arguments in ("-g 2 -b 8 -e 64", "-g 2 -b 8 -e 64 --csv -", "-g 2 -b 8 -e 64 --json -", "--help",
                      "--list", "--version", "--explain -g 4", "--help-markdown", "--help-all", "--help-schema"):  # fmt: skip
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = run(f"all_reduce {arguments}", stdout=full)
        result.exits(1).require(result.err, "nothing on stderr")


@test
def nobody_listens():
    """A reader that leaves (… | head) ends the run with its status, not by a signal."""
    for stream, line, code in (
        ("stdout", "all_reduce -g 2 -b 8 -e 64", 1),
        ("stderr", "all_reduce -g 2 -b 8 -e 64 --fault die:1", 3),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            run(line, **{stream: pipe}).exits(code)


@test
def nobody_reads():
    """A full pipe that stays open delays neither timeout nor exit, nor the other files."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as folder, os.fdopen(reader), os.fdopen(writer, "w") as pipe:
        path = os.path.join(folder, "a.jsonl")
        result = run(f"all_reduce -g 2 -b 8 -e 64 -n 1 -N 0 -T {kit.BRIEF} --json {path}", stdout=pipe)
        with open(path, encoding="utf-8") as file:
            last = json.loads(file.read().splitlines()[-1])
    result.exits(4).says("-T")
    equal(len(result.err.strip().splitlines()), 1, "sentences on stderr")
    equal((last["kind"], last["verdict"]), ("end", "timed out"), "last record")


@test
def nobody_reads_the_end():
    """The same for a pipe that fills up only at the end."""
    line = "all_reduce -g 2 -b 8 -e 64 -n 1 -T 6 --algo ring,tree"
    text = run(line).exits(0).out
    for room in (len(text) - 300, len(text) - 100):
        reader, writer = os.pipe()
        size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 16)
        os.write(writer, b"x" * (size - room))
        with os.fdopen(reader), os.fdopen(writer, "w") as pipe:
            result = run(line, stdout=pipe)
        result.exits(4).says("the end of the output", "-T")


# ---- a poor machine ----------------------------------------------------------------------------


def limited(what, amount):
    return lambda: resource.setrlimit(what, (amount, amount))


@test
def no_memory():
    """Too little address space for threads or buffers is an orderly failure, wherever it occurs."""
    for megabytes in (20, 50, 80, 100, 150, 300):
        result = run("all_reduce -g 4 -b 32M -e 32M -n 1", preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
        result.exits(1, 5).require(len(result.err.strip().splitlines()) == 1, "not one sentence")


@test
def little_address_space():
    """Sizes that fit are measured, larger ones skipped, whatever the limit leaves."""
    for megabytes in (400, 800):
        result = run("all_reduce -g 4 -b 64K -e 1G -f 16 -n 1", preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
        result.exits(0).quiet().require(1 <= len(result.rows()) < 4 and "# skipped" in result.out, "sizes are missing")


@test
def a_small_stack():
    """Raised where the hard limit allows that, else a sentence."""
    tools = ("all_reduce_perf -g 4 -b 8 -e 1K", "topology --system hgx-h100", "model_memory train --model gpt2")
    for line in tools:
        if not os.path.exists(os.path.join(kit.Settings.build, line.split()[0])):
            continue
        for which, code in (("-S", 0), ("", 1)):
            result = execute(["sh", "-c", f"ulimit {which} -s 64; exec {os.path.join(kit.Settings.build, line)}"]).exits(code)
            if code:
                result.says("the limit of the stack is 64 KiB", "ulimit -s")


@test
def no_files():
    with tempfile.TemporaryDirectory() as folder:
        result = run("all_reduce -g 2 -b 8 -e 8 --csv x --json y -J z.json", cwd=folder,
                     preexec_fn=limited(resource.RLIMIT_NOFILE, 4))  # fmt: skip
    result.exits(2).says("Too many open files")


# ---- paced links -------------------------------------------------------------------------------


def paced(line, least_us, field="min_us"):
    """No transfer is faster than its link."""
    for r in results(run(f"{line} --json -").exits(0).out):
        expect(r[field] >= least_us, f"{line}: {r[field]} us, not at least {least_us}")


# One rank sends 1 MiB: at 1 GB/s that is 1049 us; a message takes its latency at least.
add("sendrecv over 1GB/s", paced, "sendrecv -g 2 -b 1M -e 1M -n 3 --algo ring --link 1GB/s", 1048)
add("broadcast over 1GB/s", paced, "broadcast -g 3 -b 1M -e 1M -n 3 --algo ring --link 1GB/s,10us", 1048)
add("ring all_reduce over 1GB/s", paced, "all_reduce -g 4 -b 1M -e 1M -n 3 --algo ring --link 8Gb/s", 1572)
add("a root sends through one port", paced, "broadcast -g 3 -b 1M -e 1M -n 3 --algo linear --link 1GB/s,port", 2097)
# Twice one message of 1049 us, because the others sometimes begin long before the root.
add("a root receives through one port", paced,
    "gather -g 3 -b 3M -e 3M -n 21 -a 3 --algo linear --link 1GB/s,0us,port", 1600, "p50_us")
add("a latency of 1ms", paced, "all_reduce -g 2 -b 8 -e 8 -n 3 --algo ring --link 100GB/s,1ms", 1000)
add("auto over a link", paced, "all_gather -g 2 -b 1M -e 1M -n 3 --link 1GB/s", 524)


@test
def direct_has_no_links():
    """Memory that is read directly cannot be paced: refused, not replaced."""
    result = run("all_reduce -g 2 -b 8 -e 8 --algo direct --link 1GB/s").exits(5)
    expect("link" in result.out + result.err, f"no reason given\n{result}")


@test
def routes_have_no_ports():
    result = run("p2p_bandwidth -g 2 -b 8 -e 8 --link 1GB/s,port").exits(5)
    expect("routes are paced by links" in result.out, f"no reason given\n{result}")
