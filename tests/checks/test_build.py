"""The Makefile: rebuilding, installation and messages; and memory under Valgrind."""

import os
import re
import shutil
import tempfile

import gpus
import kit
from kit import COLLECTIVES, ROOT, add, built, equal, execute, expect, test

CLEAN = {"MAKEFLAGS": "", "MAKELEVEL": "", "MFLAGS": ""}


def make(*words):
    return execute(["make", *words], CLEAN, cwd=ROOT).exits(0)


@test(cores=kit.ALL)
def silent_when_built():
    result = make("-s", f"B={kit.Settings.given}", "all", "units")
    equal(result.out + result.err, "", "what make -s says")


@test(cores=kit.ALL)
def one_test_alone_rebuilds_nothing():
    """The link flags of a test do not apply to its prerequisites."""
    for name in ("test_malloc", "test_wire"):
        result = make(f"B={kit.Settings.given}", f"{kit.Settings.given}/tests/{name}")
        expect(not re.search(r"^  (CC|AR|LINK) ", result.out, re.M), result.out)


@test
def rebuilds_what_changed():
    """A header rebuilds the files that include it, other flags rebuild everything, equal flags nothing."""
    with tempfile.TemporaryDirectory() as folder:
        target = [f"B={folder}", f"{folder}/src/core/units.o", f"{folder}/src/core/json.o"]
        changes = ([], [], ["-W", "src/core/units.h"], ["CFLAGS=-O0"], ["CFLAGS=-O0"])
        said = [make("-j2", *target, *change).out for change in changes]
    made = [[name for name in ("units", "json") if f"src/core/{name}.c" in text] for text in said]
    both = ["units", "json"]
    equal(made, [both, [], ["units"], both, []], "first, again, a header, other flags, again")


@test
def benches_what_is_there():
    """make bench uses all GPUs, and the CPU without GPUs or without their backend."""
    with tempfile.TemporaryDirectory() as folder:
        smi = '#!/bin/sh\necho "GPU 0: one (UUID: a)"\necho "GPU 1: two (UUID: b)"\n'
        kit.write_program(os.path.join(folder, "nvidia-smi"), smi)
        asked = ["make", "-s", f"B={folder}", "--eval=asked:;@echo $(BENCH_RANKS)", "asked"]
        for words, path, ranks in ((["HAVE_CUDA=1"], folder + ":", "-g 2"), (["HAVE_CUDA="], folder + ":", "-g 8 --backend host"),
                                   (["HAVE_CUDA=1"], "", "-g 8 --backend host")):  # fmt: skip
            out = execute([*asked, *words], {**CLEAN, "PATH": path + os.environ["PATH"]}, cwd=ROOT).exits(0).out
            equal(out.strip(), ranks, f"{words} {path}")


@test
def another_cuda():
    """Another folder of NCCL's headers rebuilds the files that need them, and nothing else."""
    gpus.stand_in("fake", "nccl.so")
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other")
        os.makedirs(os.path.join(other, "include"))
        target = [f"B={folder}", f"{folder}/src/core/units.o", f"{folder}/src/backends/nccl/versions.o"]
        changes = ([], [f"NCCL_HOME={other}"], [f"NCCL_HOME={other}"], ["NVCC_GENCODE=other"])
        said = [make("-j2", *target, *change).out for change in changes]
    made = [[name for name in ("core/units", "nccl/versions") if f"{name}.c" in text] for text in said]
    equal(made, [["core/units", "nccl/versions"], ["nccl/versions"], [], ["nccl/versions"]], "first, other, again, other")


def refuses(words, *said):
    with tempfile.TemporaryDirectory() as folder:
        # Folders of the environment would be judged as well.
        clean = ["env", "-u", "CUDA_HOME", "-u", "NCCL_HOME"]
        result = execute([*clean, "make", f"B={folder}", f"{folder}/src/core/units.o", *words], CLEAN, cwd=ROOT).exits(2)
    result.says(*said)


for word in ("CUDA=yes", "CUDA=2", "MPI=yes", "MPI="):
    add(f"make {word}", refuses, [word], word, "auto, 0 or 1")
for word in ("CUDA_HOME=/nonexistent", "NCCL_HOME=/nonexistent"):
    add(f"make {word}", refuses, [word], word, "/nonexistent/include")
    add(f"make CUDA=1 {word}", refuses, ["CUDA=1", word], word, "/nonexistent/include")


@test(cores=kit.ALL)
def builds_outside_and_installs():
    with tempfile.TemporaryDirectory() as folder:
        make(f"B={kit.Settings.given}", "install", f"DESTDIR={folder}", "PREFIX=/usr")
        found = {os.path.relpath(os.path.join(path, n), folder) for path, _, names in os.walk(folder) for n in names}
        programs = [f"{name}_perf" for name in (*COLLECTIVES, "barrier", "data_parallel", "ddp_bucket", "hybrid_parallel", "mem_bandwidth", "moe_alltoall", "p2p_bandwidth", "p2p_latency", "pipeline", "quantised_all_reduce", "tensor_parallel", "zero")]
        programs += ["busbench", "diagnose"]
        programs += [name for name in ("topology", "model_memory", "acceptance") if os.path.exists(os.path.join(kit.Settings.build, name))]
        loadable = [n for n in ("mpi", "gloo", "nccl", "topology") if os.path.exists(os.path.join(kit.Settings.build, "backends", f"{n}.so"))]
        wanted = {f"usr/bin/{name}" for name in programs} | {f"usr/lib/busbench/{name}.so" for name in loadable}
        wanted |= {f"usr/share/man/man1/{name}.1" for name in programs}
        wanted |= {f"usr/share/bash-completion/completions/{name}" for name in programs}
        wanted |= {f"usr/share/fish/vendor_completions.d/{name}.fish" for name in programs} | {"usr/share/zsh/site-functions/_busbench"}
        for source, place in INSTALLED.items():
            wanted |= {f"usr/share/{place}/{name}" for name in os.listdir(os.path.join(ROOT, source)) if re.search(r"\.\w+$", name) and name != "reference.c"}
        wanted |= {f"usr/share/doc/busbench/{name}" for name in ("README.md", "CHANGELOG.md", "SECURITY.md")} | {"usr/share/busbench/scripts/report.py"}
        equal(sorted(found ^ (wanted - {"usr/share/busbench/reports/reference/README.md"})), [], "files that are missing or too many")
        installed_works(os.path.join(folder, "usr", "bin"), os.path.join(folder, "work"), loadable)


INSTALLED = {  # of the sources: below share
    "ci/profiles": "busbench/profiles", "ci/examples": "doc/busbench/examples", "docs": "doc/busbench/docs",
    "docs/algorithms": "doc/busbench/docs/algorithms",
    "reports/reference": "busbench/reports/reference", "reports/reference/clusters": "busbench/clusters",
    "reports/template": "busbench/reports/template", "scripts/report": "busbench/scripts/report",
    "scripts/report/page": "busbench/scripts/report/page",
}  # fmt: skip


def installed_works(folder, work, loadable):
    """The installed programs need nothing of the source tree."""
    os.makedirs(work)
    busbench = lambda *words: execute([os.path.join(folder, "busbench"), *words], {"HOME": work}, cwd=work)
    busbench("all_reduce", *"-g 2 -b 8 -e 8 --json a.jsonl".split()).exits(0)
    busbench("all_reduce", *"--backend sim --cluster azure-h100:2 -b 8 -e 8".split()).exits(0)
    if "mpi" in loadable:
        busbench("all_reduce", *"--backend mpi -b 8 -e 8".split()).exits(0)
    if "gloo" in loadable:
        busbench("all_reduce", *"--backend gloo -t 2 -b 8 -e 8".split()).exits(0)
    share = os.path.join(os.path.dirname(folder), "share", "busbench")
    busbench("profiles").exits(0).prints("\nhgx-h100 ", f"# files: {share}/profiles/*.yaml\n")
    if "acceptance" in os.listdir(folder):
        busbench(*"acceptance run hgx-h100 --dry-run".split()).exits(0).prints("all_reduce_perf")
    report = busbench("report", "a.jsonl", "-o", "page/")
    if report.exits(0, 3).code == 0:
        expect(os.path.exists(os.path.join(work, "page", "index.html")), "there is no page")


@test
def versions_agree():
    """The Debian package has the version of the programs."""
    version = execute([built("busbench"), "--version"]).exits(0).out.split()[1]
    with open(os.path.join(ROOT, "debian", "changelog"), encoding="utf-8") as file:
        expect(file.read().startswith(f"busbench ({version}) "), f"debian/changelog does not begin with {version}")


@test
def writes_nothing_into_the_sources():
    """After any build or run, git sees no new file."""
    if not os.path.isdir(os.path.join(ROOT, ".git")) or not shutil.which("git"):
        raise kit.Skipped("not a git checkout")
    status = execute(["git", "status", "--porcelain", "--ignored"], cwd=ROOT)
    if status.code != 0:
        raise kit.Skipped("git does not work here")
    strange = [line for line in status.out.splitlines()
               if line.startswith(("!!", "??")) and line.endswith((".o", ".d", ".a", ".csv", ".jsonl"))]  # fmt: skip
    expect(not strange, "\n".join(strange))


def valgrind(words):
    execute(["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite,possible",
             "--errors-for-leak-kinds=definite", *words]).exits(0)  # fmt: skip


add("valgrind: host", lambda: valgrind(
    [built("all_reduce_perf"), *"-g 2 -b 4 -e 400 -f 10 -n 2 --algo ring,tree,direct --csv /dev/null --json /dev/null".split()]))
add("valgrind: null", lambda: valgrind([built("alltoallv_perf"), *"-g 3 -b 1K -e 1K --backend null".split()]))
add("valgrind: options", lambda: valgrind([built("tests/test_options")]))


# ---- libraries -----------------------------------------------------------------------------

LIBRARIES = os.path.join(ROOT, "scripts", "libraries.sh")


@test
def libraries_are_documented():
    with open(os.path.join(ROOT, "docs", "libraries.md"), encoding="utf-8") as page:
        equal(page.read(), execute([LIBRARIES, "table"]).exits(0).out, "docs/libraries.md, which `make docs` writes")


@test
def a_broken_header_is_absent():
    """A library whose header cannot be compiled counts as absent, and nothing else does."""
    names = ("hwloc", "expat", "jansson", "zlib", "yaml", "nccl")
    with tempfile.TemporaryDirectory() as folder:
        for header in ("yaml.h", "nccl.h"):
            with open(os.path.join(folder, header), "w", encoding="utf-8") as file:
                file.write("#error not here\n")
        given = {"CPPFLAGS": f"-I{folder}", "CUDA_INCLUDE": f"-I{folder}"}
        out = execute([LIBRARIES, "found", *names], given).exits(0).out
    equal(out.split(), ["hwloc:-lhwloc", "expat:-lexpat", "jansson:-ljansson", "zlib:-lz"], "what is found")
