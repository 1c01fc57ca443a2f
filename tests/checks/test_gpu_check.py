"""ci/gpu_check.sh, on stand-ins for a GPU: that it passes where all is well, and does not where not."""

import os
import shutil
import subprocess
import tempfile

import kit
from kit import ROOT, equal, execute, expect, test

SCRIPT = os.path.join(ROOT, "ci", "gpu_check.sh")


def checked(env):
    """Run the script; returns its result and its log."""
    stand_ins = os.path.join(kit.Settings.build, "tests", "fake")
    if not os.path.exists(os.path.join(stand_ins, "gpu_speed")):
        raise kit.Skipped("the stand-ins need the headers of CUDA and NCCL")
    given = {"B": kit.Settings.build, "GPU_CHECK_BUILT": "1", "GPU_CHECK_BACKEND": stand_ins, **env}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        result = execute([SCRIPT, log], given)
        with open(log, encoding="utf-8", errors="replace") as file:
            return result, file.read()


def counts(result):
    """passed, failed, skipped of the last line."""
    words = result.out.splitlines()[-1].replace(",", "").split()
    equal(words[1::2], ["passed", "failed", "skipped"], "the last line")
    return [int(n) for n in words[::2]]


@test
def passes():
    result, log = checked({"BUSBENCH_FAKE_GPUS": "2"})
    passed, failed, skipped = counts(result.exits(0))
    expect(passed > 100 and failed == 0 and skipped >= 4, f"{passed} passed, {failed} failed, {skipped} skipped")
    for said in ("library  NCCL 2.", "GPUs     2", "GPU      none: stand-ins", "skipped  compute-sanitizer: it is not"):
        result.prints(said)
        expect(said in log, f"{said!r} is not in the log")
    expect("Avg bus bandwidth" in log and "reduce3" in log, "the log lacks what the programs printed")


@test
def a_failure_fails():
    """The kernels' program makes no such call; the collectives do."""
    env = {"BUSBENCH_FAKE_GPUS": "1", "BUSBENCH_FAKE_FAIL": "ncclReduceScatter:3", "GPU_CHECK_ONLY": "reduce"}
    result, log = checked(env)
    passed, failed, _ = counts(result.exits(1))
    expect(passed > 0 and failed >= 2, f"{passed} passed, {failed} failed")
    result.prints("FAILED   reduce_scatter, all algorithms, 1 GPU: exit status 3, not 0", "ncclReduceScatter")
    expect("passed   all_reduce, all algorithms, 1 GPU" in log, "others are judged too")


@test
def wrong_data_fails():
    """Of a program that finds wrong data and says so with its exit status alone."""
    with tempfile.TemporaryDirectory() as folder:
        for name in kit.COLLECTIVES:
            shutil.copy(kit.built(f"{name}_perf"), folder)
        broadcast = os.path.join(folder, "broadcast_perf")
        shutil.move(broadcast, os.path.join(folder, "real_perf"))
        with open(broadcast, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec "${0%/*}/real_perf" "$@" --fault corrupt:0\n')
        os.chmod(broadcast, 0o755)
        result, _ = checked({"B": folder, "BUSBENCH_FAKE_GPUS": "1", "GPU_CHECK_ONLY": "broadcast"})
    result.exits(1).prints("FAILED   broadcast, all algorithms, 1 GPU: exit status 7, not 0")


@test
def no_time_left():
    """What was not checked has not passed."""
    result, _ = checked({"BUSBENCH_FAKE_GPUS": "1", "GPU_CHECK_SECONDS": "0"})
    passed, failed, skipped = counts(result.exits(1).prints("the time is used up"))
    expect((passed, failed) == (0, 0) and skipped > 50, f"{passed} passed, {failed} failed, {skipped} skipped")


@test
def no_gpu():
    result, _ = checked({"BUSBENCH_FAKE_GPUS": "0"})
    result.exits(3).prints("there is no GPU that busbench can use", "CUDA")
    equal(counts(result), [0, 0, 0], "what was checked")


@test
def misused():
    execute([SCRIPT, "one", "two"]).exits(2).says("ci/gpu_check.sh [LOG]")
    execute([SCRIPT], {"GPU_CHECK_BACKEND": "."}).exits(2).says("GPU_CHECK_BUILT=1")


@test
def is_clean_shell():
    if not shutil.which("shellcheck"):
        raise kit.Skipped("shellcheck is not here")
    execute(["shellcheck", SCRIPT]).exits(0)


@test
def the_backend_is_built():
    """Where all that it needs is there, `make` has built it, and it loads as far as it can without a GPU."""
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
