"""Writes schedules.json: factors of PyTorch's schedulers, at some steps from 1.

    pip install torch && python3 schedules.py > schedules.json

The warm-ups are those of transformers.optimization, one step later: their first factor is 0.
"""
import json, math
import torch

O = torch.optim.lr_scheduler
AT = [1, 2, 3, 5, 10, 11, 29, 30, 31, 50, 99, 100]


def run(make, skip=0):
    o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    s = make(o)
    rates = []
    for i in range(100 + skip):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        if i < 99 + skip:
            s.step()
    return [rates[t - 1 + skip] for t in AT]


def warm(after, warmup=10, steps=100):
    return lambda o: O.LambdaLR(o, lambda t: t / warmup if t < warmup else after((t - warmup) / (steps - warmup)))


print(json.dumps({
    "At": AT,
    "WarmupCosine": run(warm(lambda p: 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * p))), 1),
    "WarmupLinear": run(warm(lambda p: 1 - 0.8 * p), 1),
    "Warmup": run(warm(lambda p: 1), 1),
    "OneCycle": run(lambda o: O.OneCycleLR(o, 1.0, total_steps=100)),
    "StepDecay": run(lambda o: O.StepLR(o, 10, 0.5)),
    "Exponential": run(lambda o: O.ExponentialLR(o, 0.97)),
}))
