"""ZeRO: stages of zero_perf have the same bits, hold the calculated bytes, and send those of rings, on every
backend."""

import json
import os
import re
import tempfile

import gpus
import mpi
from kit import equal, expect, run, test

STATES = ("parameters", "gradients", "optimizer")
SHORT = "-n 3 -w 0"


def records(result, codes=(0,)):
    return result.exits(*codes).by_kind()


def check(result, verified="one rank alone", **fields):
    """All four stages are right and alike; returns their records by stage."""
    found = records(result)["zero"]
    equal([r["stage"] for r in found], [0, 1, 2, 3], "stages")
    equal({r["wrong"] for r in found}, {0}, "wrong elements")
    equal(len({r["checksum"] for r in found}), 1, "checksums")
    for r in found:
        equal(r["verified"], verified, "verified")
        equal(r["states_error_percent"], 0, f"states of {r}")
        for name, value in fields.items():
            equal(r[name], value, f"{name} of stage {r['stage']}")
    return found


def zero(line, **fields):
    return check(run(f"zero {line} --json -"), **fields)


# ---- results -------------------------------------------------------------------------------

@test
def stages_agree():
    """Bit by bit with one rank that trains alone; uneven sizes; a skipped step."""
    for n in (1, 2, 3, 4):
        for model in ("linear:3x9", "1001", "5"):
            zero(f"-g {n} --model {model} {SHORT}", nranks=n, skipped=1, loss_scale=32768)
    zero(f"-g 3 --model linear:2x130 -d bfloat16 {SHORT}", skipped=1)
    zero(f"-g 3 --model linear:2x130 -d float {SHORT}", skipped=0, loss_scale=1)
    zero("-g 2 --model linear:2x130 -n 6 -w 2 --overflow 8 --growth-interval 3 --loss-scale 256", skipped=1, steps=9,
         loss_scale=512)
    zero(f"-g 2 --model linear:2x130 --overflow 0 {SHORT}", skipped=0, loss_scale=65536)


@test
def without_master_copies():
    """All stages round alike, hold 4 bytes of a parameter less, and count what rounding undid."""
    for more, undone in (("-d bfloat16 --lr 1e-5", (0.8, 1)), ("-d bfloat16", (0.02, 0.5)), ("-d half", (0.0, 0.1)),
                         ("-d bfloat16 --rounding stochastic", (0.02, 0.5))):  # fmt: skip
        found = zero(f"-g 3 --model linear:3x40 --master off {more} {SHORT}", master="off", flushed=0)
        expect(len({r["unchanged"] for r in found} | {r["drift"] for r in found}) == 2, f"counts of {more} differ")
        r = found[0]
        expect(undone[0] <= r["unchanged"] / r["updates"] <= undone[1], f"updates of {more}: {r}")
        expect(r["rounding"] == ("stochastic" if "stochastic" in more else "nearest") and r["drift"] > 0, f"{r}")
        equal(r["formula_bytes"], 12 * r["parameters"], "bytes of all states")
        if "1e-5" in more:
            expect(0.8 < r["drift"] < 1.2, f"hardly anything moves: {r}")
    kept = zero(f"-g 3 --model linear:3x40 -d half {SHORT}", master="on", unchanged=None, drift=None, rounding=None)
    equal(kept[0]["formula_bytes"], 16 * kept[0]["parameters"], "with copies")
    text = run(f"zero -g 2 --model linear:3x40 -d bfloat16 --lr 1e-5 --master off {SHORT}").exits(0)
    text.prints("; rounding undid ", "% of the updates, drift ")
    found = run(f"zero -g 2 --model linear:3x40 --master off {SHORT} --fault corrupt:1 --json -").exits(7)
    expect(all(r["wrong"] > 0 for r in found.by_kind()["zero"]), "corrupted data is found")


@test
def gradients_underflow():
    """Of multiples of 2^-26, fp16 flushes 4 of 17 to 0; a loss scale keeps them, and so does bf16."""
    line = f"-g 2 --model linear:3x40 --gradient-exponent -26 --overflow 0 --accumulate 2 {SHORT}"
    for r in zero(f"{line} --loss-scale 1"):
        expect(abs(r["flushed"] / r["drawn"] - 4 / 17) < 0.01, f"{r}")
    zero(f"{line} --loss-scale 1024", flushed=0)
    zero(f"{line} --loss-scale 1 -d bfloat16", flushed=0)


@test
def rounding_refusals():
    for line, words in (
        ("--master off -d float", ("--master", "fp32 parameters need no copy")),
        ("--rounding stochastic", ("--rounding stochastic needs --master off",)),
        ("--master of", ("--master of", "on", "off")),
        ("--gradient-exponent -50", ("--gradient-exponent -50", "from -40 to -16")),
        ("--lr 2", ("--lr 2",)),
    ):
        run(f"zero {line}").exits(2).says(*words)


@test
def passes_may_spin():
    """A pass keeps a core busy for its time, and changes no result."""
    quick = zero(f"-g 2 --model linear:4x64 {SHORT}")
    spun = zero(f"-g 2 --model linear:4x64 {SHORT} --compute spin --step-time 6ms")
    equal([r["checksum"] for r in spun], [r["checksum"] for r in quick], "results")
    for r in spun:
        # The first of four layers computes no gradient of its input: 4 and 7 of 11 parts.
        expect(r["forward_us"] >= 6000 * 4 / 11 - 1 and r["backward_us"] >= 6000 * 7 / 11 - 1, f"times of {r}")


@test
def skipped_steps_are_not_timed():
    """The only timed step is one that the optimizer performs, although the previous one overflows."""
    for r in zero("-g 2 --model linear:4x64 -n 1", skipped=1, steps=3):
        expect(r["optimise_us"] > 0 and r["step_us"] > 0, f"times of {r}")
    zero("-g 2 --model linear:4x64 -n 1 -w 2", skipped=1, steps=3)
    zero("-g 2 --model linear:4x64 -n 1 -w 0 --overflow 1", skipped=1, steps=2)


@test
def any_order():
    """Algorithms sum in different orders, with or after the computations: the same bits."""
    sums = set()
    for words in ("", "--algo direct", "--algo auto", "--overlap off", "--step-time 2ms"):
        sums |= {r["checksum"] for r in zero(f"-g 3 --model linear:4x50 {SHORT} --accumulate 2 {words}")}
    equal(len(sums), 1, "checksums")
    sums |= {r["checksum"] for r in zero(f"-g 3 --model linear:4x50 {SHORT} --accumulate 3")}
    equal(len(sums), 2, "with other micro-batches another result")


@test
def wrong_data():
    result = run(f"zero -g 2 --model linear:3x9 {SHORT} --fault corrupt:1 --json -")
    equal([r["wrong"] for r in records(result, (7,))["zero"]], [1] * 4, "wrong elements")
    run(f"zero -g 2 --model linear:3x9 {SHORT} --fault die:1 -T 300").exits(3)
    unchecked = records(run(f"zero -g 2 --model linear:3x9 {SHORT} -c 0 --json -"))["zero"]
    equal({(r["wrong"], r["verified"]) for r in unchecked}, {(None, None)}, "not looked at")


# ---- a ds_config -----------------------------------------------------------------------------

CONFIG = {"zero_optimization": {"stage": 3, "overlap_comm": True, "contiguous_gradients": True},
          "fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 3},
          "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}, "gradient_accumulation_steps": 2, "train_batch_size": "auto"}  # fmt: skip


def configured(config, line, codes=(0,)):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ds_config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return run(f"zero -g 2 --model linear:3x9 {SHORT} --ds-config {path} {line}").exits(*codes)


@test
def a_config_of_deepspeed():
    """Stage 3, fp16 and AdamW, as options would say it; other keys are named."""
    words = "--stages 3 --accumulate 2 --loss-scale 4096 --growth-interval 3 --overlap on --lr 3e-5"
    (wanted,) = records(run(f"zero -g 2 --model linear:3x9 {SHORT} {words} --json -"))["zero"]
    (got,) = records(configured(CONFIG, "--json -"))["zero"]
    for name in ("stage", "accumulate", "dtype", "checksum", "loss_scale", "overlap", "wrong"):
        equal(got[name], wanted[name], name)
    configured(CONFIG, "").prints("ignored: zero_optimization.contiguous_gradients, train_batch_size")
    # DeepSpeed's defaults: fp32 without ZeRO, and a loss scale that does not move if it is given.
    (got,) = records(configured({}, "--json -"))["zero"]
    equal((got["stage"], got["dtype"], got["overlap"], got["wrong"]), (0, "float", "off", 0), "defaults")
    (got,) = records(configured({"fp16": {"enabled": True, "loss_scale": 128}}, "--json -"))["zero"]
    equal((got["loss_scale"], got["skipped"], got["dtype"]), (128, 1, "half"), "a fixed scale")
    (got,) = records(configured({"bf16": {"enabled": True}}, "--json -"))["zero"]
    equal((got["loss_scale"], got["skipped"], got["dtype"]), (1, 0, "bfloat16"), "bf16 scales nothing")
    # ZeRO++, in nodes of zero_hpz_partition_size ranks, which --cluster may give, too.
    plus = {"zero_quantized_weights": True, "zero_quantized_gradients": True, "zero_hpz_partition_size": 2}
    config = {"zero_optimization": {"stage": 3, **plus}, "fp16": {"enabled": True}}
    (wanted,) = records(run(f"zero -g 4 --model linear:3x9 {SHORT} --stages 3 --qwz --qgz 2 --hpz 2 --growth-interval 1000 --json -"))["zero"]
    (got,) = records(configured(config, "-g 4 --json -"))["zero"]
    for name in ("checksum", "wire_bytes", "second_bytes", "gather_error", "reduce_error", "wrong"):
        equal(got[name], wanted[name], name)
    configured(config, "-g 4").prints("ignored: nothing")
    for more, says in (("-g 4 --hpz 4", "--hpz: contradicts"), ("-g 2", "--qgz 2"), ("-g 4 --reduce-dtype float", "--qgz 2 and --reduce-dtype")):
        configured(config, more, (2,)).says(says)
    configured({"zero_optimization": {"stage": 3, "zero_quantized_gradients": True}}, "-g 4", (2,)).says("give --qgz")
    configured({"zero_optimization": {"stage": 2, **plus}}, "", (2,)).says("no effect before stage 3")
    for config, says in [
        ({"optimizer": {"type": "SGD"}}, "optimizer.type: the step of SGD"),
        ({"fp16": {"enabled": True, "loss_scale": 100}}, "power of two up to 65536, not for 100"),
        ({"fp16": {"enabled": True, "initial_scale_power": 20}}, "not for 1048576"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps: 0 is not a whole number"),
    ]:
        configured(config, "", (2,)).says(says, "ds_config.json")
    for option in ("--stages 2", "-d bfloat16", "--accumulate 3", "--loss-scale 2", "--growth-interval 9", "--overlap off", "--lr 3e-4"):
        configured(CONFIG, option, (2,)).says("contradicts --ds-config")
    run("zero --ds-config /nonexistent").exits(2).says("/nonexistent: cannot be opened")


def onebit(kind, params, more=None):
    return {"optimizer": {"type": kind, "params": params}, **(more or {})}


def phases(result):
    warm, compressed = records(result)["zero"]
    equal([(r["phase"], r["stage"], r["wrong"], r["verified"]) for r in (warm, compressed)],
          [("warm-up", 0, 0, "one rank alone"), ("compressed", 0, 0, "one rank alone")], "phases")  # fmt: skip
    equal((warm["feedback_gap"], compressed["states_error_percent"]), (None, 0), "feedback and states")
    expect(compressed["feedback_gap"] < 1e-6 and warm["checksum"] != compressed["checksum"], f"{compressed}")
    return warm, compressed


@test
def one_bit_adam():
    """The seed's config as it stands: a warm-up, then signs, 16 times less than fp16; error memory of 4 P (1 + 1/N) bytes."""
    path = os.path.join(os.path.dirname(__file__), "ds_onebit_adam.json")
    result = run(f"zero -g 4 --model linear:4x200 {SHORT} --ds-config {path} --json -")
    warm, compressed = phases(result)
    # 4 layers of 40200 elements, padded to 40224: a bit of each, and 4 bytes of a scale, in both collectives.
    equal(compressed["wire_bytes"], 4 * 2 * 3 * (40224 // 32 + 4), "bytes")
    equal(compressed["formula_wire_bytes"], compressed["wire_bytes"], "formula")
    equal(warm["wire_bytes"], warm["formula_wire_bytes"], "an all-reduce")
    errors = 4 * 4 * 40224 * 5 // 4
    equal(compressed["optimizer_bytes"] - warm["optimizer_bytes"], errors, "error memory")
    text = run(f"zero -g 2 --model linear:3x9 {SHORT} --ds-config {path}").exits(0)
    text.prints("# stage 0, compressed: ", "nothing lost beyond", "ignored: train_batch_size", "freeze_step 400")


@test
def one_bit_optimizers():
    """Formats, sizes that need padding, microbatches, and a step that overflows."""
    for kind, params in (("OneBitAdam", {"weight_decay": 0.1}), ("ZeroOneAdam", {"betas": [0.5, 0.9]})):
        for more in ({"fp16": {"enabled": True}, "gradient_accumulation_steps": 2}, {"bf16": {"enabled": True}}, {}):
            for n in (1, 3) if kind == "OneBitAdam" else (2,):
                result = configured(onebit(kind, params, more), f"-g {n} --json -")
                warm, compressed = records(result)["zero"]
                equal((warm["wrong"], compressed["wrong"], compressed["states_error_percent"]), (0, 0, 0), "results")
                equal(warm["skipped"], 1 if "fp16" in more else 0, "an overflow")
    config = onebit("OneBitAdam", {})
    equal([r["wrong"] > 0 for r in records(configured(config, "--fault corrupt:1 --json -", (7,)), (7,))["zero"]], [True] * 2, "found")
    # Too large for a reference: the balance of error feedback is checked.
    (_, big) = records(configured(config, "--model 2200000 -n 1 --json -"))["zero"]
    equal((big["verified"], big["wrong"]), ("error feedback", 0), "a large model")
    configured(onebit("OneBitLamb", {}), "", (2,)).says("the step of OneBitLamb is not known", "data_parallel_perf --train 100 --coded onebit-lamb")
    configured(onebit("OneBitAdam", {}, {"zero_optimization": {"stage": 1}}), "", (2,)).says("refuses this optimizer with ZeRO")
    for more in ("--master off", "--lr 1e-4"):
        configured(config, more, (2,)).says(more.split()[0], "has its own")
    configured(config, "--stages 1", (2,)).says("contradicts --ds-config")
    # Each part of a wide table has the phases.
    text = configured(config, "").out
    equal(text.count("\n  compressed "), text.count("# phase "), "rows of parts")
    expect(text.count("# phase ") > 1, text)
    configured(config, "--backend sim --cluster hgx-h100:1").prints("stage 0, compressed", "NCCL's messages model")


@test
def one_bit_adam_over_mpi():
    mpi.need()
    path = os.path.join(os.path.dirname(__file__), "ds_onebit_adam.json")
    phases(mpi.run(3, f"zero --model linear:3x9 {SHORT} --ds-config {path} --json -"))


# ---- memory --------------------------------------------------------------------------------

@test
def states():
    """16 P; 4 P + 12 P / n; 2 P + 14 P / n; 16 P / n bytes, exactly."""
    psi, n = 4 * (64 * 64 + 64), 4
    each = ((2, 2, 12), (2, 2, 12 / n), (2, 2 / n, 12 / n), (2 / n, 2 / n, 12 / n))
    for r, wanted in zip(zero(f"-g {n} --model linear:4x64 {SHORT}", padding=0, parameters=psi), each):
        for name, factor in zip(STATES, wanted):
            equal(r[f"formula_{name}_bytes"], factor * psi, f"formula of {name}")
        # The peak of stages 2 and 3 is in the backward pass, when the optimizer's states exist.
        equal([r[f"{name}_bytes"] for name in STATES], [r[f"formula_{name}_bytes"] for name in STATES], "held")
        equal(r["held_bytes"], r["formula_bytes"] + r["communication_bytes"], "peak")
        equal(r["reserved_bytes"], r["held_bytes"] + r["fragmentation_bytes"], "reserved")
        equal(r["host_bytes"], 0, "nothing is offloaded")


@test
def padding():
    """Layers of 90 elements on 4 ranks: 92 each."""
    found = zero(f"-g 4 --model linear:3x9 {SHORT}")
    equal([r["padding"] for r in found], [0, 6, 6, 6], "padding")
    equal(found[0]["formula_bytes"], 16 * 270, "whole")
    equal(found[3]["formula_bytes"], 16 * 69, "divided")


@test
def moments():
    """Layers are gathered, at most two at a time, and freed."""
    found = records(run(f"zero -g 2 --model linear:4x64 --stages 3 --algo direct {SHORT} --json -"))
    layer = 2 * (64 * 64 + 64)
    names = [(m["moment"], m["item"]) for m in found["zero_moment"]]
    equal(names, [("model", None), ("wrapped", None)] + [("forward", i) for i in range(4)]
          + [("backward", i) for i in (3, 2, 1, 0)] + [("before optimizer", None), ("after optimizer", None)], "moments")
    own = found["zero_moment"][1]["communication_bytes"]
    layers = [(m["communication_bytes"] - own) / layer for m in found["zero_moment"]]
    equal(layers[1:], [0, 2, 2, 2, 1, 3, 4, 4, 3, 0, 0], "layers and buckets")
    peaks = [m["peak_bytes"] for m in found["zero_moment"]]
    equal(peaks, sorted(peaks), "a peak never falls")


@test(full=True)
def four_points():
    """20 layers of 2000 x 2000 in fp32, as in PyTorch's example: the sharded optimizer takes half."""
    line = "zero -g 2 --model linear:20x2000 -d float --stages 0,1 -n 1 -w 0 -c 0 --json -"
    whole, sharded = records(run(line))["zero"]
    psi = 20 * (2000 * 2000 + 2000)
    comm = sharded["wrapped_bytes"] - 4 * psi
    for r, optimizer, extra in ((whole, 8, whole["wrapped_bytes"] - 4 * psi), (sharded, 4, comm)):
        equal([r[f"{point}_bytes"] for point in ("model", "wrapped", "before", "after")],
              [4 * psi, 4 * psi + extra, 8 * psi + extra, (8 + optimizer) * psi + extra], "peaks")
        expect(extra < 0.01 * psi, f"what communication needs: {extra}")
        # The process grew by the allocated bytes, within a percent.
        expect(abs(r["system_error_percent"]) < 1, f"system {r}")


@test
def the_system_agrees():
    """Also for a small model: constant memory of the processes is allocated before, and separated."""
    for r in zero("-g 4 -n 1 -w 0 --overflow 0"):
        expect(abs(r["system_error_percent"]) < 1 and r["system_constant_bytes"] >= 0, f"system {r}")
    small = zero("-g 2 --model linear:3x9 -n 1 -w 0 --overflow 0")
    equal({r["system_error_percent"] for r in small}, {None}, "of a few pages")


@test
def one_of_many():
    """The published column, scaled by 1000: 120, 31.4, 16.6, 1.9."""
    found = records(run("zero --as-rank 0 --world 64 --model 7.5M --json -"))["zero"]
    equal([f"{r['formula_bytes'] / 1e6:.1f}" for r in found], ["120.0", "31.4", "16.6", "1.9"], "formula")
    for r in found:
        equal((r["states_error_percent"], r["alone"], r["nranks"]), (0, True, 64), "held")
        equal((r["checksum"], r["wire_bytes"], r["step_us"]), (None, None, None), "nothing is trained")
        grown = r["system_error_percent"]
        equal(grown is None, r["reserved_bytes"] < 4 << 20, f"system of stage {r['stage']}")
        expect(grown is None or abs(grown) < 1, f"system {r}")
    few = records(run("zero --as-rank 3 --world 4 --model linear:4x64 --json -"))["zero"]
    together = zero(f"-g 4 --model linear:4x64 {SHORT} --algo direct")
    equal([r["formula_bytes"] for r in few], [r["formula_bytes"] for r in together], "as in that world")


# ---- traffic -------------------------------------------------------------------------------

@test
def wire():
    """Rings send 2, 2, 2 and 3 times the model, times (n - 1) / n; micro-batches count only for stages 2 and 3."""
    for n in (2, 4):
        for g in (1, 3):
            found = zero(f"-g {n} --model linear:4x64 {SHORT} --accumulate {g}")
            part = (n - 1) / n
            equal([r["wire_volumes"] for r in found], [2 * part, 2 * part, (1 + g) * part, 3 * g * part], "volumes")
            equal([r["wire_bytes"] for r in found], [r["formula_wire_bytes"] for r in found], "formula")
    for r in zero(f"-g 4 --model linear:3x9 {SHORT}")[1:]:
        equal(r["wire_bytes"], r["formula_wire_bytes"], "with the padding")


# ---- units and gathers ---------------------------------------------------------------------

UNITS = "--model llama:layers=2,hidden=16,heads=2,vocab=50,seq=8,ffn=40"


@test
def units():
    """However units are divided, padded, gathered and reduced, elements and results are the same."""
    sums = set()
    for words, number, padding, gathered in (
            ("", 4, 0, 2),
            ("--units blocks --prefetch 2 --backward-prefetch post", 3, 0, 3),
            ("--units size:2000 --padding parameter --reshard 2", 3, 64, 3),
            ("--units size:1 --prefetch 0 --separate-groups", 21, 0, 1),
            ("--reshard 1 --reduce-dtype float --backward-prefetch none --overlap off", 4, 0, 4)):
        found = zero(f"-g 4 {UNITS} {SHORT} {words}", units=number)
        equal([r["padding"] for r in found], [0] + 3 * [padding], f"padding with {words}")
        equal((found[3]["gathered_units"], found[0]["gathered_units"]), (gathered, None), f"gathered with {words}")
        equal([r["wire_bytes"] for r in found], [r["formula_wire_bytes"] for r in found], f"wire with {words}")
        sums |= {r["checksum"] for r in found}
    equal(len(sums), 1, "checksums")
    many = "--accumulate 3 --reduce-dtype float --padding parameter --units size:2000 --reshard 3 -d bfloat16"
    zero(f"-g 3 {UNITS} {SHORT} {many}", skipped=1)
    # Each of four ranks keeps half of the parameters for the backward pass.
    half = zero(f"-g 4 --model linear:4x64 {SHORT} --reshard 2")[3]
    equal((half["second_bytes"], half["parameters_bytes"]), (4 * 64 * 65, 3 * 2 * 64 * 65), "second partition")
    for words, code in (("", 0), ("--fault corrupt:2", 7)):
        result = run(f"zero -g 4 {UNITS} {SHORT} --stages 3 --units size:2000 --padding parameter --reshard 2 {words}")
        result.exits(code).prints("# units: 3, at most 3 gathered at once; formula of equal units: forward")
    # Without memory that the CPU reaches.
    check(gpus.run(f"zero -g 2 {UNITS} {SHORT} --units blocks --padding parameter --reduce-dtype float --json -"))


@test
def paces():
    """Four units in virtual time: PyTorch's orders of gathers and reductions, in ms, and what 64 ranks send."""
    for computes, gather, words, forward, backward in (
            (10, 6, "", 46, 6 + 86), (10, 6, "--separate-groups", 46, 6 + 86), (10, 6, "--prefetch 0", 64, 128),
            (10, 6, "--backward-prefetch post", 46, 6 + 104), (10, 14, "", 66, 124), (10, 14, "--prefetch 0", 96, 192),
            (5, 8, "", 37, 8 + 60), (5, 8, "--separate-groups", 37, 8 + 48), (5, 8, "--backward-prefetch post", 37, 80)):
        line = f"zero --backend sim -g 2 --link 1TB/s,{gather}ms --stages 3 --model 4 --step-time {12 * computes}ms"
        (found,) = records(run(f"{line} {words} --json -"))["zero"]
        for name, wanted in (("forward", forward), ("backward", backward)):
            for us in (found[f"{name}_us"], found[f"formula_{name}_us"]):
                expect(abs(us - 1000 * wanted) < 0.01, f"{name} with {computes}, {gather} and {words}: {us}")
    for words, volumes in (("", 3 * 63 / 64), ("--reshard 1", 2 * 63 / 64), ("--reshard 8", 2 * 63 / 64 + 7 / 8)):
        (found,) = records(run(f"zero --backend sim -g 64 --link 1GB/s --model 64T --stages 3 {words} --json -"))["zero"]
        equal(found["wire_volumes"], volumes, f"models sent with {words}")


@test
def codes():
    """ZeRO++: as one rank alone that codes alike, bit by bit; the other stages code nothing."""
    for words, gathers, reduces in (
            ("--qwz", True, False), ("--qgz 2 --accumulate 3 -d bfloat16", False, True),
            ("--qwz --hpz 2 --qgz 2 --overlap off", True, True),
            (f"--qwz --qgz 2 -d float {UNITS} --units size:2000 --padding parameter --prefetch 2", True, True)):
        found = records(run(f"zero -g 4 --model linear:3x31 {SHORT} {words} --json -"))["zero"]
        equal(({r["wrong"] for r in found}, {r["verified"] for r in found}), ({0}, {"one rank alone"}), words)
        equal([len({r["checksum"] for r in found[:n]}) for n in (3, 4)], [1, 2], f"results with {words}")
        last = found[3]
        equal((last["wire_bytes"], last["states_error_percent"]), (last["formula_wire_bytes"], 0), f"sent with {words}")
        # Uniform numbers in 256 and 16 steps: 1/256/sqrt(3) and more than sqrt(2) times 1/16/sqrt(3) off.
        for name, coded, least, most in (("gather", gathers, 0.003, 0.005), ("reduce", reduces, 0.05, 0.2)):
            error = last[f"{name}_error"]
            expect(least < error < most if coded else error is None, f"{name} with {words}: {error}")
    line = f"zero -g 4 --model linear:3x31 {SHORT} --stages 3 --qwz --hpz 2 --qgz 2"
    run(f"{line} --fault corrupt:3").exits(7).prints("Wrong data in 1 of 1 result", "A node sends 0.0", "% RMS error")
    run("zero -g 1 --model linear:3x31 --qwz").exits(2).says("--qwz: one rank gathers nothing")
    result = gpus.run("zero -g 2 --model linear:3x31 --qwz").exits(5)
    expect("--qwz" in result.err and "the CPU, which codes" in result.err, f"memory of GPUs: {result.err}")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"zero_optimization": {"stage": 3, "zero_quantized_weights": True}, "bf16": {"enabled": True}}, file)
        file.flush()
        gpus.run(f"zero -g 2 --model linear:3x31 --ds-config {file.name}").exits(5).says("the CPU makes the codes of ZeRO++")
    # 32 units of 4096 x 4096 on 4 nodes of 8 ranks, where plain stage 3 sends 3 models, here 0.75, times (n - 1) / n.
    line = "zero --backend sim --link 10GB/s -g 32 --model 536870912 --stages 3 --hpz 8"
    for words, across, wire in (("", 2 * 31 * (1 << 20), 2 * 31 * (1 << 20) + 7 * (1 << 22)),
                                ("--qwz --qgz 8", 31 * 524800 + 6303744, 31 * 524800 + 7 * (1 << 22) + 7354368 + 787968)):
        (found,) = records(run(f"{line} {words} --json -"))["zero"]
        equal((found["across_bytes"], found["wire_bytes"], found["second_bytes"]), (32 * across, 32 * wire, 1 << 27),
              f"bytes with {words}")


# ---- backends ------------------------------------------------------------------------------

@test
def virtual_time():
    """No data. Without overlap, the sum of the rings' times."""
    line = "zero --backend sim -g 4 --model linear:4x64 --link 1GB/s,0us --step-time 3ms --overlap off --json -"
    found = records(run(line))["zero"]
    psi = 2 * 4 * (64 * 64 + 64)
    for r in found:
        volumes = (1.5, 1.5, 1.5, 2.25)[r["stage"]]
        expect(abs(r["step_us"] - 3000 - volumes * psi / 1e3) < 0.1, f"step {r}")
        equal((r["wrong"], r["checksum"], r["system_bytes"], r["overlap"]), (None, None, None, "off"), "no data")
    large = records(run("zero --backend sim -g 64 --model 7.5B --stages 3 --link 10GB/s --json -"))["zero"][0]
    equal((large["formula_bytes"], large["padding"], large["states_error_percent"]),
          (1875000000 + 16 * large["padding"] // 64, 32 * 40, 0), "7.5B on 64")
    # No machine has so much memory: both figures have the same form.
    result = run("zero --as-rank 0 --world 2 --model 999T --stages 0,1").exits(5)
    expect(re.search(r"stage 0 needs 16(\.\d)? PB on 1 rank, but only [\d.]+ [MGT]B are available; give a smaller --model",
                     result.err), f"refusal: {result.err}")


@test
def overlap_in_virtual_time():
    """Layers compute 1 ms forward and 2 ms backward, the first one 1 ms; a gather or reduce-scatter takes 0.5 ms."""
    layer = 2 * (64 * 64 + 64)
    rate = layer * 0.75 / 0.5e-3
    line = f"zero --backend sim -g 4 --model linear:4x64 --link {rate / 1e6:.6f}MB/s,0us --step-time 11ms --json -"
    # Exposed: the last reduction; with stage 3 also the first gather of each pass.
    wanted = ((0, 1), (0, 0.5), (0, 0.5), (0.5, 1))
    for r, (forward, backward) in zip(records(run(line))["zero"], wanted):
        expect(abs(r["forward_wait_us"] / 1e3 - forward) < 1e-3, f"forward {r}")
        expect(abs(r["backward_wait_us"] / 1e3 - backward) < 1e-3, f"backward {r}")
        gather = 2 if r["stage"] in (1, 2) else 0
        expect(abs(r["gather_us"] / 1e3 - gather) < 5e-3, f"gather {r}")
        expect(abs(r["step_us"] / 1e3 - 11 - forward - backward - gather) < 5e-3, f"step {r}")
    slow = [r["step_us"] for r in records(run(line.replace("11ms", "1us")))["zero"]]
    flops = 4 * 64 * 64 * 6 - 64 * 64 * 2  # nothing is learned before the first layer
    counted = records(run(line.replace("--step-time 11ms", f"--batch 2 --flops {flops / 6e3:.6f}M")))["zero"][0]
    expect(abs(counted["step_us"] / 1e3 - 12 - 1) < 0.2, f"two samples, 6 ms each {counted}")
    volumes = (4, 4, 4, 6)  # of four layers, 0.5 ms each
    expect(all(abs(us / 1e3 - 1e-3 - v) < 0.02 for us, v in zip(slow, volumes)), f"nothing to hide behind {slow}")


@test
def processes():
    mpi.need()
    found = check(mpi.run(3, f"zero --model linear:3x9 {SHORT} --accumulate 2 --json -"), nranks=3, skipped=1)
    host = zero(f"-g 3 --model linear:3x9 {SHORT} --accumulate 2")
    equal(found[0]["checksum"], host[0]["checksum"], "as among threads")
    equal([r["wire_bytes"] for r in found], [r["wire_bytes"] for r in host], "wire")


@test
def gpu_stand_ins():
    """Memory that the CPU cannot reach; the optimizer's in host memory."""
    host = zero(f"-g 2 --model linear:3x90 {SHORT}")
    for words in ("", "--offload", "--overlap off"):
        found = check(gpus.run(f"zero -g 2 --model linear:3x90 {SHORT} {words} --json -"))
        equal({r["checksum"] for r in found}, {host[0]["checksum"]}, "as on the host")
        for r in found:
            states = r["formula_optimizer_bytes"]
            equal((r["host_bytes"], r["optimizer_bytes"]), (states, 0) if "off" in words[:5] else (0, states),
                  f"optimizer of {r}")
    slow = gpus.run(f"zero -g 2 --model linear:3x90 {SHORT} --json -", env={"BUSBENCH_FAKE_COPY_US": "2000"})
    equal({r["checksum"] for r in check(slow)}, {host[0]["checksum"]}, "collectives wait for the copies before them")


# ---- wrong ---------------------------------------------------------------------------------

@test
def bad_words():
    for line, code, words in (
            ("--stages 4", 2, ("--stages", "4", "0, 1, 2, 3")),
            ("--stages 0,,1", 2, ("--stages",)),
            ("-b 1M", 2, ("-b", "--model")),
            ("--precision 1%", 2, ("--precision",)),
            ("--model linear:4", 2, ("linear",)),
            ("--as-rank 3", 2, ("--world",)),
            ("--compute spin", 2, ("--compute", "--step-time or --flops")),
            ("--compute gemm --step-time 1ms", 2, ("--compute gemm", "--flops")),
            ("--compute gemm --flops 1T --backend host", 5, ("--compute gemm", "host backend multiplies no matrices")),
            ("--world 3", 2, ("--as-rank",)),
            ("--as-rank 3 --world 3", 2, ("--as-rank 3", "0 to 2")),
            ("-g 2 --as-rank 0 --world 3", 2, ("--as-rank", "-g")),
            ("-d float --overflow 1", 2, ("--overflow", "-d")),
            ("-n 2 -w 0 --overflow 3", 2, ("--overflow 3", "2 steps")),
            ("-g 4 -d bfloat16 --accumulate 100", 2, ("--accumulate 100", "exact")),
            ("--algo ring,tree", 2, ("--algo", "one")),
            ("--algo rings", 2, ("rings", "ring")),
            ("--offload", 5, ("--offload", "host")),
            ("--backend sim --link 1GB/s --as-rank 0 --world 2", 5, ("--as-rank", "sim")),
            ("--model 0", 2, ("--model 0",)),
            ("--model 2000T", 2, ("2000T", "1000T")),
            ("--flops 1T --step-time 1ms", 2, ("--flops", "--step-time")),
            ("--flops fast", 2, ("fast",)),
            ("--flops 1T --model 7M", 2, ("--flops", "--step-time")),
            ("--batch 3", 2, ("--batch", "--flops")),
            ("--loss-scale 50000", 2, ("--loss-scale", "power of two")),
            ("--units modules", 2, ("--units modules", "size:COUNT")),
            ("--units size:0", 2, ("--units size:0",)),
            ("--padding parameter --model 7M", 2, ("--padding parameter", "bare number")),
            ("--units blocks --model 7M", 2, ("--units", "bare number")),
            ("--prefetch 3", 2, ("--prefetch", "3")),
            ("--stages 2 --prefetch 1", 2, ("--prefetch", "stage 3")),
            ("--stages 0,1 --reduce-dtype float", 2, ("--reduce-dtype", "stage 2")),
            ("-g 4 --hpz 3", 2, ("--hpz 3", "4 ranks", "divisor")),
            ("-g 4 --qgz 4", 2, ("--qgz 4", "2 nodes")),
            ("-g 4 --qgz 2 --hpz 4", 2, ("--qgz 2", "--hpz 4")),
            ("-g 4 --hpz 2 --reshard 2", 2, ("--hpz", "--reshard")),
            ("-g 4 --qgz 2 --separate-groups", 2, ("--qgz", "--separate-groups")),
            ("--stages 1,2 --qwz", 2, ("--qwz", "stage 3")),
            ("-g 4 --reshard 3", 2, ("--reshard 3", "4 ranks", "divisor")),
            ("--model 900T", 5, ("stage 0", "--model"))):
        result = run(f"zero {line}").exits(code)
        for word in words:
            expect(word in result.err, f"{line}: {word} in {result.err}")


@test
def tables():
    run(f"zero -g 2 --model linear:3x9 {SHORT}").exits(0).prints("270 parameters in 3 units, half", "checksum", "#wrong")
    run("zero --as-rank 1 --world 8 --model 1M").exits(0).prints("only rank 1 of 8", "N/A")
    run("zero --list").exits(0).prints("linear")
    lines = run(f"zero -g 2 --model linear:3x9 {SHORT} --csv -").exits(0).out.splitlines()
    equal(len(lines), 5, "a row for each stage")
