"""Training on simulated clusters of GPUs: collectives of a step are NCCL's, with the model and names of single
collectives."""


from kit import equal, expect, run, test

H100 = "--backend sim --cluster hgx-h100"
DDP = "ddp_bucket --model gpt2 --buckets 25M --overlap off"


def records(line, kind, **options):
    return run(f"{line} --json -", **options).exits(0).records(kind)


def near(got, wanted, what):
    expect(abs(got - wanted) <= 1e-9 * wanted, f"{what}: {got!r}, not {wanted!r}")


def alone(collective, size, algorithm, nodes, **options):
    return records(f"{collective} {H100}:{nodes} -b {size} -e {size} --algo {algorithm}", "result", **options)[1]["time_us"]


def evaluated_by(line):
    return records(line, "end")[0]["evaluated_by"]


@test
def steps_are_sums():
    """A bucket takes the time of an all-reduce of its size; without overlap a step is the sum of computations and
    buckets."""
    found = records(f"{DDP} {H100}:4 --algo auto,tree,ring:LL,busbench:halving_doubling", "data_parallel")
    for r in (r for r in found if r["grouping"] == "cap"):
        for size in set(r["bucket_bytes"]):
            took = [us for us, bytes in zip(r["bucket_us"], r["bucket_bytes"]) if bytes == size]
            for us in took[:1] + took[-1:]:
                # Only the first of several buckets begins at 0, where times are exact to the last bit.
                expect(abs(us / alone("all_reduce", size, f"{r['algorithm']} -o avg", 4) - 1) < 1e-6, f"{r['algorithm']}: {size} bytes in {us} us")
        near(r["reduce_us"], sum(r["bucket_us"]), "the sum")
        near(r["step_us"], r["compute_us"] + r["reduce_us"], f"a step by {r['algorithm']}")
        expect(abs(r["error_percent"]) < 1e-6, "the model of the step is not the step")


@test
def names():
    """Plain names and auto are NCCL's, busbench:NAME is a schedule, as for single collectives."""
    took = {r["algorithm"]: r["reduce_us"] for r in records(f"{DDP} {H100}:2 --algo auto,ring,busbench:ring,tree:LL128,auto:Simple", "data_parallel")
            if r["grouping"] == "one"}
    expect(took["auto"] <= min(took["ring"], took["tree:LL128"]) and took["busbench:ring"] > 2 * took["ring"], str(took))
    expect("model of NCCL" in records(f"{DDP} {H100}:2", "run")[0]["library"], "the record names no library")
    out = run(f"{DDP} {H100}:2 --algo ring,busbench:ring").exits(0).out
    expect("# Evaluated by: event simulation; all_reduce among 16 on 2 nodes: ring:LL128 model, ring:Simple model, busbench:ring alike" in out, out)
    expect("# The model ignores contention" in out, "the limit of the model is missing")
    out = run(f"{DDP} {H100}:2 --algo busbench:ring").exits(0).out
    expect(" model" not in out[out.index("# Evaluated by"):] and "# The model" not in out, out)


@test
def groups():
    """Each group has the shape that NCCL would find: tensor ranks on a node, data ranks on two GPUs of each."""
    found = {r["part"]: r for r in records(f"hybrid_parallel {H100}:4 --model gpt2 --tp 4 --dp 8", "hybrid")}
    data = found["data"]
    near(data["time_us"], alone("all_reduce", data["sent_bytes"] * 8 // 14, "auto -o avg", 4, env={"NCCL_TESTS_SPLIT": "MOD 4"}), "data ranks")
    text = evaluated_by(f"hybrid_parallel {H100}:4 --model gpt2 --tp 4 --dp 8")
    expect("all_reduce among 4 on 1 node: " in text and "all_reduce among 8 on 4 nodes: " in text, text)


@test
def nodes_that_differ():
    """NCCL uses the mean number of ranks and the lowest rate."""
    line = "-b 1G -e 1G --algo ring:Simple"
    uneven, even = (records(f"all_reduce {H100}:2 {line} -g {n}", "result")[0]["time_us"] for n in (11, 16))
    expect(uneven > 2 * even, f"3 rails of a node take {uneven} us, 8 take {even}")
    expect("model" in run(f"all_reduce {H100}:2 {line} -g 11").exits(0).out.split("# Evaluated by: ")[1].split("\n")[0], "no model")


@test
def what_there_is_no_model_of():
    """Without a model it is refused, or a schedule runs and the reason is printed."""
    run(f"{DDP} {H100}:2 --algo nvls").exits(5).says("among 16 ranks: NVLS is for one node")
    run(f"hybrid_parallel {H100}:2 --model gpt2 --tp 4 --dp 4 --algo nvls").exits(5).says("nvls among 4 ranks")
    out = run(f"zero {H100}:2 --stages 1 -n 1 --algo nvlstree").exits(5).out
    expect("reduce_scatter by nvlstree among 16 ranks: NCCL has no such algorithm" in out, out)
    # The rank without its rail uses that of another group, and all groups run at once.
    line = "hybrid_parallel --backend sim --cluster hgx-h100:2 --model llama2-7b --tp 8 --dp 2 --fault"
    for algorithm in ("auto", "busbench:ring"):
        lost, slow = (records(f"{line} {fault} --algo {algorithm}", "end")[0] for fault in ("lost_rail:1:2", "slow_rail:1:2:2"))
        expect(1.05 < lost["faulty_s"] / lost["faultless_s"] < 2, f"a lost rail by {algorithm}: {lost}")
        expect(abs(lost["faulty_s"] / slow["faulty_s"] - 1) < 1e-3, f"{algorithm}: {lost['faulty_s']} s, a slow rail {slow['faulty_s']} s")
    for line in (f"{DDP} {H100}:2", f"zero {H100}:2 --model 7.5M --stages 1 -n 1", f"zero {H100}:2 --model 7.5M --stages 3 -n 1 --overlap off"):
        for algorithm in "ring", "auto":
            end, sound = (records(f"{line} --algo {algorithm} {fault}", "end")[0] for fault in ("--fault slow_link:0:8:4", ""))
            equal(end["evaluated_by"], sound["evaluated_by"], "a slow link changes no choice")
            expect(" model" in end["evaluated_by"] and end["faulty_s"] > 1.05 * end["faultless_s"], f"{line}: {end}")
        end = records(f"{line} --fault slow_link:7:8:4", "end")[0]
        near(end["faulty_s"], end["faultless_s"], "NCCL keeps to a rail")
        run(f"{line} --fault slow_link:0:1:4").exits(5).prints("NCCL's paths between GPUs of a node are not modelled")
    out = run(f"all_reduce {H100}:2 -b 1M -e 1M -o band -d int32").exits(0).out
    expect("# auto int32 band: recursive_doubling runs, because NCCL has no logical or bitwise operations" in out, out)
    out = run(f"all_reduce {H100}:1 -g 1 -b 1M -e 1M").exits(0).out
    expect("busbench:ring runs, because NCCL does nothing for one rank in place" in out, out)
    # A group of one has nothing to refuse.
    run(f"hybrid_parallel {H100}:1 --model gpt2 --tp 4 --pp 2 --algo nvls").exits(5).says("among 2 ranks")
    line = f"pipeline --stages 4 --schedule 1f1b {H100}:1"
    equal([evaluated_by(line), records(line, "run")[0]["library"]], [None, None], "a pipeline has messages alone")


@test
def zero_and_overlap():
    """Single collectives and those of a program take the same time."""
    line = f"zero {H100}:2 --model 7.5M --stages 2 -n 1 --overlap"
    texts = [evaluated_by(f"{line} {overlap}") for overlap in ("on", "off")]
    equal(sorted(texts[0].split("; ")), sorted(texts[1].split("; ")), "played by")
    expect("reduce_scatter among 16 on 2 nodes: ring" in texts[0], texts[0])


@test
def faults_of_a_node():
    """The fault of a rail affects the groups that use it."""
    line = f"hybrid_parallel {H100}:4 --model gpt2 --tp 4 --dp 8 --fault slow_rail:1:"
    sound = {r["part"]: r["time_us"] for r in records(line.split(" --fault")[0], "hybrid")}
    for rail, times in ((0, 4), (7, 4)):
        slow = {r["part"]: r["time_us"] for r in records(f"{line}{rail}:{times}", "hybrid")}
        near(slow["tensor"], sound["tensor"], "within a node")
        expect(2 < slow["data"] / sound["data"] < 4.01, f"rail {rail}: {sound['data']} us became {slow['data']}")
