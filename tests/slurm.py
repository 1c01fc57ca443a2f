"""Slurm on the hosts of hosts.py: a controller on the head node and a node on each host."""

import shutil
import time

import kit
from hosts import HEAD, NETWORK, PATH, PLACE, Hosts

CONFIGURATION = f"""
ClusterName=hosts
SlurmctldHost=head({NETWORK}.{HEAD})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={PLACE}/munge/socket
StateSaveLocation={PLACE}/state
SlurmdSpoolDir={PLACE}/spool.%n
SlurmctldPidFile={PLACE}/slurmctld.pid
SlurmdPidFile={PLACE}/slurmd.%n.pid
SlurmctldLogFile={PLACE}/slurmctld.log
SlurmdLogFile={PLACE}/slurmd.%n.log
TmpFS={PLACE}/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
ReturnToService=2
KillWait=3
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Alone in memory: keys and sockets of the authentication, the controller's state, logs.
START = f"""
set -e
umask 022
mkdir -p {PLACE}/munge {PLACE}/state
head -c 1024 /dev/urandom >{PLACE}/munge/key
chmod 600 {PLACE}/munge/key
munged --force --key-file={PLACE}/munge/key --socket={PLACE}/munge/socket --pid-file={PLACE}/munge/pid \\
    --log-file={PLACE}/munge/log --seed-file={PLACE}/munge/seed
slurmctld -c -f {PLACE}/slurm.conf
"""


class Slurm(Hosts):
    """N nodes, which are hosts as well. Raises kit.Skipped with the reason if they cannot be made."""

    def __enter__(self):
        for tool in ("munged", "slurmctld", "slurmd", "srun", "sinfo"):
            if not shutil.which(tool, path=PATH):
                raise kit.Skipped(f"Slurm is not installed: no {tool}")
        super().__enter__()
        try:
            self._start_daemons()
        except BaseException:
            self.close()
            raise
        return self

    def _start_daemons(self):
        nodes = [f"NodeName=h{i} NodeAddr={NETWORK}.{i} CPUs=4 RealMemory=2000\n" for i in range(1, self.n + 1)]
        text = CONFIGURATION + "".join(nodes)
        self._do(["sh", "-c", f'printf %s "$1" >{PLACE}/slurm.conf', "sh", text])
        self._do(["sh", "-c", START])
        for i in range(1, self.n + 1):
            self._do(["slurmd", "-f", f"{PLACE}/slurm.conf"], host=i)
        deadline = time.monotonic() + 20
        while "idle" not in (said := self.execute(["sinfo", "-h", "-o", "%T %D"]).out) or str(self.n) not in said:
            if time.monotonic() > deadline:
                log = self.execute(["sh", "-c", f"tail -n 5 {PLACE}/slurm*.log"]).out
                raise kit.Skipped(f"Slurm does not come up here: {said.strip()}\n{log}")
            time.sleep(0.1)

    def _do(self, words, host=None):
        done = self.execute(words, host=host)
        if done.code != 0:
            raise kit.Skipped(f"Slurm cannot be started here: {words[0]}: {done.err.strip()}")

    def environment(self, slots=1):
        return {
            **super().environment(slots),
            "SLURM_CONF": f"{PLACE}/slurm.conf",
            # Without, Open MPI 4.1.4 crashes in 3 of 100 starts under the PMIx of Slurm 22.05, whatever
            # the program: a first message comes before its receiver is ready. With it a node can have
            # but one task.
            "OMPI_MCA_pmix_base_async_modex": "1",
        }
