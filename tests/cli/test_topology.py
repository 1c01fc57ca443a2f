"""The binary topology: output for known systems, files, and GPUs that do not exist here."""

import json
import os
import re
import tempfile
from xml.etree import ElementTree

import kit
from kit import Failure, add, built, equal, execute, expect, test

FOLDER = os.path.join(kit.ROOT, "tests", "topology")
FIELD = os.path.join(FOLDER, "field")
SEEDS = os.path.join(kit.ROOT, "tests", "fuzz", "seeds", "topology")


def topology(*words, env=None, variant=""):
    return execute([built("topology", variant), *words], env)


def systems():
    return [line.split()[0] for line in topology("--list-systems").exits(0).out.splitlines()]


def read_json(*words, env=None):
    return json.loads(topology(*words, "--json", "-", env=env).exits(0).out)


# ---- what is printed -------------------------------------------------------------------------


def golden(name, *words):
    got = topology(*words).exits(0).out
    path = os.path.join(FOLDER, "golden", name + ".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(got)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    if got != wanted:
        raise Failure(f"topology {' '.join(words)}\n--- golden/{name}.txt\n{wanted}--- now\n{got}")


GOLDEN = sorted(os.listdir(os.path.join(FOLDER, "golden")))
for name in [n[:-4] for n in GOLDEN if not n.startswith("file-")]:
    add(f"golden {name}", golden, name, "--system", name, *(["--nodes", "4"] if name == "dgx-a100" else []))
for name in [n[5:-4] for n in GOLDEN if n.startswith("file-")]:
    add(f"golden file {name}", golden, f"file-{name}", "--topology", os.path.join(SEEDS, name + ".xml"))


@test
def every_system_has_a_golden():
    missing = {n for n in systems() if not n.endswith("-roce")} - {name[:-4] for name in GOLDEN}
    equal(missing, set(), "systems without a golden file")


@test
def fits_a_terminal():
    for name in systems():
        wide = [l for l in topology("--system", name, "--nodes", "12").exits(0).out.splitlines() if len(l) > 80]
        equal(wide, [], f"lines of {name} beyond 80 columns")


@test
def parts_make_the_whole():
    whole = topology("--system", "dgx-1v").exits(0).out
    parts = [topology("--system", "dgx-1v", "--print", p).exits(0).out for p in "tree matrix numa findings bounds".split()]
    equal("\n".join(parts), whole, "the parts, one after the other")


@test
def this_machine():
    """Text, JSON and export of whatever machine this is, and reading it back."""
    topology().exits(0).prints("NUMA node", "Findings")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "here.xml")
        topology("--export", path).exits(0)
        topology("--diff", path).exits(0).prints("are alike")
        topology("--diff", path, "here").exits(0).prints("are alike")


# ---- JSON ------------------------------------------------------------------------------------


@test
def json_says_the_same():
    for name in systems():
        j = read_json("--system", name)
        equal((j["schema"], j["kind"], j["name"]), (1, "topology", name), "head")
        devices = [d["name"] for d in j["devices"]]
        equal(j["paths"]["names"], devices, "names of the matrix")
        matrix = topology("--system", name, "--print", "matrix").out
        if len(devices) > 1:
            first = re.search(r"^[A-Z]+0 +X (.*)$", matrix, re.M)[1].split()
            equal(j["paths"]["classes"][0][1 : len(first) + 1], first, f"row of {devices[0]} of {name}")
        for bound, value in j["bounds"].items():
            if bound != "ranks":
                expect(value["why"] and (value["GBps"] is None or value["GBps"] > 0), f"{name} {bound}: {value}")
        gpus = [d for d in j["devices"] if d["kind"] == "gpu"]
        equal(len(j["pair_GBps"]), len(gpus), "rows of pair_GBps")
        for link in j["links"]:
            expect(link["from"] in devices and link["to"] in devices + ["switch", "cpu"], f"{link}")
        for device in j["devices"]:
            expect(j["pci"][device["pci"]]["role"] == "endpoint", f"{device}")
    digests = [read_json("--system", name)["digest"] for name in systems()]
    equal(len(set(digests)), len(digests), "different digests")


@test
def json_and_text_together():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        topology("--system", "dgx-2", "--json", path).exits(0).prints("GPU15")
        with open(path, encoding="utf-8") as file:
            equal(json.load(file)["nvswitches"], 12, "NVSwitches")


# ---- files -----------------------------------------------------------------------------------


@test
def two_outputs_into_one_file():
    """Refused before either is written, however the file is spelt."""
    with tempfile.TemporaryDirectory() as folder:
        for other in ("x", "./x", f"{folder}/x"):
            execute([built("topology"), "--system", "hgx-h100", "--json", "x", "--export", other], cwd=folder).exits(2).says("--json and --export both write")
            equal(os.listdir(folder), [], "files")


@test
def export_and_back():
    with tempfile.TemporaryDirectory() as folder:
        for name in systems():
            path = os.path.join(folder, name + ".xml")
            topology("--system", name, "--export", path).exits(0)
            topology("--diff", name, path).exits(0)
            for part in ("matrix", "bounds"):
                there = topology("--system", name, "--print", part).out
                equal(topology("--topology", path, "--print", part).exits(0).out, there, f"{part} of {name}, exported and read")
            kept = lambda j: (j["nodes"], j["links"], j["p2p"], j["pair_GBps"], j["bounds"], j["findings"])
            equal(kept(read_json("--topology", path)), kept(read_json("--system", name)), f"{name}, exported and read")
    xml = topology("--system", "dgx-2", "--export", "-").exits(0).out
    expect(xml.startswith("<system version") and xml.endswith("</system>\n"), "--export - prints more than XML")
    for element in ElementTree.fromstring(xml).iter():
        expect(len(element.attrib) <= 14 and all(len(v) < 255 for v in element.attrib.values()), f"too much for NCCL: {element.attrib}")


def from_field(name):
    return os.path.join(FIELD, name)


def findings_of(path):
    return read_json("--topology", path)["findings"]


def edited(folder, source, *changes):
    """The path of a copy of a file from the field, with the first place of each pattern changed."""
    with open(from_field(source), encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        expect(re.search(old, text), f"{old!r} is not in {source}")
        text = re.sub(old, new, text, count=1)
    path = os.path.join(folder, "edited.xml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@test
def a_matrix_that_was_cut_off():
    says = "the row of GPU3 is missing; the output of nvidia-smi topo -m is cut off"
    topology("--topology", from_field("cut-off-matrix.txt")).exits(2).says(says)


@test
def files_from_the_field():
    """What NCCL's dumps show: each fault is found and is a difference from a healthy machine."""
    gpus, nics = [f"GPU{i}" for i in range(8)], [f"mlx5_{i}" for i in range(8)]
    cases = [
        ("healthy.xml", [], []),
        ("slow-bridge.xml", [["switch 0000:bf:00.0 above GPU0, mlx5_5: Gen1 x1, 0.229 GB/s", "below carry 57.6", "NCCL_TOPO_FILE"],
                             ["switch 0000:c9:00.0 above GPU1, mlx5_6: Gen1 x1"]],
         ["slowest PCIe switch above GPU0: Gen5 x16 in healthy, Gen1 x1 in", "slowest PCIe switch above mlx5_5: Gen5 x16"]),
        ("no-gpudirect.xml", [["no GPUDirect RDMA", "of 4 devices: GPU0, GPU1, mlx5_5, mlx5_6;", "nvidia_peermem"]],
         ["GPUDirect RDMA of GPU0: on in healthy, off in", "GPUDirect RDMA of mlx5_5: on in healthy, off in"]),
        ("no-gpudirect-8.xml", [["of 16 devices: " + ", ".join(gpus + nics) + ";"]],
         [f"GPUDirect RDMA of {name}: on in healthy, off in" for name in gpus + nics]),
        ("nic-missing.xml", [["GPU2: no NIC near it: the nearest is at PHB, where others of its model have one at PIX"]],
         ["mlx5_2 is missing from"]),
    ]  # fmt: skip
    for name, findings, differences in cases:
        got = findings_of(from_field(name))
        equal(len(got), len(findings), f"findings of {name}: {got}")
        for text, words in zip(got, findings):
            for word in words:
                expect(word in text, f"{name}: {word!r} is not in {text!r}")
        result = topology("--diff", from_field("healthy.xml"), from_field(name)).exits(7 if differences else 0)
        told = " ".join(result.out.split()).replace(from_field("healthy.xml"), "healthy")
        for word in differences:
            result.require(word in told, f"{word!r} is not among the differences")


@test
def unequal_gpus():
    """One GPU or switch below its equals is found, and is a difference."""
    gpu = r'(class="0x030200"[^>]*) link_width="16"'
    for source, changes, finding, difference in [
        ("healthy.xml", [(gpu, r'\1 link_width="8"')], "GPU0: runs at PCIe Gen5 x8, 28.8 GB/s; others of its model carry 57.6",
         "maximum PCIe lanes of GPU0: 16"),
        ("healthy.xml", [(gpu, r'\1 link_width="16"'), ('link_speed="32.0 GT/s PCIe"', 'link_speed="16.0 GT/s PCIe"')],
         "GPU0: its way to the host passes PCIe switch 0000:16:00.0, 28.8 GB/s; that of others of its model carries 57.6",
         "slowest PCIe switch above GPU0: Gen5 x16"),
        ("healthy.xml", [(r'(class="0x020700"[^>]*) link_width="16"', r'\1 link_width="8"')],
         "mlx5_0: its PCIe link carries 28.8 GB/s, its port 49.7",
         "maximum PCIe lanes of mlx5_0: 16"),
        ("healthy.xml", [('count="4" tclass', 'count="3" tclass')], "GPU0: 17 NVLinks, where others of its model have 18",
         "NVLinks of GPU0: 18"),
        ("healthy.xml", [('gdr="1"/>', 'gdr="0"/>')], "no GPUDirect RDMA (gdr=\"0\") of 1 device: mlx5_0",
         "GPUDirect RDMA of mlx5_0: on"),
    ]:  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = edited(folder, source, *changes)
            got = findings_of(path)
            equal(len(got), 1, f"findings: {got}")
            expect(finding in got[0], f"{finding!r} is not in {got[0]!r}")
            told = topology("--diff", from_field(source), path).exits(7).out
            expect(difference in " ".join(told.split()), f"{difference!r} is not in {told}")


@test
def no_bound_without_links():
    """A file that does not show NVLinks has no bound: neither NCCL's input nor what an hwloc without NVML writes."""
    path = from_field("input-8-gpus.xml")
    for value in read_json("--topology", path)["bounds"].values():
        if isinstance(value, dict):
            equal(value["GBps"], None, "bound")
    told = topology("--topology", path).exits(0).prints("input for NCCL_TOPO_FILE", "does not show NVLinks").out
    expect("NCCL_TOPO_DUMP_FILE" in told, "what has the links")
    told = topology("--diff", from_field("healthy.xml"), path).exits(7).out
    expect("NVLinks of" not in told and "NV18" not in told, f"unknown links are a difference: {told}")
    execute([built("all_reduce_perf"), "--backend", "sim", "--cluster", path]).exits(2).says("does not show NVLinks")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(SEEDS, "hwloc2.xml"), encoding="utf-8") as file:
            text = re.sub(r'<object type="OSDev"[^>]*name="nvml.*?</object>', "", file.read(), flags=re.S)
        again = os.path.join(folder, "without.xml")
        with open(again, "w", encoding="utf-8") as file:
            file.write(text)
        equal(read_json("--topology", again)["bounds"]["ring"]["GBps"], None, "ring without NVML")
        topology("--topology", path, "--export", again).exits(0)
        equal(read_json("--topology", again)["links_unknown"], True, "after export")


# ---- nvidia-smi ------------------------------------------------------------------------------


def smi_of(j, legend=True):
    """The matrix as nvidia-smi topo -m prints it, with its legend of NICs."""
    devices = [d for d in j["devices"] if d["kind"] != "nvme"]
    names = [d["name"] if d["kind"] == "gpu" or not legend else f"NIC{i}" for i, d in enumerate(devices)]
    cpus = {n["number"]: n["cpus"] for n in j["numa_nodes"]}
    lines = ["\t" + "".join(f"\x1b[4m{n}\x1b[0m\t" for n in names) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for i, (name, device) in enumerate(zip(names, devices)):
        row = [f" {c} " if c == "X" else c for c in j["paths"]["classes"][i][: len(devices)]]
        numa = device["numa_node"]
        lines.append("\t".join([name, *row, *([cpus[numa], str(numa), "", "N/A"] if device["kind"] == "gpu" else [])]))
    lines += ["", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing a bonded set of # NVLinks", "", "NIC Legend:", ""]
    lines += [f"  {n}: {d['name']}" for n, d in zip(names, devices) if legend and d["kind"] == "nic"]
    return "$ nvidia-smi topo -m\n" + "\n".join(lines) + "\n\n"


def read_smi(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "topo.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return read_json("--topology", path)


@test
def matrices_of_nvidia_smi():
    """The paths of each known system of NVIDIA are those of its matrix, and with models so are the NVLinks' bounds."""
    for name in systems():
        there = read_json("--system", name, "--nodes", "1")
        gpus = [d for d in there["devices"] if d["kind"] == "gpu"]
        if not gpus or name.startswith("mi"):
            continue
        models = "".join(f"GPU {i}: NVIDIA {g['model']} (UUID: GPU-{i})\n" for i, g in enumerate(gpus))
        back = read_smi(smi_of(there, legend=name != "v100-x4") + models)
        equal([d["name"] for d in back["devices"]], [d["name"] for d in there["devices"]], f"devices of {name}")
        equal(back["paths"], there["paths"], f"paths of {name}")
        equal([d["numa_node"] for d in back["devices"] if d["kind"] == "gpu"], [g["numa_node"] for g in gpus], f"NUMA nodes of {name}")
        equal(back["findings"], [], f"findings of {name}")
        if all(c[:2] == "NV" or c == "X" for row in there["paths"]["classes"][: len(gpus)] for c in row[: len(gpus)]) and len(gpus) > 1:
            equal(back["bounds"]["ring"]["GBps"], there["bounds"]["ring"]["GBps"], f"ring of {name}")
            bare = read_smi(smi_of(there))["bounds"]["ring"]
            expect(bare["GBps"] is None and "rate of an NVLink" in bare["why"], f"ring of {name} without models: {bare}")


@test
def faults_in_nvidia_smi():
    """A link that nvlink -s shows as inactive, a GPU with fewer links, and a NIC that is not there."""
    whole = smi_of(read_json("--system", "hgx-h100"))
    links = "".join(
        f"GPU {g}: NVIDIA H100 80GB HBM3 (UUID: GPU-{g})\n"
        + "".join(f"\t Link {i}: {'<inactive>' if (g, i) == (3, 7) else '26.562 GB/s'}\n" for i in range(18))
        for g in range(8)
    )
    fewer = re.sub(r"(?m)^(GPU3.*)$", lambda m: m[1].replace("NV18", "NV17"), whole)
    fewer = re.sub(r"(?m)^(GPU[^3].*)$", lambda m: "\t".join("NV17" if i == 4 else w for i, w in enumerate(m[1].split("\t"))), fewer)
    equal(read_smi(fewer + links)["findings"], ["GPU3: 1 of 18 NVLinks is down"], "a link that is down")
    equal(read_smi(fewer)["findings"], ["GPU3: 17 NVLinks, where others of its model have 18"], "fewer links")
    far = re.sub(r"(?m)^(GPU2.*)PIX", r"\1NODE", re.sub(r"(?m)^(NIC10\t.*)PIX", r"\1NODE", whole))
    got = read_smi(far)["findings"]
    expect(len(got) == 1 and got[0].startswith("GPU2: no NIC near it: the nearest is at NODE"), f"findings: {got}")


@test
def bad_nvidia_smi():
    whole = smi_of(read_json("--system", "hgx-h100"))
    lines = whole.splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "topo.txt")
        for text, words in [
            ("".join(lines[:5]), "the row of GPU3 is missing; the output of nvidia-smi topo -m is cut off"),
            ("".join(lines[:5]) + lines[5][:20], "line 6: the row of GPU3 has"),
            (whole.replace("NV18", "NV0"), 'line 3: "NV0" in the row of GPU0 is no path'),
            (whole.replace("PIX", "PIXX"), '"PIXX" in the row of GPU0'),
            ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: x)\n\t Link 0: 26.562 GB/s\n", "add the output of nvidia-smi topo -m"),
        ]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            topology("--topology", path).exits(2).says(path, words)


@test
def bad_files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bad.xml")
        for text, words in [
            ("", "no element"),
            ("<topology version='2.0'><object", "line 1"),
            ("<html/>", "html"),
            ("<topology version='1.0'/>", "version 1.0"),
            ("\0" * 100, "bad.xml"),
        ]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result = topology("--topology", path).exits(2).says(path, words)
            equal(result.out, "", "on stdout")
            equal(len(result.err.splitlines()), 1, "lines on stderr")
    topology("--topology", "/nonexistent.xml").exits(2).says("/nonexistent.xml", "cannot be opened")
    topology("--topology", "/").exits(2).says("/: a folder, not a file")
    topology("--system", "dgx-2", "--export", "/nonexistent/a.xml").exits(2).says("cannot be written")


# ---- comparing -------------------------------------------------------------------------------


def changed(xml, *changes):
    for old, new in changes:
        expect(re.search(old, xml), f"{old!r} is not in the file")
        xml = re.sub(old, new, xml)
    return xml


@test
def differences():
    """Exit status 7 if machines differ, 0 if not, with place and difference."""
    whole = topology("--system", "hgx-h100", "--export", "-").out
    nic = r'(?s)<pci busid="[^"]*" class="0x0207(?:(?!<pci).)*name="mlx5_5".*?</pci>'
    cases = [
        ("alike", whole, 0, []),
        ("no-nic", changed(whole, (nic, "")), 7, ["mlx5_5 is missing from", "24:00.0 Gen5 x16, ConnectX-7"]),
        ("lost-links", changed(whole, ('count="18"', 'count="12"')), 7, ["NVLinks of GPU0: 18", "12"]),
        ("no-p2p", changed(whole, ('"00000000"', '"03333333"')), 0, []),  # NVLink is P2P
        ("other-buses", changed(whole, ("0000:0", "0001:0")), 0, []),
        ("slow-nic", changed(whole, ('speed="400000" name="mlx5_4"', 'speed="200000" name="mlx5_4"')), 7, ["mlx5_4", "200000"]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, text, code, words in cases:
            path = os.path.join(folder, name + ".xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result = topology("--diff", "hgx-h100", path).exits(code)
            told = " ".join(result.out.split())  # lines may break within the path
            for word in words:
                result.require(word in told, f"stdout does not contain {word!r}")
            result.require(("are alike" in result.out) == (code == 0), "words and exit status")
            equal(result.err, "", "stderr")
    topology("--diff", "dgx-2", "dgx-a100").exits(7).prints("GPU15", "NUMA nodes: 2 in dgx-2, 8 in dgx-a100")
    topology("--diff=dgx-2", "--with", "dgx-2").exits(0)
    topology("--diff", "dgx-2", "/nonexistent.xml").exits(2).says("/nonexistent.xml")
    topology("--diff", "dgx-2", os.path.abspath(__file__)).exits(2).says("not well-formed")  # no difference
    topology("--with", "dgx-2").exits(2).says("--diff")


# ---- options -----------------------------------------------------------------------------------


@test
def bad_options():
    for words, says in [
        (["--nonsense"], "--nonsense"),
        (["--system", "hgx-h10"], "did you mean hgx-h100?"),
        (["--system", "dgx-2", "--topology", "x.xml"], "only one"),
        (["--nodes", "-1"], "--nodes"),
        (["--print", "all,tree"], "--print"),
        (["--system", "dgx-2", "--ranks", "0-16"], "has 16"),
        (["--system", "dgx-2", "--ranks", ""], "--ranks"),
        (["--system", "dgx-2", "--ranks", "3-1"], "3-1"),
        (["--system", "dgx-2", "--ranks", "1,,2"], "1,,2"),
        (["--system", "dgx-2", "--json", "-", "--export", "-"], "give two files"),
        (["operand"], "operand"),
        (["--diff"], "needs a value"),
        (["--diff", "a", "b", "c"], "c: not an option"),
    ]:
        result = topology(*words).exits(2).says(says)
        equal(result.out, "", "on stdout")


@test
def help_and_version():
    topology("--help").exits(0).prints("--topology", "--diff", "--system")
    equal(topology("-h").out, topology("--help").out, "-h")
    topology("--version").exits(0).prints("topology (busbench) ")
    with open(os.path.join(kit.ROOT, "docs", "topology.md"), encoding="utf-8") as file:
        page = file.read()
    table = topology("--help-markdown").exits(0).out
    expect(table.strip() in page, "docs/topology.md does not have what --help-markdown prints")
    for name in systems():
        expect(f"`{name}`" in page, f"docs/topology.md does not name {name}")


@test
def ranks_and_nodes():
    def ring(*words):
        return read_json(*words)["bounds"]["ring"]["GBps"]

    equal(ring("--system", "dgx-1v", "--ranks", "0-3"), 100, "ring of four of a cube")
    equal(ring("--system", "dgx-1v", "--ranks", "0,3"), 50, "ring of two of a cube")
    expect(198 < ring("--system", "dgx-a100", "--nodes", "2") < 199, "ring of two nodes")
    equal(read_json("--system", "gb200-nvl72")["bounds"]["ranks"], 72, "ranks of a rack")
    equal(read_json("--system", "gb200-nvl72", "--nodes", "1")["bounds"]["ranks"], 4, "ranks of a tray")
    topology("--system", "hgx-b200", "--nodes", "12800").exits(0).prints("102400 GPUs on 12800 nodes")


# ---- GPUs that are not here ----------------------------------------------------------------------


def driver(words):
    return {"LD_LIBRARY_PATH": os.path.join(kit.Settings.build, "tests", "nvml"), "FAKE_NVML": words}


@test
def nvml_switches():
    for ids in ("", " ids=hidden"):
        j = read_json(env=driver("gpus=8 sm=90 switch=18 gen=1 name=NVIDIA_H100_80GB_HBM3" + ids))
        gpus = [d for d in j["devices"] if d["kind"] == "gpu"]
        equal([g["name"] for g in gpus], [f"GPU{i}" for i in range(8)], "GPUs")
        equal({(g["model"], g["sm"], g["memory_bytes"]) for g in gpus}, {("H100 80GB HBM3", 90, 80 << 30)}, "models")
        equal(j["driver"], "580.65.06", "driver")
        expect("NVML" in j["source"], f"source {j['source']}")
        equal({c for row in j["paths"]["classes"][:8] for c in row[:8]}, {"X", "NV18"}, "paths")
        equal({(l["to"], l["version"], l["count"], l["link_GBps"]) for l in j["links"]}, {("switch", 4, 18, 25)}, "links")
        equal(round(j["bounds"]["ring"]["GBps"], 1), 450.0, "ring")
        equal(j["findings"], [], "findings: asleep, not ill")


@test
def nvml_mesh():
    j = read_json(env=driver("gpus=4 sm=70 mesh=2"))
    equal([row[:4] for row in j["paths"]["classes"][:4]],
          [["X" if i == k else "NV2" for k in range(4)] for i in range(4)], "paths")  # fmt: skip
    equal(j["bounds"]["ring"]["GBps"], 150, "ring")


@test
def nvml_faults():
    for words, findings in [
        ("gpus=8 sm=90 switch=18 down=5:17", ["GPU5: 1 of 18 NVLinks is down"]),
        ("gpus=8 sm=80 switch=12 down=5:0 down=5:1", ["GPU5: 2 of 12 NVLinks are down"]),
        ("gpus=4 sm=89 p2p=1", ["no P2P between any two GPUs: the chipset does not support it"]),
        ("gpus=2 sm=89 p2p=4", ["no P2P between any two GPUs: it is disabled in the driver's settings"]),
        ("gpus=2 sm=89 width=8", ["GPU0: runs at PCIe x8; the card supports x16", "GPU1: runs at PCIe x8; the card supports x16"]),
    ]:  # fmt: skip
        equal(read_json(env=driver(words))["findings"], findings, f"findings of {words}")


@test
def nvml_cpu_links():
    j = read_json(env=driver("gpus=2 sm=100 switch=18 c2c=5"))
    c2c = [l for l in j["links"] if l["kind"] == "c2c"]
    equal({(l["to"], l["count"], l["link_GBps"]) for l in c2c}, {("cpu", 5, 44.712)}, "C2C")
    j = read_json(env=driver("gpus=2 sm=70 mesh=3 cpu=3"))
    equal({(l["to"], l["count"]) for l in j["links"]}, {("cpu", 3), ("GPU0", 3), ("GPU1", 3)}, "links of a POWER9")


@test
def nvml_that_fails():
    """A GPU that does not answer is left out; a driver that does not start counts as none."""
    j = read_json(env=driver("gpus=4 sm=90 switch=18 lost=2"))
    equal(len([d for d in j["devices"] if d["kind"] == "gpu"]), 3, "GPUs")
    for words in ("gpus=8 init=9", "gpus=0"):
        j = read_json(env=driver(words))
        equal([d for d in j["devices"] if d["kind"] == "gpu"], [], f"GPUs of {words}")
    expect("NVML" not in read_json(env=driver("gpus=8 init=9"))["source"], "source without a driver")


# ---- sanitized -----------------------------------------------------------------------------------


@test(full=True)
def sanitized():
    for name in ("dgx-1v", "gb200-nvl72", "pcie-4090"):
        for words in (["--system", name], ["--system", name, "--json", "-"], ["--system", name, "--export", "-"]):
            topology(*words, variant="address-undefined").exits(0)
    topology("--diff", "dgx-1v", "dgx-2", variant="address-undefined").exits(7)
    for seed in sorted(os.listdir(SEEDS)):
        topology("--topology", os.path.join(SEEDS, seed), variant="address-undefined").exits(0)


@test
def as_many_nodes_as_are_allowed():
    """The largest number of nodes works."""
    for system in ("hgx-h100", "gb200-nvl72", "dgx-a100"):
        topology("--system", system, "--nodes", "1000000", "--print", "bounds").exits(0).prints("on 1000000 nodes")
    topology("--system", "hgx-h100", "--nodes", "1000000", "--json", "-").exits(0).prints('"nodes": 1000000')
    topology("--nodes", "1000001").exits(2).says("1000000")
