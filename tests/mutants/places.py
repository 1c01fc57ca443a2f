"""Mutants that no draw makes the like of, because their absence is a race or a replay, and drawn ones that change nothing."""

import glob
import os
import re

import draw

# (what is lost, function, pattern in it, new text)
LISTED = [
    ("no clock begins while another rank warms up", "prepare", r"status = ranks_line_up\(\w+\);", ";"),
    ("clocks begin together", "ranks_line_up", r"status == BB_OK \? [^:]*barrier[^:]*: ", ""),
    ("no rank verifies what another still writes", "check", r"BB_TRY\([^;]*barrier[^;]*;(?=\s*BB_TRY\([^;]*corrupt)", ";"),
    ("the host backend's barrier holds ranks", "host_barrier", r"return bb_host_wait[^;]*;", "return BB_OK;"),
    ("the deadline ends a run", "check_deadline", r"w->now > deadline\b", "w->now < 0"),
    ("a challenge is random", "bb_greet_send", r"getrandom\([^;]*?\) == sizeof\(mine->challenge\)", "true"),
]

# (function, OLD => NEW of the changed lines, reason), each a regular expression
KNOWN = [
    (r".*", r"\? -\(1 \+ 1\) : 1;|\? -1 : \(1 \+ 1\);", "of a comparison for sorting, the sign alone counts"),
    (r"encode_small", r"ilogb\(magnitude\) : \(0 [+-] 1\);", "the next line is about zero, whatever its exponent"),
    (r"size_of", r"kv_lora > 0 \? h->rope : 0; => .*kv_lora >= 0", "a model without kv_lora has no rope either"),
    (r".*signature|.*digest", r"mix\((\S+), (.*)\).* => .*mix\(\2, \1\)", "any mixture of the same numbers tells machines apart"),
    (r"judge_node|judge_pair|is_known", r"tally_of\(.*-1, .* => .*-\(1 \+ 1\), |^-1, .* => -\(1 \+ 1\), ",
     "any peer below 0 stands for all partners"),
    (r"binary_round", r"\(self - 1\) % 2 .* => .*\(self \+ 1\) % 2", "one more and one less are both odd or both even"),
    (r".*_(close|release|free)", r"(fd|epoll) >= 0.* => .*(fd|epoll) (> 0|>= \(0 \+ 1\))", "no descriptor of ours is 0"),
    (r"bb_layer_of_model", r"kv_lora > 0 \? (.*) => .*kv_lora (>= 0|> 0 \|\| 1) \? ", "a model without kv_lora has no latent parts"),
    (r".*", r"if \(!new\) => if \(0\)|if \(new\) => if \(1\)|failed \|= !new; => (;|.*failed &= !new;)$",
     "NEW is NULL without memory alone"),
    (r"bb_topology_finish|bb_hybrid_plan_make", r"if \(.*n(links)? > 0\) => if \(.*n(links)? > \(0 \+ 1\)\)", "one item is sorted"),
    (r"bb_star_resolve", r" : \(0 \+ 1\)", "the flag of a listener changes no name's addresses"),
    (r"on_start", r"strlen\(name\) \+ 1; => .*\(1 \+ 1\)", "an element may have a byte to spare"),
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
