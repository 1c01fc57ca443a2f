"""Pictures of several runs: time and bandwidth of a collective against ranks."""

import re
import statistics

from report import paper as ink
from report.page import chart
from report.page.collectives import MOST_ALGORITHMS, groups_of
from report.page.figure import Figure
from report.page.read import end_of, nranks_of, program_of
from report.values import count, number, positive, size, text

MOST_FAMILIES = 4
# Fields of the run record: runs that differ in one are separate lines. The heading always has these, ...
TOLD = (
    ("backend", "backend {}"),
    ("link", "link {}"),
    ("cluster", "cluster {}"),
    ("calibrate", "calibrated by {}"),
    ("link_noise", "noise {}"),
    ("fault", "fault {}"),
    ("split", "split {}"),
)
# ... and these only if they differ.
TOLD_IF_THEY_DIFFER = (
    ("version", "busbench {}"),
    ("library", "library {}"),
    ("launch", "launched by {}"),
    ("cache", "--cache {}"),
    ("average", "-a {}"),
    ("agg_iters", "-m {}"),
    ("blocking", "-z {}"),
    ("graph", "-G {}"),
    ("unalign", "-u {}"),
    ("per_iter_timing", "-I {}"),
    ("cold", "warmed up: {}"),
    ("cpu", "{}"),
    ("topology", "machine {}"),
)
OF_A_MACHINE = ("cpu", "topology", "cold")  # meaningless in virtual time


def setting(run, key):
    """The setting as text; None if the run record lacks it."""
    head = run.head
    if head.get("virtual_time") is True and key in OF_A_MACHINE:
        return None
    if key == "cluster":  # without the number of nodes, which grows with the ranks
        return re.sub(r":\d+$", "", text(head, key, 80) or "") or None
    if key == "cold":
        return "no" if number(head, "warmup_iters") == 0 else "yes"
    if key == "per_iter_timing":
        return str(int(head.get(key) is True))
    value = number(head, key)
    return text(head, key, 80) or (f"{value:g}" if value is not None else None)


def hosts_of(run):
    """Hosts of a measurement; none in virtual time."""
    ranks = run.head.get("ranks")
    if run.head.get("virtual_time") is True or not isinstance(ranks, list):
        return frozenset()
    return frozenset(text(r, "host", 80) or "" for r in ranks if isinstance(r, dict))


def unfit(run):
    """Why its times cannot be drawn; None if they can."""
    end = end_of(run)
    if not end:
        return "did not end"
    if number(end, "wrong") or any(number(r, "wrong") for r in run.of("result")):
        return "wrong data"
    if number(end, "exit_status") not in (0, 7):  # 7 with right data: below a gate, but measured
        return text(end, "verdict", 40) or "failed"
    return None


class Family:
    """Runs that differ only in their ranks and in the machines that these need."""

    def __init__(self, program, name, settings):
        self.program, self.name, self.settings, self.members = program, name, settings, []

    def accepts(self, run):
        """True if of each two runs one has all machines of the other, and at least as many ranks on each: one rank
        on each of 8 machines does not belong with 8 ranks on one."""
        mine, ranks = hosts_of(run), nranks_of(run)
        for other, _ in self.members:
            small, large = sorted(((mine, ranks), (hosts_of(other), nranks_of(other))), key=lambda one: len(one[0]))
            if not small[0] <= large[0]:
                return False
            if small[0] and small[0] != large[0] and small[1] / len(small[0]) > large[1] / len(large[0]):
                return False
        return True

    def by_ranks(self):
        """{ranks: its groups}, ascending."""
        found = {}
        for run, group in sorted(self.members, key=lambda one: nranks_of(one[0])):
            if not unfit(run):
                found.setdefault(nranks_of(run), []).append(group)
        return found

    def left_out(self):
        return [f"run {run.number} ({unfit(run)})" for run, _ in self.members if unfit(run)]

    def told(self):
        return [self.name, *(form.format(self.settings[key]) for key, form in TOLD if self.settings[key] is not None)]

    def where(self, alike):
        """The heading. ALIKE: families with the same heading, from which other settings must tell this one."""
        told = self.told()
        for key, form in TOLD_IF_THEY_DIFFER:
            if self.settings[key] is not None and len({other.settings[key] for other in alike}) > 1:
                told.append(form.format(self.settings[key]))
        hosts = sorted(frozenset().union(*(hosts_of(run) for run, _ in self.members)))
        if hosts:
            told.append("on " + ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""))
        return ", ".join(told)


def families(runs):
    """The families with several numbers of ranks."""
    found = {}
    for run in sorted(runs, key=lambda run: -len(hosts_of(run))):
        if not positive(run.head, "nranks"):
            continue
        settings = {key: setting(run, key) for key, _ in TOLD + TOLD_IF_THEY_DIFFER}
        for group in groups_of(run):
            alike = found.setdefault((program_of(run), group.name(), tuple(settings.values())), [])
            family = next((family for family in alike if family.accepts(run)), None)
            if not family:
                family = Family(program_of(run), group.name(), settings)
                alike.append(family)
            family.members.append((run, group))
    several = [family for alike in found.values() for family in alike]
    several = [family for family in several if len({nranks_of(run) for run, _ in family.members}) > 1]
    return sorted(several, key=lambda family: min(run.number for run, _ in family.members))


def sizes_of(groups):
    """The sizes that the most numbers of ranks have in common."""
    having = {}
    for several in groups.values():
        for bytes_ in {s for group in several for s in group.sizes()}:
            having[bytes_] = having.get(bytes_, 0) + 1
    most = max(having.values(), default=0)
    return sorted(s for s, n in having.items() if n == most) if most > 1 else []


def lines_of(groups, bytes_, key):
    """{algorithm: {ranks: values}} at one size, most points first."""
    found = {}
    for ranks, several in groups.items():
        for group in several:
            for a, rows in group.rows.items():
                value = positive(rows.get(bytes_, {}), key)
                if value:
                    found.setdefault(a, {}).setdefault(ranks, []).append(value)
    return dict(sorted(found.items(), key=lambda one: -len(one[1]))[:MOST_ALGORITHMS])


def against_ranks(lines, y_name, y_ticks, log):
    """Lines through the median of each number of ranks; each value is a dot. LOG: how values are drawn."""
    points = {a: [(n, v) for n, values in line.items() for v in values] for a, line in lines.items()}
    ranks = [n for several in points.values() for n, _ in several]
    values = [v for several in points.values() for _, v in several]
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(ranks), max(ranks), True),
        (*(chart.ends_of(values) if log else chart.from_zero(values)), log),
        right=chart.room_for(lines) + 10,
    )
    frame.axes(chart.rank_ticks(frame.x), y_ticks(frame.y), "ranks", y_name)
    names = []
    for (a, line), color in zip(lines.items(), ink.SERIES):
        middle = [(n, statistics.median(values)) for n, values in line.items()]
        frame.line(middle, color)
        paper.marks(frame.points(points[a]), ink.PAPER, color, "o", 5.5, 0.7)
        names.append((*middle[-1], a, color, True))
    frame.names(names)
    return paper


def caption(family, groups, lines):
    told = ["Virtual time." if family.members[0][0].head.get("virtual_time") is True else "Measured."]
    several = {n: values for line in lines.values() for n, values in line.items() if len(values) > 1}
    if several:
        ranks = ", ".join(f"{n:g}" for n in sorted(several)[:6]) + (" …" if len(several) > 6 else "")
        told.append(f"Several runs of {ranks} ranks: each is a dot, the line goes through their median.")
    lacking = sorted(set(groups) - {n for line in lines.values() for n in line})
    if lacking:
        told.append(f"Runs of {', '.join(f'{n:g}' for n in lacking[:6])} ranks do not have this size.")
    every = {a for several in groups.values() for group in several for a in group.rows}
    if len(every) > len(lines):
        told.append(f"Algorithms without a line: {len(every) - len(lines)}.")
    return " ".join(told)


def figures_of(family):
    groups = family.by_ranks()
    sizes = sizes_of(groups)
    wanted = [(s, "time_us", "Time", "time of one operation at {}", chart.duration_ticks) for s in sizes[:1]]
    if len(sizes) > 1:
        wanted.append((sizes[-1], *wanted[0][1:]))
    wanted += [(s, "busbw_GBps", "Bus bandwidth", "bus bandwidth at {}, GB/s", chart.number_ticks) for s in sizes[-1:]]
    drawn = []
    for bytes_, key, title, y_name, y_ticks in wanted:
        lines = lines_of(groups, bytes_, key)
        if len({n for line in lines.values() for n in line}) > 1:
            name, told = y_name.format(size(bytes_)), caption(family, groups, lines)
            log = against_ranks(lines, name, y_ticks, True)
            paper, log = (log, None) if key == "time_us" else (against_ranks(lines, name, y_ticks, False), log)
            drawn.append(Figure(f"{title} against ranks, {size(bytes_)}", paper, told, logarithmic=log))
    return drawn


def figures(runs):
    """(heading, figures) of each family, and notes."""
    rows, notes, found = [], [], families(runs)
    for family in found:
        where, drawn = family.where([other for other in found if other.told() == family.told()]), figures_of(family)
        if drawn:
            rows.append((where, drawn))
        if family.left_out():
            notes.append(f"{where}: without {', '.join(family.left_out())}.")
    if len(rows) > MOST_FAMILIES:
        notes.append(f"Pictures of the first {MOST_FAMILIES} of {count(len(rows), 'such set')} of runs.")
    return rows[:MOST_FAMILIES], notes
