#!/usr/bin/env python3
"""Several hosts on one machine, made of namespaces; nothing of them outlives the process that asked.

    with Hosts(3, links={3: Link(rate="100mbit")}) as hosts:
        hosts.execute(["mpirun", *hosts.mpirun(1), "-np", "3", program])

Commands run on the head node: a host with the address 10.77.0.254 and no link to anywhere but the
switch. The hosts h1, h2, … at 10.77.0.1, … hang on that switch. Each has a name, a network, processes,
shared memory and a temporary folder of its own; the rest of the file system is that of the machine.
mpirun reaches them through an agent in the place of ssh.

    tests/hosts.py [-n N] [--slots S] [--rate N=100mbit] [--delay N=1ms] -- COMMAND …

runs COMMAND on the head node; an mpirun in it spreads over the hosts.
"""

import argparse
import os
import re
import select
import shlex
import shutil
import subprocess
import sys

import kit

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where ip and tc are, for root at least
NETWORK = "10.77.0"
HEAD = 254
PLACE = "/run/hosts"  # inside: a file system in memory, which only the hosts see

# What starts a command line on a host, as ssh would: AGENT [-OPTION…] HOST WORDS…
AGENT = f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
read -r pid enter <{PLACE}/$1 || exit 255
shift
exec nsenter -t "$pid" $enter sh -c "$*"
"""

# The first process of a host: HOST ENTER, where ENTER is what nsenter needs to follow it.
HOST = f"""
set -e
read -r pid rest </proc/self/stat
mount -t proc proc /proc
mount -t tmpfs -o size=2g,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o size=64m,mode=1777 tmpfs {PLACE}/tmp
hostname "$1"
ip link set lo up
echo "$pid $2" >{PLACE}/$1.started
sleep infinity &
wait
"""

# The first process of all: it lives until its standard input ends, for LIMIT seconds at most, and the
# kernel ends all others with it.
BEGIN = f"""
set -e
exec 3<&0
read -r pid rest </proc/self/stat
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p {PLACE}/tmp
chmod 1777 {PLACE}/tmp
mount -t tmpfs -o size=2g,mode=1777 tmpfs /dev/shm
printf %s {shlex.quote(AGENT)} >{PLACE}/agent
chmod 755 {PLACE}/agent
hostname head
{{ cat /etc/hosts; for i in $(seq @N@); do echo {NETWORK}.$i h$i; done; echo {NETWORK}.{HEAD} head; }} >{PLACE}/names
mount --bind {PLACE}/names /etc/hosts
ip link set lo up
ip link add br0 type bridge
ip link set br0 mtu @MTU@ up
ip addr add {NETWORK}.{HEAD}/24 dev br0
"""
START = f"""
mkfifo {PLACE}/@H@.started
unshare --net --uts --ipc --mount --pid --fork --kill-child @CLOCK@ sh -c {shlex.quote(HOST)} sh @H@ "@ENTER@" 3<&- &
read -r line <{PLACE}/@H@.started
echo "$line" >{PLACE}/@H@
host=${{line%% *}}
"""
VETH = 'ip link add p@I@ mtu @MTU@ type veth peer name eth0 mtu @MTU@ netns "$host"\n'
WIRE = f"""
mkfifo {PLACE}/@H@.wired
@WIRE@ "/proc/$host/ns/net" eth0 /proc/1/ns/net p@I@ @DELAY@ @RATE@ >{PLACE}/@H@.wired 3<&- &
read -r line <{PLACE}/@H@.wired
ip link set p@I@ mtu @MTU@
nsenter -t "$host" -n ip link set eth0 mtu @MTU@
"""
UP = f"""
ip link set p@I@ master br0 up
nsenter -t "$host" -n ip addr add {NETWORK}.@I@/24 dev eth0
nsenter -t "$host" -n ip link set eth0 up
"""
SHAPE = """
tc qdisc add dev p@I@ root @SHAPE@
nsenter -t "$host" -n tc qdisc add dev eth0 root @SHAPE@
"""
END = """
echo "ready $pid"
timeout -s KILL @LIMIT@ cat <&3 >/dev/null &
wait $! || true
"""


class Link:
    """The link of a host, equal in both directions: a rate as for tc ("100mbit"), and the seconds from end to end."""

    def __init__(self, rate=None, delay=0.0):
        self.rate, self.delay = rate, delay

    def mbit(self):
        number, unit = re.fullmatch(r"([\d.]+)([kmg]bit)", self.rate).groups()
        return float(number) * {"kbit": 1e-3, "mbit": 1, "gbit": 1e3}[unit]

    def shape(self):
        """The queueing discipline at each of its ends, if one suffices."""
        if self.delay:
            return f"netem limit 10000 delay {1e6 * self.delay:.0f}us" + (f" rate {self.rate}" if self.rate else "")
        # Segments wait for tokens as a whole, 64 KiB; tokens for 8 ms bridge a late timer. Behind
        # 20 ms of data an answer does not wait for long.
        ms = 125 * self.mbit()  # bytes
        burst = max(128 << 10, int(8 * ms))
        return f"tbf rate {self.rate} burst {burst} limit {burst + int(20 * ms)}"


def outer(user):
    """Words that create the namespaces of the first process."""
    own = ["--user", "--map-root-user"] if user else []
    spaces = ["--mount", "--net", "--pid", "--ipc", "--uts"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *own, *spaces, "--fork", "--kill-child", "sh"]


class Hosts:
    """N hosts. LINKS and CLOCKS are given per host from 1: a Link, and the seconds by which its
    monotonic clock is ahead of all others'. WIRE is the program that delays where the kernel cannot.
    Raises kit.Skipped with the reason where such hosts cannot be had."""

    def __init__(self, n, links=None, clocks=None, mtu=1500, wire=None, limit=300):
        self.n, self.links, self.clocks = n, links or {}, clocks or {}
        self.mtu, self.wire, self.limit = mtu, wire, limit
        self.user = os.geteuid() != 0
        self.process = None
        self.enter = []

    def __enter__(self):
        for tool in ("setpriv", "unshare", "nsenter", "ip", "tc", "timeout"):
            if not shutil.which(tool, path=PATH):
                raise kit.Skipped(f"no hosts without {tool}")
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused):
        self.close()

    def _script(self):
        wired = any(link.delay for link in self.links.values()) and not has_netem()
        if wired and not self.wire:
            raise kit.Skipped("this kernel cannot delay a link (no netem)")
        text = BEGIN
        for i in range(1, self.n + 1):
            link = self.links.get(i, Link())
            by_wire = wired and link.delay
            clock = f"--time --monotonic {self.clocks[i]}" if i in self.clocks else ""
            part = START + (WIRE if by_wire else VETH) + UP
            if not by_wire and (link.rate or link.delay):
                part += SHAPE.replace("@SHAPE@", link.shape())
            part = part.replace("@WIRE@", shlex.quote(self.wire or "")).replace("@DELAY@", f"{1e6 * link.delay:.0f}")
            part = part.replace("@RATE@", f"{link.mbit():g}" if link.rate else "0").replace("@CLOCK@", clock)
            part = part.replace("@ENTER@", "-m -u -i -n -p" + (" -T" if clock else ""))
            text += part.replace("@H@", f"h{i}").replace("@I@", str(i))
        return (text + END).replace("@MTU@", str(self.mtu)).replace("@LIMIT@", str(self.limit)).replace("@N@", str(self.n))

    def _start(self):
        words = outer(self.user) + ["-c", self._script()]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": PATH}, start_new_session=True,
        )  # fmt: skip
        ready, _, _ = select.select([self.process.stdout], [], [], 20)
        line = self.process.stdout.readline().split() if ready else []
        if line[:1] != ["ready"]:
            self.process.kill()
            said = self.process.communicate()[1].strip().splitlines()
            raise kit.Skipped("no hosts on this machine: " + (said[-1] if said else "the set-up did not end"))
        own = ["-U", "--preserve-credentials"] if self.user else []
        self.enter = ["nsenter", "-t", line[1], *own, "-m", "-u", "-i", "-n", "-p"]

    def close(self):
        """Ends everything that runs on the hosts."""
        if self.process:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                stream.close()
            self.process = None

    def words(self, words, host=None):
        """WORDS as a command for the head node, or for a host, to be run from outside."""
        there = [f"{PLACE}/agent", f"h{host}", shlex.join(["env", "-C", os.getcwd(), *words])] if host else words
        return [*self.enter, "env", "-C", os.getcwd(), *there]

    def execute(self, words, env=None, host=None):
        return kit.execute(self.words(words, host), {**self.environment(), **(env or {})})

    def spawn(self, words, env=None, host=None):
        return kit.spawn(self.words(words, host), {**self.environment(), **(env or {})})

    def cut(self, host):
        """Takes down the link of a host."""
        self.execute(["ip", "link", "set", f"p{host}", "down"]).exits(0)

    def names(self, slots=1):
        """The value of Open MPI's --host."""
        return ",".join(f"h{i}:{slots}" for i in range(1, self.n + 1))

    def environment(self, slots=1):
        """Variables that make Open MPI use the hosts and nothing else."""
        return {
            "PATH": PATH,
            "TMPDIR": f"{PLACE}/tmp",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": f"{PLACE}/agent",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_orte_default_hostfile": "/dev/null",
            "OMPI_MCA_oob_tcp_if_include": f"{NETWORK}.0/24",
            "OMPI_MCA_btl_tcp_if_include": f"{NETWORK}.0/24",
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,vader,tcp",
            # Every host takes the machine's processors for its own and would bind its first rank to the
            # first of them.
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }


def has_netem():
    """True if the kernel can delay packets by itself."""
    user = os.geteuid() != 0
    probe = "ip link set lo up && tc qdisc add dev lo root netem delay 1us"
    words = outer(user) + ["-c", probe]
    return subprocess.run(words, env={**os.environ, "PATH": PATH}, capture_output=True, check=False).returncode == 0


def given(texts, name):
    """{host: value} from "HOST=VALUE" words."""
    pairs = [text.partition("=") for text in texts]
    if not all(host.isdigit() and value for host, _, value in pairs):
        sys.exit(f"hosts.py: {name} is given as HOST=VALUE, as in --{name} 3=…")
    return {int(host): value for host, _, value in pairs}


def seconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def main():
    parser = argparse.ArgumentParser(description="Runs a command on the head node of several simulated hosts.")
    parser.add_argument("-n", type=int, default=3, metavar="N", help="hosts")
    parser.add_argument("--slots", type=int, default=1, help="ranks on each")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--rate", action="append", default=[], metavar="HOST=RATE", help="as in 3=100mbit")
    parser.add_argument("--delay", action="append", default=[], metavar="HOST=TIME", help="as in 3=1ms, one way")
    parser.add_argument("--ahead", action="append", default=[], metavar="HOST=SECONDS", help="of its clock")
    parser.add_argument("--wire", help="program that delays where the kernel cannot")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="the hosts vanish after")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    rates, delays = given(asked.rate, "rate"), given(asked.delay, "delay")
    links = {i: Link(rates.get(i), seconds(delays.get(i, "0s"))) for i in {*rates, *delays}}
    wire = os.path.abspath(asked.wire) if asked.wire else None
    try:
        with Hosts(asked.n, links, given(asked.ahead, "ahead"), asked.mtu, wire, asked.limit) as hosts:
            env = {**os.environ, **hosts.environment(), "OMPI_MCA_orte_default_hostfile": f"{PLACE}/hostfile"}
            lines = "\n".join(f"h{i} slots={asked.slots}" for i in range(1, asked.n + 1))
            hosts.execute(["sh", "-c", f"echo '{lines}' >{PLACE}/hostfile"]).exits(0)
            return subprocess.run(hosts.words(asked.command), env=env, check=False).returncode
    except kit.Skipped as reason:
        print(f"hosts.py: {reason}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
