"""Writes trainings.json: whole trainings with settings drawn at random, in PyTorch, in float64.

    pip install torch numpy && python3 trainings.py > trainings.json

Numbers are those of oracle.py. Each case has its settings, the loss of each step, after each
epoch that of a validation of another size, and the weights and predictions in the end.
"""
import fnmatch, json, math, random, zlib
import numpy as np, torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
D, H, C, N, TESTS = 3, 6, 4, 22, 7  # inputs, hidden units, classes, examples


def numbers(name, *shape):
    i = np.arange(math.prod(shape), dtype=np.uint32)
    u = i * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    u ^= u >> np.uint32(15)
    u *= np.uint32(2246822519)
    u ^= u >> np.uint32(13)
    x = (u >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)
    return torch.tensor(x.astype(np.float64)).reshape(shape)


def drawn(seed):
    r = random.Random(seed)
    some = lambda *l: r.choice(l)
    return {
        "Steps": some(0, 3), "Labels": some(True, True, False), "Norm": some(True, False), "Decay": some(0, 0.05), "Weights": some("", "examples", "targets"),
        "Smoothing": some(0, 0.1), "Ignore": some(True, False), "ClassWeights": some(None, [0.5, 0, 2, 1]), "Gamma": some(0, 0, 2),
        "Optimizer": some("momentum", "adam", "adamw"), "ClipNorm": some(0, 0.1), "ClipValue": some(0, 0.05), "Average": some("", "EMA", "SWA"),
        "Schedule": some("", "cosine", "one cycle", "step"), "Groups": some(True, False), "Accumulate": some(1, 2, 4), "EachEpoch": some(True, False),
    }


def factor(c, t):
    if c["Schedule"] == "cosine":  # 2 steps of warm-up, 7 in all, to 0.1
        return t / 2 if t <= 2 else 0.55 + 0.45 * math.cos(math.pi * min((t - 2) / 5, 1))
    if c["Schedule"] == "step":
        return 0.5 ** ((t - 1) // 2)
    if c["Schedule"] == "one cycle":
        o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1)
        s = torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1, total_steps=9)
        for _ in range(t - 1):
            o.step(), s.step()
        return o.param_groups[0]["lr"]
    return 1


def forward(c, w, x, train):
    h = torch.tanh(x @ w["l1/weights"] + w["l1/biases"])
    running = {}
    if c["Norm"]:
        mean, variance = w["bn/mean"].clone(), w["bn/variance"].clone()
        h = F.batch_norm(h.reshape(-1, H), mean, variance, w["bn/scale"], w["bn/offset"], train, 0.1, 1e-5).reshape(h.shape)
        running = {"bn/mean": mean.detach(), "bn/variance": variance.detach()} if train else {}
    return h @ w["l2/weights"] + w["l2/biases"], c["Decay"] * w["l2/weights"].square().sum(), running


def loss_of(c, out, y, v):
    """The sum of losses, and the number it is divided by."""
    if not c["Labels"]:
        each = (out - y).square()
        v = torch.ones_like(y) if v is None else v.reshape(v.shape + (1,) * (y.dim() - v.dim())).expand_as(y)
        return (each * v).sum(), v.sum()
    v = torch.ones(y.shape) if v is None else v.reshape(v.shape + (1,) * (y.dim() - v.dim())).expand(y.shape)
    of = torch.tensor(c["ClassWeights"] or [1.0] * C)
    p, label = out.log_softmax(-1), y.clamp(min=0)
    right = p.gather(-1, label[..., None])[..., 0]
    each = -(1 - c["Smoothing"]) * right * of[label] - c["Smoothing"] * (p * of).sum(-1) / C
    each = each * (1 - right.exp()) ** c["Gamma"]
    v = v * (y >= 0)
    return (each * v).sum(), (of[label] * v).sum()


def data(c, name, n):
    shape = (n, c["Steps"]) if c["Steps"] else (n,)
    x, y, v = numbers(name + "/x", *shape, D), numbers(name + "/y", *shape, C), None
    if c["Labels"]:
        y = torch.floor((numbers(name + "/y", *shape) + 0.5) * C).long()
        if c["Ignore"]:
            y[numbers(name + "/ignored", *shape) < -0.2] = -1
    if c["Weights"]:
        shape = (n,) if c["Weights"] == "examples" else tuple(y.shape)
        v = (numbers(name + "/v", *shape) + 0.25).clamp(min=0)
    return x, y, v


def group(c, name):
    """Factor of the rate and of the decay; 0, 0: frozen."""
    if not c["Groups"]:
        return 1, 1
    return {"l1/biases": (0, 0), "l2/weights": (0.5, 0)}.get(name, (1, 3))


def run(c):
    x, y, v = data(c, "train", N)
    tests = data(c, "test", TESTS)
    w = {"l1/weights": numbers("l1/weights", D, H) * np.float32(2 / math.sqrt(D)), "l1/biases": numbers("l1/biases", H)}
    if c["Norm"]:
        w |= {"bn/scale": numbers("bn/scale", H) + 1, "bn/offset": numbers("bn/offset", H), "bn/mean": torch.zeros(H), "bn/variance": torch.ones(H)}
    w |= {"l2/weights": numbers("l2/weights", H, C) * np.float32(2 / math.sqrt(H)), "l2/biases": numbers("l2/biases", C)}
    trained = [k for k in w if k not in ("bn/mean", "bn/variance") and group(c, k) != (0, 0)]
    parameters = {k: torch.nn.Parameter(w[k].clone()) for k in trained}
    make = {"momentum": lambda p, d: torch.optim.SGD(p, momentum=0.9, weight_decay=0.01 * d), "adam": lambda p, d: torch.optim.Adam(p, weight_decay=0.01 * d), "adamw": lambda p, d: torch.optim.AdamW(p, weight_decay=0.1 * d)}[c["Optimizer"]]
    optimizers = {k: make([parameters[k]], group(c, k)[1]) for k in trained}
    average, counted, t = {}, 0, 0
    out = {"Losses": [], "Validation": []}
    for _ in range(3):
        for at in range(0, N, 8):
            t += 1
            n = min(8, N - at)
            size = 8 // c["Accumulate"]
            while n % size:
                size -= 1
            total, weight, now = 0, 0, w | parameters
            for i in range(at, at + n, size):
                result, added, running = forward(c, now, x[i : i + size], True)
                one, counts = loss_of(c, result, y[i : i + size], None if v is None else v[i : i + size])
                total, weight, now = total + one + added * counts, weight + counts, now | running
            loss = total / weight if weight > 0 else total * 0
            out["Losses"].append(loss.item())
            w = {k: x.detach() for k, x in now.items()}
            slopes = torch.autograd.grad(loss, list(parameters.values()))
            if c["ClipValue"]:
                slopes = [g.clamp(-c["ClipValue"], c["ClipValue"]) for g in slopes]
            for p, g in zip(parameters.values(), slopes):
                p.grad = g
            if c["ClipNorm"]:
                torch.nn.utils.clip_grad_norm_(list(parameters.values()), c["ClipNorm"])
            for k, o in optimizers.items():
                o.param_groups[0]["lr"] = 0.05 * factor(c, t) * group(c, k)[0]
                o.step()
            w |= {k: p.detach().clone() for k, p in parameters.items()}
            if c["Average"] == "EMA":
                average = {k: w[k] if t == 1 else 0.8 * average[k] + 0.2 * w[k] for k in trained}
            if c["Average"] == "SWA" and (t <= 2 or (t - 2) % 3 == 0):  # from step 2 on, each third
                counted = 1 if t <= 2 else counted + 1
                average = {k: w[k] if t <= 2 else average[k] + (w[k] - average[k]) / counted for k in trained}
        result, added, _ = forward(c, w | average, tests[0], False)
        one, counts = loss_of(c, result, *tests[1:])
        out["Validation"].append((one / counts + added).item())
    out["Weights"] = {k: x.flatten().tolist() for k, x in w.items()}
    out["Predicted"] = result.flatten().tolist()
    return {"Settings": c} | out


def rounded(x):
    if isinstance(x, float):
        return float(f"{x:.8g}")
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return [rounded(v) for v in x] if isinstance(x, list) else x


print("[\n" + ",\n".join(json.dumps(rounded(run(drawn(seed)))) for seed in range(12)) + "\n]")
