"""A baseline and its history: the mean of each metric over time."""

import datetime

from report import files, paper as ink
from report.page import chart
from report.page.figure import Figure
from report.page.tables import Table
from report.values import count, number, positive, short, text

MOST_PICTURES = 24
MOST_BASELINES = 101
LATEST = 4e9  # seconds since 1970: in 2096
BAR = "#aacde4"
CHANGES = ("version", "library", "os", "host", "topology")


def baselines_of(document):
    """(date, baseline) of those with a date, oldest first."""
    history = document.get("history", [])
    if not isinstance(history, list):
        raise files.BadFile("history is not a list")
    found = [(date_of(b), b) for b in [document, *history[:MOST_BASELINES]] if isinstance(b, dict)]
    return sorted(((when, b) for when, b in found if when is not None), key=lambda one: one[0])


def date_of(baseline):
    """Seconds since 1970, UTC; None without a valid date."""
    try:
        date = datetime.datetime.fromisoformat((text(baseline, "date", 40) or "").replace("Z", "+00:00"))
        when = date.timestamp() if date.tzinfo else None
    except (ValueError, OverflowError):
        return None
    return when if when and 0 < when < LATEST else None


def entries_of(baseline):
    entries = baseline.get("entries")
    return [e for e in entries[:10000] if isinstance(e, dict)] if isinstance(entries, list) else []


def changes_of(baselines):
    """Dates from which on the version, the system or the machine is another."""
    head = lambda b: [text(b, key) for key in CHANGES]
    return [when for (when, b), (_, before) in zip(baselines[1:], baselines) if head(b) != head(before)]


def lines_of(baselines):
    """[((step, subject, metric), [(date, entry)])] of the metrics of the newest baseline, most changed first."""
    lines = {}
    for when, baseline in baselines:
        for e in entries_of(baseline):
            if positive(e, "mean"):
                lines.setdefault((text(e, "step", 60), text(e, "subject", 160), text(e, "metric", 20)), []).append((when, e))
    newest = baselines[-1][0]
    found = [(key, line) for key, line in lines.items() if len(line) > 1 and line[-1][0] == newest]
    return sorted(found, key=lambda one: -spread_of(one[1]))


def spread_of(line):
    means = [e["mean"] for _, e in line]
    return max(means) / min(means)


def date_ticks(line):
    """Days, or within one day times."""
    form = "%Y-%m-%d" if line[-1][0] - line[0][0] > 86400 else "%H:%M"
    first = {}
    for when, _ in line:
        first.setdefault(datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime(form), when)
    return [(when, name) for name, when in first.items()]


def interval_of(entry):
    """(low, high), each a one-sided bound; None if the baseline has none."""
    low, high = positive(entry, "low"), positive(entry, "high")
    return (low, high) if low and high and low < high else None


def unit_of(entry):
    unit = text(entry, "unit", 16)
    return "µs" if unit == "us" else unit


def drawn(line, changes, unit):
    bars = [(when, interval_of(e)) for when, e in line]
    values = [e["mean"] for _, e in line] + [v for _, bar in bars if bar for v in bar]
    low, high = min(values), max(values)
    room = max(0.1 * (high - low), 0.05 * high)  # a small difference must not look large
    paper = chart.sheet(220)
    dates = [when for when, _ in line]
    ends = (max(low - room, 0), high + room, False)
    frame = chart.Frame(paper, (dates[0], dates[-1], False), ends, right=34)
    frame.axes(date_ticks(line), frame.y.plain(), "time of measurement, UTC", unit)
    for when in changes:
        if dates[0] < when <= dates[-1]:
            frame.line([(when, ends[0]), (when, ends[1])], chart.AXIS, 1, ":", above=1)
    for when, bar in bars:
        if bar:
            frame.line([(when, bar[0]), (when, bar[1])], BAR, 5, above=2)
    frame.line([(when, e["mean"]) for when, e in line], ink.BLUE, 1.2, marks=True)
    return paper


def rows(document):
    """(rows of figures, one for each result; notes)"""
    baselines = baselines_of(document)
    if len(baselines) < 2:
        return [], ["one baseline alone: a history begins with the next `acceptance baseline --into` this file"]
    found, changes, by_result = lines_of(baselines), changes_of(baselines), {}
    for (step, subject, metric), line in found[:MOST_PICTURES]:
        result = ": ".join(filter(None, (step, subject)))
        by_result.setdefault(result, []).append(figure(metric or "value", line, changes))
    more = len(found) - MOST_PICTURES
    notes = [f"pictures of the {MOST_PICTURES} that changed most; {more:,} others changed less"] if more > 0 else []
    return list(by_result.items()), notes


def figure(metric, line, changes):
    caption = f"Means of {count(len(line), 'baseline')}; bars: between the one-sided 95% bounds of the mean."
    if any(line[0][0] < when <= line[-1][0] for when in changes):
        caption += " Dotted: another version, library, system or host from here on."
    return Figure(f"{metric} over time", drawn(line, changes, unit_of(line[-1][1]) or metric), caption)


COLUMNS = ("date", "n", "host", "version", "backend", "library", "os", "topology")


def tables(document):
    found = [b for _, b in reversed(baselines_of(document))]
    return [Table("Baselines", COLUMNS, found)] if found else []


FACTS = ("profile", "n", "date", "host", "cpu", "os", "version", "backend", "library", "topology")


def facts(document):
    found = [(key, text(document, key, 200) or number(document, key)) for key in FACTS]
    return [(key, short(str(value), 200)) for key, value in found if value is not None]


def title_of(document):
    return " · ".join(filter(None, ("baseline", text(document, "profile", 60))))
