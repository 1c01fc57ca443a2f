"""The verdict of a report and the sentences that explain it."""

from report.page import collectives
from report.page.read import MEASURED, end_of, program_of
from report.values import count, duration, memory, number, percent, positive, short, size, speed, text

PASSED, WARNED, FAILED = "passed", "warned", "failed"
WORST = (PASSED, WARNED, FAILED)
MOST_SENTENCES = 3


class Verdict:
    def __init__(self, state, word, sentences):
        self.state, self.word, self.sentences = state, word, [s for s in sentences if s][:MOST_SENTENCES]


def data_sentence(run):
    """The result of the data check."""
    end = end_of(run)
    results, wrong, skipped = (number(end, key) for key in ("results", "wrong", "skipped"))
    if results is None:
        n = sum(len(run.of(kind)) for kind in MEASURED)
        return f"The run did not end: its records stop after {count(n, 'result')}."
    explained = run.of("schedule")
    if explained:
        return f"{count(len(explained), 'algorithm')} explained; nothing was run."
    checked = any(number(r, "wrong") is not None for kind in MEASURED for r in run.of(kind))
    if wrong:
        told = f"{wrong:,} of {count(results, 'result')} {'has' if wrong == 1 else 'have'} wrong data"
    elif run.head.get("virtual_time") is True:
        asked = [(key, text(run.head, key, 80)) for key in ("cluster", "link")]
        given = " ".join(f"--{key} {value}" for key, value in asked if value)
        told = f"{count(results, 'result')} in virtual time, computed" + (f" from {given}" if given else "")
    elif not checked:
        told = f"{count(results, 'result')}; data was not checked"
    else:
        told = f"No wrong data in {count(results, 'result')}"
    fault = text(run.head, "fault", 80)
    if fault:
        told += f", with --fault {fault}"
    if skipped:
        told += f"; {count(skipped, 'case')} {'was' if skipped == 1 else 'were'} skipped"
    return told + "."


def error_sentence(run):
    end = end_of(run)
    error = text(end, "error")
    if error:
        return error[0].upper() + error[1:].rstrip(".") + "."
    if text(end, "verdict") == "interrupted":
        return "The run was interrupted; the results before that are shown."
    gate, mean = number(end, "min_busbw_GBps"), number(end, "avg_busbw_GBps")
    if text(end, "verdict") == "below the gate" and gate is not None and mean is not None:
        return f"The mean bus bandwidth is {speed(mean)}; the gate requires 90% of {speed(gate)}."
    return None


def pair_sentences(run):
    found = [text(r, "text") for r in run.of("finding", "culprit")]
    found = [t[0].upper() + t[1:].rstrip(".") + "." for t in found if t]
    nodes = run.of("node")
    healthy = sum(text(r, "verdict") == "OK" for r in nodes)
    if found and nodes:
        culprits = count(len(found), "culprit")
        return [found[0], f"{culprits}; nothing stands out on {healthy:,} of {count(len(nodes), 'node')}."]
    if found:
        return found[:2]
    if nodes:
        return [f"No node, rail or link stands out among {count(len(nodes), 'node')}."]
    pairs = [r for r in run.of("pair") if r.get("from") != r.get("to") and positive(r, "GBps")]
    if not pairs:
        return ["Nothing looks wrong."] if run.of("pair") else []
    slow, fast = (choose(pairs, key=lambda r: r["GBps"]) for choose in (min, max))
    said = lambda r: f"{speed(r['GBps'])} ({pair_name(r)})"
    return [
        "No pair, rank or link looks wrong.",
        f"The slowest pair reaches {said(slow)}, the fastest {said(fast)}.",
    ]


def pair_name(r):
    if number(r, "from") is not None and number(r, "to") is not None:
        name = f"{r['from']:g} → {r['to']:g}"
    else:
        name = text(r, "place", 40) or "memory"
    return ", ".join(part for part in (name, text(r, "route", 40), text(r, "direction", 40)) if part)


def training_sentences(run):
    told = []
    for r in run.of("data_parallel"):
        if r.get("best") == 1 and positive(r, "step_us"):
            cap = positive(r, "cap_bytes")
            buckets = (
                f"buckets of {size(cap)}"
                if cap
                else {"one": "one bucket", "tensor": "a bucket for each tensor"}.get(
                    text(r, "grouping"), "some buckets"
                )
            )
            told.append(
                f"With overlap {text(r, 'overlap', 8)}, the step is shortest with {buckets} "
                f"({text(r, 'algorithm', 40)}): {duration(r['step_us'])}."
            )
    plans = [r for r in run.of("pipeline") if positive(r, "p50_us") or positive(r, "predicted_us")]
    if plans:
        key = "p50_us" if any(positive(r, "p50_us") for r in plans) else "predicted_us"
        best = min((r for r in plans if positive(r, key)), key=lambda r: r[key])
        bubble = number(best, "bubble_over_total" if key == "p50_us" else "predicted_bubble_over_total")
        told.append(
            f"Schedule {text(best, 'schedule', 40)} has the shortest step, {duration(best[key])}"
            + (f", with a bubble of {percent(100 * bubble)}." if bubble is not None else ".")
        )
    for r in sorted((r for r in run.of("hybrid_plan") if number(r, "place") == 1), key=str)[:1]:
        told.append(
            f"The fastest division that fits is tp {r.get('tp')}, pp {r.get('pp')}, dp {r.get('dp')}: "
            f"{duration(positive(r, 'step_us'))} per step; {text(r, 'reason', 160) or 'no reason is given'}."
        )
    for kind, key, name in (("way", "step_us", "way"), ("tensor_parallel", "step_us", "way")):
        rows = [r for r in run.of(kind) if positive(r, key) and r.get("part", "layer") == "layer"]
        if len(rows) > 1:
            best = min(rows, key=lambda r: r[key])
            told.append(f"Strategy {text(best, name, 40)} has the shortest step: {duration(best[key])}.")
    for r in run.of("hybrid"):
        if text(r, "part") == "step" and positive(r, "time_us"):
            planned = positive(r, "plan_us")
            told.append(
                f"A step takes {duration(r['time_us'])}"
                + (f"; the formula of --plan gives {duration(planned)}." if planned else ".")
            )
    loads = [r for r in run.of("experts") if positive(r, "layer_us")]
    if loads:
        told.append("A layer of experts takes " + ", ".join(
            f"{duration(r['layer_us'])} at skew {number(r, 'skew') or 0:g}" for r in (loads[:1] + loads[1:][-1:])) + ".")
    for r in run.of("barrier")[:1]:
        if positive(r, "p50_us"):
            told.append(f"The backend's barrier takes {duration(r['p50_us'])} (median).")
    for r in run.of("zero")[-1:]:
        if positive(r, "held_bytes"):
            told.append(f"ZeRO stage {r.get('stage')} holds up to {memory(r['held_bytes'])} on a rank.")
    return [short(t, 300) for t in told]


def schedule_sentences(run):
    """Of several algorithms those with the fewest rounds, and with the fewest elements sent."""
    told = []
    for key, what in (("rounds", "rounds"), ("elements", "elements sent")):
        known = [r for r in run.of("schedule") if positive(r, key)]
        least = min((r[key] for r in known), default=0)
        names = [text(r, "algorithm", 40) or "?" for r in known if r[key] == least]
        if len(names) < len(known):
            told.append(f"Fewest {what}: {', '.join(names)} ({least:,}).")
    return told


def sentences(run):
    told = [error_sentence(run), data_sentence(run)]
    told += schedule_sentences(run)
    return [t for t in told + pair_sentences(run) + collectives.sentences(run) + training_sentences(run) if t]


def verdict_of(run):
    end = end_of(run)
    if not end:
        return Verdict(WARNED, "not finished", sentences(run))
    word, status = text(end, "verdict", 60) or "no verdict", number(end, "exit_status")
    return Verdict(PASSED if status == 0 else FAILED, word, sentences(run))


def answer_of(run, verdict):
    """The sentence that says the most: about wrong data, else the first about the numbers."""
    data = data_sentence(run)
    others = [s for s in verdict.sentences if s != data]
    return data if number(end_of(run), "wrong") or not others else others[0]


def failures(runs, verdicts):
    """A sentence for each run that did not pass."""
    return [
        f"{program_of(run)}, run {run.number}: {v.word}. {answer_of(run, v)}"
        for run, v in zip(runs, verdicts)
        if v.state != PASSED
    ]


def judge(runs, documents):
    """The verdict of the whole report. DOCUMENTS: verdicts of other programs, which come first."""
    verdicts = [verdict_of(run) for run in runs]
    every = documents + verdicts
    if not every:
        return None
    worst = max(every, key=lambda v: WORST.index(v.state))
    if len(every) == 1:
        return worst
    if documents:
        first = max(documents, key=lambda v: WORST.index(v.state))
        told = [f"{sum(v.state == PASSED for v in documents)} of {len(documents)} acceptance runs passed."]
        told = told * (len(documents) > 1) + first.sentences
        if first.state != worst.state:
            # The worst first, then the verdict of acceptance itself.
            told = failures(runs, verdicts) + [f"Acceptance: {first.word}."] + told
        return Verdict(worst.state, worst.word, told)
    passed = sum(v.state == PASSED for v in verdicts)
    told = [f"{passed} of {count(len(runs), 'run')} passed."]
    told += failures(runs, verdicts)
    return Verdict(worst.state, worst.word if worst.state != PASSED else "passed", told)
