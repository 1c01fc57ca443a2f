"""Records of `ddp_bucket_perf --json`: steps of data-parallel training by bucket size, as DDP's rule has it."""

from report import values
from report.files import BadFile, List, Maybe, Real, check

ROW = {
    "model": Maybe(str), "dtype": Maybe(str), "nranks": int,
    "grouping": ("tensor", "cap", "one"), "cap_bytes": Maybe(int),
    "algorithm": Maybe(str), "overlap": Maybe(("on", "off")),
    "step_us": Maybe(float), "low_us": Maybe(float), "high_us": Maybe(float), "compute_us": Maybe(float),
    "reduce_us": Maybe(float), "exposed_us": Maybe(Real),
    "predicted_step_us": Maybe(float),
    "best": Maybe(int), "as_good": Maybe(int),
}
MOST_SERIES, MOST_SIZES = 24, 40
MODES = {"bucket_view": {"on": "view on", "off": "view off"},
         "optimizer": {place: place for place in ("after", "own-queue", "comm-queue", "backward")}}  # fmt: skip
OTHERS = "list", "horovod", "tf", "megatron", "mirrored", "fsdp"


def algorithm_of(row):
    """The algorithm, and what --bucket-view and --optimizer add to it."""
    modes = [words[row[key]] for key, words in MODES.items() if row.get(key) in words]
    return ", ".join([row["algorithm"] or "algorithm unknown", *modes]) if modes else row["algorithm"]


class Series:
    """Rows of one algorithm with overlap or without: by size, which is "tensor", bytes or "one"."""

    def __init__(self, algorithm, overlap):
        self.algorithm, self.overlap, self.rows = algorithm, overlap, {}

    def name(self):
        return f"{self.algorithm or 'algorithm unknown'}, overlap {self.overlap or 'unknown'}"


class Sweep:
    """The series of a run, in the order that they were measured in; `sizes`: of all, ascending."""

    def __init__(self, run):
        self.run, rows = run, [row for row in run.of("data_parallel") if row.get("grouping") not in OTHERS]
        check(rows, List(ROW, MOST_SERIES * (MOST_SIZES + 2)), "data_parallel")
        found = {}
        for i, row in enumerate(rows):
            key = algorithm_of(row), row["overlap"]
            one = found.setdefault(key, Series(*key))
            size = self.size(row, f"data_parallel[{i}]")
            if size in one.rows:
                raise BadFile(f"data_parallel[{i}]: {one.name()} has that size twice")
            one.rows[size] = row
        self.series = list(found.values())
        self.sizes = sorted({size for one in self.series for size in one.rows if isinstance(size, int)})
        self.measured = any(row["step_us"] is not None for row in rows)
        self.first, self.rows = rows[0], rows
        self.has_tensor, self.has_one = (any(end in one.rows for one in self.series) for end in ("tensor", "one"))
        if not self.measured and all(row["predicted_step_us"] is None for row in rows):
            raise BadFile("no step has a time; with --predict that needs --link and --flops or --step-time")
        for n, most, what in ((len(self.series), MOST_SERIES, "algorithms with and without overlap"),
                              (len(self.sizes), MOST_SIZES, "sizes")):
            if n > most:
                raise BadFile(f"{n} {what}, more than the {most} that can be drawn")

    def size(self, row, where):
        if row["grouping"] != "cap":
            return row["grouping"]
        if not row["cap_bytes"]:
            raise BadFile(f"{where}.cap_bytes is not a size")
        return row["cap_bytes"]

    def name(self, size):
        return values.size(size) if isinstance(size, int) else size

    def places(self):
        """All sizes from left to right."""
        return ["tensor"] * self.has_tensor + self.sizes + ["one"] * self.has_one

    def best(self):
        """(series, size, row) of those that are marked as the shortest step of their overlap."""
        return [(one, size, row) for one in self.series for size, row in one.rows.items() if row["best"] == 1]
