"""Values outside an option's declaration: each is refused at once, in one sentence with the option, the value and the
valid range."""

import json

from kit import add, built, execute, expect

# Options of collectives are tested with one of them, those of all programs too.
PROGRAMS = ("all_reduce_perf barrier_perf p2p_bandwidth_perf p2p_latency_perf mem_bandwidth_perf ddp_bucket_perf pipeline_perf "
            "tensor_parallel_perf hybrid_parallel_perf moe_alltoall_perf quantised_all_reduce_perf zero_perf data_parallel_perf diagnose").split()  # fmt: skip
LONG_LIST = 33  # items, one more than a list may have

MALFORMED = {
    "INT": ("", "x", "1.5", "2x", "99999999999999999999"),
    "SIZE": ("", "M", "1X", "1MM", "-1", "1,024", "0x10", "1e6"),
    "COUNT": ("", "B", "1X", "-1", "0x10"),
    "DURATION": ("", "soon", "-1", "1parsec"),
    "PERCENT": ("", "tight", "0%", "200%", "-1%"),
    "NUMBER": ("", "x", "nan", "inf", "1x"),
    "FLOPS": ("", "fast", "-1T"),
    "LINK": ("", "fast", "0", "10", "9999999TB/s", "10GB/s,", "10GB/s,soon"),
    "RANK": ("", "first", "-2", "99999999999"),
}
ITEMS = {"SIZES": "SIZE", "NUMBERS": "NUMBER", "INTS": "INT"}
CHOICES = ("CHOICE", "DTYPE", "CHOICES", "SET")


def beyond(option):
    """Values next to the limits."""
    low, high = option.get("min"), option.get("max")
    if option["type"] == "DURATION":
        yield from ("0s",) if low else ()
        yield from (f"{high // 10**9 + 1}s",) if high else ()
    else:
        yield from (str(low - 1),) if low is not None else ()
        yield from (str(high + 1),) if high is not None and high < 1 << 60 else ()


def bad_values(option):
    kind = option["type"]
    if kind == "FLAG":
        yield "yes"
    elif kind in CHOICES:
        yield from ("", "no-such-word")
        yield from (f"{option['choices'][0]},", f"{option['choices'][0]},no-such-word") if kind in ("CHOICES", "SET") else ()
    elif kind in ITEMS:
        item = {**option, "type": ITEMS[kind]}
        good = str(option.get("min", 1))
        yield from (value for value in bad_values(item) if "," not in value)
        yield f"{good},,{good}"
        yield ",".join([good] * LONG_LIST)
    else:
        yield from MALFORMED.get(kind, ())
        yield from beyond(option)


def misspelt(option):
    """A choice with a doubled letter, and the choice."""
    if option["type"] in CHOICES:
        longest = max(option["choices"], key=len)
        if len(longest) >= 4:
            yield longest[:2] + longest[1:], longest


def refused(program, words, *said):
    result = execute([built(program), *words]).exits(2).says(*said)
    result.require(not result.out and result.err.count("\n") == 1, "more than a sentence")
    result.require(result.err.startswith(f"{program}: "), "the program is not named")


def each_is_refused(program, options):
    for option in options:
        flag = f"--{option['name']}"
        if option["type"] not in ("FLAG", "STRING"):
            refused(program, [flag], option["name"])
        for value in bad_values(option):
            refused(program, [f"{flag}={value}"], option["name"], value.split(",")[-1])
        for value, meant in misspelt(option):
            refused(program, [f"{flag}={value}"], flag, value, f"did you mean {meant}?")


def declarations():
    """{program: options that no program before it has in the same form}."""
    found, known = {}, []
    for program in PROGRAMS:
        options = json.loads(execute([built(program), "--help-schema"]).exits(0).out)["options"]
        found[program] = [option for option in options if option not in known]
        known += options
    expect(sum(map(len, found.values())) > 150, f"options of {found.keys()}")
    return found


for program, options in declarations().items():
    add(f"{program}: {len(options)} options", each_is_refused, program, options)
