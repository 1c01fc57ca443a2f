"""The verdict of a report and the sentences that explain it."""

from report.page.read import MEASURED, end_of, program_of
from report.values import count, number, speed, text

PASSED, WARNED, FAILED = "passed", "warned", "failed"
WORST = (PASSED, WARNED, FAILED)


class Verdict:
    def __init__(self, state, word, sentences):
        self.state, self.word, self.sentences = state, word, [s for s in sentences if s]


def told(words):
    """A sentence of the run: with a capital and a full stop."""
    return words[:1].upper() + words[1:].rstrip(".") + "."


def data_sentence(run):
    """The outcome of the data check in the words of the run; before a run wrote them, its number of results."""
    end = end_of(run)
    results = number(end, "results")
    if results is None:
        n = sum(len(run.of(kind)) for kind in MEASURED)
        return f"The run did not end: its records stop after {count(n, 'result')}."
    return told(text(end, "data") or count(results, "result"))


def error_sentence(run):
    end = end_of(run)
    error = text(end, "error")
    if error:
        return told(error)
    if text(end, "verdict") == "interrupted":
        return "The run was interrupted; the results before that are shown."
    gate, mean = number(end, "min_busbw_GBps"), number(end, "avg_busbw_GBps")
    if text(end, "verdict") == "below the gate" and gate is not None and mean is not None:
        return f"The mean bus bandwidth is {speed(mean)}; the gate requires 90% of {speed(gate)}."
    return None


def sentences(run):
    """The answers of the run as its text has them; before them what went wrong, behind them the check of the data."""
    answers = [told(answer) for answer in run.answers()]
    data = data_sentence(run)
    wrong = number(end_of(run), "wrong")
    return [t for t in [error_sentence(run)] + ([data] + answers if wrong else answers + [data]) if t]


def verdict_of(run):
    end = end_of(run)
    if not end:
        return Verdict(WARNED, "not finished", sentences(run))
    word, status = text(end, "verdict", 60) or "no verdict", number(end, "exit_status")
    return Verdict(PASSED if status == 0 else FAILED, word, sentences(run))


def answer_of(run, verdict):
    """The first sentence, which is the run's own."""
    return verdict.sentences[0]


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
