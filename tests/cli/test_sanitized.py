"""Collectives under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer (make check-full): a
fixed sample in which each pair of algorithm, datatype, operation, number of ranks, size and kind of call of each
collective occurs, in both placements; then the whole product. Where elements are only moved, one datatype per size;
under ThreadSanitizer few stand for all."""

import itertools

from kit import COLLECTIVES, SANITIZERS, Settings, add, expect, listing, passes, run

RANKS = (1, 2, 3, 4, 7, 8)
HYPERCUBE_RANKS = (1, 2, 4, 8)
SIZES = (4, 100, 4000)
OPTIONS = ("", "--cache rewrite -u 3", "--cache reuse -m 2 -z 1", "-t 2 -z 3")


def clean(variant, *lines):
    for line in lines:
        passes(line, env=SANITIZERS[variant], variant=variant)


class Lot:
    """A random choice that is the same every time."""

    def __init__(self):
        self.state = 12345

    def draw(self, values, count):
        """COUNT different VALUES, or all if there are fewer."""
        left, drawn = list(values), []
        while left and len(drawn) < count:
            self.state = (self.state * 1103515245 + 12345) % (1 << 31)
            drawn.append(left.pop((self.state >> 8) % len(left)))
        return tuple(drawn)


def draw(lot, algorithms, types, ranks):
    """One command: three algorithms, datatypes and operations in all combinations."""
    dtypes = sorted({dtype for op in types for dtype in types[op]})
    while True:
        d, o = lot.draw(dtypes, 3), lot.draw(types, 3)
        if any(dtype in types[op] for op in o for dtype in d):
            break
    (n,), (size,), (options,) = lot.draw(ranks, 1), lot.draw(SIZES, 1), lot.draw(OPTIONS, 1)
    return lot.draw(algorithms, 3), d, o, n, size, options


def pairs_of(command, types):
    algorithms, dtypes, ops, *rest = command
    pairs = set()
    for row in itertools.product(algorithms, dtypes, ops, *([value] for value in rest)):
        if row[1] in types[row[2]]:
            pairs |= {(i, row[i], k, row[k]) for i in range(len(row)) for k in range(i)}
    return pairs


def all_pairs(algorithms, types, ranks):
    dtypes = {dtype for op in types for dtype in types[op]}
    pairs = set()
    for n, size, options in itertools.product(ranks, SIZES, OPTIONS):
        pairs |= pairs_of((algorithms, dtypes, types, n, size, options), types)
    return pairs


def sample(algorithms, types, ranks):
    """Commands that together have every pair of values; each is the best of a few draws."""
    lot, chosen, wanted = Lot(), [], all_pairs(algorithms, types, ranks)
    while wanted:
        candidates = [draw(lot, algorithms, types, ranks) for _ in range(30)]
        best = max(candidates, key=lambda c: len(pairs_of(c, types) & wanted))
        gain = pairs_of(best, types) & wanted
        if gain:
            chosen.append(best)
            wanted -= gain
    return chosen


def line_of(name, command):
    algorithms, dtypes, ops, n, size, options = command
    ranks = f"-g {n // 2}" if "-t 2" in options and n % 2 == 0 else f"-g {n}"
    options = options if "-t 2" not in options or n % 2 == 0 else options.replace("-t 2", "")
    lists = f"--algo {','.join(algorithms)} -d {','.join(dtypes)} -o {','.join(ops)}"
    return f"{name} {lists} {ranks} {options} -b {size} -e {size} -n 2"


def scope(name, variant, types):
    """{op: [datatype…]} and the numbers of ranks of a collective under a sanitizer."""
    reduces = name in ("all_reduce", "reduce_scatter", "reduce")
    ranks = HYPERCUBE_RANKS if name == "hypercube" else RANKS
    if variant == "thread":
        some = {op: ["float", "int8"] for op in (("sum", "mulsum") if reduces else ("sum",))}
        return some, [n for n in ranks if n in (2, 3, 4, 7)]
    return types if reduces else {"sum": ["int8", "half", "float", "float_int"]}, ranks


def add_sample():
    algorithms, types = listing()
    for name, variant in itertools.product(COLLECTIVES, Settings.variants):
        lines = [line_of(name, command) for command in sample(algorithms[name], *scope(name, variant, types))]
        add(f"{name}, {len(lines)} commands ({variant})", clean, variant, *lines)


def add_product():
    algorithms, types = listing()
    for name, variant in itertools.product(COLLECTIVES, Settings.variants):
        some, ranks = scope(name, variant, types)
        dtypes = ",".join(dict.fromkeys(dtype for op in some for dtype in some[op]))
        for n, algorithm in itertools.product(ranks, algorithms[name]):
            line = f"{name} --algo {algorithm} -d {dtypes} -o {','.join(some)} -r all -g {n} -b 4 -e 4000 -f 1000 -n 1"
            add(f"{name} --algo {algorithm} -g {n} ({variant})", clean, variant, line)


add_sample()
add_product()

# Not in the sample: failures and the machinery around collectives.
for variant in Settings.variants:
    for line, code in [
        ("all_reduce -g 4 -b 4K -e 4K --fault corrupt:1", 7),
        ("all_reduce -g 4 -b 4K -e 4K -n 3 --fault slow:1:1ms", 0),
        ("all_reduce -g 4 -b 8 -e 8 --algo ring --link 1GB/s,10us", 0),
        ("all_reduce -g 2 -b 8 -e 64 --csv - -I 1 -S 1 -M 1", 0),
        ("all_reduce -g 2 -b 8 -e 64 --json - --precision 20%", 0),
        ("all_reduce -g 2 -b 1M -e 4M --algo all -n 1", 0),
        ("all_reduce -g 2 -b 8 -e 8 --csv /no/such/file", 2),
        ("all_reduce -g 2 -b 8 -e 64 --csv /dev/full", 1),
        ("all_reduce --explain -g 5 --algo tree", 0),
        ("all_reduce --list", 0),
        ("all_reduce --help", 0),
        ("all_reduce --itres 3", 2),
        ("hypercube -g 6 -b 1K -e 1K", 5),
        ("p2p_bandwidth -g 3 -b 100 -e 300K -f 50 -n 7", 0),
        ("p2p_bandwidth -g 4 -b 4K -e 4K -n 7 --link 1GB/s --fault slow:1:1ms", 0),
        ("p2p_bandwidth -g 3 -b 4K -e 4K -n 3 --csv - --fault corrupt:1", 7),
        ("p2p_bandwidth -g 3 -b 8 -e 8 --fault die:1", 3),
        ("p2p_latency -g 3 -n 20 --json - --precision 20% --max-time 1s", 0),
        ("zero -g 3 --model linear:3x9 --accumulate 2 -n 2 --json -", 0),
        ("zero -g 2 --model 1001 -d bfloat16 --algo direct -n 2 -w 0 --fault corrupt:1", 7),
        ("zero -g 2 --model 99 --fault die:1", 3),
        ("zero -g 3 --model 1001 --backend sim --link 1GB/s -n 2", 0),
        ("zero --as-rank 1 --world 3 --model 10K", 0),
    ]:

        def ends(line=line, code=code, variant=variant):
            # MPI's tool interface leaks some memory.
            leaks = {"LSAN_OPTIONS": "detect_leaks=0"} if "--list" in line else {}
            result = run(line, env={**SANITIZERS[variant], **leaks}, variant=variant).exits(code)
            expect("Sanitizer" not in result.err and "runtime error" not in result.err, f"not clean\n{result}")

        add(f"{line} ({variant})", ends)


def split(variant):
    run("all_reduce -g 6 --algo all -b 4 -e 4000 -f 10 -n 2", variant=variant,
        env={**SANITIZERS[variant], "NCCL_TESTS_SPLIT": "MOD 2"}).exits(0)  # fmt: skip


for variant in Settings.variants:
    add(f"split ({variant})", split, variant)
