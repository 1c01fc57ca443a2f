"""gpu_kernels with kernels compiled for the CPU: right ones pass, and wrong ones are found."""

import re

import gpus
from kit import SANITIZERS, Settings, add, equal, execute, test

# Each takes a while: they run one by one.
FAR = [f"{kernel} beyond" for kernel in ("fill", "verify", "copy", "reduce", "read memory", "write memory", "triad")]


def gpu_kernels(*words, env=None, variant=""):
    path = gpus.stand_in("fake", "gpu_kernels", variant=variant)
    return execute([path, *words], {"BUSBENCH_FAKE_LEAKS": "1", **(env or {})})


def names(result, outcome):
    return re.findall(rf"^{outcome} ([^:\n]+)", result.out, re.M)


def counts(result):
    """passed, failed, skipped of the last line, which must count the lines above it."""
    last = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", result.out.splitlines()[-1])
    result.require(last, "no counts at the end")
    said = [int(n) for n in last.groups()]
    equal([len(names(result, word)) for word in ("passed", "FAILED", "skipped")], said, "lines of each outcome")
    return said


def all_right(variant, *words):
    result = gpu_kernels(*words, env=SANITIZERS.get(variant), variant=variant).exits(0)
    result.quiet()
    passed, failed, skipped = counts(result)
    listed = gpu_kernels("--list", *words).exits(0).out.splitlines()
    far = [name for name in listed if "beyond 2^32" in name and "--large" not in words]
    equal((passed, failed, skipped), (len(listed) - len(far), 0, len(far)), "passed, failed, skipped")
    equal(names(result, "skipped"), far, "what is skipped")


add("all kernels", all_right, "")
for each in FAR:
    add(f"{each} 2^32 bytes", all_right, "", "--large", "--only", each, full=True)
for each in Settings.variants:
    add(f"all kernels ({each})", all_right, each)


@test
def no_far_case_is_forgotten():
    everything = gpu_kernels("--list", "--only", "beyond").exits(0).out.splitlines()
    named = [name for word in FAR for name in gpu_kernels("--list", "--only", word).out.splitlines()]
    equal(sorted(named), sorted(everything), "cases beyond 2^32 bytes")


@test(full=True)
def a_broken_device_is_found():
    """Thread 1 of each block does nothing: only work of a single other thread is right."""
    result = gpu_kernels(env={"BUSBENCH_FAKE_IDLE": "1"}).exits(1)
    equal(names(result, "passed"), ["reduce what is refused", "ping", "chase", "spin"], "what passes")
    for name in ("chase", "spin"):
        result = gpu_kernels("--only", name, env={"BUSBENCH_FAKE_IDLE": "0"}).exits(1)
        equal(counts(result), [0, 1, 0], f"{name} without its thread")


@test
def says_what_differs():
    result = gpu_kernels("--only", "reduce int32 sum", env={"BUSBENCH_FAKE_IDLE": "2"}).exits(1)
    result.prints("FAILED reduce int32 sum: 2 sources, 3 at 0 from 0 ", ": element 2 is 0x5a5a5a5a, expected 0x")


@test
def a_failed_call_ends_it():
    """Nothing after it is checked."""
    result = gpu_kernels("--only", "fill", env={"BUSBENCH_FAKE_FAIL": "cudaLaunchKernel:2000"}).exits(1)
    result.prints("FAILED fill 1-byte elements: bb_gpu_fill: unknown error", "skipped fill 2-byte elements: the device failed before")


@test
def no_device():
    gpu_kernels(env={"BUSBENCH_FAKE_GPUS": "0"}).exits(3).says("no device to run on", "no CUDA-capable device")


@test
def misused():
    for words in (["--only"], ["fill"], ["--small"], ["--only", "nothing of that name"]):
        result = gpu_kernels(*words).exits(2)
        result.require(result.err.startswith(("usage: gpu_kernels ", "gpu_kernels: no case has")), "no word on it")
