"""Pictures of nodes: the speed of each relative to the typical one, and of each pair."""

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.values import count, number, positive, speed, text, three

BAD = "#c24400"
MOST_NODES = 24
MOST_HEALTHY = 4  # beside which the others are judged
MOST_CELLS = 128


def of_diagnosis(run):
    """Bars of each node's share of the typical speed, slowest first."""
    rows = [r for r in run.of("node") if positive(r, "sends_share") or positive(r, "receives_share")]
    if not rows:
        return []
    simulated = run.head.get("virtual_time") is True  # on no host
    share = lambda r: min(positive(r, key) or 9e9 for key in ("sends_share", "receives_share"))
    figures = []
    for key, title, bandwidth in (
        ("sends_share", "Sending speed of nodes", "sends_GBps"),
        ("receives_share", "Receiving speed of nodes", "receives_GBps"),
    ):
        known = sorted((r for r in rows if positive(r, key)), key=share)
        healthy = [r for r in known if part_of(r) == "good"]
        shown = [r for r in known if r not in healthy[MOST_HEALTHY:]][:MOST_NODES]
        bars = [(node_name(r, simulated), {part_of(r): 100 * r[key]}, end_text(r, bandwidth)) for r in shown]
        if bars:
            told = "Share of the typical speed of this run, slowest first. Line: the typical speed."
            told += f" {len(healthy)} of {count(len(known), 'node')}: nothing stands out."
            figures.append(
                Figure(
                    title,
                    chart.bars(
                        bars,
                        PARTS,
                        lambda v: f"{v:.3g} %",
                        "percent of the typical speed",
                        {i: 100 for i in range(len(bars))},
                    ),
                    told + " The table has all." * (len(shown) < len(known)),
                )
            )
    return figures


PARTS = (("good", "nothing stands out", ink.BLUE), ("bad", "culprit", BAD))


def part_of(r):
    return "good" if text(r, "verdict") in ("OK", "passed") else "bad"


def node_name(r, simulated):
    host, node = None if simulated else text(r, "host", 200), number(r, "node")
    parts = (host or "node", f"#{node:g}" if node is not None else None)
    return " ".join(part for part in parts if part)


def end_text(r, key):
    told = speed(positive(r, key)) if positive(r, key) else ""
    code = text(r, "code", 40)
    return f"{told} {code}" if code and part_of(r) == "bad" else told


def pair_rounds(run):
    """Bandwidth from node to node: the slowest of all rails and rounds of the survey, so that a lost rail shows."""
    found, rails = {}, set()
    for r in run.of("pair_round"):
        ends = number(r, "from"), number(r, "to")
        if None not in ends and positive(r, "GBps") and text(r, "stage") in (None, "survey"):
            found[ends] = min(r["GBps"], found.get(ends, r["GBps"]))
            rails.add(number(r, "rail"))
    nodes = sorted({end for ends in found for end in ends})[:MOST_CELLS]
    if len(nodes) < 2:
        return []
    names = [f"{node:g}" for node in nodes]
    values = [[found.get((a, b)) for b in nodes] for a in nodes]
    if not any(v for row in values for v in row):
        return []
    return [
        Figure(
            "From node to node, GB/s",
            chart.cells(values, names, names, three, "to node", "from node", 0),
            ("The slowest rail of each pair" if len(rails) > 1 else "Each pair")
            + " in the survey: the fainter, the slower. A faint row or column is a slow node or rail, a faint cell a slow link.",
        )
    ]


def groups(run):
    """Bandwidth of each group of a split world at the largest size, the worst marked."""
    rows = [
        r
        for r in run.of("result")
        if isinstance(r.get("group_busbw_GBps"), list) and r["group_busbw_GBps"] and positive(r, "size_bytes")
    ]
    if not rows:
        return []
    r = max(rows, key=lambda r: r["size_bytes"])
    numbers, speeds, worst = r.get("groups"), r["group_busbw_GBps"], number(r, "worst_group")
    if not isinstance(numbers, list) or len(numbers) != len(speeds):
        return []
    pairs = [(number({"": g}, ""), positive({"": v}, "")) for g, v in zip(numbers, speeds)]
    pairs = sorted((pair for pair in pairs if None not in pair), key=lambda pair: pair[1])[:MOST_NODES]
    bars = [(f"group {g:g}", {"bad" if g == worst else "good": v}, speed(v)) for g, v in pairs]
    parts = (("good", "group", ink.BLUE), ("bad", "furthest behind", BAD))
    return (
        [Figure("Groups of the world", chart.bars(bars, parts, three, "bus bandwidth, GB/s"), "The slowest first.")]
        if bars
        else []
    )


def figures(run):
    return [(None, of_diagnosis(run) + pair_rounds(run) + groups(run))], []
