"""--backend auto refuses to measure the CPU if there are GPUs that it cannot use."""

import contextlib
import os
import tempfile

import gpus
import kit
from kit import add, equal, execute, test

SMALL = "-g 2 -b 8 -e 8"
TO_CPU = "; to measure the CPU, give --backend host\n"


@contextlib.contextmanager
def machine(*files, backend=None):
    """(folder of programs, environment) of a machine with these device files and BACKEND as nccl.so."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        devices = os.path.join(folder, "dev")
        os.mkdir(devices)
        for name in files:
            with open(os.path.join(devices, name), "w", encoding="utf-8"):
                pass
        if backend is not None:
            os.mkdir(os.path.join(folder, "backends"))
            with open(os.path.join(folder, "backends", "nccl.so"), "wb") as file:
                file.write(backend)
        for name in ("all_reduce", "ddp_bucket", "pipeline"):
            if os.path.exists(os.path.join(kit.Settings.build, f"{name}_perf")):
                kit.copy_programs([kit.built(f"{name}_perf")], folder)
        yield folder, {"BUSBENCH_DEVICE_FOLDER": devices, "CUDA_VISIBLE_DEVICES": "0,1"}


def run(place, line, env=None):
    folder, given = place
    name, *words = line.split()
    return execute([os.path.join(folder, f"{name}_perf"), *words], {**given, **(env or {})})


@test
def not_built():
    """Exit status 3 with the remedy; naming the CPU measures it, and programs that measure nothing need no GPU."""
    missing = "no nccl backend was built (build it with make CUDA=1, which needs nvcc and nccl.h)"
    for files, count in ((("nvidia0",), "1 GPU is"), (("nvidia3", "nvidia10", "nvidiactl", "nvidia-uvm"), "2 GPUs are")):
        with machine(*files) as place:
            result = run(place, f"all_reduce {SMALL}").exits(3)
            equal(result.err, f"all_reduce_perf: {count} here (/dev/nvidia*), but {missing}{TO_CPU}", "sentence")
            result.require(not result.out, "something on stdout")
            out = run(place, f"all_reduce {SMALL} --backend host").exits(0).prints("# Backend: host").out
            result.require("was chosen" not in out, "it was not chosen, but named")
            run(place, "all_reduce -g 2 --explain").exits(0)
            run(place, "all_reduce --list").exits(0)
            run(place, f"all_reduce {SMALL} --backend sim --link 1GB/s").exits(0)
            run(place, f"all_reduce {SMALL} --nonsense").exits(2)


def hidden(files, visible):
    """CUDA would find no GPU: the CPU is measured, and a line gives the reason."""
    with machine(*files) as place:
        result = run(place, f"all_reduce {SMALL}", {"CUDA_VISIBLE_DEVICES": visible}).exits(0)
        result.prints("# Backend host was chosen: no nccl backend was built")


for files, visible in ((("nvidia0",), ""), (("nvidia0",), "-1"), (("nvidia0",), "NoDevFiles"), ((), "0"),
                       (("nvidiactl", "nvidia-uvm", "nvidia"), "0")):  # fmt: skip
    add(f"no GPU: {files}, CUDA_VISIBLE_DEVICES={visible}", hidden, files, visible)


@test
def visible():
    for list_of_them in ("0", "3,1", "GPU-8932f937", "MIG-b8f1"):
        with machine("nvidia0") as place:
            run(place, f"all_reduce {SMALL}", {"CUDA_VISIBLE_DEVICES": list_of_them}).exits(3)


@test
def may_not_be_opened():
    """A device file that cannot be opened belongs to another user's GPU."""
    with machine() as place:
        os.symlink("nowhere", os.path.join(place[1]["BUSBENCH_DEVICE_FOLDER"], "nvidia0"))
        run(place, f"all_reduce {SMALL}").exits(0)


@test
def does_not_load():
    with machine("nvidia0", backend=b"no shared object") as place:
        result = run(place, f"all_reduce {SMALL}").exits(3)
        result.says("1 GPU is here (/dev/nvidia*), but the nccl backend cannot be loaded from", TO_CPU)
        equal(result.err.count("\n"), 1, "sentences")


@test
def driver_does_not_fit():
    """CUDA reports a missing or old driver although the devices exist."""
    for driver, why in (("0", "no NVIDIA driver is loaded"), ("11000", "CUDA driver version is insufficient")):
        with machine("nvidia0", "nvidia1") as place:
            env = {**place[1], "BUSBENCH_FAKE_DRIVER": driver}
            result = gpus.run(f"all_reduce {SMALL}", env).exits(3)
            result.says(f"2 GPUs are here (/dev/nvidia*), but the nccl backend finds no GPU: {why}", TO_CPU)
            gpus.run(f"all_reduce {SMALL} --backend host", env).exits(0)


@test
def library_too_old():
    """If CUDA finds a GPU, device files do not matter: the backend is chosen, and names what it lacks."""
    with machine() as place:
        env = {**place[1], "BUSBENCH_FAKE_VERSION": "21701"}
        result = gpus.run(f"all_reduce {SMALL}", env).exits(3)
        result.says("the nccl backend needs NCCL 2.18 or newer and found 2.17.1", "LD_LIBRARY_PATH")
        equal(result.err.count("\n"), 1, "sentences")


@test
def used_where_it_can_be():
    with machine("nvidia0") as place:
        gpus.run(f"all_reduce {SMALL}", place[1]).exits(0).prints("# Backend nccl was chosen: there are GPUs")


@test
def under_launchers():
    """A launcher's processes do not measure the CPU instead of GPUs either."""
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29871"}
    mpirun = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    for launcher, backend in (torchrun, "host"), (mpirun, "mpi"):
        with machine("nvidia0") as place:
            result = run(place, f"all_reduce {SMALL}", launcher).exits(3)
            result.says("1 GPU is here", f"to measure the CPU, give --backend {backend}\n")


@test
def what_measures_nothing():
    if not os.path.exists(os.path.join(kit.Settings.build, "ddp_bucket_perf")):
        raise kit.Skipped("built without jansson")
    with machine("nvidia0") as place:
        run(place, "ddp_bucket -g 2 --model resnet50 --predict --flops 1T --link 10GB/s").exits(0)
        run(place, "ddp_bucket -g 2 --model resnet50 -n 1 -w 0").exits(3).says(TO_CPU.strip())
        run(place, "pipeline --predict --stages 3").exits(0).prints("backend=null")
