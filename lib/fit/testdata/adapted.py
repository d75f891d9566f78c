"""Writes adapted.json: model-agnostic meta-learning and a gradient penalty in PyTorch.

    pip install torch && python3 adapted.py > adapted.json

The net is Conv1D(3 channels, 2 taps) - tanh - GRU(3) - its last step - Dense(1). Number k of
weight i in the order of their names is sin((k+1)·(0.3+i/10))/2, of the examples x [4 5 2]
sin((k+1)·0.7), of the targets sin((k+1)·0.9). Two steps of gradient descent at 0.3 on the
first two examples lead to weights for the last two, whose loss is minimized by SGD at 0.5
together with the mean square of the net's gradients for x. Losses and weights after two steps.
"""
import json, math
import torch

torch.set_default_dtype(torch.float64)


def wave(step, *shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape)


shapes = {"conv/biases": (3,), "conv/weights": (2, 2, 3), "gru/biases": (9,), "gru/recurrent/biases": (9,), "gru/recurrent/weights": (3, 9), "gru/weights": (3, 9), "head/biases": (1,), "head/weights": (3, 1)}
p = {n: (wave(0.3 + i / 10, *shapes[n]) / 2).requires_grad_() for i, n in enumerate(sorted(shapes))}
x, y = wave(0.7, 4, 5, 2), wave(0.9, 4, 1)


def net(x, p):
    z = torch.tanh(torch.stack([sum(x[:, t + j] @ p["conv/weights"][j] for j in range(2)) + p["conv/biases"] for t in range(4)], 1))
    h = torch.zeros(len(x), 3)
    for t in range(4):
        a, b = z[:, t] @ p["gru/weights"] + p["gru/biases"], h @ p["gru/recurrent/weights"] + p["gru/recurrent/biases"]
        r, u = torch.sigmoid(a[:, :3] + b[:, :3]), torch.sigmoid(a[:, 3:6] + b[:, 3:6])
        new = torch.tanh(a[:, 6:] + r * b[:, 6:])
        h = new + u * (h - new)
    return h @ p["head/weights"] + p["head/biases"]


def loss(p, part):
    return ((net(x[part], p) - y[part]) ** 2).mean()


losses = []
for _ in range(2):
    q = p
    for _ in range(2):
        got = torch.autograd.grad(loss(q, slice(0, 2)), list(q.values()), create_graph=True)
        q = {n: w - 0.3 * g for (n, w), g in zip(q.items(), got)}
    z = x.clone().requires_grad_()
    penalty = (torch.autograd.grad(net(z, p).sum(), z, create_graph=True)[0] ** 2).mean()
    total = loss(q, slice(2, 4)) + penalty
    losses.append(total.item())
    got = torch.autograd.grad(total, list(p.values()))
    p = {n: (w - 0.5 * g).detach().requires_grad_() for (n, w), g in zip(p.items(), got)}
print(json.dumps({"Losses": losses, "Weights": {n: [float(f"{v:.8g}") for v in w.flatten().tolist()] for n, w in p.items()}}))
