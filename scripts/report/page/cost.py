"""Pictures of several simulated runs: the cost of the simulator itself against ranks."""

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.page.read import program_of
from report.values import positive, size, text

MOST_LINES = 8


def collected(runs):
    """{(program, collective, size): {algorithm: {ranks: (µs, evaluator)}}} of the shortest evaluation."""
    found = {}
    for run in runs:
        for r in run.of("cost"):
            ranks, bytes_ = positive(r, "nranks"), positive(r, "size_bytes")
            seconds = positive(r, "processor_s")
            if not (ranks and bytes_ and seconds):
                continue
            lines = found.setdefault((program_of(run), text(r, "collective", 40), bytes_), {})
            line = lines.setdefault(text(r, "algorithm_asked", 40) or "unnamed", {})
            cost = seconds * 1e6, text(r, "evaluator", 20) or "unknown"
            line[ranks] = min(line.get(ranks, cost), cost)
    return found


def best_sizes(found):
    """{(program, collective): (size, lines)}: the size with the most points on lines of several, else the largest."""
    best = {}
    for (program, collective, bytes_), lines in found.items():
        lines = {a: line for a, line in lines.items() if len(line) > 1}
        rank = sum(map(len, lines.values())), bytes_
        if lines and rank > best.get((program, collective), ((0, 0),))[0]:
            best[program, collective] = rank, lines
    return {key: (rank[1], lines) for key, (rank, lines) in best.items()}


def drawn(lines, second, y_name, y_ticks):
    """LINES: {name: [(ranks, value)]}. SECOND: {name: what stands below it}."""
    values = [v for points in lines.values() for _, v in points]
    values.append(max(values) / 2)  # a small difference must not look large
    ranks = [n for points in lines.values() for n, _ in points]
    paper = chart.sheet()
    frame = chart.Frame(
        paper,
        (min(ranks), max(ranks), True),
        (*chart.ends_of(values), True),
        right=chart.room_for([*lines, *second.values()]) + 10,
    )
    frame.axes(chart.rank_ticks(frame.x), y_ticks(frame.y), "ranks", y_name)
    names = []
    for i, (name, points) in enumerate(lines.items()):
        frame.line(points, ink.SERIES[i], marks=True)
        names.append((*points[-1], name, ink.SERIES[i], True))
        if name in second:
            names.append((*points[-1], second[name], ink.SERIES[i], False))
    frame.names(names)
    return paper


def evaluators_of(line):
    """Evaluators of the points, from few ranks to many."""
    return "by " + ", ".join(dict.fromkeys(evaluator for _, (_, evaluator) in sorted(line.items())))


def processor(program, collective, bytes_, lines):
    shown = dict(sorted(lines.items(), key=lambda one: -one[1][max(one[1])][0])[: min(MOST_LINES, len(ink.SERIES))])
    points = {a: [(n, us) for n, (us, _) in sorted(line.items())] for a, line in shown.items()}
    paper = drawn(
        points,
        {a: evaluators_of(line) for a, line in shown.items()},
        f"processor time of one evaluation at {size(bytes_)}",
        chart.duration_ticks,
    )
    caption = f"{program}: processor time to evaluate one call, and the evaluator."
    return Figure(f"Cost of the simulator against ranks, {collective} of {size(bytes_)}", paper, caption)


def peaks(runs):
    found = {}
    for run in runs:
        for r in run.of("cost"):
            ranks, bytes_ = positive(r, "nranks"), positive(r, "peak_memory_bytes")
            if ranks and bytes_:
                found[ranks] = max(found.get(ranks, 0), bytes_ / 1e6)
    return sorted(found.items())


def figures(runs):
    found = [processor(*key, *best) for key, best in best_sizes(collected(runs)).items()]
    most = peaks(runs)
    if len(most) > 1:
        paper = drawn({"all runs": most}, {}, "peak memory of a run, MB", chart.number_ticks)
        found.append(
            Figure("Memory of the simulator against ranks", paper, "Highest peak of the runs with that many ranks.")
        )
    return found
