"""ci/gpu_bundle.sh and ci/gpu_check.sh on stand-ins for a GPU: checks that pass, fail, are skipped and recorded."""

import collections
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading

import gpus
import kit
from kit import ROOT, add, equal, execute, expect, test

CI = os.path.join(ROOT, "ci")
CLEAN = {"MAKEFLAGS": "", "MAKELEVEL": "", "MFLAGS": ""}
LOCK = threading.Lock()
OWN = ("gpu_check.sh", "gpu_record.sh", "gpu_find.sh", "gpu_plans.sh", "gpu_checks.sh", "gpu_like.awk")
# Tests of the backend, which are linked with stand-ins here, and with the backend in a bundle.
UNITS = ("test_nccl", "test_nccl_features", "test_nccl_memory", "test_nccl_work")
# In the place of compute-sanitizer, gpu_kernels, nvidia-smi and nccl-tests: programs that pass.
SANITIZER = 'while [ "${1#-}" != "$1" ] || [ ! -x "$1" ]; do shift; done\nexec "$@"'
KERNELS = "echo passed all"
SMI = 'case $1 in -L) echo "GPU 0: Fake GPU" ;; *) echo "Fake" ;; esac'


def script(path, body):
    kit.write_program(path, f"#!/bin/sh\n{body}\n")


@functools.lru_cache(None)
def make_bundle():
    """A bundle's folder, and the output of its making."""
    stand_ins()
    if not os.path.exists(os.path.join(kit.Settings.build, "backends", "nccl.so")):
        raise kit.Skipped("the nccl backend was not built: no nvcc or no nccl.h")
    folder = tempfile.TemporaryDirectory(prefix="bb")
    words = [os.path.join(CI, "gpu_bundle.sh"), os.path.join(folder.name, "bundle")]
    return folder, execute(words, {**CLEAN, "B": kit.Settings.given, "NCCL": headers()}, cwd=ROOT).exits(0)


def headers():
    """The version of NCCL's headers that the build has."""
    path = os.path.join(kit.Settings.build, "headers")
    if not os.path.exists(path):
        raise kit.Skipped("built without the headers of CUDA and NCCL")
    with open(path, encoding="utf-8") as file:
        folders = re.findall(r"-isystem (\S+)", file.read())
    path = next(path for path in (os.path.join(folder, "nccl.h") for folder in folders) if os.path.exists(path))
    with open(path, encoding="utf-8") as file:
        found = dict(re.findall(r"#define NCCL_(MAJOR|MINOR|PATCH) (\d+)", file.read()))
    return ".".join(found[name] for name in ("MAJOR", "MINOR", "PATCH"))


def bundle():
    with LOCK:
        return os.path.join(make_bundle()[0].name, "bundle")


def stand_ins():
    return os.path.dirname(gpus.stand_in("fake", "gpu_speed"))


@contextlib.contextmanager
def chosen_stand_ins(*names):
    """A folder with these stand-ins, and programs that pass in place of tools."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        for name in names:
            os.symlink(os.path.join(stand_ins(), name), os.path.join(folder, name))
        for name in UNITS:
            os.symlink(kit.built(f"tests/{name}"), os.path.join(folder, name))
        script(os.path.join(folder, "compute-sanitizer"), SANITIZER)
        script(os.path.join(folder, "gpu_kernels"), KERNELS)
        yield folder


Checked = collections.namedtuple("Checked", "result machine checks end log")


def checked(words, env=None, where=None, backend=None):
    """Runs the check of a bundle. Returns its result, its records by kind, and its log."""
    program = os.path.join(where or bundle(), "ci", "gpu_check.sh")
    with tempfile.TemporaryDirectory() as folder:
        given = {"GPU_CHECK_BACKEND": backend or stand_ins(), "BUSBENCH_FAKE_GPUS": "1", "BUSBENCH_FAKE_FABRIC": "1", **(env or {})}
        result = execute([program, "-o", folder, "-t", str(kit.LIMIT), *words], given)
        with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        with open(os.path.join(folder, "log.txt"), encoding="utf-8", errors="replace") as file:
            log = file.read()
    equal([found[0]["kind"], found[-1]["kind"]], ["machine", "end"], "the first and the last record")
    equal({r["run"] for r in found}, {found[0]["run"]}, "runs")
    return Checked(result, found[0], found[1:-1], found[-1], log)


@test
def records_go_where_OUT_says():
    """-o, else the folder that OUT names, else one beside the programs; the first lines name it."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"GPU_CHECK_BACKEND": stand_ins(), "BUSBENCH_FAKE_GPUS": "1"}
        first, second, bundled = (os.path.join(folder, name) for name in ("first", "second", "bundle"))
        os.mkdir(first)
        shutil.copytree(bundle(), bundled)
        program = [os.path.join(bundled, "ci", "gpu_check.sh"), "-k", "no check has this name", "topology"]
        for words, out, where in (
            ([], first, first),
            (["-o", second], first, second),
            ([], os.path.join(folder, "none"), os.path.join(bundled, "gpu_check")),
        ):
            result = execute([program[0], *words, *program[1:]], {**given, "OUT": out})
            expect(f"records    {where}\n" in result.out.replace("\n           ", ""), f"{where}: {result.out}")
            expect(os.path.getsize(os.path.join(where, "records.jsonl")) > 0, f"no records in {where}")


def statuses(run):
    return collections.Counter(r["status"] for r in run.checks)


def named(run, name):
    return next(r for r in run.checks if r["name"] == name)


# ---- the bundle --------------------------------------------------------------------------------


@test(cores=kit.ALL)
def bundle_is_complete():
    """From the machine it needs only the C and C++ libraries; it finds CUDA and NCCL there."""
    folder = bundle()
    with open(os.path.join(folder, "bundle.txt"), encoding="utf-8") as file:
        said = file.read()
    for word in ("busbench", "commit ", "built with CUDA 1", "headers of NCCL 2.", "needs GLIBC 2.", "for sm_80 sm_90\n"):
        expect(word in said, f"bundle.txt does not say {word!r}: {said}")
    system = {"linux-vdso", "libc", "libm", "libdl", "libpthread", "librt", "libstdc++", "libgcc_s"}
    files = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
    with open(os.path.join(CI, "gpu_checks.sh"), encoding="utf-8") as file:
        called = set(re.findall(r"\bperf ([a-z]\w+)|BIN/(\w+)_perf", file.read()))
    packed = set(os.listdir(os.path.join(folder, "bin")))
    missing = {a or b for a, b in called if f"{a or b}_perf" not in packed}
    equal(missing, set(), "programs that the check runs and the bundle lacks")
    for program in (f for f in files if os.path.basename(os.path.dirname(f)) in ("bin", "tests")):
        for line in execute(["ldd", program]).exits(0).out.splitlines():
            name, _, path = line.strip().partition(" => ")
            own = os.path.realpath(path.split(" ")[0]).startswith(os.path.realpath(folder))
            expect(own or name.split(".so")[0] in system or "ld-linux" in name, f"{program}: {line}")
    for name in OWN:
        with open(os.path.join(CI, name), "rb") as one, open(os.path.join(folder, "ci", name), "rb") as other:
            equal(one.read(), other.read(), name)


@test
def bundle_and_checkout_fit():
    """A machine that is lent takes 64 MiB: the bundle, the files that git does not ignore, and nccl-tests."""
    packed = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(bundle()) for name in names)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.split(b"\0")
    files = [os.path.join(os.fsencode(ROOT), name) for name in listed if name]
    tracked = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
    expect(packed + tracked < 58 << 20, f"bundle {packed >> 20} MiB, tracked files {tracked >> 20} MiB: more than 58")
    make_bundle()[1].prints(" MiB, with the checkout ")
    execute([os.path.join(CI, "gpu_bundle.sh")], {**CLEAN, "ARCHS": "sm_90"}, cwd=ROOT).exits(1).says("ARCHS=sm_90: expected")


@test
def bundle_has_the_headers_that_are_wanted():
    words = [os.path.join(CI, "gpu_bundle.sh"), "unmade"]
    result = execute(words, {**CLEAN, "B": kit.Settings.given, "NCCL": "2.18.1"}, cwd=ROOT).exits(1)
    result.says(f"the build has the headers of NCCL {headers()}, not 2.18.1", f"NCCL={headers()}")
    with open(os.path.join(ROOT, "scripts", "setup.sh"), encoding="utf-8") as file:
        expect("nvidia-nccl-cu13==$NCCL_WANTED" in file.read(), "scripts/setup.sh does not install the same")


@test
def programs_of_a_bundle_run_by_hand():
    execute([os.path.join(bundle(), "bin", "all_reduce_perf"), "-g", "2", "-b", "8", "-e", "8"], cwd="/").exits(0)


@test
def a_folder_of_others_stays():
    with tempfile.TemporaryDirectory() as folder:
        mine = os.path.join(folder, "mine")
        os.mkdir(mine)
        bundle()
        env = {**CLEAN, "B": kit.Settings.given, "NCCL": headers()}
        execute([os.path.join(CI, "gpu_bundle.sh"), folder], env, cwd=ROOT).exits(1).says("is not empty and no bundle")
        expect(os.path.isdir(mine), "it was removed")
    execute([os.path.join(CI, "gpu_bundle.sh"), "one", "two"], cwd=ROOT).exits(2).says("gpu_bundle.sh [FOLDER]")


# ---- the check ---------------------------------------------------------------------------------


# What one rank calls is a copy to NCCL, which then looks at none of these.
COPIES = {f"1 GPU: {c}" for c in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "alltoall")}
COPIES |= {"1 GPU: registered buffers (-R 1)", "1 GPU: symmetric windows (-R 2)", "1 GPU: protocols (--proto)"}
COPIES |= {"1 GPU: few thread blocks (-x 1)", "1 GPU: no thread blocks (-x 2)"}


@test(full=True)
def everything_on_two_gpus():
    with chosen_stand_ins("nccl.so", "gpu_speed") as folder, tempfile.TemporaryDirectory() as tools:
        script(os.path.join(tools, "nvidia-smi"), SMI)
        nvml = os.path.join(kit.Settings.build, "tests", "nvml")
        env = {"BUSBENCH_FAKE_GPUS": "2", "PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": nvml, "FAKE_NVML": "gpus=1"}
        run = checked(["-p", str(kit.LIMIT)], env, backend=folder)
    run.result.exits(0).prints("busbench   busbench ", "GPU        none: stand-ins", "NCCL       ", "backend    NCCL 2.", "missing    nothing")
    listed = execute([os.path.join(CI, "gpu_check.sh"), "-l"]).exits(0).out.splitlines()
    equal([f"{r['part']}\t{r['name']}" for r in run.checks], listed, "what was checked")
    skipped = {r["name"] for r in run.checks if r["status"] == "skipped"}
    absent = {name for _, name in (line.split("\t") for line in listed) if name.endswith("nccl-tests'")}
    absent |= {f"several GPUs: all_reduce runs {a}" for a in ("nvls", "nvlstree", "collnet")}
    absent |= {"kernels reach 80 percent of a copy", "2 ranks of a process on 1 GPU", "nvbandwidth, to compare with", "all_reduce under mpirun"}
    absent.add("2 processes on 1 GPU: NCCL's RAS reports a hang")
    absent |= {f"{gpus}: state of each GPU" for gpus in ("1 GPU", "several GPUs")}
    absent |= COPIES
    # The stand-ins run no sums of NVSwitch.
    absent |= {f"{gpus}: all_reduce by kernel {k} (-D {k})" for gpus in ("1 GPU", "several GPUs") for k in (3, 4)}
    equal(skipped, absent, "what was skipped")
    equal((run.end["passed"], run.end["failed"], run.machine["stand_in"]), (len(listed) - len(skipped), 0, True), "the records")
    expect("Avg bus bandwidth" in run.log and "reduce3" in run.log, "the log lacks what the programs printed")
    equal(named(run, "4 processes on 1 GPU: all_gather runs ring and PAT")["numbers"], {"pat": 4, "ring": 4}, "results that ran as forced")
    equal({r["name"] for r in run.checks if r["reason"] == "a copy: not shown"}, COPIES, "what a copy does not show")
    wide = [line for line in run.result.out.splitlines() if len(line) > 80 and not line.startswith("by hand")]
    expect(not wide, f"wider than 80 columns: {wide}")


@test
def one_rank_is_a_copy():
    """The stand-in of NCCL copies for one rank, as NCCL does, whatever algorithm is forced; the check does not count it."""
    with tempfile.TemporaryDirectory() as folder:
        kit.copy_programs([kit.built("all_reduce_perf")], folder)
        for gpus, kind in ((1, "result"), (2, "skip")):
            env = {"BUSBENCH_BACKEND_DIR": stand_ins(), "BUSBENCH_FAKE_GPUS": "2"}
            words = ["--backend", "nccl", "-g", str(gpus), "--algo", "collnet", "-b", "64", "-e", "64", "--json", "-"]
            lines = execute([os.path.join(folder, "all_reduce_perf"), *words], env).out.splitlines()
            found = [r for r in map(json.loads, lines) if r["kind"] in ("result", "skip")]
            equal({(r["kind"], r.get("library_algorithm")) for r in found}, {(kind, None)}, f"collnet on {gpus} GPUs")
    run = checked(["-k", "1 GPU: symmetric", "features"])
    equal((run.checks[0]["status"], run.checks[0]["reason"]), ("skipped", "a copy: not shown"), "windows of one rank")


@test
def memory_has_a_number_for_each_work():
    with chosen_stand_ins("gpu_speed", "nccl.so") as folder:
        run = checked(["-k", "1 GPU: bandwidth", "memory"], {"BUSBENCH_FAKE_GPUS": "1"}, backend=folder)
    numbers = run.checks[0]["numbers"]
    wanted = {f"{work}_device_GBps" for work in ("read", "write", "copy", "triad", "copy_host", "both_host")}
    expect(wanted <= set(numbers), f"numbers {set(numbers)}")
    expect(all(value > 0 for value in numbers.values()), f"numbers {numbers}")


WITHOUT_NCCL = (
    "a GPU and its host",
    "1 GPU: bandwidth and latency",
    "several GPUs: bandwidth and latency",
    "several GPUs: bandwidth",
    "several GPUs: latency",
    "2 processes on 1 GPU: CUDA IPC",
    "2 processes on 1 GPU: fabric handles",
    "1 GPU: ZeRO, all stages",
    "1 GPU: one rank of 64 under ZeRO",
    "memory and patterns",
)


@test(cores=kit.ALL, full=True)
def without_nccl():
    """Checks that need no NCCL still run, also from a moved bundle; the rest is skipped with the reason."""
    with chosen_stand_ins("gpu_speed", "nccl.so") as folder, tempfile.TemporaryDirectory() as empty:
        elsewhere = os.path.join(empty, "a folder")
        shutil.copytree(bundle(), elsewhere)
        env = {"CUDA_HOME": empty, "NCCL_HOME": "", "BUSBENCH_FAKE_NCCL": "0", "BUSBENCH_FAKE_GPUS": "2"}
        run = checked(["-p", str(kit.LIMIT)], env, where=elsewhere, backend=folder)
    run.result.exits(0).prints("NCCL       not found", "backend    NCCL: not found, CUDA ", "GPUs       2")
    passed = {r["name"] for r in run.checks if r["status"] == "passed"}
    kernels = {r["name"] for r in run.checks if r["part"] in ("kernels", "sanitizers") and "all_reduce" not in r["name"]}
    equal(passed, {*WITHOUT_NCCL, *kernels}, "what passed")
    reason = named(run, "1 GPU: all_reduce")["reason"]
    expect(reason.startswith("collectives do not run: all_reduce_perf: the nccl backend needs NCCL 2.18 or newer"), reason)


@test
def units_of_a_bundle_run():
    """They are linked with the backend beside them."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(bundle(), os.path.join(folder, "b"))
        shutil.copy(os.path.join(stand_ins(), "nccl.so"), os.path.join(folder, "b", "lib", "busbench"))
        for name in ("test_nccl_memory", "test_nccl_features", "test_nccl_work"):
            for gpus in ("1", "2", "8"):
                result = execute([os.path.join(folder, "b", "tests", name)], {"BUSBENCH_TEST_GPUS": gpus}).exits(0)
                result.says("[  PASSED  ]")


def unit(body, gpus, status, reason):
    with chosen_stand_ins("gpu_speed", "nccl.so") as folder:
        os.remove(os.path.join(folder, "test_nccl_work"))
        script(os.path.join(folder, "test_nccl_work"), body)
        record = checked(["-k", "messages", "units"], {"BUSBENCH_FAKE_GPUS": gpus}, backend=folder).checks[0]
    equal((record["status"], record["reason"]), (status, reason), "the verdict on a test of the backend")


add("a unit fails", unit, "echo tests/gpu/a.c:1: rank 0 of 1: x; exit 5", "1", "failed", "exit status 5: tests/gpu/a.c:1: rank 0 of 1: x")
add("a unit has too few GPUs", unit, "echo '[  PASSED  ] 0 test(s).'", "1", "skipped", "needs several GPUs; this machine has 1")
add("a unit is told of GPUs", unit, 'echo "[  PASSED  ] $BUSBENCH_TEST_GPUS test(s)."', "3", "passed", None)


def kernel(body, status, reason):
    with chosen_stand_ins("gpu_speed") as folder:
        script(os.path.join(folder, "gpu_kernels"), body)
        record = checked(["-k", "fill", "kernels"], backend=folder).checks[0]
    equal((record["status"], record["reason"]), (status, reason), "the verdict on a kernel")


add("a kernel fails", kernel, "echo passed fill 1; echo FAILED fill 2: wrong; echo 1 failed; exit 1", "failed", "FAILED fill 2: wrong")
add("a kernel is skipped", kernel, "echo skipped fill 1: no memory", "skipped", "fill 1: no memory")


@test
def no_gpu():
    """Nothing can be checked, which is a failure."""
    run = checked(["speed", "features"], {"BUSBENCH_FAKE_GPUS": "0"})
    run.result.exits(3).says("gpu_check.sh: no GPU that CUDA can use: ")
    equal(run.result.err.count("\n"), 1, "sentences")
    equal(statuses(run).keys(), {"skipped"}, "statuses")
    expect("no GPU" in named(run, "kernels reach 80 percent of a copy")["reason"], "the reason")


@test
def a_failure_fails():
    run = checked(["-k", "1 GPU: reduce_scatter", "algorithms"], {"BUSBENCH_FAKE_FAIL": "ncclReduceScatter:3"})
    run.result.exits(1).prints("FAILED   algorithms: 1 GPU: reduce_scatter", "ncclReduceScatter")
    expect(statuses(run)["failed"] >= 1 and run.end["failed"] == statuses(run)["failed"], f"{statuses(run)}")
    record = run.checks[0]
    expect(record["reason"].startswith("exit status 3: ") and "reduce_scatter_perf" in record["commands"][0], f"{record}")


@test
def no_time_left():
    run = checked(["-p", "0", "features"])
    run.result.exits(1).prints("the time of the part features is used up")
    equal(statuses(run).keys(), {"skipped"}, "statuses")


def with_program(name, body, words, env=None):
    """The check of a build in which this script replaces a program; the others are stripped and quickly copied."""
    with tempfile.TemporaryDirectory() as folder:
        others = (*kit.COLLECTIVES, "mem_bandwidth")
        kit.copy_programs([os.path.join(bundle(), "bin", f"{other}_perf") for other in others], folder)
        program = os.path.join(folder, f"{name}_perf")
        shutil.move(program, os.path.join(folder, "real_perf"))
        script(program, body)
        return checked(words, {"B": folder, **(env or {})}, where=ROOT)


@test
def a_part_over_its_limit():
    """A check that reaches the limit has not passed; later ones are skipped."""
    run = with_program("all_gather", "exec sleep 3600", ["-p", "2", "-k", "processes on 1 GPU: all_gather", "algorithms"])
    run.result.exits(1).prints("TIMEOUT  algorithms: 4 processes on 1 GPU: all_gather")
    equal([r["status"] for r in run.checks], ["timeout", "skipped"], "statuses")
    expect("it did not end in time" in run.checks[0]["reason"] and run.end["timeout"] == 1, f"{run.checks[0]}")


@test
def a_part_that_hangs_costs_only_itself():
    """Its own checks run out of time; those of the next part are made."""
    with chosen_stand_ins("nccl.so", "gpu_speed") as folder:
        script(os.path.join(folder, "gpu_kernels"), "exec sleep 3600")
        run = checked(["-p", "2", "kernels", "speed"], backend=folder)
    run.result.exits(1)
    reasons = {r["name"]: r["reason"] for r in run.checks}
    equal(named(run, "fill")["status"], "timeout", "the first check of the part that hangs")
    equal(reasons["beyond 2^32 bytes"], "the time of the part kernels is used up", "its last one")
    expect("is used up" not in reasons["kernels reach 80 percent of a copy"], "the next part was not made")


@test
def limits_of_parts_and_checks():
    """What a part does not use goes to the next; one that overran costs the next nothing; none goes beyond the end."""
    lines = [
        "declare -A PART_LIMIT=([hand]=30 [kernels]=65 [units]=90)",
        "END=200 PART_SECONDS= SECONDS=5 PART_END=15; begin_part hand; echo $PART_END",
        "SECONDS=50; begin_part kernels; echo $PART_END",
        "TODO[kernels]=4; begin_check kernels; echo $CHECK_END",
        "TODO[kernels]=1; begin_check kernels; echo $CHECK_END",
        "SECONDS=120; begin_part units; echo $PART_END",
        "SECONDS=199; TODO[units]=3; begin_check units; echo $CHECK_END",
    ]
    result = execute(["bash", "-c", "\n".join([f". {CI}/gpu_record.sh", *lines])]).exits(0)
    equal(result.out.split(), ["45", "115", "76", "115", "200", "200"], "ends in seconds")


def listed(*words):
    lines = execute([os.path.join(CI, "gpu_check.sh"), "-l", *words]).exits(0).out.splitlines()
    return [tuple(line.split("\t")) for line in lines]


@test
def plans_choose_checks_and_fit():
    everything = listed()
    for plan, parts, least in (("one-gpu", "machine hand kernels units algorithms features device pairs speed peers sanitizers", 30),
                               ("node", "machine hand peers algorithms device features units pairs faults", 30)):  # fmt: skip
        found = listed("--plan", plan)
        equal(list(dict.fromkeys(part for part, _ in found)), parts.split(), f"parts of {plan}")
        expect(len(found) >= least and set(found) <= set(everything), f"{plan}: {len(found)} checks")
        rows = execute(["bash", "-c", f". {CI}/gpu_plans.sh; plan_of {plan}"]).exits(0).out.splitlines()
        seconds = [row.split()[1] for row in rows]
        equal(sum(int(s) for s in seconds if s != "-"), 540, f"seconds of {plan}")
        for row in rows:
            part, limit, patterns = row.split(" ", 2)
            told = next(line.split("|") for line in page().splitlines() if line.startswith(f"| `{part}` | "))
            equal(told[3 if plan == "one-gpu" else 4].strip(), "the rest" if limit == "-" else f"{limit} s", f"docs/gpu.md: {plan}: {part}")
            expect(any(p == part for p, _ in found), f"{plan}: no check of {part} matches {patterns}")
    expect(not any(name.startswith("several") for _, name in listed("--plan", "one-gpu")), "one GPU is not several")
    execute([os.path.join(CI, "gpu_check.sh"), "--plan", "two"]).exits(2).says("no plan 'two'; the plans are one-gpu and node")


@test
def again_is_what_failed():
    """Of each check the latest record counts; NCCL writes its log."""
    used_up = "the time of the part units is used up"
    rows = [("kernels", "fill", "failed", "x"), ("kernels", "fill", "passed", None), ("kernels", "verify", "timeout", "x"),
            ("units", "memory and patterns", "skipped", used_up), ("topology", "every GPU of the driver", "skipped", "no"),
            ("features", "1 GPU: graphs (-G)", "passed", None), ("algorithms", "1 GPU: reduce", "failed", "x"),
            ("algorithms", "1 GPU: gather", "skipped", "collectives do not run: it did not end in time")]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for part, name, status, reason in rows:
                file.write(json.dumps({"kind": "check", "part": part, "name": name, "status": status, "reason": reason}, separators=(",", ":")) + "\n")
        found = listed("--again", path)
        wanted = [("kernels", "verify"), ("units", "memory and patterns"), ("algorithms", "1 GPU: reduce"), ("algorithms", "1 GPU: gather")]
        equal(found, wanted, "what is made again")
        run = with_program("reduce", 'echo "log $NCCL_DEBUG ${NCCL_DEBUG_FILE##*/}"; exit 1', ["--again", path, "algorithms"])
        equal(run.checks[0]["reason"], "exit status 1: log INFO nccl.%p.txt", "NCCL's variables")
        with open(path, "w", encoding="utf-8"):
            pass
        execute([os.path.join(CI, "gpu_check.sh"), "--again", path]).exits(0).prints("no check of", "failed or lacked time")
        execute([os.path.join(CI, "gpu_check.sh"), "--again", folder + "/none"]).exits(2).says("cannot be read")


@test
def logs_of_nccl_are_one_file():
    """Of commands that failed, or of all: a machine may send back only a few files. -T ends before the check's time does."""
    lines = [
        "COMMANDS=('a program'); TEMP=$PWD OUT=$PWD/out; mkdir out",
        "for status in 0 1; do echo text $status >nccl.7.txt; keep_nccl_log $status; done; cat out/nccl.txt",
        "echo kept >nccl.8.txt; KEEP_LOG=1 keep_nccl_log 0; tail -n 1 out/nccl.txt; ls",
        "for seconds in 30 3 900; do CHECK_END=$((SECONDS + seconds)); patience; done",
    ]
    with tempfile.TemporaryDirectory() as folder:
        result = execute(["bash", "-c", "\n".join([f". {CI}/gpu_record.sh", *lines])], cwd=folder).exits(0)
    equal(result.out.split("\n"), ["", "$ a program", "text 1", "kept", "out", "20", "5", "120", ""], "what is kept, and -T")


@test
def a_cold_probe_costs_no_checks():
    """Where the probe of collectives ran out of time but the run by hand passes, checks that need them are made."""
    body = 'case "$*" in *"-b 8 -e 8") exec sleep 3600 ;; *) exec "${0%/*}/real_perf" "$@" ;; esac'
    run = with_program("all_reduce", body, ["-k", "all_reduce", "hand", "device"], {"GPU_CHECK_PROBE": "15"})
    equal(named(run, "all_reduce, 8 B to 256 MiB")["status"], "passed", "the run by hand")
    equal(named(run, "1 GPU: all_reduce by kernel 1 (-D 1)")["status"], "passed", "a check of collectives")


@test
def a_full_disk_keeps_the_records_in_the_output():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("records.jsonl", "log.txt"):
            os.symlink("/dev/full", os.path.join(folder, name))
        given = {"GPU_CHECK_BACKEND": stand_ins(), "BUSBENCH_FAKE_GPUS": "1"}
        result = execute([os.path.join(bundle(), "ci", "gpu_check.sh"), "-o", folder, "-k", "library", "machine"], given)
    result.exits(1).says("3 records could not be written", "the output has them")
    kept = [json.loads(line[7:]) for line in result.out.splitlines() if line.startswith("record ")]
    equal([r["kind"] for r in kept], ["machine", "check", "end"], "records in the output")


@test
def headers_that_do_not_fit_fail():
    """A library of another 2.xx than the headers refuses every kernel on its device API: a failed line of its own."""
    for version, status in (("", "passed"), ("22707", "failed"), ("23007", "failed")):
        run = checked(["machine"], {"BUSBENCH_FAKE_VERSION": version} if version else {})
        equal(named(run, "the headers of NCCL fit its library")["status"], status, f"library {version}")
        run.result.prints("headers    of NCCL 2.")


@test
def a_broken_nccl_leaves_its_log():
    """Where the probe of collectives fails, the run by hand is made all the same."""
    run = checked(["machine", "hand"], {"BUSBENCH_FAKE_FAIL": "ncclAllReduce:1"})
    run.result.exits(1)
    equal([r["status"] for r in run.checks], ["passed", "failed"], "the headers, and the run by hand")


@test(full=True)
def a_probe_that_hangs_costs_only_itself():
    with chosen_stand_ins("nccl.so") as folder:
        script(os.path.join(folder, "gpu_speed"), "exec sleep 3600")
        run = checked(["-k", "a GPU and its host", "pairs"], {"GPU_CHECK_PROBE": "10"}, backend=folder)
    equal(named(run, "a GPU and its host")["status"], "passed", "what the other probe found")
    expect(run.machine["nccl_read_ms"] >= 0, "the library was not read")


@test
def wrong_data_fails():
    """A program that reports wrong data only by its exit status."""
    run = with_program("broadcast", 'exec "${0%/*}/real_perf" "$@" --fault corrupt:0', ["-k", "1 GPU: broadcast", "algorithms"])
    run.result.exits(1)
    expect(run.checks[0]["reason"].startswith("exit status 7: "), f"{run.checks[0]}")


@test
def odd_words_are_recorded():
    run = with_program("reduce", "printf 'a \"quoted\" \\\\ and\\ttab\\001\\n'; exit 1", ["-k", "1 GPU: reduce", "algorithms"])
    run.result.exits(1)
    equal(named(run, "1 GPU: reduce")["reason"], 'exit status 1: a "quoted" \\ and\ttab', "the reason")


RESULT = '{"schema":1,"kind":"result","algorithm_asked":"%s","algorithm":"%s","library_algorithm":%s}'


SKIP = '{"schema":1,"kind":"skip","algorithm":"%s","reason":%s}'


def reported(asked, ran, library, status, reason):
    body = f"echo '{RESULT % (asked, ran, library) if ran else SKIP % (asked, library)}'"
    run = with_program("broadcast", body, ["-k", "broadcast runs ring", "algorithms"])
    record = run.checks[0]
    equal((record["status"], record["reason"]), (status, reason), "the verdict on what NCCL reports")


for what in (
    ("ring", "ring", '"ring:LL"', "passed", None),
    ("ring:LL", "ring:LL", '"ring:LL"', "passed", None),
    ("ring", "ring", '"tree:LL"', "failed", "ring was forced, NCCL ran tree:LL"),
    ("ring:LL", "ring:LL", '"ring:LL128"', "failed", "ring:LL was forced, NCCL ran ring:LL128"),
    ("ring", "ring", "null", "skipped", "NCCL does not report what it chose"),
    ("ring", "busbench:ring", "null", "skipped", "ring did not run: a schedule of busbench ran"),
    ("ring", None, '"the library ran nvls:Simple instead"', "failed",
     "ring was forced, the library ran nvls:Simple instead"),
    ("ring", None, '"NCCL has no such algorithm"', "skipped", "ring did not run: NCCL has no such algorithm"),
):
    add(f"forced {what[0]}, {what[1]} ran {what[2]}", reported, *what, full=":" in what[0])


# ---- what is found -----------------------------------------------------------------------------


@test
def nccl_is_the_one_that_busbench_finds():
    """There is one list of places, that of --list; nccl-tests is given the same library."""
    path = re.search(r"library: NCCL ([0-9.]*) \((.*)\), built", execute([kit.built("all_reduce_perf"), "--list"]).exits(0).out)
    if not path:
        raise kit.Skipped("there is no NCCL here")
    with tempfile.TemporaryDirectory() as folder:
        words = [os.path.join(bundle(), "ci", "gpu_check.sh"), "-o", folder, "-k", "library", "machine"]
        result = execute(words, {"GPU_CHECK_PROBE": "20"})
        with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as file:
            machine = json.loads(file.readline())
    equal((machine["nccl"], machine["nccl_path"]), path.groups(), "the record")
    result.prints(f"LD_LIBRARY_PATH={os.path.dirname(path.group(2))}")


@test
def missing_packages():
    """Debian's names of the libraries that the dynamic linker does not find."""
    with tempfile.TemporaryDirectory() as tools:
        said = "libhwloc.so.15 => not found\\nlibfoo.so.1 => not found\\nlibnuma.so.1 => /lib/libnuma.so.1 (0x0)\\n"
        script(os.path.join(tools, "ldd"), f"printf '{said}'")
        run = checked(["topology"], {"PATH": f"{tools}:{os.environ['PATH']}"})
    run.result.prints("libraries  libnuma.so.1\n", "missing    libfoo.so.1 libhwloc15\n")
    equal(run.machine["missing"], "libfoo.so.1 libhwloc15", "the record")


# ---- like with like ----------------------------------------------------------------------------


def compared(theirs, ours, code, said):
    """THEIRS and OURS: times of each turn at 1 KiB and 16 MiB."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("theirs", "ours")]
        for path, turns in zip(paths, (theirs, ours)):
            with open(path, "w", encoding="utf-8") as file:
                for turn, times in enumerate(turns):
                    for size, time in zip((1 << 10, 16 << 20), times):
                        file.write(f"{turn} {size} 1 float sum -1 {time} 1.0 0.0 N/A {time} 1.0 0.0 N/A\n")
                        file.write(f"{turn} # a comment\n")
        result = execute(["awk", "-f", os.path.join(CI, "gpu_like.awk"), *paths]).exits(code)
    equal(result.out.splitlines()[-1], said, "the sentence")


RULE = "sizes differ by more than 1% from 1 MiB on or 5% below"
EVEN = [(10.0, 100.0)] * 5
for what in (
    ("alike", [(10.4, 100.9)] * 5, 0, f"0 of 2 {RULE}"),
    ("slower when large", [(10.4, 101.1)] * 5, 1, f"1 of 2 {RULE}"),
    ("faster when small", [(9.4, 100.0)] * 5, 1, f"1 of 2 {RULE}"),
    ("one turn disturbed", [(10.0, 100.0)] * 4 + [(99.0, 999.0)], 0, f"0 of 2 {RULE}"),
    ("unsteady", [(10, 98 + n) for n in range(5)], 0, f"0 of 1 {RULE}; cannot judge 16777216 B (2.0%), whose turns spread wider than the gate"),
    ("absent", [], 5, f"0 of 0 {RULE}"),
):  # fmt: skip
    add(f"times beside nccl-tests': {what[0]}", compared, EVEN, *what[1:])


@test
def peers_take_turns():
    """On one GPU a message and the copy that a collective is, on several all; 400 iterations, and 1 MiB among the sizes."""
    with tempfile.TemporaryDirectory() as peers:
        for name in ("all_reduce", "sendrecv"):
            script(os.path.join(peers, f"{name}_perf"), f'exec {kit.built(f"{name}_perf")} --backend host "$@"')
        run = checked(["peers"], {"NCCL_TESTS_HOME": peers})
    equal([r["name"].split(":")[0] for r in run.checks if r["commands"]], ["sendrecv", "all_reduce"], "what one GPU compares")
    equal({r["reason"] for r in run.checks if not r["commands"]}, {"needs several GPUs; this machine has 1"}, "the others")
    for record in (r for r in run.checks if r["commands"]):
        equal([record["reason"], record["numbers"]["turns"], record["numbers"]["iterations"]], ["stand-ins have no speed", 3, 5], record["name"])
        equal(["/bin/" not in c for c in record["commands"]], [True, False] * 3, "turns of nccl-tests and of busbench")
    real = execute(["bash", "-c", f'. {CI}/gpu_checks.sh; STAND_IN= GPUS=8; choose_sizes; echo "${{LIKE[*]}} -n $LIKE_N"']).exits(0).out.split()
    sizes = [16 * int(real[5]) ** k for k in range(8)]
    expect(real[0:2] == ["-b", "16"] and real[6:] == ["-n", "400"] and 1 << 20 in sizes, f"{real}")


# ---- the table of what was seen ----------------------------------------------------------------


TABLE = os.path.join(ROOT, "scripts", "gpu_table.py")


def page():
    with open(os.path.join(ROOT, "docs", "gpu.md"), encoding="utf-8") as file:
        return file.read()


@test
def table_is_that_of_the_records():
    equal(execute([TABLE, "-n"]).exits(0).out, page(), "docs/gpu.md, which scripts/gpu_table.py writes")


MACHINE = {"kind": "machine", "run": "r", "stand_in": False, "gpu": "H100", "gpus": 1, "nccl": "2.28.9", "date": "2026-11-23 06:00 UTC"}
CHECK = {"kind": "check", "run": "r", "part": "kernels", "name": "beyond 2^32 bytes", "status": "passed", "reason": None, "numbers": {"GBps": 3.5}}  # fmt: skip


def tabled(*records):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(r) + "\n" for r in records)
        file.flush()
        return execute([TABLE, "-n", file.name])


@test
def table_shows_records():
    row = "| kernels | beyond 2^32 bytes | "
    where = "(1 × H100, NCCL 2.28.9, 2026-11-23)"
    known = {**MACHINE, "driver": "580.95", "headers": "2.28.8", "clocks": "SM 1980 MHz"}
    told = "| 1 × H100 | 580.95 | 2.28.9 | 2.28.8 | SM 1980 MHz | 2026-11-23 06:00 UTC |"
    tabled(known, CHECK).exits(0).prints(f"{row}passed {where}: GBps 3.5 |", told)
    tabled(MACHINE, CHECK).exits(0).prints(f"{row}passed {where}: GBps 3.5 |", "| 1 × H100 | unknown | 2.28.9 |")
    failed = {**CHECK, "status": "failed", "reason": "a | b", "numbers": {}}
    tabled(MACHINE, CHECK, failed).exits(0).prints(f"{row}**failed**: a \\| b {where} |")
    skipped = {**CHECK, "status": "skipped", "reason": "no time"}
    tabled(MACHINE, CHECK, skipped).exits(0).prints(f"{row}passed {where}: GBps 3.5 |")
    tabled(MACHINE, skipped).exits(0).prints(f"{row}not yet: no time |")
    other = {**MACHINE, "run": "s", "gpus": 8}
    tabled(MACHINE, CHECK, other, {**failed, "run": "s"}).exits(0).prints(f"passed {where}: GBps 3.5; **failed**: a \\| b (8 × H100")


@test
def table_of_stand_ins_is_refused():
    tabled({**MACHINE, "stand_in": True}, CHECK).exits(1).says("stand-ins")
    tabled(MACHINE, {**CHECK, "name": "gone"}).exits(1).says("no check is called 'kernels: gone' any more")


# ---- the kernels -------------------------------------------------------------------------------


@test
def kernels_keep_to_their_blocks():
    """As many blocks are launched as a multiprocessor runs at once: the compiler is told of both."""
    folder = os.path.join(ROOT, "src", "backends", "nccl")
    for name in ("patterns", "reductions", "works"):
        with open(os.path.join(folder, f"{name}.cu"), encoding="utf-8") as file:
            kernels = re.findall(r"__global__ void ([^\n]*)", file.read())
        bounds = "__launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) "
        alone = re.compile(r"(chase|spin|ping_pong)\(")  # one block
        wrong = [kernel for kernel in kernels if not kernel.startswith(bounds) and not alone.match(kernel)]
        expect(kernels and not wrong, f"{name}.cu: {wrong}")


# ---- the scripts -------------------------------------------------------------------------------


@test
def misused():
    program = os.path.join(CI, "gpu_check.sh")
    execute([program, "speeds"]).exits(2).says("no part 'speeds'; the parts are machine hand kernels units")
    execute([program, "-x"]).exits(2).says("ci/gpu_check.sh [OPTION...] [PART...]")
    execute([program, "-t", "soon"]).exits(2).says("-t SECONDS")
    with tempfile.TemporaryDirectory() as empty:
        execute([program], {"B": empty}).exits(3).says("all_reduce_perf is missing", "make CUDA=1")


@test
def is_clean_shell():
    if not shutil.which("shellcheck"):
        raise kit.Skipped("shellcheck is not here")
    execute(["shellcheck", "-x", "ci/gpu_check.sh", "ci/gpu_bundle.sh"], cwd=ROOT).exits(0)


@test
def the_backend_is_built():
    """If everything that it needs exists, `make` has built it, and it loads as far as possible without a GPU."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = os.path.join(home, "bin", "nvcc")
    probe = ["gcc", "-isystem", os.path.join(home, "include"), "-E", "-x", "c", "-"]
    if "CUDA=0" in os.environ.get("MAKEFLAGS", "") or not os.access(nvcc, os.X_OK) or not shutil.which("gcc") or \
       subprocess.run(probe, input=b"#include <nccl.h>\n", capture_output=True, check=False).returncode:  # fmt: skip
        raise kit.Skipped("the nccl backend cannot be built: no nvcc or no nccl.h")
    backend = kit.built("backends/nccl.so")
    binary = kit.built("all_reduce_perf")
    result = execute([binary, "--backend", "nccl", "-b", "8", "-e", "8"])
    result.require(result.code == 0 or "finds no GPU" in result.err, f"{backend} does not load")
