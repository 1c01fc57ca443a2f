"""Mutants that no draw makes the like of, because their absence is a race or a replay, and drawn ones that change nothing."""

import glob
import os
import re

import draw

# (what is lost, function, pattern in it, new text)
LISTED = [
    ("no clock begins while another rank warms up", "warm_up", r"status = ranks_line_up\(\w+\);", ";"),
    ("clocks begin together", "ranks_line_up", r"status == BB_OK \? [^:]*barrier[^:]*: ", ""),
    ("no rank verifies what another still writes", "check", r"BB_TRY\([^;]*barrier[^;]*;(?=\s*BB_TRY\([^;]*corrupt)", ";"),
    ("the host backend's barrier holds ranks", "host_barrier", r"return bb_host_wait[^;]*;", "return BB_OK;"),
    ("the deadline ends a run", "check_deadline", r"w->now > deadline\b", "w->now < 0"),
    ("a challenge is random", "bb_greet_send", r"getrandom\([^;]*?\) == sizeof\(mine->challenge\)", "true"),
]

# (function, OLD => NEW of the changed lines, reason), each a regular expression
KNOWN = [
    (r".*", r"\? -\(1 \+ 1\) : 1;|\? -1 : \(1 \+ 1\);", "of a comparison for sorting, the sign alone counts"),
    (r"judge_link_rail", r"there = i % 2 [!=]= 0;", "both directions are judged, in either order"),
    (r"encode_small", r"ilogb\(magnitude\) : \(0 [+-] 1\);", "the next line is about zero, whatever its exponent"),
    (r"size_of", r"kv_lora > 0 \? h->rope : 0; => .*kv_lora >= 0", "a model without kv_lora has no rope either"),
    (r".*signature|.*digest", r"mix\((\S+), (.*)\).* => .*mix\(\2, \1\)", "any mixture of the same numbers tells machines apart"),
    (r".*", r"bb_bytes_times\((\w+), (\w+)\).* => .*bb_bytes_times\(\2, \1\)", "a product may be turned round"),
]


def listed():
    found = []
    for what, function, pattern, new in LISTED:
        for path in sorted(glob.glob(os.path.join(draw.ROOT, "src", "**", "*.c"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                if not re.search(rf"\b{function}\(", file.read()):
                    continue
            source = draw.Source(os.path.relpath(path, draw.ROOT), draw.Siblings([]))
            for name, first, last in source.bodies():
                span = source.tokens[first].start, source.tokens[last].start
                place = re.compile(pattern).search(source.text, *span) if name == function else None
                if place:
                    found.append(draw.Mutant(source, function, *place.span(), new))
    if len(found) != len(LISTED):
        raise LookupError(f"{[m.function for m in found]} have {len(found)} of {len(LISTED)} places: {[w for w, *_ in LISTED]}")
    return found


def reason(mutant):
    """Why MUTANT changes nothing, or None."""
    known = (why for function, line, why in KNOWN if re.fullmatch(function, mutant.function) and re.search(line, mutant.says()))
    return next(known, None)
