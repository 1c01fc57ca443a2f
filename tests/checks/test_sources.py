"""Rules of the sources: includes, sizes, banned functions, places of input and output."""

import collections
import concurrent.futures
import functools
import json
import os
import re
import subprocess

import kit
from kit import ROOT, add, equal, expect, test

# Folder of src/: its floor. A folder includes what stands on lower floors, never its own floor's neighbours. The pair of
# a GPU and its host is measured as memory is, so p2p stands above memory/bandwidth, and above nothing else of floor 7.
FLOORS = {
    "core": 1,
    "schedules": 2, "topology": 2, "models": 2, "launch": 2, "suspects": 2, "codes": 2,
    "programs": 3, "logs": 3,
    "simulator": 4,
    "backends": 5,
    "harness": 6,
    "collectives": 7, "p2p": 8, "memory": 7, "training_kernels": 7, "diagnose": 7, "acceptance": 7, "topology_tool": 7,
    "front": 7,
}  # fmt: skip
FUNCTION_MOST, FUNCTION_P95, FILE_MOST = 100, 60, 900
# Lines of src without blanks and comments: a change that makes it fewer lowers this number, and one
# that adds a feature raises it in a commit of its own, which says what they buy.
CODE_MOST = 85_500
BANNED = (
    "strcpy strcat sprintf vsprintf gets atoi atol atoll atof strtok tmpnam mktemp alloca rand srand system popen "
    "setjmp longjmp"
).split()
COMPILERS = ("gcc", "clang")
CUDA_INCLUDE = ["-isystem", os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")]
FLAGS = (
    "-std=gnu11 -Isrc -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes "
    "-Wpointer-arith -Wvla -Wwrite-strings -Wno-unused-parameter -pthread -fsyntax-only -DBB_BUILT=\"\""
).split()


def sources(folder, endings=(".c", ".h")):
    """Paths below FOLDER, relative to the root, in order."""
    found = []
    for path, _, names in os.walk(os.path.join(ROOT, folder)):
        found += [os.path.relpath(os.path.join(path, n), ROOT) for n in names if n.endswith(endings)]
    expect(found, f"nothing in {folder}")
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def code(path):
    """The text without comments and strings, with the same number of lines."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, read(path), flags=re.S)


# Likewise the folders of the simulator; what stands in none of them is below all.
SIMULATOR = {"cluster": 1, "timeline": 1, "openmpi": 1, "nccl": 2, "calibration": 3}


def upward(path, included):
    """The reason why the file may not include that one; None if it may."""
    folder, target = path.split("/")[1], included.split("/")[0]
    if "/" not in included:
        return "is not named from src/ on"
    if folder == "p2p" and FLOORS[target] == 7 and not included.startswith("memory/bandwidth/"):
        return "pairs know nothing of other benchmarks but memory/bandwidth"
    if target != folder and FLOORS[target] >= FLOORS[folder]:
        return f"{folder} knows nothing of {target}"
    if folder == target == "simulator" and included.count("/") > 1:
        mine, other = path.split("/")[2], included.split("/")[1]
        if mine != other and SIMULATOR[other] >= SIMULATOR.get(mine, 0):
            return f"{mine} knows nothing of {other}"
    if path.startswith(("src/harness/run/", "src/harness/results/")) and included.startswith("harness/measure/"):
        return "what a run is knows nothing of how it measures"
    if folder == "memory" and "/tool/" in path and target not in ("codes", "core", "memory", "models"):
        return "what is calculated needs nothing that measures"
    if target == "backends" and included.count("/") > 1:
        mine = path.split("/")[2] if folder == "backends" else None
        other = included.split("/")[1]
        if other not in (mine, "cpu") or (folder != "backends"):
            return "a backend is known by its table alone"
    return None


@test
def includes_point_downwards():
    wrong = []
    for path in sources("src"):
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', read(path), re.M):
            reason = upward(path, included)
            if reason:
                wrong.append(f'{path} includes "{included}": {reason}')
    expect(not wrong, "\n".join(wrong))


@test
def the_check_of_includes_can_fail():
    for path, included in [
        ("src/core/json.c", "schedules/schedule.h"),
        ("src/schedules/ring.c", "topology/probes/machine.h"),
        ("src/backends/host/p2p.c", "backends/null/null.h"),
        ("src/backends/cpu/memory.c", "backends/host/host.h"),
        ("src/harness/main.c", "backends/host/host.h"),
        ("src/harness/run/run.h", "harness/measure/engine.h"),
        ("src/harness/measure/runner.c", "collectives/plan.h"),
        ("src/launch/launch.c", "collectives/plan.h"),
        ("src/core/json.c", "json.h"),
        ("src/models/model.c", "training_kernels/ddp/step.h"),
        ("src/models/model.c", "harness/run/options.h"),
        ("src/models/model.c", "topology/topology.h"),
        ("src/programs/program.c", "simulator/timeline/timeline.h"),
        ("src/simulator/cluster/open.c", "backends/backend.h"),
        ("src/simulator/cluster/open.c", "simulator/timeline/timeline.h"),
        ("src/simulator/nccl/model.h", "simulator/calibration/calibration.h"),
        ("src/diagnose/drive.c", "acceptance/plan.h"),
        ("src/suspects/fit.c", "schedules/schedule.h"),
        ("src/models/memory/training.c", "harness/run/run.h"),
        ("src/memory/tool/zero.c", "training_kernels/zero/ledger.h"),
        ("src/training_kernels/zero/rank.c", "memory/tool/tool.h"),
        ("src/memory/bandwidth/bandwidth.c", "p2p/pairs.h"),
        ("src/p2p/pairs.c", "training_kernels/zero/zero.h"),
    ]:
        expect(upward(path, included), f"{path} may include {included}")
    expect(not upward("src/backends/host/p2p.c", "backends/cpu/executor.h"), "host may not include cpu")


# Each backend has its own of what backends/backend.h declares without a definition.
CORE_MOST = 30
TABLES = {name: f"src/backends/{name}/{name}.c" for name in ("gloo", "host", "mpi", "nccl", "null", "sim")}
SHARED = {"BB_CPU_ENTRIES": "src/backends/cpu/queue.h", "BB_DATALESS_ENTRIES": "src/backends/dataless.h"}


def core():
    """(functions, parts) of a backend's table."""
    table = re.search(r"struct bb_backend \{\n(.*?)\n\};", read("src/backends/backend.h"), re.S).group(1)
    return re.findall(r"^\t\w[\w ]*\*?\(\*(\w+)\)\(", table, re.M), re.findall(r"const struct bb_(\w+) \*\1;", table)


@test
def every_backend_has_all_of_the_core():
    """Every backend's table has all core functions, and null nothing else."""
    functions, parts = core()
    expect(20 < len(functions) <= CORE_MOST, f"{len(functions)} functions: {functions}")
    expect(len(parts) > 5, f"parts: {parts}")
    for name, path in TABLES.items():
        text = read(path)
        text += "".join(read(header) for name, header in SHARED.items() if name in text)
        lacks = [f for f in functions if not re.search(rf"\.{f} = ", text)]
        expect(not lacks, f"the table of {name} lacks {lacks}")
    has = [p for p in parts if re.search(rf"\.{p} = ", read(TABLES["null"]))]
    expect(not has, f"null has {has}")


OF_EACH_BACKEND = {"bb_context", "bb_group", "bb_rank", "bb_queue", "bb_event"}


def ctags(*words):
    """The tags of all of src/, as ctags prints them."""
    output = subprocess.run(
        ["ctags", "--output-format=json", "--langmap=C:.c.h", "--languages=C", "-o", "-", *words, *sources("src")],
        cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True,
    ).stdout  # fmt: skip
    return [json.loads(line) for line in output.splitlines()]


@test
def names_mean_one_thing():
    """No two external functions, and no two tags of headers, share a name."""
    places, static = {}, collections.Counter()
    for tag in ctags("--fields=+f", "--kinds-C=fsug"):
        if tag["kind"] == "function" and tag.get("file") and tag["path"].endswith(".c"):
            static[tag["name"]] += 1
        elif tag["name"].startswith("bb_") and tag["name"] not in OF_EACH_BACKEND:
            places.setdefault((tag["kind"] == "function", tag["name"]), []).append(tag["path"])
    expect(len(places) > 1000, f"only {len(places)} names found")
    twice = [f"{name}: {', '.join(paths)}" for (_, name), paths in places.items() if len(paths) > 1]
    often = ", ".join(f"{name} {n} times" for name, n in static.most_common(10))
    expect(not twice, "\n".join(twice) + f"\nThe static functions whose names repeat most: {often}")


@test
def externals_are_used():
    """What a header declares is used: by another file of src/, docs/ or tests/perf, or by its own and a test that looks inside."""
    words = {path: collections.Counter(re.findall(r"\bbb_\w+", code(path))) for path in sources("src", (".c", ".h", ".cu", ".cuh", ".cc")) + sources("docs") + sources("tests/perf")}
    tests = set(re.findall(r"\bbb_\w+", "\n".join(map(read, sources("tests", (".c", ".h", ".cu", ".cc"))))))
    unused = []
    for tag in ctags("--fields=+f", "--kinds-C=fv"):
        name, own = tag["name"], tag["path"]
        if tag.get("file") or not name.startswith("bb_") or not own.endswith(".c"):
            continue
        headers = sum(found[name] for path, found in words.items() if path.endswith(".h"))  # a declaration, and macros
        users = [path for path, found in words.items() if found[name] and path != own and not path.endswith(".h")]
        if not users and headers < 2 and not name.startswith("bb_plugin_") and (name not in tests or words[own][name] == 1):
            unused.append(f"{own}: {name} is used by {'tests alone' if name in tests else 'no other file'}")
    expect(not unused, "\n".join(unused))


def functions():
    """(lines, path, name) of every function."""
    files = sources("src") + sources("tests") + sources("docs")
    output = subprocess.run(
        ["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=f", "--languages=C", "-o", "-", *files],
        cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True,
    ).stdout  # fmt: skip
    tags = [json.loads(line) for line in output.splitlines()]
    return sorted((t["end"] - t["line"] + 1, t["path"], t["name"]) for t in tags if "end" in t)


@test
def functions_are_short():
    found = functions()
    expect(len(found) > 500, f"only {len(found)} functions found")
    long = [f"{path}: {name} has {lines} lines" for lines, path, name in found if lines > FUNCTION_MOST]
    expect(not long, "\n".join(long))
    lines = [f[0] for f in found if f[1].startswith("src/")]
    p95 = lines[int(len(lines) * 0.95)]
    expect(p95 <= FUNCTION_P95, f"95th percentile of src is {p95} lines")


@test
def code_stays_within_its_budget():
    texts = [re.sub(r"/\*.*?\*/|//[^\n]*", "", read(p), flags=re.S) for p in sources("src", (".c", ".h", ".cu", ".cuh"))]
    lines = sum(1 for text in texts for line in text.splitlines() if line.strip())
    expect(CODE_MOST - 500 <= lines <= CODE_MOST, f"src has {lines} lines; CODE_MOST is {CODE_MOST}")


@test
def records_are_documented():
    """Every kind but that which a p2p benchmark's own process sends it."""
    kinds = re.findall(r'^BB_RECORD_KIND\(\w+, \w+,\s+"(\w+)"', "\n".join(read(p) for p in sources("src", (".c",))), re.M)
    pages = re.findall(r"^## (\w+)$", read("docs/records.md"), re.M)
    equal(set(kinds), {*pages, "floor"}, "kinds")


@test
def files_are_short():
    paths = sources("src", (".c", ".h", ".cu", ".cuh")) + sources("tests", (".c", ".cc", ".h", ".py"))
    paths += sources("docs") + sources("scripts", (".py", ".sh")) + sources("studies", (".py",))
    long = [f"{p} has {n} lines" for p in paths for n in [len(read(p).splitlines())] if n > FILE_MOST]
    expect(not long, "\n".join(long))


@test
def nothing_banned():
    pattern = re.compile(r"\b(%s)\s*\(" % "|".join(BANNED))
    paths = sources("src") + sources("docs") + sources("tests/perf")
    found = [f"{p}:{code(p)[: m.start()].count(chr(10)) + 1}: {m[1]}" for p in paths for m in pattern.finditer(code(p))]
    # Libraries neither end the process nor print.
    quiet = re.compile(r"(?<![>.\w])(exit|_exit|quick_exit|printf|puts|putchar|perror)\s*\(")
    for path in paths:
        if path.startswith("src/") and path != "src/harness/main.c":
            found += [f"{path}: {m[1]}" for m in quiet.finditer(code(path))]
    expect(not found, "\n".join(found))


# Who writes to standard output and error: the last one moves the cursor of a terminal, which is all that does.
PRINTERS = ("src/core/output.c", "src/core/standard.c", "src/harness/results/sink.c", "src/harness/run/ticker.c")
PRINTS = re.compile(r"(?<![>.\w])(fprintf|vfprintf|fputs|fputc|putc|fwrite|dprintf|vdprintf|write_fd)\s*\(")


@test
def text_is_written_in_one_place():
    found = [f"{p}: {m[1]}" for p in sources("src") if p not in PRINTERS for m in PRINTS.finditer(code(p))]
    expect(not found, "write with bb_say, bb_write_text or a sink:\n" + "\n".join(found))
    for path in PRINTERS:
        expect(PRINTS.search(code(path)), f"{path} writes nothing any more")


@test
def programs_open_their_descriptors():
    """Before anything else, or a file could get the number of standard output, and its text."""
    for path in sources("src"):
        for body in re.findall(r"\nint main\(int argc, char \*\*argv\)\n\{(.*?)\n\}", code(path), re.S):
            first = next(line for line in body.split("\n\n", 1)[-1].splitlines() if line.strip())
            expect(re.search(r"return bb_(\w+_)?main\(", body) or first.strip() == "if (!bb_standard_open())", f"{path}: {first.strip()}")
    main = code("src/harness/main.c").split("int bb_main(")[1]
    expect("if (!bb_standard_open()" in main, "bb_main does not open descriptors 0 to 2")


# Who opens files: bb_file_read what a user names, bb_kernel_read what the kernel says, and the rest what it says.
OPENERS = {
    "src/core/file.c": "reads",
    "src/core/output.c": "writes what a user names",
    "src/core/standard.c": "has descriptors that were closed",
    "src/harness/run/plugin.c": "looks at a shared object of busbench's own",
    "src/acceptance/session.c": "appends to a list of its own",
    "src/backends/nccl/staged.c": "opens memory of another rank",
}
OPENS = re.compile(r"\b(fopen|freopen|fdopen|open|open64|openat|creat|mkstemp)\s*\((?!const struct|struct)")


def opens(text):
    """Names of the functions that open a file; calls through a pointer do not count."""
    return [m[1] for m in OPENS.finditer(re.sub(r"(->|\.)\s*open\s*\(", "", text))]


@test
def files_are_opened_in_one_place():
    found = [f"{p}: {name}" for p in sources("src") if p not in OPENERS for name in opens(code(p))]
    expect(not found, "read files with bb_file_read or bb_kernel_read:\n" + "\n".join(found))
    for path in OPENERS:
        expect(opens(code(path)), f"{path} opens nothing any more")


@test
def what_others_send_is_decoded():
    """A launch gathers raw bytes: one file calls its function, and decodes."""
    pattern = re.compile(r"launch(->|\.)gather\(")
    found = [p for p in sources("src", (".c",)) if pattern.search(code(p))]
    expect(found == ["src/launch/launch.c"], f"raw bytes reach {found}")


@test
def no_timing_decides():
    """A run that must get beyond its start-up has -T kit.BRIEF or more. A launch or library that never starts needs less."""
    never = r"start-up|BUSBENCH_FAKE_STUCK"
    found = []
    for path in sources("tests", (".py",)):
        for number, line in enumerate(read(path).splitlines(), 1):
            for value, unit in re.findall(r"-T[ \"',]+([0-9.]+)(ms|us)?\b", line):
                brief = 0 < float(value) * {"": 1, "ms": 1e-3, "us": 1e-6}[unit] < kit.BRIEF
                found += [f"{path}:{number}: {line.strip()}"] if brief and not re.search(never, line) else []
    expect(not found, "\n".join(found))


@test
def stand_ins_may_be_absent():
    """They need CUDA's headers: tests find them by gpus.stand_in, which skips a test without them."""
    pattern = re.compile(r"""["']tests["'], *["'](fake|cublas)["']""")
    found = [p for p in sources("tests", (".py",)) if pattern.search(read(p)) and p not in ("tests/run.py", "tests/gpus.py")]
    expect(not found, f"{found}")


@test
def nothing_unfinished():
    found = [f"{p}: {m[0]}" for p in sources("src") for m in re.finditer(r"\b(TODO|FIXME|XXX|HACK)\b", read(p))]
    expect(not found, "\n".join(found))


def mutable(folder):
    """Writable data in the object files of a folder of the build."""
    objects, found = [], []
    for path, _, names in os.walk(os.path.join(kit.Settings.build, folder)):
        objects += [os.path.join(path, name) for name in names if name.endswith(".o")]
    expect(objects, f"no objects in {folder}")
    table = subprocess.run(["objdump", "-t", *objects], stdout=subprocess.PIPE, check=True, text=True).stdout
    for line in table.splitlines():
        if "file format" in line:
            name = os.path.relpath(line.split(":")[0], kit.Settings.build)
        match = re.search(r" O (\S+)\s+([0-9a-f]+) (\S+)$", line)
        if match and re.match(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM\*", match[1]) and int(match[2], 16):
            # What nvcc adds to register its kernels is not ours, nor what <iostream> adds, which Gloo's headers include.
            if os.path.isfile(os.path.join(ROOT, name.removesuffix(".o") + ".cu")) or "__ioinit" in match[3]:
                continue
            found.append(f"{name}: {match[3]} in {match[1]}")
    return found


@test
def nothing_mutable_at_file_scope():
    found = mutable("src")
    expect(not found, "\n".join(found))
    # The stand-in for the allocator cannot do without; so the check can fail.
    expect(any("heap" in line for line in mutable("tests")), "the check finds nothing anywhere")


@test
def reading_loop_stays_in_registers():
    """Sums that pass through the stack in each round would halve the speed of reading."""
    if os.uname().machine != "x86_64":
        raise kit.Skipped("the loop is looked for in the instructions of x86-64")
    path = os.path.join(kit.Settings.build, "src/backends/cpu/memory.o")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, check=True, text=True).stdout
    lines = code.splitlines()
    loads = [i for i, line in enumerate(lines) if re.search(r"xor\w*\s+(0x|-0x)?[0-9a-f]*\(%r[a-z0-9]+\)", line)]
    expect(len(loads) >= 4, "the loop that reads is not found")
    loop = lines[loads[0] : loads[-1] + 1]
    expect(len(loop) < 24, f"the loads are not in one loop: {loop}")
    spilled = [line for line in loop if re.search(r"\(%r[sb]p", line)]
    expect(not spilled, "\n".join(spilled))


# ---- compilers -----------------------------------------------------------------------------


@functools.lru_cache(None)
def mpi_flags():
    """Include flags of mpicc's MPI; None without one."""
    for question in ("-showme:compile", "-compile-info"):
        try:
            done = subprocess.run(["mpicc", question], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        if done.returncode == 0:
            return [word for word in done.stdout.split() if word.startswith("-I")]
    return None


def needs_mpi(path):
    return path.startswith("src/backends/mpi/")


@functools.lru_cache(None)
def has_nccl():
    """True if the headers of CUDA and NCCL are where the build looks for them."""
    probe = [COMPILERS[0], *CUDA_INCLUDE, "-E", "-x", "c", "-"]
    return subprocess.run(probe, input=b"#include <nccl.h>\n", capture_output=True, check=False).returncode == 0


def needs_nccl(path):
    return path.startswith("src/backends/nccl/")


def compile_alone(compiler, paths, flags=()):
    """Compiles each path alone, without any message."""
    paths = [p for p in paths if not needs_mpi(p) or mpi_flags() is not None]
    paths = [p for p in paths if not needs_nccl(p) or has_nccl()]

    def one(path):
        what = ["-include", path, "-x", "c", os.devnull] if path.endswith(".h") else [path]
        return subprocess.run(
            [compiler, *FLAGS, *flags, *(mpi_flags() or []), *CUDA_INCLUDE, *what], cwd=ROOT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(one, paths))
    expect(all(r.returncode == 0 for r in results), "\n".join(r.stdout for r in results if r.returncode))


def headers_compile_alone(compiler):
    compile_alone(compiler, sources("src", (".h",)), ["-Wno-unused-function"])


def sources_compile(compiler):
    """Without a warning; the build has used only one of the compilers."""
    paths = [p for p in sources("src", (".c",)) if not p.startswith("src/backends/cpu/isa/")]
    compile_alone(compiler, paths + sources("tests/unit", (".c",)) + sources("docs", (".c",)))
    for isa in (["plain"], ["avx2", "-mavx2", "-mfma", "-mf16c"]):
        if isa[0] == "plain" or os.uname().machine == "x86_64":
            compile_alone(compiler, ["src/backends/cpu/isa/kernels.c"], [f"-DBB_ISA={isa[0]}", *isa[1:]])


for compiler in COMPILERS:
    add(f"headers compile alone with {compiler}", headers_compile_alone, compiler, cores=2)
add("sources compile with clang", sources_compile, "clang", cores=2, full=True)


@test
def no_test_is_decided_by_a_timing():
    """Tests bound no time from above, because a busy machine may take any time; only kit.LIMIT ends programs that
    hang."""
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and name not in ("kit.py", "run.py"):
                with open(path, encoding="utf-8") as source:
                    text = source.read()
                found += [f"{path}: {m.group()}" for m in re.finditer(r"timeout=\d+|[. ]seconds <=? |started <=? ", text)]
    expect(not found, "\n".join(found))
