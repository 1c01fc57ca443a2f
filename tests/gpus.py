"""busbench on GPUs that are not there: the nccl backend with stand-ins for CUDA and NCCL (tests/fake)."""

import contextlib
import functools
import glob
import os
import tempfile
import threading

import kit

LOCK = threading.Lock()  # tests run side by side


def installed(variant=""):
    """A folder with the binaries, and beside them the backends: nccl's is the one with the stand-ins."""
    with LOCK:
        return install(variant)


def stand_in(*path, variant=""):
    """A file or folder of the stand-ins, which are built where CUDA's and NCCL's headers are."""
    found = os.path.join(kit.Settings.build, variant, "tests", *path)
    if not os.path.exists(found):
        raise kit.Skipped("built without the headers of CUDA and NCCL")
    return found


@functools.lru_cache(None)
def install(variant):
    build = os.path.join(kit.Settings.build, variant)
    fake = stand_in("fake", "nccl.so", variant=variant)
    folder = tempfile.TemporaryDirectory(prefix="bb")
    os.mkdir(os.path.join(folder.name, "backends"))
    os.symlink(fake, os.path.join(folder.name, "backends", "nccl.so"))
    mpi = os.path.join(build, "backends", "mpi.so")
    if os.path.exists(mpi):
        os.symlink(mpi, os.path.join(folder.name, "backends", "mpi.so"))
    programs = glob.glob(os.path.join(build, "*_perf")) + glob.glob(os.path.join(build, "acceptance"))
    kit.copy_programs(programs, folder.name)  # a link leads back to where they were built
    return folder


def built(program, variant=""):
    return os.path.join(installed(variant).name, program)


def run(line, env=None, variant=""):
    """Run "all_reduce -g 4 …"; what it does not let go is said on stderr."""
    name, *arguments = line.split()
    env = {"BUSBENCH_FAKE_LEAKS": "1", **(env or {})}
    return kit.execute([built(name + "_perf", variant), *arguments], env)


def right(result):
    """It exits 0 with nothing on stderr, and every row that was checked is right."""
    return result.exits(0).quiet().right()


def passes(line, env=None, variant=""):
    result = right(run(line, env, variant))
    return result.require(result.rows(), "no rows")


@contextlib.contextmanager
def shared():
    """The environment of processes that see each other's GPUs."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # what is in a file need not be written to a disk
    with tempfile.TemporaryDirectory(prefix="bb", dir=memory) as folder:
        yield {"BUSBENCH_FAKE_REGION": os.path.join(folder, "region"), "BUSBENCH_FAKE_LEAKS": "1"}
