"""Programs on every backend: arrival of data, order of events, refusals and failures."""

import os
import signal
import tempfile

import gpus
import kit
import mpi
from kit import SANITIZERS, Settings, add, expect, test

KERNELS = {"ddp": (2, 5), "pipeline": (2, 5), "server": (2, 6), "grid": (2, 4), "passes": (1, 3)}


def play(line, env=None, variant=""):
    player = kit.built(os.path.join("tests", "player"), variant)
    return kit.execute([player, *line.split()], env)


def right(result):
    """Everything that the player checks itself."""
    return result.exits(0).quiet()


def host(line, variant=""):
    right(play(line + " --backend host", SANITIZERS.get(variant), variant))


for kernel, ranks in KERNELS.items():
    for n in ranks:
        add(f"{kernel} -g {n}", host, f"--kernel {kernel} -g {n}")
        add(f"{kernel} -g {n} spin", host, f"--kernel {kernel} -g {n} --compute spin", full=n != ranks[0])
    add(f"{kernel} own buffers", host, f"--kernel {kernel} -g {ranks[-1]} --own-buffers")
    add(f"{kernel} --link", host, f"--kernel {kernel} -g {ranks[-1]} --link 200MB/s,1ms")
    for variant in Settings.variants:
        add(f"{kernel} ({variant})", host, f"--kernel {kernel} -g {ranks[-1]}", variant)
for name in ("ring", "tree", "direct", "busbench:ring", "auto"):
    add(f"--algo {name}", host, f"--kernel ddp -g 4 --algo {name}")
# Eight ranks with a second queue each share two cores: sleeping does not delay messages.
add("overlap", host, "--kernel ddp -g 8 --overlap --pass 50ms")
for kernel in KERNELS:
    add(f"{kernel} in virtual time", lambda k: right(play(f"--kernel {k} -g 4 --backend sim --link 1GB/s,5us")), kernel)
add("no such algorithm in virtual time", lambda: refused("--kernel ddp -g 4 --backend sim --link 1GB/s --algo bruck", "bruck among 4"))
add("null", lambda: right(play("--kernel server -g 4 --backend null")))


# ---- what cannot be done -------------------------------------------------------------------------


def refused(line, *words):
    play(line).exits(5).says(*words)


add("gemm on CPUs", refused, "--kernel ddp -g 2 --backend host --compute gemm", "multiplies no matrices")
add("no such algorithm", refused, "--kernel ddp -g 2 --backend host --algo bruck", "all_reduce by bruck among 2 ranks")
add("no messages to delay", refused, "--kernel ddp -g 2 --backend host --algo direct --link 1GB/s", "direct")


# ---- several processes ---------------------------------------------------------------------------


def under_mpi(n, line, env=None):
    player = kit.built(os.path.join("tests", "player"))
    folder = {"BUSBENCH_BACKEND_DIR": os.path.join(Settings.build, "backends")}
    return mpi.Job(["mpirun", "-np", str(n), player, *line.split()], {**folder, **(env or {})})


def over_mpi(n, line):
    mpi.quiet(under_mpi(n, line).finish().exits(0))


for kernel in KERNELS:
    add(f"{kernel} over MPI", over_mpi, 4, f"--kernel {kernel} --backend mpi")
for name in ("ring", "native", "native:ring"):
    add(f"MPI's {name}", over_mpi, 2, f"--kernel grid --backend mpi --algo {name}")


# ---- GPUs that are not there ---------------------------------------------------------------------


def on_gpus(line, variant="", env=None):
    folder = os.path.join(gpus.installed(variant).name, "backends")
    fake = {"BUSBENCH_BACKEND_DIR": folder, "BUSBENCH_FAKE_LEAKS": "1"}
    return play(line + " --backend nccl", {**fake, **SANITIZERS.get(variant, {}), **(env or {})}, variant)


for kernel in ("ddp", "pipeline", "grid", "passes"):
    for variant in ("", *Settings.variants):
        add(f"{kernel} on GPUs {variant}", lambda k, v: right(on_gpus(f"--kernel {k} -g 4", v)), kernel, variant)
for name in ("ring", "tree", "ring:LL", "busbench:ring"):
    add(f"NCCL's {name}", lambda a: right(on_gpus(f"--kernel ddp -g 4 --algo {a}")), name)


@test
def layers():
    """The library's algorithm is used for all rows at once, then for columns, then for each rank alone."""
    right(on_gpus("--kernel grid -g 4 --algo ring"))
    on_gpus("--kernel grid -g 4 --algo tree").exits(5).says("all_gather by tree among 2 ranks: NCCL has no such")


@test
def spin_on_gpus():
    right(on_gpus("--kernel ddp -g 4 --compute spin"))


def multiplies(folder):
    """Operations of cuBLAS's stand-in: one computation of a million before the program, which has five and runs three
    times."""
    env = {"LD_LIBRARY_PATH": folder, "BUSBENCH_FAKE_GEMM": "1"}
    return on_gpus("--kernel ddp -g 2 --compute gemm", "", env)


@test
def gemm_on_gpus():
    result = multiplies(gpus.stand_in("cublas")).exits(0)
    done = [int(words[3]) for words in map(str.split, result.err.splitlines())]
    result.require(len(done) == 2 and all(15.5e6 < n < 16.5e6 for n in done), "other operations")


@test
def gemm_without_cublas():
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(gpus.stand_in("cublas")):
            with open(os.path.join(folder, name), "wb"):
                pass
        multiplies(folder).exits(5).says("gemm needs cuBLAS, which cannot be loaded")


@test
def server_on_gpus():
    on_gpus("--kernel server -g 3").exits(5).says("the nccl backend cannot receive from any rank")


# ---- failures ------------------------------------------------------------------------------------


@test
def dies_over_mpi():
    """A rank that dies between two steps ends all of them."""
    job = under_mpi(3, "--kernel pipeline --backend mpi --fault die:1 -T 300")
    result = job.finish()
    result.require(result.code != 0, "it passed")


def ended_late(result):
    result.exits(4).says("-T")


def late(line):
    """A computation that is too long ends at -T, and sleeping or spinning stops."""
    ended_late(play(f"{line} --pass 1h -T {kit.BRIEF}"))


def late_on_gpus(line):
    ended_late(on_gpus(f"{line} --pass 1h -T {kit.BRIEF}"))


for how in ("sleep", "spin"):
    add(f"{how} too long", late, f"--kernel ddp -g 3 --backend host --compute {how}")
    add(f"{how} too long on GPUs", late_on_gpus, f"--kernel ddp -g 2 --compute {how}")


@test
def interrupted():
    player = kit.built(os.path.join("tests", "player"))
    process = kit.spawn([player, "--kernel", "pipeline", "-g", "4", "--pass", "1h", "--backend", "host"])
    kit.wait_for_guard(process)
    process.send_signal(signal.SIGINT)
    result = kit.finish(process)
    expect(result.code == 130, f"exit {result.code}\n{result}")
