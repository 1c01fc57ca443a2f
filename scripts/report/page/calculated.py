"""The results of `build/model_memory --json`: pictures and a table of each subject."""

import typing

from report import files, paper as ink
from report.page.figure import Figure
from report.page.tables import Table
from report.page.training import GREY, MOST_ROWS, PARTS_OF_MEMORY, stacked
from report.values import count, duration, memory, number, positive, short, text, three

STATES = PARTS_OF_MEMORY[:3]
OF_TRAINING = (*STATES, ("gathered_bytes", "gathered parameters", ink.SKY), ("activations_bytes", "activations", ink.PURPLE),
               ("recomputed_bytes", "recomputed", "#c48a00"), ("ends_bytes", "first and last layer", GREY))  # fmt: skip
OF_FITS = *OF_TRAINING[:-1], ("rest_bytes", "the rest", GREY)
OF_PASSES = ("forward_us", "forward", ink.BLUE), ("backward_us", "backward, with repeated passes", "#d55e00")


class Picture(typing.NamedTuple):
    """Bars of the rows: PARTS of TOTAL, with a line at MARK."""

    title: str
    total: str
    parts: tuple
    axis: str
    name: typing.Callable  # of a row
    caption: str = ""
    mark: str = None
    write: typing.Callable = memory


def named(*keys):
    """The words and numbers of a row, each after its key; a word that is "none" is left out."""
    def name(row):
        found = [(words, text(row, key, 24) or number(row, key)) for key, words in keys]
        return ", ".join(f"{words} {v}" if words else str(v) for words, v in found if v not in (None, "none"))
    return name


def one(title, key, color=ink.BLUE, **more):
    return dict(title=title, total=key, parts=((key, title, color),), **more)


of_division = named(("dp", "dp"), ("tp", "tp"), ("pp", "pp"), ("zero", "ZeRO"), ("micro_batch", "microbatch"), ("recompute", "recompute"))
of_estimate = named(("zero", "stage"), ("offload", "offload"), ("init", ""))
of_variant = lambda row: f"every {count(int(row['every']), 'layer')}" if number(row, "every") is not None else "keep all"
of_code = named(("bits", "int"), ("method", ""))

# Subject: the rows' key in the document (None: the document is the row), the name of their table, and pictures.
SUBJECTS = {
    "zero": ("stages", "Stages", [
        Picture("Memory under the stages of ZeRO", "total_bytes", STATES, "memory of a rank, calculated",
                lambda row: f"stage {row.get('zero')}, {row.get('dp')} ranks",
                "Calculated: parameters, gradients and optimizer.")]),
    "fits": ("fits", "Combinations that fit", [
        Picture("Combinations that fit", "total_bytes", OF_FITS, "memory of a rank, calculated", of_division,
                "The largest part of each, and the rest. Line across a bar: the memory of a GPU.", "limit_bytes")]),
    "train": (None, "Memory of a rank", [
        Picture("Memory of a rank in training", "total_bytes", OF_TRAINING, "memory of a rank, calculated", of_division)]),
    "infer": (None, "Memory of a rank", [
        Picture("Memory of inference", "total_bytes",
                (("weights_bytes", "weights", ink.BLUE), ("cache_bytes", "KV cache", "#d55e00")),
                "memory of a rank, calculated", named(("model", ""), ("bits", "bits:"), ("batch", "batch"), ("context", "context")),
                "Line across a bar: the rule of thumb, without a cache.", "rule_bytes")]),
    "deepspeed": ("estimates", "DeepSpeed's estimates", [
        Picture(axis="memory, calculated", name=of_estimate, **one("Memory of a GPU", "gpu_bytes")),
        Picture(axis="memory, calculated", name=of_estimate, **one("Memory of a node", "host_bytes", ink.GREEN))]),
    "checkpoint": ("results", "Variants", [
        Picture(axis="peak of the activations", name=of_variant, caption="Line across a bar: by the formula.",
                mark="calculated_bytes", **one("Activations", "activation_bytes")),
        Picture("Time of a step", "step_us", OF_PASSES, "time of a step", of_variant, write=duration)]),
    "quantise": ("results", "Formats", [
        Picture(axis="bytes", name=of_code, **one("Bytes of the tensor", "bytes")),
        Picture(axis="root mean square of the error", name=of_code, write=three, **one("Error", "error_rms", "#d55e00"))]),
}  # fmt: skip


def drawable(document, row):
    """The row with what its pictures need: differences and units."""
    total, tightest = positive(row, "total_bytes"), positive(row, "tightest_bytes")
    forward, backward = positive(row, "forward_s"), positive(row, "backward_s")
    more = {"limit_bytes": document.get("limit_bytes")}
    if total and tightest:
        part = f"{text(row, 'tightest', 20)}_bytes"
        known = part in (key for key, _, _ in OF_FITS)
        more |= {part: tightest, "rest_bytes": total - tightest} if known else {"rest_bytes": total}
    if forward and backward:
        more |= {"forward_us": 1e6 * forward, "backward_us": 1e6 * backward, "step_us": 1e6 * (forward + backward)}
    if isinstance(row.get("zero_init"), bool):
        more["init"] = "zero.Init" if row["zero_init"] else "no zero.Init"
    return {**row, **more}


def rows_of(document, key):
    found = document.get(key) if key else [document]
    return [r for r in found if isinstance(r, dict)][:1000] if isinstance(found, list) else []


def figures(document):
    """(figures, table) of the subject. Raises BadFile if it has nothing to draw."""
    subject = text(document, "subject", 20) or "zero"
    subject = "fits" if subject == "train" and isinstance(document.get("fits"), list) else subject
    if subject not in SUBJECTS:
        raise files.BadFile(f"its subject {short(subject, 20)!r} cannot be drawn; {', '.join(SUBJECTS)} can")
    key, name, pictures = SUBJECTS[subject]
    rows, drawn = rows_of(document, key), []
    for p in pictures:
        ready = [drawable(document, row) for row in rows]
        paper = stacked(ready, p.parts, p.total, p.name, p.write, p.axis, p.mark)
        more = f" The first {MOST_ROWS} of {count(len(rows), 'row')} of the table." if len(rows) > MOST_ROWS else ""
        drawn += [Figure(p.title, paper, (p.caption + more).strip())] if paper else []
    if not drawn:
        raise files.BadFile("it has no number to draw")
    columns = [c for c in dict.fromkeys(c for row in rows for c in row) if c not in ("schema", "kind", "subject")]
    return drawn, [Table(name, columns, rows)] if key else []


FACTS = ("model", "parameters", "precision", "optimizer", "limit_bytes", "gpus", "tried", "layers", "rows", "width", "count")


def facts(document):
    found = [(key, text(document, key, 80) or number(document, key)) for key in FACTS]
    tell = lambda key, v: memory(v) if key.endswith("_bytes") else v if isinstance(v, str) else f"{v:,}"
    return [(key.removesuffix("_bytes"), tell(key, v)) for key, v in found if v is not None]
