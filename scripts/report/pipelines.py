"""Records of `pipeline_perf --gantt --json`: the passes of each stage over time."""

from report.files import BadChoice, BadFile, Maybe, NoPicture, Real, check

PIPELINE = {
    "schedule": str, "stages": int, "microbatches": int, "chunks": int, "hop_us": Maybe(float), "compute": Maybe(str),
    "predicted_us": Maybe(float), "p50_us": Maybe(float),
    "predicted_bubble_over_total": Maybe(Real), "bubble_over_total": Maybe(Real),
}
PASS = {
    "schedule": str, "source": ("predicted", "measured", "simulated"), "stage": int, "pass": ("F", "B", "W", "BW"), "chunk": int,
    "microbatch": int, "from_us": Maybe(Real), "to_us": Maybe(Real),
}
SOURCES = ("predicted", "measured", "simulated")
MOST_SCHEDULES, MOST_STAGES, MOST_PASSES = 32, 256, 100000  # of all that is drawn


class Schedule:
    """One schedule: its record, and its passes by source. Passes without times are counted and left out."""

    def __init__(self, record):
        self.record, self.unknown = record, 0
        self.passes = {source: [] for source in SOURCES}

    def add(self, one, where):
        if one["stage"] >= self.record["stages"] or one["chunk"] >= self.record["chunks"]:
            raise BadFile(f"{where}: stage {one['stage']}, chunk {one['chunk']} of "
                          f"{self.record['stages']} stages, {self.record['chunks']} chunks")
        if one["from_us"] is None or one["to_us"] is None:
            self.unknown += 1
            return
        if one["to_us"] < one["from_us"]:
            raise BadFile(f"{where}: it ends before it begins")
        self.passes[one["source"]].append(one)

    def sources(self):
        return [source for source in SOURCES if self.passes[source]]

    def end(self, source):
        """When the last pass is done."""
        return max(one["to_us"] for one in self.passes[source])

    def has(self, kind):
        return any(one["pass"] == kind for passes in self.passes.values() for one in passes)


class Pipelines:
    """The schedules of a run that have passes. NAMES: those to draw, in that order; None: all."""

    def __init__(self, run, names=None):
        self.run = run
        schedules = {}
        for i, record in enumerate(run.of("pipeline", "pass")):
            where = f"record {i + 1} of pipelines"
            if record["kind"] == "pipeline":
                check(record, PIPELINE, where)
                schedules[record["schedule"]] = Schedule(record)
                continue
            check(record, PASS, where)
            if record["schedule"] not in schedules:
                raise BadFile(f"{where}: a pass of {record['schedule'][:40]!r}, which has no record before it")
            schedules[record["schedule"]].add(record, where)
        drawable = {name: schedule for name, schedule in schedules.items() if schedule.sources()}
        if not drawable:
            raise NoPicture("no pass has a time; pipeline_perf writes them with --gantt")
        self.schedules = self.chosen(drawable, names)
        self.check_size()

    def chosen(self, drawable, names):
        for name in names or []:
            if name not in drawable:
                raise BadChoice(f"--schedule: no {name[:40]!r} in it; there are {', '.join(drawable)[:400]}")
        return [drawable[name] for name in names or drawable]

    def check_size(self):
        passes = sum(len(one.passes[source]) for one in self.schedules for source in SOURCES)
        stages = max(one.record["stages"] for one in self.schedules)
        for n, most, what in ((len(self.schedules), MOST_SCHEDULES, "schedules"), (stages, MOST_STAGES, "stages"),
                              (passes, MOST_PASSES, "passes")):
            if n > most:
                raise BadFile(f"{n} {what}, more than the {most} that can be drawn; --schedule takes fewer schedules")
