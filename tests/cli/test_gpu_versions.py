"""nccl.so with older and newer libraries than its headers, and with none: where they are found, which functions are
used, and the messages. The libraries are stand-ins with exactly the functions of a version."""

import contextlib
import functools
import glob
import os
import re
import shutil
import tempfile

import gpus
import kit
from kit import add, equal, expect, test

# A version, and the functions that its nccl.h was the first to declare (releases of github.com/NVIDIA/nccl). The first
# row has all of 2.12.
RELEASES = (
    (21212, "ncclAllGather ncclAllReduce ncclBcast ncclBroadcast ncclCommAbort ncclCommCount ncclCommCuDevice "
            "ncclCommDestroy ncclCommGetAsyncError ncclCommInitAll ncclCommInitRank ncclGetErrorString ncclGetUniqueId "
            "ncclGetVersion ncclGroupEnd ncclGroupStart ncclRecv ncclRedOpCreatePreMulSum ncclRedOpDestroy ncclReduce "
            "ncclReduceScatter ncclSend"),
    (21304, "ncclGetLastError"),
    (21403, "ncclCommFinalize ncclCommInitRankConfig"),
    (21801, "ncclCommSplit"),
    (21901, "ncclCommDeregister ncclCommRegister ncclMemAlloc ncclMemFree"),
    (22203, "ncclGroupSimulateEnd"),
    (22304, "ncclCommInitRankScalable"),
    (22403, "ncclResetDebugInit"),
    (22703, "ncclCommShrink ncclCommWindowDeregister ncclCommWindowRegister"),
    (22803, "ncclAlltoAll ncclDevCommCreate ncclDevCommDestroy ncclGather ncclScatter"),
    (22807, "ncclCommRevoke"),
    (22902, "ncclCommGetUniqueId ncclCommGrow ncclPutSignal ncclSignal ncclWaitSignal ncclWinGetUserPtr"),
    (22907, "ncclCommMemStats ncclCommResume ncclCommSuspend"),
    (23004, "ncclParamBind ncclParamDumpAll ncclParamGet ncclParamGetAllParameterKeys ncclParamGetParameter "
            "ncclParamGetStr"),
    (23102, "ncclAllGatherConfig ncclAllReduceConfig ncclAlltoAllConfig ncclBroadcastConfig ncclGatherConfig "
            "ncclReduceConfig ncclReduceScatterConfig ncclScatterConfig"),
    (23203, "ncclSetEncryption"),
)  # fmt: skip
TOO_OLD = (21212, 21701)
VERSIONS = (21806, 22105, 22403, 22707, 22809, 23007, 23102, 23203)

# Refused before a version: options, first version, message.
FEATURES = (
    ("-R 1", 21901, "2.19"),
    ("-R 2", 22703, "2.27"),
    ("-x 1", 22703, "2.27"),
    ("-x 2", 22803, "2.28"),
)
LISTED = {
    "registered buffers (2.19)": 21901,
    "PAT (2.23)": 22300,
    "eight-bit floats (2.24)": 22400,
    "symmetric windows (2.27)": 22703,
    "ncclAlltoAll, ncclGather and ncclScatter (2.28)": 22803,
    "kernels on the device API (2.28)": 22807,
}
FILE = "libnccl.so.2"
GONE = "libnccl_gone.so.2"  # searched in its place; no machine has it


def text(code):
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def functions(code):
    return [name for since, names in RELEASES if since <= code for name in names.split()]


# ---- libraries -------------------------------------------------------------------------------

OF_NCCL = ("fake_comm", "fake_compute", "fake_known", "fake_ops", "fake_profiler")


def link(path, *words):
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler.split()[0]):
        raise kit.Skipped(f"no {compiler} to build libraries with")
    kit.execute([*compiler.split(), "-shared", "-pthread", "-o", path, *words]).exits(0)


def stand_ins(of_nccl):
    """The objects of tests/fake that are NCCL, or all others, without the search for the library."""
    sources = ("tests/fake/*.c", "tests/fake/*.cc", "src/backends/nccl/*.cu")
    found = [path for source in sources for path in glob.glob(os.path.join(kit.ROOT, source))]
    names = [os.path.splitext(os.path.basename(path))[0] for path in found]
    folder = gpus.stand_in("fake")
    return [f"{folder}/{name}.o" for name in names if name != "fake_library" and (name in OF_NCCL) == of_nccl]


def library(folder, names, place, file=FILE):
    """FOLDER/FILE: the stand-in for NCCL with these functions. PLACE's nccl.so has the rest."""
    script = os.path.join(folder, "functions")
    with open(script, "w", encoding="utf-8") as text:
        text.write(f"{{ global: {' '.join(name + ';' for name in names)} fake_*; local: *; }};\n")
    backends = os.path.join(place, "backends")
    words = [f"-Wl,-soname,{FILE}", f"-Wl,--version-script,{script}", *stand_ins(True), f"-L{backends}", "-l:nccl.so"]
    link(os.path.join(folder, file), *words)


def searcher(folder, file):
    """The object of the backend that searches the library, for FILE."""
    if file == FILE:
        return os.path.join(kit.Settings.build, "src", "backends", "nccl", "library.o")
    with open(os.path.join(kit.Settings.build, "headers"), encoding="utf-8") as text:
        includes = re.findall(r"-isystem \S+", text.read())
    source = os.path.join(kit.ROOT, "src", "backends", "nccl", "library.c")
    words = [f"-I{kit.ROOT}/src", "-D_GNU_SOURCE", f'-DBB_NCCL_FILE="{file}"', *" ".join(includes).split(), "-fPIC", "-c"]
    kit.execute([*os.environ.get("CC", "cc").split(), *words, "-o", os.path.join(folder, "library.o"), source]).exits(0)
    return os.path.join(folder, "library.o")


def place(folder, file=FILE):
    """Programs in FOLDER, with an nccl.so that contains the stand-ins for CUDA and searches NCCL."""
    gpus.stand_in("fake", "nccl.so")
    names = ("all_reduce", "alltoall", "gather", "scatter", "broadcast", "mem_bandwidth")
    kit.copy_programs([kit.built(f"{name}_perf") for name in names], folder)
    os.mkdir(os.path.join(folder, "backends"))
    sources = glob.glob(os.path.join(kit.ROOT, "src", "backends", "nccl", "*.c"))
    names = [os.path.basename(path)[:-2] for path in sources if not path.endswith("/library.c")]
    backend = [os.path.join(kit.Settings.build, "src", "backends", "nccl", f"{name}.o") for name in names]
    words = ["-Wl,-Bsymbolic,-soname,nccl.so", *backend, searcher(folder, file), *stand_ins(False)]
    link(os.path.join(folder, "backends", "nccl.so"), *words)


@functools.lru_cache(None)
def shared_place():
    folder = tempfile.TemporaryDirectory(prefix="bb")
    place(folder.name)
    return folder


class Beside:
    """Programs beside the library of one version."""

    def __init__(self, folder, code, names=None):
        self.code = code
        with gpus.LOCK:
            self.programs = shared_place().name
        library(folder, names or functions(code), self.programs)
        self.env = {"LD_LIBRARY_PATH": folder, "BUSBENCH_FAKE_VERSION": str(code), "BUSBENCH_FAKE_LEAKS": "1"}

    def run(self, line):
        name, *words = line.split()
        return kit.execute([os.path.join(self.programs, f"{name}_perf"), *words], self.env)

    def records(self, line):
        result = gpus.right(self.run(line + " -n 2 --backend nccl --json -"))
        found = result.records()
        equal(found[0]["library"].split(",")[0], f"NCCL {text(self.code)}", "library")
        return [r for r in found if r["kind"] == "result"]


@functools.lru_cache(None)
def headers():
    """The version of the headers that nccl.so was built with."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        out = Beside(folder, 22809).run("all_reduce --list").exits(0).out
    major, minor, patch = map(int, re.search(r"built with the headers of (\d+)\.(\d+)\.(\d+)", out).groups())
    return major * 10000 + minor * 100 + patch


# ---- what is used of them ----------------------------------------------------------------------


def uses(code):
    """All functions of a library of this version are used, or replaced by messages, and no others."""
    built = headers()
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        beside = Beside(folder, code)
        for line in ("all_reduce -g 3 --algo auto,ring -o sum,mulsum", "broadcast -g 2", "alltoall -g 3 --algo auto",
                     "gather -g 3", "scatter -g 3"):  # fmt: skip
            found = beside.records(f"{line} -b 40 -e 400 -f 10 -d float,f8e4m3")
            expect(found and all(r["wrong"] in (0, None) for r in found), f"wrong or no results of {line}")
            for r in found:
                if "all_reduce" in line and r["dtype"] == "f8e4m3" and r["algorithm_asked"] == "auto":
                    equal(r["algorithm"] == "auto", min(code, built) >= 22400, f"NCCL reduces f8e4m3: {r}")
        for words, since, name in FEATURES:
            line = f"all_reduce -g 2 -b 40 -e 40 {words}"
            if min(code, built) >= since:
                beside.records(line)
                continue
            result = beside.run(f"{line} --backend nccl").exits(5).says(f"{words}: ", f"needs NCCL {name} or newer")
            if code < since:
                result.says(f"found {text(code)} ({folder}/libnccl.so.2)", "LD_LIBRARY_PATH")
            else:
                result.says(f"built with the headers of {text(built)}", "NCCL_HOME")
        out = beside.run("all_reduce --list").exits(0).out
        expect(f"  library: NCCL {text(code)} ({folder}/libnccl.so.2), built with the headers" in out, out)
        for words, since in LISTED.items():
            equal(words in out, min(code, built) < since, f"{words} is listed as not used")


for code in VERSIONS:
    add(f"NCCL {text(code)}", uses, code, full=code not in (VERSIONS[0], VERSIONS[-1]))


# ---- what is refused -----------------------------------------------------------------------------


def too_old(code):
    sentence = f"the nccl backend needs NCCL 2.18 or newer and found {text(code)}"
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        beside = Beside(folder, code)
        result = beside.run("all_reduce -g 2 -b 8 -e 8 --backend nccl").exits(3)
        result.says(f"all_reduce_perf: {sentence} ({folder}/libnccl.so.2); put the folder of a newer")
        equal(result.err.count("\n"), 1, "sentences")
        beside.run("all_reduce --list").exits(0).prints(f"  not usable: {sentence}")


for code in TOO_OLD:
    add(f"NCCL {text(code)} is refused", too_old, code)


@test
def half_a_library():
    """A library without functions of its version is refused by name, not called."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        beside = Beside(folder, 22105, [name for name in functions(22105) if name != "ncclSend"])
        result = beside.run("all_reduce -g 2 -b 8 -e 8 --backend nccl").exits(3)
        result.says("libnccl.so.2 is NCCL 2.21.5 by its version and lacks ncclSend; ")


# ---- where it is looked for ------------------------------------------------------------------------


@functools.lru_cache(None)
def looking_for_gone():
    folder = tempfile.TemporaryDirectory(prefix="bb")
    place(folder.name, GONE)
    return folder


@contextlib.contextmanager
def machine():
    """(programs, an empty folder, an environment with that folder alone)."""
    with gpus.LOCK:
        programs = looking_for_gone().name
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        names = ("NCCL_HOME", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")
        yield programs, folder, {**dict.fromkeys(names, ""), "HOME": folder, "BUSBENCH_FAKE_VERSION": "22809"}


def run(programs, line, env):
    name, *words = line.split()
    return kit.execute([os.path.join(programs, f"{name}_perf"), *words], env)


def install(programs, folder):
    os.makedirs(folder)
    library(folder, functions(22809), programs, GONE)


def broken(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, GONE), "w", encoding="utf-8") as file:
        file.write("no library")


WHEEL = "lib/python3.12/site-packages/nvidia/nccl/lib"
PLACES = (  # the variable with a folder, and the library's place in it
    ("LD_LIBRARY_PATH", ""),
    ("NCCL_HOME", "lib"),
    ("NCCL_HOME", "lib64"),
    ("CUDA_HOME", "lib64"),
    ("CUDA_HOME", "targets/x86_64-linux/lib"),
    ("VIRTUAL_ENV", WHEEL),
    ("CONDA_PREFIX", WHEEL),
    ("HOME", f".local/{WHEEL}"),
)


def found(variable, inside):
    with machine() as (programs, folder, env):
        install(programs, os.path.join(folder, "x", inside))
        env[variable] = os.path.join(folder, "x")
        out = run(programs, "all_reduce --list", env).exits(0).out
        expect(f"  library: NCCL 2.28.9 ({os.path.join(folder, 'x', inside, GONE)})" in out.replace("//", "/"), out)
        gpus.right(run(programs, "all_reduce -g 2 -b 8 -e 8 --backend nccl", env))


for variable, inside in PLACES:
    add(f"found in {variable} {inside}", found, variable, inside)


@test
def found_beside_python():
    """Beside the first python3 of PATH, in a virtual environment or through a link."""
    for linked in (False, True):
        with machine() as (programs, folder, env):
            install(programs, os.path.join(folder, "py", WHEEL))
            bin_folder = os.path.join(folder, "py", "bin")
            os.mkdir(bin_folder)
            with open(os.path.join(bin_folder, "python3"), "w", encoding="utf-8"):
                pass
            if linked:
                os.makedirs(os.path.join(folder, "other", "bin"))
                os.symlink(os.path.join(bin_folder, "python3"), os.path.join(folder, "other", "bin", "python3"))
                bin_folder = os.path.join(folder, "other", "bin")
            env["PATH"] = f"{bin_folder}:{os.environ['PATH']}"
            out = run(programs, "all_reduce --list", env).exits(0).out
            expect(f"  library: NCCL 2.28.9 ({folder}/py/bin/../{WHEEL}/{GONE})" in out, out)


@test
def what_is_broken_is_passed_over():
    with machine() as (programs, folder, env):
        broken(os.path.join(folder, "home", "lib"))
        env["NCCL_HOME"] = os.path.join(folder, "home")
        result = run(programs, "all_reduce -g 2 -b 8 -e 8 --backend nccl", env).exits(3)
        result.says("; one does not load: ", f"home/lib/{GONE}")
        install(programs, os.path.join(folder, "venv", WHEEL))
        env["VIRTUAL_ENV"] = os.path.join(folder, "venv")
        gpus.right(run(programs, "all_reduce -g 2 -b 8 -e 8 --backend nccl", env))


@test
def no_library():
    """The sentence names the library, the searched places and the remedy; the rest runs."""
    with machine() as (programs, folder, env):
        env["CUDA_HOME"] = folder
        for backend in ("", " --backend nccl"):
            result = run(programs, f"all_reduce -g 2 -b 8 -e 8{backend}", env).exits(3)
            result.says(f"all_reduce_perf: the nccl backend needs NCCL 2.18 or newer; {GONE} is neither where the dynamic linker",
                        "NCCL_HOME (not set)", f"CUDA's folders ({folder})", "Python's packages; set NCCL_HOME")  # fmt: skip
            equal(result.err.count("\n"), 1, "sentences")
        run(programs, "all_reduce --list", env).exits(0).prints("  not usable: the nccl backend needs NCCL")
        run(programs, "mem_bandwidth -b 64K -e 64K -n 1", env).exits(0).prints("library: NCCL: not found, CUDA ")


@test
def other_library():
    """A library of that name that is not NCCL is not called."""
    with machine() as (programs, folder, env):
        os.mkdir(os.path.join(folder, "lib"))
        library(os.path.join(folder, "lib"), ["ncclSend"], programs, GONE)
        env["NCCL_HOME"] = folder
        run(programs, "all_reduce -g 2 --backend nccl", env).exits(3).says("is not NCCL: it lacks ncclGetVersion")


# ---- as it is built ------------------------------------------------------------------------------

STUB = """
#define STUB(name) int name(void) { return 3; }
int ncclGetVersion(int *version) { *version = %d; return 0; }
const char *ncclGetErrorString(int result) { return "a stub"; }
%s
"""


@test
def real_backend():
    """build/backends/nccl.so itself loads with all of them, and names the one it found."""
    backend = os.path.join(kit.Settings.build, "backends", "nccl.so")
    if not os.path.exists(backend):
        raise kit.Skipped("the nccl backend was not built: no nvcc or no nccl.h")
    for code in (*TOO_OLD, *VERSIONS):
        with tempfile.TemporaryDirectory(prefix="bb") as folder:
            others = [name for name in functions(code) if name not in ("ncclGetVersion", "ncclGetErrorString")]
            source = os.path.join(folder, "stub.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(STUB % (code, "\n".join(f"STUB({name})" for name in others)))
            link(os.path.join(folder, "libnccl.so.2"), "-fPIC", "-Wl,-soname,libnccl.so.2", source)
            env = {"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": ""}
            result = kit.run("all_reduce -g 2 -b 8 -e 8 --backend nccl", env).exits(3)
            listed = kit.run("all_reduce --list", env).exits(0)
        if code in TOO_OLD:
            result.says(f"needs NCCL 2.18 or newer and found {text(code)} (")
        else:
            result.says("the nccl backend finds no GPU")
            listed.prints(f"  library: NCCL {text(code)} ({folder}/libnccl.so.2)")
