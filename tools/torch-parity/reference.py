"""Compares this project's results with PyTorch's for the inputs that parity.ts sends.

Usage: reference.py SUITE < input.json
Prints a JSON list of {"case": str, "difference": float, "curves": optional loss curves}. A difference is relative to the norm of PyTorch's result, except where a suite
documents another unit. PyTorch computes in float64, so differences are this project's float32 rounding.
"""

import base64
import datetime
import json
import math
import os
import sys
import tempfile
import types

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

torch.set_default_dtype(torch.float64)


def numbers(values):
    """A float64 tensor, also for whole numbers in JSON."""
    return torch.tensor(values, dtype=torch.get_default_dtype())


def relative(ours, theirs):
    return ((torch.as_tensor(ours) - theirs).norm() / max(theirs.norm().item(), 1e-9)).item()


def optimizers(data):
    def create(name, p, o):
        lr, decay = o["learningRate"], o.get("weightDecay", 0.01 if name == "adamw" else 0)
        if name == "sgd":
            return torch.optim.SGD([p], lr, weight_decay=decay)
        if name in ("momentum", "nesterov"):
            momentum, dampening = o.get("momentum", 0.9), o.get("dampening", 0)
            return torch.optim.SGD([p], lr, momentum, dampening, decay, name == "nesterov")
        adam = torch.optim.Adam if name == "adam" else torch.optim.AdamW
        return adam([p], lr, (o.get("beta1", 0.9), o.get("beta2", 0.999)), o.get("epsilon", 1e-8), decay)

    for case in data["cases"]:
        options = case["options"]
        p = torch.nn.Parameter(numbers(data["start"]))
        optimizer = create(case["name"], p, options)
        for gradient, rate in zip(data["gradients"], data["rates"]):
            optimizer.param_groups[0]["lr"] = options["learningRate"] * rate
            p.grad = numbers(gradient)
            optimizer.step()
        yield f"{case['name']} {options}", relative(case["parameters"], p.detach())


def clip(data):
    """The larger of the differences of norm and of gradient; 0 if both are the same infinity or NaN, 1 if only one is."""

    def difference(ours, theirs):
        if math.isfinite(ours) and math.isfinite(theirs):
            return abs(ours - theirs) / max(abs(theirs), 1e-9)
        return 0.0 if str(ours) == str(theirs) else 1.0

    number = lambda text: float(text.replace("Infinity", "inf"))
    for case in data["cases"]:
        p = torch.nn.Parameter(torch.zeros(len(case["gradient"])))
        p.grad = torch.tensor([number(x) for x in case["gradient"]])
        norm = torch.nn.utils.clip_grad_norm_([p], number(case["maxNorm"])).item()
        pairs = [(number(case["norm"]), norm), *zip(map(number, case["clipped"]), p.grad.tolist())]
        yield f"{case['gradient']} to {case['maxNorm']}", max(difference(*pair) for pair in pairs)


def syncBatchNorm(data):
    x = numbers(data["inputs"]).reshape(11, 6, 6, 2)
    y = numbers(data["targets"]).reshape(11, 3)
    weights = [numbers(v["values"]).reshape(v["shape"]).requires_grad_() for v in data["variables"]]
    following = iter(weights)
    take = lambda: next(following)

    def normalize(x, scale=True, center=True):
        axes = tuple(range(x.dim() - 1))
        x = (x - x.mean(axes)) / torch.sqrt(x.var(axes, unbiased=False) + 1e-3)
        x = x * take() if scale else x
        return x + take() if center else x

    def convolve(x):
        kernel = take().permute(3, 2, 0, 1)
        return F.conv2d(x.permute(0, 3, 1, 2), kernel, take()).permute(0, 2, 3, 1)

    h = torch.relu(convolve(normalize(x)))
    h = normalize(normalize(h, scale=False), center=False).reshape(11, -1)
    h = normalize(h @ take() + take())
    loss = ((h - y) ** 2).mean()
    loss.backward()
    largest = max(w.grad.norm().item() for w in weights)
    for split in data["splits"]:
        yield f"loss of ranks with {split['split']} samples", relative(split["loss"], loss.detach())
        # A shift before another normalization has no gradient, so differences are relative to the largest one.
        off = [(numbers(g) - w.grad.reshape(-1)).norm().item() for g, w in zip(split["gradients"], weights)]
        yield f"gradients of ranks with {split['split']} samples", max(off) / largest


def start_group(folder, rank, world_size):
    # A rank without peers must end before its parent times out.
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", f"file://{folder}/init", timeout, world_size, rank)


def exit_at_once():
    """Ends the process without the destructors of process groups, in which PyTorch 1.13 sometimes hangs."""
    sys.stdout.flush()
    os._exit(0)


def join_rank(rank, data, folder):
    start_group(folder, rank, len(data["data"]))
    torch.set_default_dtype(torch.float64)
    results = []
    for case in data["cases"]:
        model = torch.nn.Linear(4, 3, bias=False)
        model.weight.data = numbers(data["start"]).reshape(4, 3).T.contiguous()
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)
        with ddp.join(divide_by_initial_world_size=case["divideByInitialWorldSize"]):
            for k, batch in enumerate(data["data"][rank]):
                x = numbers(batch["x"]).reshape(-1, 4)
                y = numbers(batch["y"]).reshape(-1, 3)
                if (k + 1) % case["passesPerStep"]:
                    with ddp.no_sync():
                        ((ddp(x) - y) ** 2).mean().backward()
                else:
                    ((ddp(x) - y) ** 2).mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        results.append(model.weight.data.T.reshape(-1).tolist())
    # A rank that ends closes its connections, which the others may still use.
    dist.barrier()
    dist.destroy_process_group()
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(results, file)
    exit_at_once()


def join(data):
    with tempfile.TemporaryDirectory() as folder:
        world_size = len(data["data"])
        mp.spawn(join_rank, (data, folder), nprocs=world_size)
        for rank in range(world_size):
            with open(f"{folder}/{rank}.json") as file:
                results = json.load(file)
            for case, theirs in zip(data["cases"], results):
                name = f"divide by initial world size: {case['divideByInitialWorldSize']}, passes a step: {case['passesPerStep']}"
                yield f"{name}, rank {rank}", relative(case["ranks"][rank], numbers(theirs))


def ddp_rank(rank, data, world_size, folder):
    start_group(folder, rank, world_size)
    torch.set_default_dtype(torch.float64)
    create = {"momentum": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    results = []
    for case in data["cases"]:
        if case["worldSize"] != world_size:
            continue
        kernel1, bias1, kernel2, bias2 = map(numbers, data["start"])
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        # PyTorch's kernels are [outputs, inputs].
        model[0].weight.data, model[0].bias.data = kernel1.reshape(8, 16).T.contiguous(), bias1
        model[2].weight.data, model[2].bias.data = kernel2.reshape(16, 3).T.contiguous(), bias2
        ddp = nn.parallel.DistributedDataParallel(model)
        settings = {"lr": case["options"]["learningRate"]}
        if "momentum" in case["options"]:
            settings["momentum"] = case["options"]["momentum"]
        if "weightDecay" in case["options"]:
            settings["weight_decay"] = case["options"]["weightDecay"]
        optimizer = create[case["name"]](ddp.parameters(), **settings)
        curve = []
        for batch in data["data"][rank]:
            loss = F.cross_entropy(ddp(numbers(batch["x"]).reshape(-1, 8)), torch.tensor(batch["labels"]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            curve.append(mean.item() / world_size)
        weights = [w.data.T.reshape(-1).tolist() for w in model.parameters()]
        results.append({"losses": curve, "weights": weights})
    # A rank that ends closes its connections, which the others may still use.
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        with open(f"{folder}/results.json", "w") as file:
            json.dump(results, file)
    exit_at_once()


def ddp(data):
    for world_size in sorted({case["worldSize"] for case in data["cases"]}):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(ddp_rank, (data, world_size, folder), nprocs=world_size)
            with open(f"{folder}/results.json") as file:
                results = json.load(file)
        for case, theirs in zip((c for c in data["cases"] if c["worldSize"] == world_size), results):
            name = f"{case['name']}, {world_size} ranks"
            curves = {"ours": case["losses"], "torch": theirs["losses"]}
            yield f"{name}: losses", max(abs(a - b) / b for a, b in zip(*curves.values())), curves
            flat = [numbers([x for w in weights for x in w]) for weights in (case["weights"], theirs["weights"])]
            yield f"{name}: weights", relative(*flat)


def losses(data):
    case = data["classes"]
    logits = numbers(case["rows"]).requires_grad_()
    rows = F.cross_entropy(logits, torch.tensor(case["labels"]), reduction="none")
    loss = (rows * numbers(case["weights"])).sum()
    loss.backward()
    yield "cross-entropy", relative(case["value"], loss.detach())
    yield "gradient of cross-entropy", relative(case["gradient"], logits.grad.reshape(-1))
    case = data["amounts"]
    functions = {"mean-squared-error": F.mse_loss, "mean-absolute-error": F.l1_loss, "huber": F.huber_loss}
    for ours in case["losses"]:
        outputs = numbers(case["outputs"]).requires_grad_()
        rows = functions[ours["name"]](outputs, numbers(case["amounts"]), reduction="none")
        loss = (rows * numbers(case["weights"])).sum()
        loss.backward()
        yield ours["name"], relative(ours["value"], loss.detach())
        yield f"gradient of {ours['name']}", relative(ours["gradient"], outputs.grad)


def gpt(data):
    size = data["size"]
    variables = [numbers(v["values"]).reshape(v["shape"]).requires_grad_() for v in data["variables"]]
    windows = torch.tensor(data["windows"])
    batch, context = windows.shape
    normalize = lambda x, gain: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain
    heads = lambda x: x.reshape(batch, context, size["heads"], -1).transpose(1, 2)
    embedding, places = variables[:2]
    x = embedding[windows] + places
    future = torch.triu(torch.ones(context, context, dtype=torch.bool), 1)
    for layer in range(size["layers"]):
        norm1, attention, projection, norm2, expand, contract = variables[2 + 6 * layer : 8 + 6 * layer]
        q, k, v = (heads(part) for part in (normalize(x, norm1) @ attention).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf)
        x = x + (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, context, -1) @ projection
        x = x + torch.relu(normalize(x, norm2) @ expand) @ contract
    logits = (normalize(x, variables[-1]) @ embedding.T).reshape(-1, size["vocabulary"])
    loss = F.cross_entropy(logits, torch.tensor(data["next"]), reduction="sum") / context
    loss.backward()
    yield "logits", relative(data["logits"], logits.detach().reshape(-1))
    yield "loss", relative(data["loss"], loss.detach())
    for i, (variable, ours) in enumerate(zip(variables, data["variables"])):
        yield f"gradient of variable {i}", relative(ours["gradient"], variable.grad.reshape(-1))


def torch_power_sgd(data, use_error_feedback):
    """The last result of PyTorch's hook, and the mean of all. In float32, which the hook expects."""
    torch.set_default_dtype(torch.float32)
    rows, cols, rank, steps = (data[name] for name in ("rows", "cols", "rank", "steps"))
    gradient = numbers(data["gradient"]).reshape(rows, cols)
    mean = torch.zeros(rows, cols)
    with tempfile.TemporaryDirectory() as folder:
        start_group(folder, 0, 1)
        model = torch.nn.Linear(cols, rows, bias=False)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        state = PowerSGDState(None, rank, start_powerSGD_iter=2, use_error_feedback=use_error_feedback)
        ddp.register_comm_hook(state, powerSGD_hook)
        # The hook compresses from the third step on.
        for step in range(-2, steps):
            model.weight.grad = None
            (ddp(torch.eye(cols)) * gradient.T).sum().backward()
            if step >= 0:
                mean += model.weight.grad / steps
        dist.destroy_process_group()
    torch.set_default_dtype(torch.float64)
    return model.weight.grad, mean


def powerSgd(data):
    last, _ = torch_power_sgd(data, False)
    u, s, v = torch.linalg.svd(numbers(data["gradient"]).reshape(last.shape))
    rank = data["rank"]
    best = (u[:, :rank] * s[:rank]) @ v[:rank]
    yield "the best approximation of that rank", relative(data["result"], best.reshape(-1))
    yield "PyTorch's hook", relative(data["result"], last.reshape(-1))


def powerSgdErrorFeedback(data):
    _, mean = torch_power_sgd(data, True)
    yield "PyTorch's hook", relative(data["result"], mean.reshape(-1))
    yield "the gradient", relative(data["result"], numbers(data["gradient"]))


def read_safetensors(path):
    """The result of safetensors.torch.load_file, for machines without that package."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            values = torch.frombuffer(bytearray(data[8 + size + start : 8 + size + end]), dtype=torch.float32)
            tensors[name] = values.reshape(entry["shape"])
    return tensors


def exported(data):
    """Runs the code blocks of docs/export.md: the loader, and the cnn, which reads model.safetensors."""
    try:
        import safetensors.torch
    except ImportError:
        library = types.ModuleType("safetensors.torch")
        library.load_file = read_safetensors
        sys.modules["safetensors"], sys.modules["safetensors.torch"] = types.ModuleType("safetensors"), library

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense1, self.dense2 = nn.Linear(784, 8), nn.Linear(8, 10)

        def forward(self, x):
            return self.dense2(self.dense1(x.flatten(1)).relu())

    class OwnLayers(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 3, 5, stride=3)
            self.depthwise = nn.Conv2d(3, 6, (3, 2), groups=3)
            self.normalized = nn.LayerNorm(6, eps=1e-3)
            self.answer = nn.Linear(6 * 7 * 6, 10)

        def forward(self, x):
            x = self.depthwise(self.conv(x)).permute(0, 2, 3, 1)
            return self.answer(self.normalized(x).flatten(1))

    loader, cnn = data["code"]
    inputs = numbers(data["inputs"]).reshape(-1, 1, 28, 28)
    for case in data["cases"]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            with open("model.safetensors", "wb") as file:
                file.write(base64.b64decode(case["file"]))
            names = {}
            exec(loader, names)
            if case["name"] == "cnn":
                exec(cnn, names)
                model = names["model"]
            else:
                model = {"mlp": Mlp, "ownLayers": OwnLayers}[case["name"]]()
                model.load_state_dict(names["load"]("model.safetensors"))
            os.chdir("/")
        yield case["name"], relative(case["outputs"], model(inputs).detach())


SUITES = (optimizers, clip, syncBatchNorm, ddp, join, losses, gpt, powerSgd, powerSgdErrorFeedback, exported)

if __name__ == "__main__":
    suite = {function.__name__: function for function in SUITES}[sys.argv[1]]
    print(json.dumps([dict(zip(("case", "difference", "curves"), result)) for result in suite(json.load(sys.stdin))]))
    exit_at_once()
