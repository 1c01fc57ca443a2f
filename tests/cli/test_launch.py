"""Backends loaded at run time, and the effect of a launcher's environment; a small plug-in built here stands in for
MPI."""

import os
import subprocess
import tempfile
import time

import kit
from kit import ROOT, built, equal, execute, expect, run, test

CORES = 1 / 2  # processes that mostly wait for each other

# The null backend under another name, with algorithms of its library, and a launch that
# finds no other process.
PLUGIN = """
#include "backends/backend.h"
#include "launch/launch.h"
#include <stdlib.h>
#include <string.h>

struct bb_backend bb_plugin_backend;
extern const struct bb_launch_kind bb_plugin_launch;

static const char *refuses(const struct bb_native *native, const struct bb_collective *collective)
{
	return strcmp(collective->name, native->own) == 0 ? NULL : "the library has it for another collective";
}

static const struct bb_native all[] = {
	{.name = "native"},
	{.name = "native:pipeline", .refuses = refuses, .own = "broadcast"},
	{.name = "native:ring", .refuses = refuses, .own = "all_reduce"},
	{.name = NULL},
};

static bb_status discover(struct bb_native **found, struct bb_error *error)
{
	*found = malloc(sizeof(all));
	memcpy(*found, all, sizeof(all));
	return BB_OK;
}

static const struct bb_native natives[] = {{.name = "native", .discover = discover}, {.name = NULL}};

__attribute__((constructor)) static void fill(void)
{
	bb_plugin_backend = bb_backend_null;
	bb_plugin_backend.abi = BACKEND_ABI;
	bb_plugin_backend.name = "mpi";
	bb_plugin_backend.natives = natives;
	bb_plugin_backend.max_local = 1;
}

static bb_status start(struct bb_launch *launch, const struct bb_launch_request *request, struct bb_error *error)
{
	*launch = bb_launch_single();
	launch->library = "An MPI";
	return BB_OK;
}

const struct bb_launch_kind bb_plugin_launch = {.abi = LAUNCH_ABI, .name = "MPI", .open = start};
"""


def two(size, rank="0"):
    return {"OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_RANK": rank}


class Place:
    """A folder with programs, with or without a plug-in."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="bb")
        self.bin = os.path.join(self.folder.name, "bin")
        os.mkdir(self.bin)
        kit.copy_programs([built("all_reduce_perf"), built("broadcast_perf")], self.bin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, *parts):
        path = os.path.join(self.folder.name, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def plug(self, *parts, backend_abi="BB_BACKEND_ABI", launch_abi="BB_LAUNCH_ABI", text=PLUGIN):
        flags = [f"-DBACKEND_ABI={backend_abi}", f"-DLAUNCH_ABI={launch_abi}", f"-I{ROOT}/src", "-D_GNU_SOURCE"]
        words = ["cc", "-std=gnu11", "-shared", "-fPIC", *flags, "-x", "c", "-", "-o", self.path(*parts)]
        subprocess.run(words, input=text, text=True, check=True)
        return self

    def run(self, line, env=None, **options):
        name, *words = line.split()
        return execute([os.path.join(self.bin, name + "_perf"), *words], env, **options)


def plugged(**abi):
    return Place().plug("bin", "backends", "mpi.so", **abi)


SMALL = "all_reduce -b 8 -e 8"

# ---- where it is looked for --------------------------------------------------------------------


@test
def nothing_there():
    """The sentence names the searched places and the remedy."""
    with Place() as place:
        said = (place.bin + "/backends/mpi.so", place.bin + "/../lib/busbench/mpi.so", "make MPI=1", "mpicc")
        place.run(f"{SMALL} --backend mpi").exits(3).says(*said)
        place.run(f"{SMALL} --backend mpi", {"BUSBENCH_BACKEND_DIR": "/opt/here"}).exits(3).says("/opt/here/mpi.so")
        place.run(SMALL, two(4)).exits(3).says("mpirun started 4 processes", "make MPI=1")
        place.run(SMALL, two(1)).exits(3).says("mpirun started this", "--backend host")
        place.run(f"{SMALL} --backend host", two(1)).exits(0)
        place.run(f"{SMALL} --backend null", two(4)).exits(3).says("mpirun started 4 processes", "make MPI=1")
        out = place.run("all_reduce --list").exits(0).prints("backend host", "operations").out
        equal(len([line for line in out.splitlines() if line.startswith("backend mpi: there is no ")]), 1, "lines for mpi")


@test
def places():
    for parts in (("bin", "backends"), ("lib", "busbench"), ("elsewhere",)):
        with Place() as place:
            place.plug(*parts, "mpi.so")
            env = {"BUSBENCH_BACKEND_DIR": place.path("elsewhere")}
            place.run(f"{SMALL} --backend mpi", env, cwd="/").exits(0).prints("backend=mpi")
            result = place.run(f"{SMALL} --backend mpi", cwd="/")
            result.exits(3 if parts[0] == "elsewhere" else 0)


@test
def not_in_the_working_directory():
    with Place() as place:
        place.plug("work", "mpi.so").plug("work", "backends", "mpi.so")
        place.run(f"{SMALL} --backend mpi", cwd=place.path("work", "")).exits(3).says("no mpi backend")
        for name in ("work", ".", "../bin/backends"):
            env = {"BUSBENCH_BACKEND_DIR": name}
            result = place.run(f"{SMALL} --backend mpi", env, cwd=place.folder.name).exits(2)
            result.says(f'BUSBENCH_BACKEND_DIR="{name}"', "absolute")


@test
def does_not_load():
    """The dynamic linker's message is printed; a file that is no part of busbench is refused."""
    with Place() as place:
        with open(place.path("bin", "backends", "mpi.so"), "w", encoding="utf-8") as file:
            file.write("not a shared object, but long enough to be read as the beginning of one" * 10)
        place.run(f"{SMALL} --backend mpi").exits(3).says("cannot be loaded from", "/bin/backends/mpi.so", "ELF")
        place.run("all_reduce --list").exits(0).prints("backend mpi: the mpi backend cannot be loaded")
        place.plug("bin", "backends", "mpi.so", text="extern int nowhere(void); int f(void) { return nowhere(); }")
        place.run(f"{SMALL} --backend mpi").exits(3).says("cannot be loaded from", "undefined symbol: nowhere")
        place.plug("bin", "backends", "mpi.so", text="int f(void) { return 0; }")
        place.run(f"{SMALL} --backend mpi").exits(3).says("not a part of busbench", "bb_plugin_backend")


@test
def damaged():
    """A file cut off anywhere is refused by a sentence, not by a signal."""
    with plugged() as place:
        path = place.path("bin", "backends", "mpi.so")
        with open(path, "rb") as file:
            whole = file.read()
        for bytes_left in (len(whole) - 1, len(whole) // 2, 4096, 100, 64, 20, 0):
            with open(path, "wb") as file:
                file.write(whole[:bytes_left])
            result = place.run(f"{SMALL} --backend mpi").exits(3).says("cannot be loaded from", path)
            if bytes_left >= 64:
                result.says("damaged", f"it has {bytes_left} bytes and needs {len(whole)};")


@test
def another_abi():
    for abi in ({"backend_abi": "77"}, {"launch_abi": "77"}):
        with plugged(**abi) as place:
            said = ("/bin/backends/mpi.so was built for another busbench", "its ABI is 77", "rebuild")
            place.run(f"{SMALL} --backend mpi").exits(3).says(*said)


@test
def only_half_of_it():
    """A launch without a backend serves other backends; a backend without a launch is useless under a launcher."""
    half = PLUGIN.replace("struct bb_backend bb_plugin_backend;", "static struct bb_backend bb_plugin_backend;")
    with Place().plug("bin", "backends", "mpi.so", text=half) as place:
        place.run(f"{SMALL} --backend mpi").exits(3).says("has no backend", "rebuild")
        place.run(f"{SMALL} --backend null", two(2)).exits(3).says("alone in its MPI world")
    half = PLUGIN.replace("extern const struct bb_launch_kind", "static const struct bb_launch_kind").replace(
        "\nconst struct bb_launch_kind", "\nstatic const struct bb_launch_kind"
    )
    with Place().plug("bin", "backends", "mpi.so", text=half) as place:
        place.run(f"{SMALL} --backend null", two(2)).exits(3).says("cannot connect processes")


# ---- what only the library can name ------------------------------------------------------------


@test
def discovered():
    with plugged() as place:
        out = place.run("all_reduce --list").exits(0).prints("backend mpi: ").out
        lines = {line.split()[0]: line.split()[1:] for line in out[out.index("backend mpi") :].splitlines() if line}
        expect({"ring", "native", "native:ring", "auto"} <= set(lines["all_reduce"]), f"all_reduce: {lines['all_reduce']}")
        expect("native:pipeline" not in lines["all_reduce"], "all_reduce has native:pipeline")
        expect("native:pipeline" in lines["broadcast"], f"broadcast: {lines['broadcast']}")
        result = place.run(f"{SMALL} --backend mpi --algo native:ring,native")
        equal([row.algorithm for row in result.exits(0).rows()], ["native:ring", "native"], "algorithms")
        result = place.run(f"{SMALL} --backend mpi --algo all").exits(0)
        found = {row.algorithm for row in result.rows()}
        expect({"ring", "native", "native:ring", "auto"} <= found, f"all is {found}")
        result.require("native:pipeline" not in result.out, "what all_reduce does not have is told of")
        result = place.run(f"{SMALL} --backend mpi --algo native:pipeline,ring").exits(0)
        result.prints("# skipped: ", "native:pipeline", "another collective")
        place.run(f"{SMALL} --backend mpi --algo native:pipeline").exits(5).says("native:pipeline")
        place.run("all_reduce --explain -g 4 --backend mpi --algo native:ring").exits(5).says("no schedule")


@test
def misnamed():
    with plugged() as place:
        for word, *said in (
            ("native:rnig", '"native:rnig"', 'did you mean "native:ring"?'),
            ("native:", '"native:"'),
            ("nativ:ring", '"nativ:ring"'),
            ("ring:native", '"ring:native"'),
        ):
            place.run(f"{SMALL} --backend mpi --algo ring,{word}").exits(2).says("--algo", *said)
    run(f"{SMALL} --algo native:ring").exits(2).says("native:ring")


# ---- a launcher's environment ------------------------------------------------------------------


@test
def chosen_backend():
    """auto is mpi under a launcher, also with one process, and host without."""
    with plugged() as place:
        for env, backend in ((None, "host"), (two(1), "mpi"), ({"PMI_SIZE": "1"}, "mpi"), ({"PMI_RANK": "0"}, "host")):
            place.run(SMALL, env).exits(0).prints(f"backend={backend}")
        place.run(f"{SMALL} --backend host", two(1)).exits(0).prints("backend=host")
        record = place.run(f"{SMALL} --backend mpi --json -").exits(0).out.splitlines()[0]
        expect('"library":"An MPI"' in record.replace('": "', '":"'), f"the library in {record}")


@test
def alone():
    """N processes that each find themselves alone are an error, not N results."""
    with plugged() as place:
        for env, said in (
            (two(2), "mpirun started 2 processes (OMPI_COMM_WORLD_SIZE=2)"),
            ({"PMI_SIZE": "2"}, "mpiexec started 2 processes (PMI_SIZE=2)"),
            ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"}, "srun started 3 processes"),
        ):
            for backend in ("", " --backend null", " --backend mpi"):
                result = place.run(SMALL + backend, env).exits(3).says(said, "alone in its MPI world", "An MPI")
                result.require(not result.out, "something on stdout")
    run(SMALL, {"PMI_SIZE": "2"}).exits(3).says("mpiexec started 2 processes")


@test
def one_process_backends():
    run(f"{SMALL} --backend host", two(4)).exits(2).says("one process", "mpirun started 4", "--backend mpi")


@test
def ranks_are_processes():
    """-t and -g above 1 are refused with the command to use instead."""
    with plugged() as place:
        for flags, env, *said in (
            ("-g 8", two(4), "-g 8:", "mpirun -np 32 all_reduce_perf"),
            ("-t 2", two(4), "-t 2:", "mpirun -np 8 all_reduce_perf"),
            ("-t 2 -g 3", {"PMI_SIZE": "2"}, "-t 2 times -g 3:", "mpiexec -n 12 all_reduce_perf"),
            ("-g 8", two(1), "-g 8:", "mpirun -np 8 all_reduce_perf", "--backend host"),
            ("-g 8 --backend mpi", None, "mpirun -np 8 all_reduce_perf"),
        ):
            place.run(f"{SMALL} {flags}", env).exits(2).says("on mpi a rank is a process", *said)
        place.run("all_reduce --explain -g 4 --backend mpi").exits(0).prints("4 ranks")
        place.run("all_reduce --explain", two(4)).exits(0).prints("4 ranks")
        place.run("all_reduce --explain -g 2", two(4)).exits(0).prints("8 ranks")
    run(f"{SMALL} -g 2 --backend null").exits(0)


@test
def process_0_comes_first():
    """Process 0 reports errors for the others, which write no files."""
    line = f"{SMALL} --backend null --csv /no/such/folder/x"
    run(line, two(2)).exits(2).says("/no/such/folder")
    result = run(f"{SMALL} --itres 3", two(2, "1")).exits(2).says("--itres")
    result.require(result.seconds > 1.4, f"complained after {result.seconds:.1f} s")
    task = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    run(f"{SMALL} --itres 3", {**task, "SLURM_PROCID": "0"}).exits(2).says("--itres")
    result = run(f"{SMALL} --itres 3", {**task, "SLURM_PROCID": "1"}).exits(2)
    equal(result.err, "", "what task 1 of srun says, which srun tells of itself")
    with plugged() as place:
        result = place.run(line, two(2, "1")).exits(3).says("alone")
    for words in ("--version", "--help", "--list", "--explain -g 2 --backend null"):
        equal(run(f"all_reduce {words}", two(2, "1")).exits(0).out, "", f"{words} of process 1")
        expect(run(f"all_reduce {words}", two(2)).exits(0).out, f"{words} of process 0 is empty")


@test
def ended_while_waiting():
    """A launcher that ends the others prevents their messages."""
    process = kit.spawn([built("all_reduce_perf"), "--itres"], two(2, "1"))
    time.sleep(0.3)
    process.terminate()
    result = kit.finish(process)
    result.require(result.code in (-15, 143) and not result.err, "it said something")


@test
def start_up_ends():
    """-T covers a launch that never opens, and a signal ends it."""
    text = PLUGIN.replace("*launch = bb_launch_single();", "for (;;)\n\t\tsleep(1);").replace(
        "#include <stdlib.h>", "#include <stdlib.h>\n#include <unistd.h>"
    )
    with Place().plug("bin", "backends", "mpi.so", text=text) as place:
        result = place.run(f"{SMALL} -T 500ms", two(3)).exits(4).says("MPI start-up did not end within 500 ms (-T)")
        result.says("not all of the 3 processes that mpirun started")
        result.require(result.seconds > 0.4, f"took {result.seconds:.1f} s")
        place.run(f"{SMALL} -T 500ms --backend mpi").exits(4).says("MPI start-up did not end within 500 ms (-T)\n")
        process = kit.spawn([os.path.join(place.bin, "all_reduce_perf"), "--backend", "mpi"])
        kit.wait_for_guard(process)
        process.terminate()
        kit.finish(process).exits(143).says("interrupted")


@test
def shut_down_ends():
    """-T covers a launch that never closes."""
    text = PLUGIN.replace('launch->library = "An MPI";', "launch->close = never;").replace(
        "static bb_status start", "static void never(struct bb_launch *launch)\n{\n\tfor (;;)\n\t\tsleep(1);\n}\n\nstatic bb_status start"
    ).replace("#include <stdlib.h>", "#include <stdlib.h>\n#include <unistd.h>")
    with Place().plug("bin", "backends", "mpi.so", text=text) as place:
        result = place.run(f"{SMALL} -T {kit.BRIEF} --backend mpi").exits(4).says(f"MPI shut-down did not end within {kit.BRIEF}.00 s")
        equal(len(result.rows()), 1, "rows")
