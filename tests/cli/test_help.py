"""--help, --help-all and --help-schema of every program, and the examples that they show."""

import json
import os
import re
import shlex
import tempfile

import kit
from kit import COLLECTIVES, add, built, equal, expect

SUBJECTS = {"acceptance": 4, "model_memory": 6}
GPU_ONLY = {"cudagraph", "stream_null", "local_register", "cta_policy", "device_implementation", "device_cta_count"}


def named(text):
    """The options that lines of a help begin with."""
    return re.findall(r"^ {2}(?:-\w, | {4})--([\w-]+)", text, re.M)


def helps(program):
    """--help-all has each option of the schema once, GPU-only ones last; --help has the usual ones and two examples."""
    lines = kit.execute([built(program), "--help-schema"]).exits(0).out.splitlines()
    equal(len(lines), SUBJECTS.get(program, 1), "lines of the schema")
    for schema in map(json.loads, lines):
        command = [built(program), *schema["program"].split()[1:]]
        options = {option["name"]: option for option in schema["options"]}
        whole = kit.execute([*command, "--help-all"]).exits(0)
        short = kit.execute([*command, "--help"]).exits(0)
        shown = named(whole.out)
        equal(sorted(shown), sorted(options), f"options of {command} --help-all")
        gpu = [name for name in shown if options[name]["gpu_only"]]
        equal(shown[len(shown) - len(gpu) :], gpu, "the last options")
        usual = [name for name in shown if options[name]["usual"]]
        equal(named(short.out), usual, f"options of {command} --help")
        expect(3 <= len(usual) <= 14 and usual[-1] == "help-all", f"{command} --help has {usual}")
        for result in (whole, short):
            examples = result.out.split("\nExamples:\n")[1].splitlines()
            equal(examples, [f"  {schema['program']} {example}" for example in schema["examples"]], "examples")
            equal(len(examples), 2, "number of examples")
            result.require(all(len(line) <= 100 for line in result.out.splitlines()), "wider than 100 columns")
    if program.endswith("_perf") and program[:-5] in COLLECTIVES:
        equal(set(gpu), GPU_ONLY, "GPU-only options")


def example(command):
    """A command that --help shows works. Those of acceptance need files of the user."""
    program, *words = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        result = kit.execute([built(program), *words], cwd=folder)
    result.exits(7 if "--fault" in words else 0)


# All collectives show the same examples.
ALIKE = {f"{name}_perf" for name in COLLECTIVES} - {"all_reduce_perf", "hypercube_perf"}

for program in sorted(os.listdir(kit.Settings.build)):
    if re.search(r"_perf$|^(diagnose|topology|model_memory|acceptance)$", program):
        add(f"help of {program}", helps, program)
        if program != "acceptance":
            for line in kit.execute([built(program), "--help-schema"]).exits(0).out.splitlines():
                found = json.loads(line)
                for words in found["examples"]:
                    command = f"{found['program']} {words}"
                    add(f"example: {command}", example, command, cores=4, full=program in ALIKE)
