"""Writes wrappers.json: PyTorch's averaged weights, parameter groups and Muon, in float64.

    pip install torch && python3 wrappers.py > wrappers.json

The gradient of weight number i in step t is sin(1 + i + 3t) + w/4, as in oracle.py. Muon's
iteration, which PyTorch does in bfloat16, is done in float64.
"""
import json, math
import torch
import torch.optim._muon as muon
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.set_default_dtype(torch.float64)
START = [0.5, -1.0, 2.0, 0.125]


def iterate(grad, coefficients, steps, eps):
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad.clone()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        p = x @ x.T
        x = a * x + (b * p + c * p @ p) @ x
    return x.T if grad.size(0) > grad.size(1) else x


muon._zeropower_via_newtonschulz = iterate


def gradient(w, t):
    i = torch.arange(w.numel(), dtype=torch.float64).reshape(w.shape)
    return torch.sin(1 + i + 3.0 * t) + w / 4


def averages(make, update):
    m = torch.nn.Module()
    m.w = torch.nn.Parameter(torch.tensor(START))
    o, averaged = torch.optim.Adam(m.parameters(), lr=0.1), make(m)
    out = {}
    for t in range(1, 31):
        m.w.grad = gradient(m.w.detach(), t)
        o.step()
        if update(t):
            averaged.update_parameters(m)
        out[t] = averaged.module.w.tolist()
    return {str(t): out[t] for t in (1, 2, 12, 17, 30)}


def groups():
    l = [torch.tensor(START, requires_grad=True) for _ in range(4)]
    o = torch.optim.AdamW([{"params": [l[0]]}, {"params": [l[1]], "weight_decay": 0.0}, {"params": [l[2]], "lr": 0.02}, {"params": [l[3]], "weight_decay": 0.02}], lr=0.1)
    for t in range(1, 31):
        for w in l:
            w.grad = gradient(w.detach(), t)
        o.step()
    return [w.tolist() for w in l]


def matrices(shape, **kw):  # of ours, [in out]: PyTorch has [out in]
    n = shape[0] * shape[1]
    w = torch.sin(torch.arange(n) * 0.7).reshape(shape).T.contiguous().requires_grad_()
    o = torch.optim.Muon([w], **kw)
    for t in range(1, 11):
        w.grad = gradient(w.detach().T, t).T.contiguous()
        o.step()
    return w.detach().T.flatten().tolist()


def clipped():
    w = torch.tensor(START, requires_grad=True)
    o = torch.optim.SGD([w], lr=0.1)
    for t in range(1, 31):
        w.grad = gradient(w.detach(), t)
        torch.nn.utils.clip_grad_value_([w], 0.3)
        o.step()
    return w.tolist()


print(json.dumps({
    "EMA": averages(lambda m: AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9)), lambda t: True),
    "SWA": averages(AveragedModel, lambda t: t >= 12 and (t - 12) % 5 == 0),
    "Groups": groups(),
    "Clipped": clipped(),
    "Muon": {"3 5": matrices((3, 5)), "5 3": matrices((5, 3), lr=0.02, weight_decay=0.3, momentum=0.9), "4 4": matrices((4, 4), nesterov=False)},
}))
