"""Collectives as kernels on NCCL's device API, on stand-ins for GPUs: what runs, and what is refused."""

import gpus
from kit import add, equal, expect, test

SMALL = "-b 1K -e 1K -n 2"


def right(line, env=None):
    gpus.passes(f"{line} -R 2 -n 2", env)


# Odd counts, offsets and numbers of blocks, few elements, every datatype; in place and out of place.
for line in (
    "all_reduce -g 2 -D 1 -b 4 -e 64K -f 16",
    "all_reduce -g 3 -D 2 -b 20 -e 2M -f 16 -V 2",
    "all_reduce -g 3 -D 2 -b 44 -e 44 -u 1",
    "all_reduce -g 2 -D 1 -d int8,uint32,int64,half,bfloat16,double -b 1000 -e 1000",
    "all_reduce -g 2 -D 2 -d int8,uint32,int64,half,bfloat16,double -b 1000 -e 1000",
    "all_reduce -g 1 -D 1 -b 64 -e 64",
    "alltoall -g 3 -D 1 -d int8,half,float,double -b 1K -e 64K -f 8",
    "alltoall -g 4 -D 2 -d int8,float -b 1K -e 1M -f 8",
    "alltoall -g 3 -D 2 -b 60 -e 60 -u 1",
    "all_reduce -g 2 -D 2 -b 4K -e 4K -G 2 -m 3",
    "all_reduce -g 2 -D 1 -b 4K -e 4K -I 1",
    "all_reduce -t 2 -g 2 -D 1 -b 4K -e 4K",
):
    add(line, right, line)


@test
def groups_of_a_split_world():
    right("all_reduce -g 4 -D 1 -b 1K -e 1K", {"NCCL_TESTS_SPLIT": "%2"})


@test
def beside_other_algorithms():
    """A communicator is made for each; the record names the kernel, and NCCL's choice is not its own."""
    result = gpus.run(f"all_reduce -g 2 --algo ring,device:1,device:2,auto -R 2 {SMALL} --json -").exits(0)
    rows = [(r["algorithm"], r["library_algorithm"]) for r in result.quiet().records() if r["kind"] == "result" and not r["in_place"]]
    equal([name for name, _ in rows], ["ring", "device:1", "device:2", "auto"], "algorithms")
    equal([chosen for name, chosen in rows if name.startswith("device")], [None, None], "NCCL's choice")


@test
def number_of_blocks():
    """-V blocks of 512 threads, 16 by default."""
    for flags, blocks in (("", 16), ("-V 3", 3)):
        result = gpus.run(f"all_reduce -g 1 -D 1 -R 2 {SMALL} {flags}", {"BUSBENCH_FAKE_DEVICE": "1"}).exits(0)
        expect(f"fake: device part for {blocks} barriers" in result.err, result.err)


@test
def wrong_byte_is_found():
    gpus.run(f"all_reduce -g 2 -D 2 -R 2 {SMALL} --fault corrupt:1").exits(7)


def refused(line, reason, env=None):
    """A skipped row with the reason, and exit status 5; nothing is left open."""
    result = gpus.run(f"{line} {SMALL}", env).exits(5)
    expect(reason in result.out, result.out)
    expect("not let go" not in result.err, result.err)


NO_SYMMETRY = {"NCCL_WIN_ENABLE": "0"}
for name, line, reason, env in (
    ("no multimem", "all_reduce -g 2 -D 3 -R 2", "Multicast support requested", None),
    ("over the network", "alltoall -g 2 -D 3 -R 2", "kernels 3 and 4 of it would send over the network (GIN)", None),
    ("over the network in part", "alltoall -g 2 -D 4 -R 2", "kernels 3 and 4 of it would send over the network", None),
    ("no direct access", "all_reduce -g 4 -D 1 -R 2", "access the memory of 2 of 4 ranks", {"BUSBENCH_FAKE_LSA": "2"}),
    ("no symmetric memory", "all_reduce -g 2 -D 1 -R 2", "does not support symmetric memory", NO_SYMMETRY),
    ("no windows", "all_reduce -g 2 --algo device:1", "need symmetric windows (-R 2)", None),
    ("old NCCL", "all_reduce -g 2 -D 1 -R 2", "from 2.28.7 on", {"BUSBENCH_FAKE_VERSION": "22805"}),
    ("old GPU", "all_reduce -g 2 -D 3 -R 2", "from compute capability 9.0 on", {"BUSBENCH_FAKE_CAPABILITY": "80"}),
    ("operation", "all_reduce -g 2 -D 1 -R 2 -o max", "only sum", None),
    ("datatype", "all_reduce -g 2 -D 2 -R 2 -d f8e4m3", "do not have this datatype", None),
    ("datatype of NVSwitch", "all_reduce -g 2 -D 4 -R 2 -d double", "sums float alone", None),
    ("collective", "all_gather -g 2 -D 1 -R 2", "no kernel of it on NCCL's device API", None),
):
    add(f"refused: {name}", refused, line, reason, env)


@test
def after_a_refusal():
    """The communicator is made anew, so that other algorithms run."""
    result = gpus.run(f"all_reduce -g 2 --algo device:3,ring,device:1 -R 2 {SMALL} --json -").exits(0).quiet()
    names = [r["algorithm"] for r in result.records() if r["kind"] == "result" and not r["in_place"]]
    equal(names, ["ring", "device:1"], "algorithms")


@test
def conflicts():
    gpus.run("all_reduce -g 2 -D 1").exits(2).says("-D 1", "-R 2")
    gpus.run("all_reduce -g 2 -D 2 -R 2 --algo ring").exits(2).says("-D 2", "--algo device:2")
    gpus.run("all_reduce -g 2 -D 2 -R 2 --proto LL").exits(2).says("-D 2", "--proto")
    gpus.run("all_reduce -g 2 --algo device:5 -R 2").exits(2).says("device:5")


@test
def failing_calls():
    for call in ("ncclDevCommCreate:2", "ncclDevCommDestroy:1"):
        result = gpus.run(f"all_reduce -g 2 -D 1 -R 2 {SMALL}", {"BUSBENCH_FAKE_FAIL": call})
        result.exits(3).says(call.split(":")[0] + " failed in src/backends/nccl/native.c")
        expect("device" not in result.err.split("fake: not let go")[-1] or "not let go" not in result.err, result.err)
