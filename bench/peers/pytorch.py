"""Trains a model of `bench peers` with PyTorch, on one thread.

Reads a line with the problem (see args.ts) and Adam's settings, then lines with a number of steps. For each of these it takes the steps and prints {"ms": float, "losses": [float]}.
"""

import base64
import json
import math
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
# Debian's PyTorch multiplies with the BLAS that is installed.
with open("/proc/self/maps") as maps:
    mapped = maps.read()
    if "libopenblas" not in mapped and "libmkl_" not in mapped:
        print("PyTorch multiplies slowly here: install libopenblas0, which takes a seventh of libblas3's time.", file=sys.stderr)


def array(text, dtype):
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype)


def layers(parameters, x):
    for i in range(0, len(parameters), 2):
        weight, bias = parameters[i], parameters[i + 1]
        if weight.dim() == 4:
            x = F.conv2d(F.pad(x, (1, 2, 1, 2)), weight, bias, stride=2)
        else:
            x = torch.addmm(bias, x.reshape(len(x), -1), weight)
        if i + 2 < len(parameters):
            x = F.relu(x)
    return x


def rms_norm(x, scale):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * scale


def transformer(parameters, tokens, heads, mask):
    table, positions, *rest = parameters
    x = F.embedding(tokens, table) + positions
    batch, context, width = x.shape
    for i in range(0, len(rest) - 1, 6):
        norm1, attend, project, norm2, expand, contract = rest[i : i + 6]
        split = (rms_norm(x, norm1) @ attend).split(width, -1)
        q, k, v = (one.view(batch, context, heads, -1).transpose(1, 2) for one in split)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // heads)
        attended = F.softmax(scores.masked_fill(mask, -math.inf), -1) @ v
        x = x + attended.transpose(1, 2).reshape(batch, context, width) @ project
        x = x + F.relu(rms_norm(x, norm2) @ expand) @ contract
    return (rms_norm(x, rest[-1]) @ table.t()).view(batch * context, -1)


problem = json.loads(sys.stdin.readline())
adam, batches, heads = problem["adam"], problem["batches"], problem["heads"]
sizes = [math.prod(shape) for shape in problem["shapes"]]
parameters = [part.view(shape) for part, shape in zip(array(problem["weights"], torch.float32).split(sizes), problem["shapes"])]
parameters = [one.clone().requires_grad_() for one in parameters]
labels = array(problem["labels"], torch.int32).long().view(batches, -1)
if heads > 0:
    context = len(parameters[1])
    inputs = array(problem["inputs"], torch.int32).long().view(batches, -1, context)
    mask = torch.ones(context, context, dtype=torch.bool).triu(1)
else:
    inputs = array(problem["inputs"], torch.float32).view(batches, -1, 1, 28, 28)
optimizer = torch.optim.Adam(parameters, adam["learningRate"], (adam["beta1"], adam["beta2"]), adam["epsilon"])
taken = 0
for line in sys.stdin:
    steps, losses = int(line), []
    started = time.perf_counter()
    for _ in range(steps):
        x, y = inputs[taken % batches], labels[taken % batches]
        optimizer.zero_grad()
        loss = F.cross_entropy(transformer(parameters, x, heads, mask) if heads > 0 else layers(parameters, x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        taken += 1
    print(json.dumps({"ms": (time.perf_counter() - started) * 1000 / steps, "losses": losses}), flush=True)
