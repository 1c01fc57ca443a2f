"""ci/examples: the files are valid, and everything that they name exists."""

import glob
import os
import re
import subprocess

from kit import ROOT, Skipped, equal, expect, test

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "ci", "examples", "*")))


# Fields of an MPIJob by the schema of the MPI operator 0.8.0 (github.com/kubeflow/mpi-operator, API v2beta1,
# manifests/base/kubeflow.org_mpijobs.yaml), and of pods as far as the example has them: a type, a tuple of allowed
# values, a list of one shape, or a dictionary of fields. "*" stands for any name, "!" begins a field that must be there.
CLEANED, RESTARTED, CREATED = ("None", "Running", "All"), ("Never", "OnFailure"), ("AtStartup", "WaitForWorkersReady")
CONTAINER = {
    "!name": str, "!image": str, "command": [str], "args": [str],
    "resources": {"limits": {"*": (int, str)}, "requests": {"*": (int, str)}},
    "securityContext": {"capabilities": {"add": [str], "drop": [str]}, "privileged": bool, "runAsUser": int},
    "volumeMounts": [{"!name": str, "!mountPath": str, "readOnly": bool}],
}  # fmt: skip
POD = {"!containers": [CONTAINER], "volumes": [{"!name": str, "emptyDir": {"medium": str, "sizeLimit": str}}]}
REPLICAS = {"!replicas": int, "restartPolicy": RESTARTED, "!template": {"metadata": {"*": dict}, "!spec": POD}}
MPI_JOB = {
    "!apiVersion": ("kubeflow.org/v2beta1",), "!kind": ("MPIJob",), "!metadata": {"!name": str},
    "!spec": {
        "slotsPerWorker": int, "sshAuthMountPath": str, "launcherCreationPolicy": CREATED, "runLauncherAsWorker": bool,
        "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
        "runPolicy": {"cleanPodPolicy": CLEANED, "backoffLimit": int, "activeDeadlineSeconds": int,
                      "ttlSecondsAfterFinished": int, "suspend": bool},
        "!mpiReplicaSpecs": {"!Launcher": REPLICAS, "!Worker": REPLICAS},
    },
}  # fmt: skip


def misfits(value, shape, where=""):
    """What of VALUE does not have the shape, in words."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is not a list"]
        return [said for i, one in enumerate(value) for said in misfits(one, shape[0], f"{where}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where} has no fields"]
        fields = {name.lstrip("!"): inner for name, inner in shape.items()}
        found = [f"{where} lacks {name[1:]}" for name in shape if name[0] == "!" and name[1:] not in value]
        for name, one in value.items():
            inner = fields.get(name, fields.get("*"))
            found += misfits(one, inner, f"{where}.{name}") if inner else [f"{where} has no field {name}"]
        return found
    allowed = shape if isinstance(shape, tuple) else (shape,)
    good = any(type(value) is one if isinstance(one, type) else value == one for one in allowed)
    return [] if good else [f"{where}: {value!r} is none of {allowed}"]


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def ending(*endings):
    found = [path for path in EXAMPLES if path.endswith(endings)]
    expect(found, f"no example ends with {endings}")
    return found


@test
def shells_can_be_read():
    for path in ending(".sh", ".sbatch"):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        equal((done.returncode, done.stderr), (0, ""), path)
        expect(text_of(path).startswith("#!/usr/bin/env bash\n"), f"{path} is not of bash")
        expect(path.endswith(".sbatch") or os.access(path, os.X_OK), f"{path} cannot be run")


@test
def what_they_name_is_there():
    for path in EXAMPLES:
        text = text_of(path)
        for name in re.findall(r"\b((?:ci|scripts|docs)/[\w./-]+\.(?:yaml|yml|sh|py|md))", text):
            expect(os.path.exists(os.path.join(ROOT, name)), f"{path} names {name}")
        # Also those that are commented out.
        for name in re.findall(r"\b(?:profile|PROFILE): ([\w-]+)", text):
            expect(os.path.exists(os.path.join(ROOT, "ci", "profiles", name + ".yaml")), f"{path} names profile {name}")
        for program in re.findall(r"\b\w+_perf\b", text):
            source = os.path.join(ROOT, "src", "collectives", program + ".c")
            expect(os.path.exists(source), f"{path} names {program}")


@test
def jobs_can_be_read():
    """Valid for each service: steps with one key, scripts of lines, and results that the runs write."""
    try:
        import yaml
    except ImportError:
        raise Skipped("there is no PyYAML") from None
    files = {os.path.basename(path): yaml.safe_load(text_of(path)) for path in ending(".yml")}
    job, = files["github-actions.yml"]["jobs"].values()
    for step in job["steps"]:
        equal(len({"run", "uses"} & set(step)), 1, f"{step}")
        expect(set(step) <= {"run", "uses", "if", "with", "name"}, f"{step}")
    for row in job["strategy"]["matrix"]["include"]:
        equal(set(row), {"runner", "profile"}, "what a runner is told")
    job, = files["gitlab-ci.yml"].values()
    expect(all(isinstance(line, str) for line in job["script"]), f"{job['script']}")
    equal(job["artifacts"]["reports"]["junit"], "out/junit.xml", "JUnit")
    for text in map(text_of, ending(".yml")):
        expect("build/acceptance run ci/profiles/$" in text and " -o out" in text, "no run into out/")


@test
def the_mpi_job_fits_its_schema():
    """The operator would accept it, and what it says twice agrees."""
    try:
        import yaml
    except ImportError:
        raise Skipped("there is no PyYAML") from None
    path, = ending("mpijob.yaml")
    job = yaml.safe_load(text_of(path))
    equal(misfits(job, MPI_JOB), [], path)
    for wrong in ({"replica": 2}, {"runPolicy": {"cleanPodPolicy": "Never"}}, {"slotsPerWorker": "8"}):
        equal(len(misfits({**job, "spec": {**job["spec"], **wrong}}, MPI_JOB)), 1, f"misfits with {wrong}")
    equal(misfits({**job, "spec": {}}, MPI_JOB), [".spec lacks mpiReplicaSpecs"], "without its ranks")

    spec = job["spec"]
    launcher, worker = spec["mpiReplicaSpecs"]["Launcher"], spec["mpiReplicaSpecs"]["Worker"]
    start, work = (one["template"]["spec"]["containers"][0] for one in (launcher, worker))
    equal((launcher["replicas"], start["image"]), (1, work["image"]), "launchers, and the image")
    value_of = lambda option: int(start["command"][start["command"].index(option) + 1])
    equal(value_of("-N"), spec["slotsPerWorker"], "ranks per node")
    equal(value_of("-np"), worker["replicas"] * spec["slotsPerWorker"], "ranks")
    equal(work["resources"]["limits"]["nvidia.com/gpu"], spec["slotsPerWorker"], "GPUs of a node")
    volumes = {volume["name"] for volume in worker["template"]["spec"]["volumes"]}
    expect({mount["name"] for mount in work["volumeMounts"]} <= volumes, f"mounts that are not among {volumes}")
    image = text_of(os.path.join(ROOT, "ci", "containers", "Containerfile.mpijob"))
    expect(f"HostKey {spec['sshAuthMountPath']}/" in image, "the keys are elsewhere in the image")
