"""Writes oracle.json: what PyTorch's optimizers make of four weights in 1,000 steps, in float64.

    pip install torch && python3 oracle.py > oracle.json

The gradient of weight w[i] in step t is sin(1 + i + 3t) + w[i]/4. Lion, which PyTorch has not,
is written here by the paper's algorithm 2 (Chen et al., 2023, "Symbolic Discovery of
Optimization Algorithms").
"""
import json, math
import torch

torch.set_default_dtype(torch.float64)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (b1 * m + (1 - b1) * p.grad).sign() + group["weight_decay"] * p
                m.copy_(b2 * m + (1 - b2) * p.grad)
                p.sub_(group["lr"] * update)


def gradient(w, t):
    return torch.tensor([math.sin(1.0 + i + 3.0 * t) for i in range(4)]) + w / 4


O = torch.optim
cases = {
    "SGD": (O.SGD, dict(lr=0.01)),
    "SGD momentum": (O.SGD, dict(lr=0.1, momentum=0.9)),
    "SGD nesterov decay": (O.SGD, dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1)),
    "Adam": (O.Adam, {}),
    "Adam settings": (O.Adam, dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "AdamW": (O.AdamW, {}),
    "AdamW settings": (O.AdamW, dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.2)),
    "AdaDelta": (O.Adadelta, {}),
    "AdaDelta settings": (O.Adadelta, dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)),
    "Adagrad": (O.Adagrad, {}),
    "Adagrad settings": (O.Adagrad, dict(lr=0.1, lr_decay=0.3, eps=1e-3, weight_decay=0.1)),
    "RMSprop": (O.RMSprop, {}),
    "RMSprop momentum": (O.RMSprop, dict(lr=0.05, alpha=0.9, eps=1e-3, momentum=0.7, weight_decay=0.1)),
    "RMSprop centered": (O.RMSprop, dict(alpha=0.8, centered=True, momentum=0.9)),
    "Lion": (Lion, {}),
    "Lion settings": (Lion, dict(lr=0.1, betas=(0.8, 0.95), weight_decay=0.2)),
    "NAdam": (O.NAdam, {}),
    "NAdam settings": (O.NAdam, dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.02)),
}
out = {}
for name, (make, args) in cases.items():
    w = torch.tensor([0.5, -1.0, 2.0, 0.125], requires_grad=True)
    o = make([w], **args)
    weights = {}
    for t in range(1, 1001):
        w.grad = gradient(w.detach(), t)
        o.step()
        if t in (1, 2, 5, 25, 1000):
            weights[t] = w.tolist()
    out[name] = weights
print("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}")
