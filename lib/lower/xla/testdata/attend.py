"""Writes attend.json: what PyTorch makes of attention, in float64.

    pip install torch && python3 attend.py > attend.json

Number k of queries, keys and values is sin((k+1)·step), with steps of 0.7, 0.3 and 0.11; the
loss is the sum of y·sin((k+1)·0.9). A query that sees no key gets zeros. Each case has its
settings, y and the gradients of the loss for q, k and v.
"""
import itertools, json, math
import torch

torch.set_default_dtype(torch.float64)


def wave(step, *shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape)


def slopes(heads):
    """Press et al., 2022, as their code has it."""
    def power(n):
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]
    if math.log2(heads).is_integer():
        return power(heads)
    n = 2 ** math.floor(math.log2(heads))
    return power(n) + power(2 * n)[0::2][: heads - n]


def attend(q, k, v, c):
    heads, groups, size = q.shape[2], k.shape[2], q.shape[3]
    k, v = (x.repeat_interleave(heads // groups, 2) for x in (k, v))
    s = torch.einsum("nqhs,nkhs->nhqk", q, k) * (c.get("Scale") or size**-0.5)
    if c.get("SoftCap"):
        s = c["SoftCap"] * torch.tanh(s / c["SoftCap"])
    offset = torch.tensor(c.get("Offset", [0])).reshape(-1, 1, 1)
    d = offset + torch.arange(q.shape[1])[:, None] - torch.arange(k.shape[1])  # [n|1 q k]
    seen = torch.ones_like(d, dtype=torch.bool)
    if c.get("Causal"):
        seen = seen & (d >= 0)
    if c.get("Window"):
        seen = seen & (d.abs() < c["Window"])
    if c.get("Lengths"):
        seen = seen & (torch.arange(k.shape[1]) < torch.tensor(c["Lengths"])[:, None, None])
    if c.get("QuerySegments"):
        seen = seen & (torch.tensor(c["QuerySegments"])[:, :, None] == torch.tensor(c["KeySegments"])[:, None, :])
    if c.get("ALiBi"):
        s = s - torch.tensor(slopes(heads))[:, None, None] * d.abs()[:, None]
    seen = seen[:, None].expand(s.shape)
    w = torch.softmax(s.masked_fill(~seen, -1e300), -1).masked_fill(~seen, 0)
    return torch.einsum("nhqk,nkhs->nqhs", w, v)


def case(queries, keys, heads, groups, **c):
    q, k, v = (wave(s, 2, length, h, 3).requires_grad_() for s, length, h in ((0.7, queries, heads), (0.3, keys, groups), (0.11, keys, groups)))
    y = attend(q, k, v, c)
    got = torch.autograd.grad((y * wave(0.9, *y.shape)).sum(), [q, k, v])
    flat = lambda t: [float(f"{x:.8g}") for x in t.detach().flatten().tolist()]
    return {"Queries": queries, "Keys": keys, "Heads": heads, "Groups": groups, **c, "Y": flat(y), "Gradients": [flat(g) for g in got]}


segments = {"QuerySegments": [[1, 1, 2, 2, 2], [1, 3, 3, 3, 7]], "KeySegments": [[1, 1, 2, 2, 2], [1, 1, 3, 3, 4]]}
settings = [{"Causal": True}, {"Window": 3}, {"ALiBi": True}, {"Lengths": [4, 0]}, segments, {"Scale": 1.5, "SoftCap": 0.5}]
cases = [case(5, 5, 4, 2), case(1, 1, 1, 1, Causal=True), case(4, 6, 2, 2), case(5, 3, 2, 1, Causal=True), case(3, 5, 2, 1, Causal=True, Offset=[2]),
         case(1, 6, 4, 4, Causal=True, Window=2, Offset=[5, 1]), case(4, 5, 3, 1, ALiBi=True, Causal=True, Offset=[1]), case(3, 4, 6, 3, ALiBi=True), case(2, 5, 2, 2, Window=2, Offset=[9])]
for some in [[s] for s in settings] + list(zip(settings, settings[1:] + settings[:1])) + list(itertools.combinations(settings, 5))[:2] + [settings]:
    cases.append(case(5, 5, 2, 1, **{k: v for s in some for k, v in s.items()}))
print(json.dumps(cases))
