"""Times steps of DistributedDataParallel over gloo, one thread a rank, for the workload that stepTimes.ts sends.

Usage: stepTimes.py < workload.json
Prints a JSON list of the milliseconds of rank 0's steps.
"""

import datetime
import json
import os
import sys
import tempfile
import time

# One thread a rank. Debian's PyTorch multiplies with the BLAS that is installed (libopenblas0: 7 times as fast as libblas3).
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


def run(rank, workload, folder):
    torch.set_num_threads(1)
    # A rank without peers must end before its parent times out.
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", f"file://{folder}/init", timeout, workload["worldSize"], rank)
    inputs, hidden, classes = workload["sizes"]
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.01, momentum=0.9)
    xs, ys = torch.randn(workload["batch"], inputs), torch.arange(workload["batch"]) % classes
    times = []
    for _ in range(workload["warmUpSteps"] + workload["steps"]):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(xs), ys)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append((time.perf_counter() - started) * 1000)
    # A rank that ends closes its connections, which the others may still use.
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        with open(f"{folder}/times.json", "w") as file:
            json.dump(times[workload["warmUpSteps"] :], file)
    sys.stdout.flush()
    # Without the destructors of process groups, in which PyTorch 1.13 sometimes hangs.
    os._exit(0)


if __name__ == "__main__":
    workload = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (workload, folder), nprocs=workload["worldSize"])
        with open(f"{folder}/times.json") as file:
            print(file.read())
