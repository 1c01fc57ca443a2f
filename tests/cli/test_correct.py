"""Every collective gives the right result under every algorithm, and wrong results are found."""

from kit import COLLECTIVES, add, equal, listing, passes, run

RANKS = (1, 2, 3, 5, 7, 8)
HYPERCUBE_RANKS = (1, 2, 4, 8, 16)


def ranks_of(name):
    return HYPERCUBE_RANKS if name == "hypercube" else RANKS


def everything(name, n):
    """All algorithms, at sizes that the ranks do not divide, below n, and zero."""
    result = passes(f"{name} -g {n} --algo all -b 1 -e 100000 -f 7 -n 3")
    ran = {row.algorithm for row in result.rows()}
    wanted = set(listing()[0][name])
    skipped = {line.split()[2].rstrip(":") for line in result.out.splitlines() if line.startswith("# skipped")}
    equal(wanted - skipped, ran, "algorithms that ran")
    result.require(ran >= wanted & {"ring", "tree", "auto"}, "ring, tree or auto did not run")


def every_type(name, n, algorithms):
    """All datatypes and operations against the known result."""
    passes(f"{name} -g {n} --algo {algorithms} -d all -o all -r all -b 1000 -e 1000 -n 1 -w 0")


def corrupt(name, rank):
    """One wrong byte is found under every algorithm."""
    result = run(f"{name} -g 4 -b 4K -e 4K --algo all --fault corrupt:{rank}").exits(7)
    equal({row.algorithm for row in result.rows()}, set(listing()[0][name]), "algorithms that ran")
    for row in result.rows():
        wrong = sum(float(half.wrong) for half in row.halves)
        result.require(wrong > 0, f"{row.algorithm}: the wrong byte of rank {rank} went unseen")


# Elements are reduced and moved by the same code under all algorithms.
for name in COLLECTIVES:
    algorithms = listing()[0][name]
    for n in ranks_of(name):
        add(f"{name} -g {n} --algo all", everything, name, n, full=n not in (3, 8))
    for n in (4,) if name == "hypercube" else (3, 4):
        add(f"{name} -g {n} --algo all -d all -o all", every_type, name, n, "all", full=True)
    one = "ring" if "ring" in algorithms else algorithms[0]
    add(f"{name} -g 4 --algo {one} -d all -o all", every_type, name, 4, one)
    if "direct" in algorithms:
        add(f"{name} -g 3 --algo direct -d all -o all", every_type, name, 3 + (name == "hypercube"), "direct")
    for rank in (0, 3):
        add(f"corrupt {name} {rank}", corrupt, name, rank, full=rank == 0)
    for n in (16, 17, 32, 33):
        if name != "hypercube" or n in (16, 32):
            add(f"{name} -g {n} --algo all", everything, name, n, full=True)

add("unaligned", passes, "all_reduce -g 3 --algo ring,direct -u 5 -d all -b 1000 -e 1000 -n 2")
add("large enough for chunks", passes, "all_reduce -g 3 --algo all -b 1500001 -e 6000001 -f 2 -n 2 -d int8")
add("64 ranks", passes, "all_reduce -g 64 --algo all -b 1 -e 64K -f 32 -n 2", full=True)
