"""Pictures of training: parts of a step, and of its memory."""

import math

from report import paper as ink
from report.page import chart
from report.page.figure import Figure
from report.values import duration, memory, number, numbers, positive, size, text, three

MOST_ROWS = 16
GREY = "#b9bec6"
PARTS_OF_MEMORY = (
    ("parameters_bytes", "parameters", ink.BLUE),
    ("gradients_bytes", "gradients", "#d55e00"),
    ("optimizer_bytes", "optimizer", ink.GREEN),
    ("communication_bytes", "communication", ink.PURPLE),
    ("fragmentation_bytes", "fragmentation", GREY),
)
COMPUTE, EXPOSED = ("compute_us", "computing", ink.BLUE), ("exposed_us", "waiting for communication", "#d55e00")
# Kinds whose steps compute and wait: (kind, fields that name a bar, title, field of the line across it)
STEPS = (
    ("strategy", ("strategy", "servers"), "Strategies of data parallelism", "predicted_us"),
    ("tensor_parallel", ("part", "scheme"), "Strategies of splitting a layer", None),
)
PARTS_OF_PLAN = (
    ("compute_us", "computing", ink.BLUE),
    ("bubble_us", "bubble", GREY),
    ("tensor_us", "tensor", "#d55e00"),
    ("pipeline_us", "pipeline", "#c48a00"),
    ("data_us", "data", ink.GREEN),
    ("expert_us", "expert", ink.PURPLE),
    ("context_us", "context", "#8a6a4a"),
    ("embedding_us", "embedding", ink.SKY),
)


def stacked(rows, parts, total, name, write, axis, mark=None):
    """Bars of the records: PARTS of TOTAL, which is written at the end."""
    rows = [r for r in rows if positive(r, total)][:MOST_ROWS]
    if not rows:
        return None
    drawn = [(name(r), {key: positive(r, key) for key, _, _ in parts}, write(positive(r, total))) for r in rows]
    marks = {i: r[mark] for i, r in enumerate(rows) if mark and positive(r, mark)}
    return chart.bars(drawn, parts, write, axis, marks)


# ---- memory -------------------------------------------------------------------------------------------


def zero_stages(run):
    """Peak memory of a rank under each stage of ZeRO."""
    drawn = stacked(
        run.of("zero"),
        PARTS_OF_MEMORY,
        "reserved_bytes",
        lambda r: f"stage {r.get('stage')}",
        memory,
        "peak memory of a rank",
        "formula_bytes",
    )
    told = (
        "Number: all memory taken from the backend. Line across a bar: parameters, gradients and optimizer by "
        "the formula."
    )
    return drawn and Figure("Memory under the stages of ZeRO", drawn, told)


def zero_moments(run, stage):
    """Memory of a rank during a step, as stacked areas."""
    rows = [r for r in run.of("zero_moment") if number(r, "stage") == stage][:2000]
    if len(rows) < 2:
        return None
    tops, sums = [], [0] * len(rows)
    for key, name, color in PARTS_OF_MEMORY:
        below = list(sums)
        sums = [total + (positive(r, key) or 0) for total, r in zip(sums, rows)]
        if sums != below:
            tops.append((name, color, below, list(sums)))
    if not tops:
        return None
    paper = chart.sheet(250)
    frame = chart.Frame(
        paper,
        (0, len(rows), False),
        (0, max(sums) * 1.05, False),
        right=chart.room_for([name for name, *_ in tops]) + 10,
        left=chart.LEFT + 8,
    )
    turns = [i for i, r in enumerate(rows) if i == 0 or text(r, "moment") != text(rows[i - 1], "moment")]
    frame.axes(
        [(i, text(rows[i], "moment", 20) or "") for i in turns],
        [(v, chart.shortest(memory(v))) for v, _ in frame.y.plain(5)],
        "moments of the first step",
        "memory held by rank 0",
    )
    for name, color, below, above in tops:
        columns = [
            (
                frame.x.at(i),
                frame.y.at(high),
                frame.x.at(i + 1) - frame.x.at(i) + 0.1,
                frame.y.at(low) - frame.y.at(high),
            )
            for i, (low, high) in enumerate(zip(below, above))
            if high > low
        ]
        paper.boxes(columns, color, above=1.5)
    frame.names(
        [
            (len(rows), (below[-1] + above[-1]) / 2, name, ink.FAINT if color == GREY else color, True)
            for name, color, below, above in tops
        ]
    )
    return Figure(f"Memory in stage {stage:g}", paper, "")


def memory_figures(run):
    stages = sorted({number(r, "stage") for r in run.of("zero_moment") if number(r, "stage") is not None})[:4]
    return [zero_stages(run)] + [zero_moments(run, stage) for stage in stages]


# ---- steps --------------------------------------------------------------------------------------------


def named(*keys):
    return lambda r: " ".join(str(text(r, key, 24) or number(r, key)) for key in keys if r.get(key) is not None)[:40]


def step_figures(run):
    told = "Computations, and the time that the step waits for communication. Number: the whole step."
    steps = [
        (stacked([dict(r, compute_us=rest(r)) for r in run.of(kind)], (COMPUTE, EXPOSED), "step_us", named(*fields), duration,
                 "time of a step", mark), title, told + (" Line across a bar: by the formula." if mark else ""))
        for kind, fields, title, mark in STEPS
    ]  # fmt: skip
    plan_rows = sorted((r for r in run.of("hybrid_plan") if positive(r, "place")), key=lambda r: r["place"])
    division_name = lambda r: f"{r.get('place')}: tp {r.get('tp')} pp {r.get('pp')} dp {r.get('dp')}"[:40]
    plans = stacked(plan_rows, PARTS_OF_PLAN, "step_us", division_name, duration, "time of a step, as planned")
    planned_memory = stacked(
        plan_rows, (("memory_bytes", "memory", ink.PURPLE),), "memory_bytes", division_name, memory, "memory of a rank, as planned"
    )
    moe = stacked(
        run.of("moe"),
        (("counts_us", "counts", GREY), ("dispatch_us", "dispatch", ink.BLUE), ("combine_us", "combine", "#d55e00")),
        "layer_us",
        lambda r: f"skew {number(r, 'skew') or 0:g}" + (f", capacity {r['capacity']:g}" if positive(r, "capacity") else ""),
        duration,
        "time of each part alone",
    )
    codes = run.of("quantised")
    most = max((number(r, "size_bytes") or 0 for r in codes), default=0)
    codes = stacked(
        [r for r in codes if number(r, "size_bytes") == most],
        (("coding_us", "coding", ink.BLUE), ("exchange_us", "exchange of codes", "#d55e00")),
        "coded_us",
        code_name,
        duration,
        f"time of an all-reduce of {size(most)}",
        "plain_us",
    )
    hybrid = stacked(
        run.of("hybrid"), (("time_us", "time", ink.BLUE),), "time_us", named("part"), duration, "time", "plan_us"
    )
    planned = any(positive(r, "plan_us") for r in run.of("hybrid"))
    schedules = stacked(
        [dict(r, **parts_of_schedule(r)) for r in run.of("pipeline")],
        (("busy_us", "computing", ink.BLUE), ("bubble_us", "bubble", GREY)),
        "step_us",
        lambda r: text(r, "schedule", 24) or "unnamed",
        duration,
        "time of a step",
        "predicted_us",
    )
    peaks = stacked(
        run.of("pipeline"), (("peak_bytes", "activations", ink.PURPLE),), "peak_bytes",
        lambda r: text(r, "schedule", 24) or "unnamed", memory, "most activations of a stage",
    )  # fmt: skip
    barriers = stacked(
        run.of("barrier"), (("p50_us", "median", ink.BLUE),), "p50_us", barrier_name, duration, "time of a barrier", "p99_us"
    )
    drawn = [
        (barriers, "Barriers", "Bar: the median. Line: the 99th percentile."),
        (schedules, "Steps of the schedules", "A step, and the share of it in which stages wait. " + (
            "Line across a bar: the prediction." if any(positive(r, "p50_us") for r in run.of("pipeline")) else "Predicted."
        )),
        (peaks, "Memory of the schedules", "Activations on the stage that keeps the most."),
        *steps,
        (plans, "Divisions of the model", "The fastest that fit."),
        (planned_memory, "Memory of the divisions", "Of the same divisions."),
        (moe, "A layer of experts", "Each part alone. Number: the whole layer, in which parts may overlap."),
        (codes, "Quantised all-reduces", "Each part alone. Number: the whole step. Line across a bar: the plain all-reduce; codes pay "
         "where the bar ends before it, and where the plain all-reduce runs below the bus bandwidth beside their name."),
        (break_even([r for r in run.of("quantised") if number(r, "size_bytes") == most]), "Where codes pay",
         "Time of coding and of the bytes sent at one bandwidth, for the fastest scheme of each coding. Dotted: plain all-reduce here."),
        (hybrid, "A step and its parts alone", "Line across a bar: by the formula of --plan." * planned),
    ]
    return [Figure(title, paper, told) for paper, title, told in drawn if paper]


def code_name(r):
    rate = positive(r, "break_even_GBps")
    pays = f"pays below {three(rate)} GB/s" if rate else "does not pay"
    return f"{text(r, 'coding', 12)} by {text(r, 'scheme', 9)}, {pays}"


def break_even(rows):
    """Time against bus bandwidth: the plain all-reduce, and the fastest scheme of each coding."""
    fastest = {}
    for r in sorted(rows, key=lambda r: number(r, "coded_us") or math.inf, reverse=True):
        if all(positive(r, key) for key in ("coding_us", "sent_bytes", "plain_bytes", "plain_GBps")):
            fastest[text(r, "coding", 16)] = r
    if not fastest:
        return None
    plain = next(iter(fastest.values()))
    lines = {"plain": (0, plain["plain_bytes"])}
    shown = sorted(fastest.items(), key=lambda item: item[1]["coded_us"])[: len(ink.SERIES)]
    lines |= {f"{name} by {text(r, 'scheme', 9)}": (r["coding_us"], r["sent_bytes"]) for name, r in shown}
    here = plain["plain_GBps"]
    turns = [1e-3 * (plain["plain_bytes"] - sent) / coding for coding, sent in lines.values() if coding]
    turns = [t for t in turns if t > 0] + [here]
    low, high = min(turns) / 10, max(turns) * 10
    rates = [low * (high / low) ** (i / 64) for i in range(65)]
    points = {name: [(x, coding + 1e-3 * sent / x) for x in rates] for name, (coding, sent) in lines.items()}
    drawn = chart.sheet()
    y = chart.ends_of([t for line in points.values() for _, t in line])
    frame = chart.Frame(drawn, (low, high, True), (*y, True), right=chart.room_for(lines) + 10)
    frame.axes(chart.number_ticks(frame.x), chart.duration_ticks(frame.y), "bus bandwidth, GB/s", "time of an all-reduce")
    drawn.line([(frame.x.at(here), frame.top), (frame.x.at(here), frame.bottom)], ink.FAINT, 1, chart.DOTTED, above=1)
    colors = dict(zip(lines, (ink.INK, *ink.SERIES)))
    for name, line in points.items():
        frame.line(line, colors[name], 2.4 if name == "plain" else 1.8)
    frame.names([(*line[-1], name, colors[name], True) for name, line in points.items()])
    return drawn


# ---- buckets of gradients -----------------------------------------------------------------------------

LANE = 26


def bucket_times(r):
    """[(complete, start, end)] of each reduction, since the backward pass began."""
    lists = [numbers(r, f"bucket_{key}_us") for key in ("ready", "start", "end")]
    return list(zip(*lists)) if len({len(v) for v in lists}) == 1 else []


def bucket_lanes(run):
    """When each bucket is complete and reduced, a lane for each grouping, with the backward pass behind all of them."""
    rows = [r for r in run.of("data_parallel") if r.get("overlap") == "on" and bucket_times(r) and positive(r, "backward_us")]
    rows = [r for r in rows if r.get("algorithm") == rows[0].get("algorithm")][:MOST_ROWS]
    if not rows:
        return None
    names = [text(r, "label", 28) or "unnamed" for r in rows]
    ends = [max(end for _, _, end in bucket_times(r)) for r in rows]
    passes = [positive(r, "backward_us") for r in rows]
    keys = chart.key_lines([("backward pass", "#e8edf3"), ("complete, waits", "#c48a00"), ("reduced", ink.BLUE)], chart.WIDTH - 8)
    left, top = chart.room_for(names, False), 8 + 18 * len(keys)
    bottom = top + LANE * len(rows)
    paper = chart.sheet(bottom + 40)
    chart.draw_key(paper, keys)
    scale = chart.Scale(0, max(ends + passes), left, chart.WIDTH - 16, False)
    for value, _ in scale.plain(4):
        x = scale.at(value)
        paper.line([(x, top), (x, bottom)], chart.GRID, 0.8, above=0.5)
        paper.text(x, bottom + 10, chart.shortest(duration(value)), chart.NUMBERS, ink.FAINT, align="center")
    paper.text((left + chart.WIDTH) / 2, bottom + 27, "time since the backward pass began", chart.NUMBERS, ink.FAINT, align="center")
    for i, r in enumerate(rows):
        y = top + LANE * i
        wide = lambda begin, end, least: max(scale.at(end) - scale.at(begin), least)
        paper.text(left - 8, y + LANE / 2, names[i], chart.NUMBERS, align="right")
        paper.boxes([(left, y + 2, scale.at(passes[i]) - left, LANE - 4)], "#e8edf3", above=1)
        waits = [(scale.at(ready), y + LANE - 9, wide(ready, start, 0.6), 3) for ready, start, _ in bucket_times(r) if start > ready]
        if waits:
            paper.boxes(waits, "#c48a00", above=2)
        reduced = [(scale.at(start), y + 6, wide(start, end, 0.8), LANE - 17) for _, start, end in bucket_times(r)]
        paper.boxes(reduced, ink.BLUE, ink.PAPER, 0.3 if len(reduced) < 40 else 0)
    return Figure("Reductions beside the backward pass", paper, "A lane for each grouping, with overlap. A box: one reduction.")


def barrier_name(r):
    asked, ran = text(r, "algorithm_asked", 24), text(r, "algorithm", 24)
    return "the backend's barrier" if asked == "barrier" else f"all_reduce of 8 bytes, {ran or asked or 'unnamed'}"


def parts_of_schedule(r):
    """The measured step, else the predicted one, and its bubble."""
    measured = positive(r, "p50_us")
    step = measured or positive(r, "predicted_us")
    share = number(r, "bubble_over_total" if measured else "predicted_bubble_over_total")
    if not step or share is None:
        return {"step_us": step, "predicted_us": None}
    waits = {"step_us": step, "bubble_us": step * share, "busy_us": step * (1 - share)}
    return waits if measured else {**waits, "predicted_us": None}


def rest(r):
    """The step without the exposed communication."""
    step, exposed = positive(r, "step_us"), positive(r, "exposed_us") or 0
    return step - exposed if step else None


# ---- losses -------------------------------------------------------------------------------------------

CURVES = (ink.BLUE, "#d55e00", ink.GREEN, ink.PURPLE, "#c48a00", ink.SKY, "#8a6a4a", "#4d4d4d")
MOST_CURVES = 2 * len(CURVES)


def losses_of(r):
    """(step, loss) until it diverges."""
    values = r.get("losses")
    points = []
    for i, value in enumerate(values[:100000] if isinstance(values, list) else []):
        if not isinstance(value, (int, float)) or not 0 < value < math.inf:
            break
        points.append((i + 1, value))
    return points


def loss_curves(run):
    """Losses of a small model that was trained by coded gradients and by 1-bit optimizers; -ef is dotted."""
    rows = [(text(r, "strategy", 20) or "unnamed", losses_of(r)) for r in run.of("strategy")]
    rows = [(name, points) for name, points in rows if len(points) > 1][:MOST_CURVES]
    if not rows:
        return None
    paper = chart.sheet(330)
    steps = max(points[-1][0] for _, points in rows)
    frame = chart.Frame(
        paper,
        (1, steps, False),
        (*chart.ends_of([v for _, points in rows for _, v in points]), True),
        right=chart.room_for([name for name, _ in rows]) + 10,
    )
    frame.axes([(v, f"{v:g}") for v, _ in frame.x.plain(7)], chart.number_ticks(frame.y), "step", "loss over all samples")
    ends, plain = [], [name for name, _ in rows if not name.endswith("-ef")]
    for name, points in rows:
        base = name.removesuffix("-ef")
        color = CURVES[(plain.index(base) if base in plain else 0) % len(CURVES)]
        frame.line(points[:: max(1, len(points) // 400)], color, 1.4, "-" if base == name else chart.DOTTED)
        ends.append((*points[-1], name, color, base != name))
    frame.names(ends)
    told = "A small model, trained with real communication. -ef: with error feedback, dotted where it leaves the solid line."
    return Figure("Losses with coded communication", paper, told)


def figures(run):
    drawn = memory_figures(run) + step_figures(run) + [loss_curves(run), bucket_lanes(run)]
    return [(None, [figure for figure in drawn if figure])], []
