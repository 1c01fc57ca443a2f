"""Rows of make truth: steps of pipelines against virtual time with the hop of the same run."""

import programs

# Stages and microbatches. With many microbatches without naive, which takes as long as all others together; the longest
# with one schedule of each kind.
NAIVE = "naive,gpipe,1f1b,interleaved,zb-h1,zb-h2,zb-v,zb-auto"
MOST = NAIVE.removeprefix("naive,")
KINDS = "1f1b,interleaved,zb-h2,zb-v"
SHAPES = ((2, 8, NAIVE), (3, 9, NAIVE), (4, 8, NAIVE), (8, 8, NAIVE), (6, 12, MOST), (5, 20, MOST), (7, 21, MOST),
          (2, 32, MOST), (6, 48, KINDS), (4, 64, KINDS), (8, 64, MOST))
LONG = 24  # microbatches: below, five steps, else three


def measured(build, stages, microbatches, schedules):
    """The records of all schedules, with passes that sleep for 10 ms."""
    command = [f"{build}/pipeline_perf", "--stages", str(stages), "--microbatches", str(microbatches),
               "--schedule", schedules, "-n", "5" if microbatches < LONG else "3", "-c", "0", "-T", "600"]
    return programs.records(command, "pipeline")


def rows(build):
    for stages, microbatches, schedules in SHAPES:
        for record in measured(build, stages, microbatches, schedules):
            yield [f"{record['schedule']}, {stages} stages, {microbatches} microbatches",
                   f"passes 10 ms, hop {record['hop_us']:.0f} us", f"{record['predicted_us'] / 1e3:.2f} ms",
                   f"{record['p50_us'] / 1e3:.2f} ms", f"{record['off_percent']:+.2f}%"]
