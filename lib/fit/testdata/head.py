"""Writes head.json: loss and gradients of a small language model in PyTorch, in float64.

    pip install torch && python3 head.py > head.json

It is a table of 11 tokens × 6, a dense layer of tanh, and a head of 11 classes: the table again
("tied"), or weights of its own, with biases. Number k of variable i, in the order of their
names, is sin((k+1)·(0.3+i/10))/2. Token k of the 3 texts of 5 is k²+k modulo 11, its label
k²+2 modulo 11, and -100 for each seventh where labels are ignored.
"""
import json, math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(step, *shape):
    return (torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step) / 2).reshape(shape).requires_grad_()


k = torch.arange(15)
x, labels = (k * k + k) % 11, (k * k + 2) % 11
ignored = torch.where(k % 7 == 0, -100, labels)
weights = [1 + 0.1 * i for i in range(11)]


def case(tied, y, **settings):
    shapes = {"body/biases": (6,), "body/weights": (6, 6), "head/biases": (11,), "tokens/weights": (11, 6)}
    if not tied:
        shapes["head/weights"] = (6, 11)
    p = {name: wave(0.3 + i / 10, *shapes[name]) for i, name in enumerate(sorted(shapes))}
    h = torch.tanh(p["tokens/weights"][x] @ p["body/weights"] + p["body/biases"])
    z = h @ (p["tokens/weights"].T if tied else p["head/weights"]) + p["head/biases"]
    loss = F.cross_entropy(z, y, **settings)
    got = torch.autograd.grad(loss, list(p.values()))
    return {"Loss": loss.item(), "Gradients": {n: [float(f"{v:.9g}") for v in g.flatten().tolist()] for n, g in zip(p, got)}}


print(json.dumps({
    "plain": case(False, labels), "tied": case(True, labels), "tied, smoothing": case(True, labels, label_smoothing=0.1),
    "ignored": case(False, ignored), "tied, ignored, weights": case(True, ignored, weight=torch.tensor(weights), label_smoothing=0.2)}))
