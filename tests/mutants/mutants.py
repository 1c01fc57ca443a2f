"""Planted defects: a change of one file, and the fastest unsanitized test of `make check` that notices it.

OLD occurs once in FILE. TEST is the word of tests/run.py -k, and PROGRAMS are those that it runs, unless it is a unit
test. A mutant that HANGS makes the test reach its time limit.
"""


class Mutant:
    def __init__(self, name, file, old, new, test, programs="", hangs=False):
        self.name, self.file, self.old, self.new, self.test = name, file, old, new, test
        self.hangs = hangs
        self.programs = programs.split()
        if test.startswith("unit/"):
            self.programs.append("tests/" + test.split()[0].split("/")[1])


MUTANTS = [
    # Algorithms.
    Mutant("ring: all_gather sends backwards", "src/schedules/ring.c",
           "bb_send(w, bb_wrap(rank + 1, n), from, bb_block_count(blocks, mine));",
           "bb_send(w, bb_wrap(rank - 1, n), from, bb_block_count(blocks, mine));", "unit/test_schedules"),
    Mutant("ring: all_reduce sums into the wrong block", "src/schedules/ring.c",
           "size_t start = bb_block_start(&blocks, d);\n\n\t\tbb_send(", "size_t start = bb_block_start(&blocks, s);\n\n\t\tbb_send(",
           "unit/test_schedules"),
    Mutant("tree: a leaf's parent is its neighbour's", "src/schedules/tree.c",
           "int parent = (node & ~bit) | 2 * bit;", "int parent = (node | bit) + bit;", "unit/test_schedules"),
    Mutant("bus factor of all_reduce", "src/schedules/collectives.c",
           "return 2.0 * (n - 1) / n;", "return 2.0 * n / (n + 1);", "unit/test_schedules"),
    # Data.
    Mutant("conversion: rounds towards zero", "src/core/scalar.c",
           "scaled = rint(ldexp(", "scaled = trunc(ldexp(", "unit/test_scalar"),
    Mutant("verification: of collectives skipped", "src/harness/measure/measure.c",
           "for (int64_t round = 0; round < options->check; round++) {",
           "for (int64_t round = 0; round + 1 < options->check; round++) {",
           "cli/test_correct corrupt all_reduce 3", "all_reduce_perf"),
    Mutant("verification: of training steps skipped", "src/harness/measure/trials.c",
           "BB_TRY(status, t->expects->verify(t->workload.own, &wrong), out);", "wrong = 0;",
           "cli/test_moe what_is_wrong_is_found", "moe_alltoall_perf"),
    # Barriers.
    Mutant("barrier: clocks begin during warm-up", "src/harness/measure/measure.c",
           """	/* No clock may begin while another rank still warms up. */
	status = bb_job_line_up(job);
""",
           "", "unit/test_late"),
    Mutant("barrier: clocks begin unaligned", "src/harness/measure/measure.c",
           "	return status == BB_OK ? e->backend->barrier(e->world) : status;\n",
           "	return status;\n", "unit/test_late"),
    Mutant("barrier: looks at what others still write", "src/harness/measure/measure.c",
           """		/* No rank may still write when another verifies. */
		BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
""",
           "", "unit/test_late"),
    Mutant("barrier: host's lets ranks pass", "src/backends/host/team.c",
           "return bb_host_wait(context, &team->bells[group->me], &team->barrier_opened, number);",
           "return BB_OK;", "unit/test_host"),
    # Time.
    Mutant("quantile: of one value more", "src/core/stats.c",
           "double at = (double)(n - 1) * p;", "double at = (double)n * p;", "unit/test_stats"),
    Mutant("warm-up: counted among samples", "src/harness/measure/engine.c",
           "if (status == BB_OK && i >= 0)\n\t\t\ts->heard(", "if (status == BB_OK)\n\t\t\ts->heard(",
           "cli/test_barrier on_null", "barrier_perf"),
    Mutant("warm-up: a step counted among samples", "src/harness/measure/trials.c",
           "status = bb_runner_run(runner, NULL, &end);",
           "status = bb_runner_run(runner, NULL, &end), t->samples[t->n++] = end;",
           "cli/test_moe -g 2", "moe_alltoall_perf"),
    Mutant("warm-up: left out", "src/harness/measure/measure.c",
           "for (int64_t i = 0; i < s->engine.options->warmup_iters; i++)",
           "for (int64_t i = 0; i < 0; i++)", "unit/test_late"),
    Mutant("records: time_us in milliseconds", "src/harness/measure/judge.c",
           "result->time_us = seconds * 1e6;", "result->time_us = seconds * 1e3;", "cli/test_sim closed_forms", "all_reduce_perf"),
    Mutant("bound: link counted twice", "src/harness/measure/judge.c",
           "const double links = s->n > 1 && !port ? s->n - 1 : 1;", "const double links = s->n > 1 && !port ? s->n : 1;",
           "cli/test_sim bounds", "all_reduce_perf"),
    Mutant("bound: of a topology without its factor", "src/topology/bound_node.c",
           "limit->GBps = GBps * factor;", "limit->GBps = GBps;", "unit/test_topology_bound"),
    # Virtual time.
    Mutant("simulator: links half as fast", "src/simulator/timeline_parts.h",
           "return links->rate > 0 ? bytes / links->rate : 0;", "return links->rate > 0 ? 2 * bytes / links->rate : 0;",
           "unit/test_sim"),
    Mutant("calibration: intervals of the nearest error", "src/simulator/calibration_cross.c",
           "#define NEAREST 9", "#define NEAREST 1", "cli/test_calibrate intervals", "all_reduce_perf"),
    Mutant("calibration: what is left out stays in the fit", "src/simulator/calibration_cross.c",
           "if (!is_of(fold, &c->points[i]))", "if (c->points[i].bytes > 0)", "cli/test_calibrate intervals", "all_reduce_perf"),
    Mutant("calibration: a log of other GPUs passes", "src/simulator/calibration_nccl.c",
           "if (!of_log || !of_cluster || of_log == of_cluster)", "if (!of_log || of_cluster)",
           "cli/test_calibrate bad_logs", "all_reduce_perf"),
    Mutant("simulator: a rule of Open MPI holds for its bytes, too", "src/simulator/openmpi.c",
           "|| bytes < below)", "|| bytes <= below)", "unit/test_openmpi"),
    Mutant("simulator: memory is as fast as if caches held nothing", "src/simulator/fabric.c",
           "beyond > 0 ? beyond : 0", "beyond > 0 ? 1 : 0", "unit/test_evaluators"),
    Mutant("simulator: NCCL's ring sends each byte once", "src/simulator/nccl_model.c",
           "v->bytes * ring_steps(collective, v->m->ranks) / n", "v->bytes", "unit/test_nccl_model"),
    # Training.
    Mutant("ZeRO: gradients divided from stage 3", "src/models/memory/states.c",
           "each.gradients * (stage >= 2 ? part : elements)", "each.gradients * (stage >= 3 ? part : elements)",
           "unit/test_states"),
    Mutant("ZeRO: a rank sends its own part, too", "src/models/memory/states.c",
           "return (ranks - 1) * bb_partition(elements, ranks);", "return ranks * bb_partition(elements, ranks);",
           "unit/test_states"),
    Mutant("1F1B: one forward pass more ahead", "src/training_kernels/pipeline/order.c",
           "(int64_t)reach * (order->stages - 1 - stage);", "(int64_t)reach * (order->stages - stage);", "unit/test_pipeline"),
    Mutant("bubble: over the total, not the ideal", "src/training_kernels/pipeline/result.c",
           "r.bubble_over_ideal = ratio(r.makespan - r.ideal, r.ideal);",
           "r.bubble_over_ideal = ratio(r.makespan - r.ideal, r.makespan);", "unit/test_pipeline_program"),
    Mutant("DDP: a full bucket takes one tensor more", "src/training_kernels/buckets.c",
           "if (open->bytes >= (buckets->n == 1", "if (open->bytes > (buckets->n == 1", "unit/test_buckets"),
    Mutant("DDP: a bucket does not wait for the one before", "src/training_kernels/step_model.c",
           "const double start = may > end ? may : end;", "const double start = may;", "unit/test_step_model"),
    Mutant("program: received into two queues", "src/programs/check.c",
           "if (lane->receiver != o->queue)", "if (lane->receiver < 0)", "unit/test_program"),
    Mutant("MoE: the busiest rank is the idlest", "src/training_kernels/moe/load.c",
           "load->rows_to[r] > load->rows_to[load->busiest]", "load->rows_to[r] < load->rows_to[load->busiest]",
           "unit/test_moe"),
    Mutant("hybrid: zb-h1 idles as long as 1f1b", "src/training_kernels/hybrid/bubble.c",
           "(pass - form->weights)", "(pass + form->weights)", "unit/test_bubble"),
    Mutant("hybrid: experts on one tensor rank gather the rows of all", "src/training_kernels/hybrid/volume.c",
           "s->routes ? bb_grid_expert_tensor(&s->grid) : s->grid.tp", "s->grid.tp", "unit/test_hybrid"),
    Mutant("hybrid: zb-h1 waits for messages as long as 1f1b", "src/training_kernels/hybrid/bubble.c",
           "fmin(rounds, 2 * ends)", "rounds", "unit/test_bubble"),
    Mutant("hybrid: recomputation sends nothing", "src/training_kernels/hybrid/volume.c",
           "(s->recomputes ? 3 : 2); /* sums", "2; /* sums", "unit/test_hybrid"),
    # Culprits.
    Mutant("diagnose: the largest value is the median", "src/diagnose/fit.c",
           "return n > 0 ? values[(n - 1) / 2] : NAN;", "return n > 0 ? values[n - 1] : NAN;",
           "unit/test_diagnose"),
    Mutant("pairs: fast ones are slow", "src/p2p/findings.c",
           "v->best < fmin(SLOW, 1 / factor) * reference", "v->best > fmin(SLOW, 1 / factor) * reference",
           "unit/test_findings"),
    # Input and output.
    Mutant("payload: no upper limit", "src/core/payload.c",
           "if (value >= f->low && value <= f->high)", "if (value >= f->low)", "unit/test_payload"),
    Mutant("option: one more than its limit", "src/core/option.c",
           "(bb_option_has_max(row) && value > row->max))", "(bb_option_has_max(row) && value > row->max + 1))",
           "unit/test_option"),
    Mutant("help: GPU-only options among the others", "src/core/option_text.c",
           "row->usual : row->gpu_only == (listed == GPU_ONLY);", "row->usual : listed != GPU_ONLY;", "unit/test_option"),
    Mutant("names: a relative XDG_CONFIG_HOME counts", "src/core/share.c",
           "if (config && config[0] == '/')", "if (config && config[0])", "cli/test_names clusters", "all_reduce_perf"),
    Mutant("size: KB is 1024 bytes", "src/core/units.c", "unit *= 1000;", "unit *= 1024;", "unit/test_units"),
    Mutant("JSON: a quote ends the string", "src/core/json.c",
           "else if (*s == '\"' || *s == '\\\\' || ", "else if (*s == '\\\\' || ", "unit/test_json"),
    Mutant("comparison: the crossover is the next size", "src/harness/results/compare.c",
           "exp(before_size + (here - before_size) * before / (before - now));", "exp((before_size + here) / 2);", "unit/test_compare"),
    # Exit and authentication.
    Mutant("deadline: not enforced", "src/harness/run/crew_watch.c",
           "deadline != 0 && w->now > deadline && w->proc == 0", "deadline != 0 && w->now < 0 && w->proc == 0",
           "cli/test_faults a_slow_link_exceeds_the_time", "all_reduce_perf", hangs=True),
    Mutant("exit status: wrong data passes", "src/harness/run/conclude.c",
           "		*verdict = \"wrong data\";\n		return BB_EDATA;", "		*verdict = \"wrong data\";\n		return BB_OK;",
           "cli/test_correct corrupt all_reduce 3", "all_reduce_perf"),
    Mutant("secret: HMAC not compared", "src/launch/secret.c",
           "return bb_secret_prove(secret, data, bytes, right) &&\n\t       secret->compare(right, proof, sizeof(right)) == 0;",
           "return bb_secret_prove(secret, data, bytes, right);", "unit/test_secret"),
    # Compiled for each instruction set: last, because it takes longest.
    Mutant("reduction: min takes the larger", "src/backends/cpu/kernels_isa.c",
           "return pick(less(lane, b, a), b, a);", "return pick(less(lane, b, a), a, b);", "unit/test_kernels"),
]
