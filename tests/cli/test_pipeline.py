"""Pipelines: predictions of pipeline_perf against published ones; measurements, checks and drawings."""

import csv
import io
import json
import re

import mpi
from kit import built, equal, execute, expect, on_terminal, prose, run, test

SHORT = "--microbatches 4 --tf 2ms --tb 2ms --tw 1ms -n 2 -w 0"


def records(result, codes=(0,)):
    return result.exits(*codes).by_kind()


def schedules(line, codes=(0,)):
    return {r["schedule"]: r for r in records(run(line + " --json -"), codes)["pipeline"]}


# ---- predicted -----------------------------------------------------------------------------

@test
def best_schedule():
    """By the steps, and by the stages; ties are not called the best."""
    out = prose(run("pipeline --predict").exits(0).out)
    expect("# Tied schedule by stage time (equal but for rounding): zb-v (peak 8.39 MB) or zb-h2 (peak 14.7 MB) or "
           "zb-auto (peak 15.7 MB), 240 ms; the first needs no more memory than the others; next: zb-h1 (peak 8.39 MB), 12.5% longer: its bubble is 30.0 ms longer" in out, out)
    expect("# Best schedule by step time: zb-v (peak 8.39 MB), 255 ms; next: zb-h1 (peak 8.39 MB), 5.9% longer: its bubble "
           "is 15.0 ms longer\n# 8 records calculated; nothing was run\n# verdict: passed" in out, out)
    out = run(f"pipeline {SHORT} --schedule naive,zb-v").exits(0).out
    expect(re.search("^# (Best|Tied) schedule by step time", out, re.M), out)


@test
def unit_costs():
    """p = 4, m = 8, passes of 1: the steps of the literature."""
    got = schedules("pipeline --predict --tf 1s --tb 1s --tw 1s")
    wanted = {"naive": (96, 96), "gpipe": (33, 33), "1f1b": (33, 33), "interleaved": (28.5, 28.5),
              "zb-h1": (27, 27), "zb-h2": (27, 24), "zb-v": (25.5, 24), "zb-auto": (27, 24)}
    equal({name: (r["predicted_us"] / 1e6, r["predicted_span_us"] / 1e6) for name, r in got.items()}, wanted,
          "steps and stages")
    equal(got["1f1b"]["predicted_bubble_over_ideal"], 3 / 8, "(p - 1) / m")
    equal(round(got["1f1b"]["predicted_bubble_over_total"], 12), round(3 / 11, 12), "(p - 1) / (m + p - 1)")
    equal(round(got["interleaved"]["predicted_bubble_over_ideal"], 12), 3 / 16, "(p - 1) / (v m)")
    equal(got["zb-h2"]["predicted_span_bubble_over_total"], 0, "no bubble")
    equal(got["interleaved"]["peak_microbatches"], [5.5, 4.5, 3.5, 2.5], "memory of interleaved")
    equal(got["zb-v"]["peak_microbatches"], [4] * 4, "memory of zb-v")
    equal(got["1f1b"]["sent_bytes"], 2 * 3 * 8 * 4096, "bytes of 1f1b")
    equal(got["interleaved"]["sent_bytes"], 2 * 7 * 8 * 4096, "bytes of interleaved")


# arXiv 2401.10241, Table 9: p, m, times in us; hidden size, heads, chunks. Table 5: share of the bubble.
PUBLISHED = (
    (8, 24, 18522, 18086, 9337, 601, 2304, 24, 3, "0.2431 0.1055 0.1090 0.1585 0.1083 0.0433"),
    (8, 32, 18513, 18086, 9331, 626, 2304, 24, 3, "0.1985 0.0818 0.0847 0.1242 0.0837 0.0039"),
    (8, 64, 18546, 18097, 9321, 762, 2304, 24, 3, "0.1240 0.0443 0.0461 0.0674 0.0444 0.0026"),
    (8, 24, 29718, 29444, 19927, 527, 4096, 32, 4, "0.2347 0.0808 0.0827 0.1323 0.0698 0.0029"),
    (8, 32, 29802, 29428, 19530, 577, 4096, 32, 4, "0.1898 0.0628 0.0644 0.1045 0.0559 0.0022"),
    (8, 64, 29935, 29621, 19388, 535, 4096, 32, 4, "0.1091 0.0320 0.0328 0.0554 0.0294 0.0010"),
)


@test
def published():
    """By the evaluator of programs: one-pass schedules by the time of the step, others by that of a stage; interleaved
    as published, and with all waits of a real one."""
    for p, m, f, b, w, c, hidden, heads, chunks, wanted in PUBLISHED:
        line = (f"pipeline --predict --stages {p} --microbatches {m} --tf {f}us --tb {b}us --tw {w}us --tc {c}us "
                f"--chunks {chunks} --mb {34 * hidden + 5 * heads * 1024} --mw {32 * hidden}")
        got = schedules(line)
        shares = (got["1f1b"]["predicted_bubble_over_total"], got["interleaved"]["published_bubble_over_total"],
                  got["interleaved"]["predicted_bubble_over_total"], got["zb-h1"]["predicted_bubble_over_total"],
                  got["zb-h2"]["predicted_span_bubble_over_total"],
                  got["zb-auto"]["predicted_span_bubble_over_total"])
        equal(" ".join(f"{share:.4f}" for share in shares), wanted, f"Table 5, p {p}, m {m}, h {hidden}")
        less = schedules(f"{line} --schedule zb-auto --memory {p}")["zb-auto"]
        equal(f"{less['predicted_span_bubble_over_total']:.4f}", f"{shares[3]:.4f}", "half the memory")
        expect(max(less["peak_microbatches"]) <= p, f"memory {less['peak_microbatches']}")


@test
def from_a_model():
    """The halves of the backward pass differ by attention; bytes are those of the paper."""
    got = schedules("pipeline --predict --schedule 1f1b --model gpt2 --flops 100T --stages 2 --batch 3")["1f1b"]
    expect(got["f_us"] < got["b_us"] and got["w_us"] < got["b_us"], f"halves {got}")
    equal(got["message_bytes"], 2 * 3 * 1024 * 768, "2 s b h")
    equal(got["peak_bytes"], 3 * 1024 * ((34 * 768 + 4 * 12) * 6 + 4 * 768 + 4 * 50257),
          "s b (34 h + 4 a) of a layer by FlashAttention, and the head, whose stage now keeps most")
    got = schedules("pipeline --predict --schedule 1f1b --model gpt2 --flops 100T --stages 2 --batch 3 --attention eager")["1f1b"]
    equal(got["peak_bytes"], 2 * 3 * 1024 * ((34 * 768 + 5 * 12 * 1024) * 6 + 768),
          "s b (34 h + 5 a s) of a layer that stores its scores")


@test
def mean_of_layers():
    """Every second of four layers has experts, two of which compute a token; a layer takes the mean, also in memory."""
    model = "qwen3_moe:layers=4,hidden=64,heads=4,kv=4,head_dim=16,vocab=100,seq=32,ffn=1024,experts=4,top_k=2,expert_ffn=64," \
            "moe_every=2"
    got = schedules(f"pipeline --predict --schedule 1f1b --model {model} --flops 1G --stages 1 --batch 1 --microbatches 1")["1f1b"]
    attention, head = 2 * 32 * 4 * 64 * 64 + 2 * 32 * 32 * 64, 2 * 32 * 64 * 100
    dense, sparse = 2 * 32 * 3 * 64 * 1024, 2 * 32 * (2 * 3 * 64 * 64 + 64 * 4)
    equal(round(got["f_us"]), round((4 * attention + 2 * dense + 2 * sparse + head) / 1e3), "forward pass")
    layer = [32 * (2 * 64 * (3 + n) + 4 * 4 + 2 * (4 * 64 + n * 3 * ffn)) for n, ffn in ((1, 1024), (2, 64))]
    equal(got["peak_bytes"], 2 * sum(layer) + 32 * (4 * 64 + 4 * 100), "activations, and those of the head")


@test
def whole_layers():
    """12 layers on 5 stages: layers are not cut, and the last stage has the head."""
    got = schedules("pipeline --predict --model gpt2 --flops 100T --stages 5 --schedule 1f1b,zb-auto --microbatches 10")
    equal({name: r["layers"] for name, r in got.items()}, {"1f1b": [2, 2, 3, 2, 3], "zb-auto": [2, 2, 3, 2, 3]},
          "layers of stages")
    tokens, h, vocab = 1024, 768, 50257
    layer, head = tokens * h * (24 * h + 2 * tokens), 2 * tokens * h * vocab
    last = got["1f1b"]
    equal(round(last["f_us"], 1), round((3 * layer + head) / 100e6, 1), "forward pass of the last stage")
    expect(last["ideal_us"] > 10 * 3 * 2 * layer / 100e6 + 10 * 3 * head / 100e6, "the stage with the head is the slowest")
    spans = last["predicted_stage_us"]
    equal(round(spans[4] / last["ideal_us"], 6), 1, "the last stage never waits")
    one = schedules("pipeline --predict --model gpt2 --flops 100T --stages 1 --schedule 1f1b --microbatches 1")["1f1b"]
    equal(round(one["f_us"], 1), round((12 * layer + head) / 100e6, 1), "all of the model")
    for line, wanted in (("--stages 13", "--stages 13: more than the 12 layers"),
                         ("--stages 2 --batch 100000", "more than 4 TiB")):
        result = run(f"pipeline --predict --model gpt2 --flops 100T {line}").exits(2)
        expect(wanted in result.err, f"{line}: {result.err}")
    result = run("pipeline --predict --model gpt2 --flops 100T --stages 8 --schedule zb-v,1f1b").exits(0)
    expect("zb-v: needs a number of layers that the chunks" in result.out, f"chunks without layers: {result.out}")


@test
def stages_fit_into_memory():
    """The verdict is model_memory's for 1f1b; a schedule that does not fit is told with a division that would."""
    line = "pipeline --predict --model llama2-7b --flops 200T --stages 4"
    words = "train --model llama2-7b --pp 4 --micro-batches 8 --json -".split()
    states = json.loads(execute([built("model_memory"), *words]).exits(0).out)
    got = schedules(line)
    equal(got["1f1b"]["memory_bytes"], states["total_bytes"], "as in model_memory")
    equal((got["1f1b"]["memory_limit_bytes"], got["1f1b"]["fit"][:5]), ((81559 << 20) - (7 << 29), "fits,"), "limit")
    expect(got["naive"]["memory_bytes"] < got["1f1b"]["memory_bytes"] < got["gpipe"]["memory_bytes"], got)
    result = run(f"{line} --rank-memory 60G --schedule 1f1b,gpipe").exits(0)
    result.prints("fit into the memory of a rank: 1f1b", "gpipe does not fit: a rank needs", "this would: dp")
    equal(schedules("pipeline --predict --schedule 1f1b")["1f1b"]["fit"], None, "without a model")
    run("pipeline --predict --rank-memory 1G").exits(2).says("--rank-memory needs --model")


@test
def many_stages():
    """zb-v is refused before it tries a hundred million passes."""
    result = run("pipeline --predict --stages 4096 --microbatches 1 --schedule zb-v,naive").exits(0)
    expect("zb-v: needs fewer stages" in result.out, f"zb-v of 4096 stages: {result.out}")


@test
def by_a_link():
    """A message takes its bytes at the link's rate, then the latency."""
    got = schedules("pipeline --predict --schedule naive --stages 2 --microbatches 1 --tf 1ms --tb 1ms --tw 1ms "
                    "--message 1000000 --link 1GB/s,500us")["naive"]
    equal(round(got["predicted_us"], 6), 6000 + 2 * 1500, "two hops")


# ---- measured ------------------------------------------------------------------------------

def check_measured(r, stages):
    equal((r["wrong"], r["iterations"], r["compute"]), (0, 2, "sleep"), "of a measured row")
    expect(r["min_us"] <= r["p50_us"] <= r["p99_us"] <= r["max_us"], f"order of {r}")
    expect(r["span_us"] >= r["ideal_us"] > 0 and len(r["stage_us"]) == stages, f"spans of {r}")
    expect(r["hop_us"] >= 0 and r["hop_source"] == "measured", f"hop of {r}")
    expect(abs(r["bubble_over_ideal"] - (r["p50_us"] / r["ideal_us"] - 1)) < 1e-9, f"bubble of {r}")
    # Counted values equal those of the order.
    for name in ("peak_microbatches", "sent_bytes", "stage_sent_bytes"):
        equal(r["counted_" + name], r[name], f"{name} of {r['schedule']}")
    equal((len(r["stage_sent_bytes"]), sum(r["stage_sent_bytes"]), max(r["stage_peak_bytes"])),
          (stages, r["sent_bytes"], r["peak_bytes"]), f"stages of {r['schedule']}")


@test
def all_on_the_host():
    """Real ranks run every schedule, with the results of a single rank."""
    got = schedules(f"pipeline {SHORT}")
    equal(len(got), 8, "schedules")
    for r in got.values():
        check_measured(r, 4)


@test
def nothing_is_measured_in_virtual_time():
    line = "pipeline --backend sim --cluster hgx-h100 -g 4 --schedule 1f1b --gantt"
    text = run(line).exits(0).out
    expect(text.count("measured") == text.count("no hardware was measured") == 1, text)
    expect("(simulated)" in text and "# 1f1b, simulated: " in text, text)
    found = run(f"{line} --json -").exits(0).records()
    equal({r["source"] for r in found if r["kind"] == "pass"}, {"predicted", "simulated"}, "sources")


@test
def stages_are_told():
    """Rows of stages with predicted and with measured, counted values; equal stages share one."""
    text = run(f"pipeline {SHORT} --stages 2 --schedule zb-h1").exits(0).out
    rows = re.findall(r"^ +zb-h1 +(\d) +(\w+) +[\d.]+ +([\d.]+) +([\d.]+) +(\d+)$", text, re.M)
    equal(rows, [(str(s), time, peak, size, "16384") for time in ("predicted", "measured")
                 for s, (peak, size) in enumerate((("2.00", "4.19"), ("1.50", "3.15")))], "rows of stages")
    alike = run("pipeline --predict --schedule naive,zb-v").exits(0).out
    expect(re.search(r"^ +zb-v +1-2 predicted ", alike, re.M), alike)
    expect("# Empty: p99 (ms), off (%), #wrong" in alike, alike)
    many = run("pipeline --predict --stages 17 --schedule 1f1b").exits(0).out
    expect(" (M_B)  (MB)" not in many and "predicted_stage_us" in many, "where the rows of many stages are")


@test
def more_stages():
    got = schedules(f"pipeline {SHORT} -g 3 --microbatches 3 --schedule interleaved,zb-v,zb-auto --chunks 3")
    for r in got.values():
        check_measured(r, 3)
    equal(got["interleaved"]["chunks"], 3, "chunks")


@test
def one_stage():
    r = schedules(f"pipeline {SHORT} --stages 1 --schedule zb-v")["zb-v"]
    equal((r["wrong"], r["sent_bytes"], r["predicted_span_bubble_over_ideal"]), (0, 0, 0), "alone")


@test
def over_mpi():
    mpi.need()
    result = mpi.run(3, f"pipeline {SHORT} --schedule 1f1b,zb-v --json -")
    for r in records(result)["pipeline"]:
        check_measured(r, 3)


@test
def passes_are_drawn():
    result = run(f"pipeline {SHORT} --stages 2 --schedule zb-h1 --gantt --json -")
    found = records(result)
    passes = [r for r in found["pass"] if r["source"] == "measured"]
    equal(len(passes), 2 * 3 * 4, "passes")
    equal(len(found["pass"]), 2 * len(passes), "predicted too")
    for r in passes:
        expect(0 <= r["from_us"] < r["to_us"], f"times of {r}")
    text = run("pipeline --predict --stages 2 --microbatches 2 --schedule zb-h1,interleaved --gantt").exits(0).out
    charts = re.findall(r"^# +\d \|(.*)\|$", text, re.M)
    equal([re.sub("-", "", chart) for chart in charts[:2]],
          ["F0F1" + "." * charts[0].count(".") + "B0W0B1W1", charts[1].replace("-", "")], "first stage of zb-h1")
    expect(charts[1].startswith(".") and "F0" in charts[1] and len({len(c) for c in charts}) == 1,
           f"charts {charts}")
    expect("f0" in "".join(charts[2:]), "small letters for the second chunk")


@test
def charts_have_colours():
    """A terminal is used in its whole width, in colours unless NO_COLOR is set."""
    words = [built("pipeline_perf"), *"--predict --stages 2 --microbatches 2 --schedule 1f1b --gantt".split()]
    chart = re.findall(r"# +0 \|(.*)\|", on_terminal(200, words, {"NO_COLOR": ""}))
    expect(len(chart) == 1 and chart[0].startswith("\033[44;97mF0 "), chart)
    equal(len(re.sub("\033.*?m", "", chart[0])), 200 - 9, "width")
    chart = re.findall(r"# +0 \|(.*)\|", on_terminal(200, words, {"NO_COLOR": "1"}))
    expect(len(chart) == 1 and chart[0].startswith("F0--"), chart)


@test
def tables():
    rows = list(csv.DictReader(io.StringIO(run("pipeline --predict --csv -").exits(0).out)))
    equal([r["schedule"] for r in rows][:3], ["naive", "gpipe", "1f1b"], "rows")
    found = records(run("pipeline --predict --microbatches 6 --schedule interleaved,1f1b --json -"))
    expect("divide" in found["skip"][0]["reason"], f"skip {found['skip']}")


# ---- wrong ---------------------------------------------------------------------------------

@test
def faults():
    run(f"pipeline {SHORT} --schedule zb-h1 --fault corrupt:2").exits(7).prints("# Wrong data in 1 of 1 result, with --fault corrupt:2\n")
    run(f"pipeline {SHORT} --schedule 1f1b --fault die:1 -T 300").exits(3)
    for rank in range(4):
        for r in schedules(f"pipeline {SHORT} --fault swap:{rank} -n 1", (7,)).values():
            expect(r["wrong"] > 0, f"F and B of rank {rank} swapped: {r}")
    late = schedules(f"pipeline {SHORT} --schedule 1f1b --fault slow:1:20ms")["1f1b"]
    expect(late["p50_us"] - late["predicted_us"] > 100000, f"eight passes 20 ms late: {late}")


@test
def bad_words():
    for line, words in (
            ("--schedule zb-h3", ("zb-h3", "did you mean zb-h1?")),
            ("--schedule 1f1b,1f1b", ("twice",)),
            ("--schedule 1f1b,", ("--schedule",)),
            ("--stages 3 -g 2", ("--stages 3", "--predict")),
            ("--predict -g 4", ("-g", "--predict")),
            ("-b 1M", ("-b", "--message")),
            ("--mw 3M", ("--mw", "--mb")),
            ("--flops 1T", ("--flops", "--model")),
            ("--model gpt2", ("--flops",)),
            ("--model gpt2 --flops 1T --tf 1ms", ("--tf",)),
            ("--model resnet50 --flops 1T", ("transformer",)),
            ("--compute gemm", ("gemm", "--model")),
            ("--tc 1us --link 1GB/s", ("--tc", "--link")),
            ("--predict --stages 4096 --microbatches 60000", ("passes",))):
        result = run(f"pipeline {line}").exits(2)
        for word in words:
            expect(word in result.err, f"{line}: {word} in {result.err}")
    run("pipeline --schedule interleaved --microbatches 3").exits(5)
    run("pipeline --list").exits(0).prints("zb-auto")
