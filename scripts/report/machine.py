"""The document of `build/topology --json` as a tree: packages, NUMA nodes, PCIe switches, devices."""

import re

from report.files import BadFile, List, Maybe, check
from report.values import count

SCHEMA = 1
# More than any machine has; busbench's own readers stop earlier.
MOST_PACKAGES, MOST_NUMAS, MOST_PCIS, MOST_DEVICES, MOST_GPUS = 64, 256, 8192, 1024, 64
MOST_DEEP = 64  # PCI bridges above a device
MOST_LINKS = 20 * MOST_GPUS  # from a GPU to each of its peers

PCIE = {"generation": Maybe(int), "width": Maybe(int), "GBps": Maybe(float)}
SHAPE = {
    "name": Maybe(str),
    "source": Maybe(str),
    "driver": Maybe(str),
    "nodes": int,
    "nvlink_nodes": int,
    "nvswitches": int,
    "packages": List({"model": Maybe(str)}, MOST_PACKAGES),
    "cores": Maybe(int),
    "threads": Maybe(int),
    "numa_nodes": List(
        {"number": Maybe(int), "package": Maybe(int), "memory_bytes": Maybe(int), "cpus": Maybe(str)}, MOST_NUMAS
    ),
    "pci": List(
        {
            "id": Maybe(str),
            "role": ("endpoint", "root port", "switch", "switch port"),
            "parent": Maybe(int),
            "host_bridge": Maybe(int),
            "numa_node": Maybe(int),
            "now": PCIE,
            "most": PCIE,
        },
        MOST_PCIS,
    ),
    "devices": List(
        {
            "kind": ("gpu", "nic", "nvme"),
            "name": str,
            "model": Maybe(str),
            "pci": Maybe(int),
            "numa_node": Maybe(int),
        },
        MOST_DEVICES,
    ),
    "links": List(
        {
            "kind": ("nvlink", "c2c"),
            "from": str,
            "to": str,
            "version": Maybe(int),
            "count": int,
            "down": int,
            "link_GBps": Maybe(float),
        },
        MOST_LINKS,
    ),
    "bounds": {"ranks": int},
    "findings": List(str, 100000),
}
DEVICE_SHAPES = {
    "gpu": {"memory_bytes": Maybe(int)},
    "nic": {
        "rate_Mbps": Maybe(int),
        "layer": Maybe(("InfiniBand", "Ethernet")),
        "state": Maybe(("up", "down")),
        "interface": Maybe(str),
    },
    "nvme": {},
}
BOUNDS = ("ring", "tree", "NVLS", "SHARP", "all-to-all")
BOUND_SHAPE = {"GBps": Maybe(float), "why": Maybe(str)}


# ---- checks -------------------------------------------------------------------------


def check_pcis(pcis):
    depth = []
    for i, pci in enumerate(pcis):
        parent = pci["parent"]
        if parent is not None and parent >= i:
            raise BadFile(f"pci[{i}].parent is not above it")
        depth.append(0 if parent is None else depth[parent] + 1)
        if depth[i] > MOST_DEEP:
            raise BadFile(f"pci[{i}] is below more than {MOST_DEEP} bridges")


def check_numas(topology):
    numbers = [numa["number"] for numa in topology["numa_nodes"] if numa["number"] is not None]
    if len(set(numbers)) < len(numbers):
        raise BadFile("two NUMA nodes have the same number")
    for i, numa in enumerate(topology["numa_nodes"]):
        if numa["package"] is not None and numa["package"] >= len(topology["packages"]):
            raise BadFile(f"numa_nodes[{i}].package is beyond the list of packages")


def check_devices(topology):
    devices = topology["devices"]
    for i, device in enumerate(devices):
        check(device, DEVICE_SHAPES[device["kind"]], f"devices[{i}]")
        if device["pci"] is not None and device["pci"] >= len(topology["pci"]):
            raise BadFile(f"devices[{i}].pci is beyond the list of pci")
    names = [device["name"] for device in devices]
    if len(set(names)) < len(names):
        raise BadFile("two devices have the same name")
    gpus = {device["name"] for device in devices if device["kind"] == "gpu"}
    if len(gpus) > MOST_GPUS:
        raise BadFile(f"{len(gpus)} GPUs, more than {MOST_GPUS}")
    for i, link in enumerate(topology["links"]):
        if link["from"] not in gpus or link["to"] not in gpus | {"switch", "cpu"} or link["from"] == link["to"]:
            raise BadFile(f"links[{i}] does not join a GPU to another, to switches or to the cpu")


def check_topology(values):
    if len(values) > 1:
        raise BadFile("more follows after the topology")
    topology = values[0]
    if topology.get("schema") != SCHEMA:
        raise BadFile(f"schema {str(topology.get('schema'))[:40]}; known is {SCHEMA}")
    check(topology, SHAPE, "it")
    check_numas(topology)
    check_pcis(topology["pci"])
    check_devices(topology)
    for name in BOUNDS:
        if name in topology["bounds"]:
            check(topology["bounds"][name], BOUND_SHAPE, f"bounds.{name}")


# ---- text ----------------------------------------------------------------------------------------


def bytes_text(n):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if n < 1024 or unit == "PiB":
            return f"{n:.2g} {unit}" if n < 9.95 else f"{n:.0f} {unit}"
        n /= 1024


def pcie_text(pci):
    """As in the tree that build/topology prints."""
    now, most = pci["now"], pci["most"]
    if now["generation"] and now["width"]:
        text = f"Gen{now['generation']} x{now['width']}"
        return text + (f" of x{most['width']}" if (most["width"] or 0) > now["width"] else "")
    if now["GBps"]:
        return f"{now['GBps']:.3g} GB/s"
    if most["generation"] and most["width"]:
        return f"up to Gen{most['generation']} x{most['width']}"
    return ""


def short_id(pci):
    return (pci["id"] or "").removeprefix("0000:")


def model_text(device):
    """The model, with the memory of a GPU unless the name has it ("H100 80GB HBM3")."""
    model = device["model"] or ""
    if device["kind"] == "gpu" and device["memory_bytes"] and not re.search(r"\dGB", model):
        return f"{model} {bytes_text(device['memory_bytes'])}".strip()
    return model


def rate_text(nic):
    rate = f"{nic['rate_Mbps'] / 1000:.4g} Gb/s" if nic["rate_Mbps"] else ""
    return " ".join(word for word in (rate, nic["layer"]) if word)


# ---- the tree -------------------------------------------------------------------------------------


class Device:
    def __init__(self, device, pci, findings):
        self.name, self.kind, self.device = device["name"], device["kind"], device
        self.pcie = pcie_text(pci) if pci else ""
        self.findings = [f for f in findings if re.match(re.escape(self.name) + r"(:| has )", f)]
        self.down = device.get("state") == "down"

    def finds(self, word):
        return any(word in finding for finding in self.findings)

    def has_slow_pcie(self):
        return self.finds("PCIe")


class Bridge:
    """A PCIe switch, or a host bridge with several things below."""

    def __init__(self, kind, name, pcie, below, findings=()):
        self.kind, self.name, self.pcie, self.below = kind, name, pcie, below
        self.warned = bool(findings)


class Numa:
    def __init__(self, number, size, cpus, below):
        self.number, self.bytes, self.cpus, self.below = number, size, cpus, below


class Package:
    def __init__(self, name, model, numas):
        self.name, self.model, self.numas = name, model, numas


class Machine:
    """topology: the checked document; packages: the tree; devices: by name."""

    def __init__(self, values):
        check_topology(values)
        self.topology = topology = values[0]
        self.pcis, self.findings = topology["pci"], topology["findings"]
        self.children = [[] for _ in self.pcis]
        for i, pci in enumerate(self.pcis):
            if pci["parent"] is not None:
                self.children[pci["parent"]].append(i)
        self.devices = {
            d["name"]: Device(d, None if d["pci"] is None else self.pcis[d["pci"]], self.findings)
            for d in topology["devices"]
        }
        self.at = {}
        for device in self.devices.values():
            self.at.setdefault(device.device["pci"], []).append(device)
        self.packages = [self.package(i) for i in range(len(topology["packages"]))]
        self.packages += [p for p in (self.package(None), self.unplaced()) if p.numas]

    def of(self, kind):
        return [device for device in self.devices.values() if device.kind == kind]

    def below_pci(self, i):
        found = list(self.at.get(i, []))
        for child in self.children[i]:
            found += self.below_pci(child)
        if self.pcis[i]["role"] != "switch" or not found:
            return found
        name = f"PCIe switch {self.pcis[i]['id']}:"
        warnings = [f for f in self.findings if f.startswith(name)]
        return [Bridge("PCIe switch", short_id(self.pcis[i]), pcie_text(self.pcis[i]), found, warnings)]

    def io(self, number):
        """Everything below the NUMA node of that number, by host bridge. None: below no known node."""
        bridges = {}
        for i, pci in enumerate(self.pcis):
            if pci["parent"] is None and pci["numa_node"] == number:
                alone = ("no host bridge known", i)
                bridges.setdefault(alone if pci["host_bridge"] is None else pci["host_bridge"], []).append(i)
        found = []
        for tops in bridges.values():
            below = [part for i in tops for part in self.below_pci(i)]
            together = len(tops) > 1 and len(below) > 1
            found += [Bridge("host bridge", "", "", below)] if together else below
        return found + [d for d in self.at.get(None, []) if d.device["numa_node"] == number]

    def package(self, index):
        """The NUMA nodes of a package, without empty ones (Grace has many)."""
        numas = []
        for n in self.topology["numa_nodes"]:
            if n["package"] != index:
                continue
            below = self.io(n["number"]) if n["number"] is not None else []
            if below or n["memory_bytes"] or n["cpus"]:
                numas.append(Numa(n["number"], n["memory_bytes"], n["cpus"], below))
        if index is None:
            return Package("", "", numas)
        return Package(f"package {index}", self.topology["packages"][index]["model"] or "", numas)

    def unplaced(self):
        known = {n["number"] for n in self.topology["numa_nodes"]}
        numbers = {x["numa_node"] for x in self.pcis + self.topology["devices"]} - known
        below = [part for number in {None} | numbers for part in self.io(number)]
        return Package("", "", [Numa(None, None, None, below)] if below else [])

    def summary(self):
        """Lines that summarize its components."""
        t = self.topology
        first = []
        if t["nodes"] > 1:
            first = [f"one of {t['nodes']} nodes"]
        if t["nvlink_nodes"] > 1:
            first.append(f"every {t['nvlink_nodes']} share their NVSwitches")
        cpus = []
        if t["packages"]:
            cpus = [f"{len(t['packages'])} × {t['packages'][0]['model'] or 'unknown CPU'}"]
        if t["cores"]:
            cpus.append(f"{count(t['cores'], 'core')}, {count(t['threads'] or 0, 'thread')}")
        memory = sum(n["memory_bytes"] or 0 for n in t["numa_nodes"])
        if memory:
            cpus.append(f"{bytes_text(memory)} of memory in {count(len(t['numa_nodes']), 'NUMA node')}")
        has = [count(len(self.of("gpu")), "GPU"), count(len(self.of("nic")), "NIC")]
        if self.of("nvme"):
            has.append(count(len(self.of("nvme")), "NVMe disk"))
        if t["nvswitches"]:
            has.append(count(t["nvswitches"], "NVSwitch", "NVSwitches"))
        if t["driver"]:
            has.append(f"driver {t['driver']}")
        return [", ".join(line) for line in (first, cpus, has) if line]
