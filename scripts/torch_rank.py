"""One rank of torch.distributed, started by compare_torch.py: torch_rank.py gloo|nccl.

Reads jobs as JSON lines from standard input and answers each with a line: "call", PyTorch's function, and the mean
"us" of one call at this rank; or "refused", PyTorch's reason."""

import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIMIT = datetime.timedelta(seconds=120)


class Rank:
    def __init__(self, backend):
        self.cuda = backend == "nccl"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        torch.set_num_threads(1)  # as torchrun does
        dist.init_process_group(backend, timeout=LIMIT)
        self.n = dist.get_world_size()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def buffer(self, elements):
        """Zeros in memory of their own, where torch.zeros may share one page."""
        return torch.empty(elements, device=self.device).fill_(0)

    def calls(self, name, elements):
        """PyTorch's functions for a collective of so many elements, the preferred one first."""
        whole, other, part = self.buffer(elements), self.buffer(elements), self.buffer(elements // self.n)
        return {
            "all_reduce": [("all_reduce", lambda: dist.all_reduce(whole))],
            "all_gather": [
                ("all_gather_into_tensor", lambda: dist.all_gather_into_tensor(whole, part)),
                ("all_gather", lambda: dist.all_gather(list(whole.chunk(self.n)), part)),
            ],
            "reduce_scatter": [("reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(part, whole))],
            "alltoall": [("all_to_all_single", lambda: dist.all_to_all_single(other, whole))],
        }[name]

    def collective(self, job):
        """The first function that the backend has; PyTorch refuses others before it communicates."""
        for name, call in self.calls(job["collective"], job["size"] // 4):
            try:
                call()
            except (RuntimeError, AttributeError) as reason:
                refused = str(reason).splitlines()[0]
                continue
            return {"call": name, "us": self.time(call, job)}
        return {"refused": refused}

    def time(self, call, job):
        for _ in range(job["warm_up"]):
            call()
        self.wait()
        dist.barrier()
        self.wait()
        begin = time.perf_counter()
        for _ in range(job["iterations"]):
            call()
        self.wait()
        return 1e6 * (time.perf_counter() - begin) / job["iterations"]

    def steps(self, model, job):
        """Median microseconds of a forward and backward pass."""
        data = torch.randn(job["batch"], job["width"], device=self.device)
        times = []
        for i in range(job["warm_up"] + job["iterations"]):
            model.zero_grad(set_to_none=True)
            self.wait()
            begin = time.perf_counter()
            model(data).sum().backward()
            self.wait()
            times.append(time.perf_counter() - begin)
        return 1e6 * statistics.median(times[job["warm_up"] :])

    def training(self, job):
        """"compute_us" is a step of the model alone, "us" one of DDP."""
        layers = [torch.nn.Linear(job["width"], job["width"]) for _ in range(job["layers"])]
        model = torch.nn.Sequential(*layers).to(self.device)
        dist.barrier()
        alone = self.steps(model, job)
        parallel = DistributedDataParallel(model, device_ids=[self.device.index] if self.cuda else None)
        dist.barrier()
        return {"call": "DDP", "us": self.steps(parallel, job), "compute_us": alone}


def main():
    rank = Rank(sys.argv[1])
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(rank.collective(job) if "collective" in job else rank.training(job)), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
