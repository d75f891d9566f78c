"""Writes oracle.json: PyTorch's losses of batches and their gradients, in float64.

    pip install torch && python3 oracle.py > oracle.json

Number k of out is 3·sin((k+1)·0.7), and of numbers as targets (1 + sin((k+1)·1.1))/2. Label k
is k²+k modulo the classes, and every fourth is -100 where labels are ignored.
"""
import json, math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(step, shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape)


def case(shape, loss, classes=0, ignore=False, rows=False):
    out = (3 * wave(0.7, shape)).requires_grad_()
    if classes:
        k = torch.arange(math.prod(shape[:-1]))
        y = (k * k + k) % classes
        if ignore:
            y[::4] = -100
        y = y.reshape(shape[:-1])
    else:
        y = (1 + wave(1.1, shape)) / 2
        if rows:
            y = y / y.sum(-1, keepdim=True)
    value = loss(out, y)
    (g,) = torch.autograd.grad(value, [out])
    return {"Loss": value.item(), "Gradient": g.flatten().tolist()}


def ce(**kw):
    return lambda out, y: F.cross_entropy(out.reshape(-1, out.shape[-1]), y.flatten(), **kw)


def focal(out, y, gamma=2.0):
    p = torch.sigmoid(out)
    return (F.binary_cross_entropy_with_logits(out, y, reduction="none") * (y * (1 - p) + (1 - y) * p) ** gamma).mean()


w = torch.tensor([0.5, 2.0, 0.0, 1.0])
print(json.dumps({
    "CrossEntropy": case((6, 4), ce(), 4),
    "CrossEntropy positions": case((3, 5, 4), ce(), 4),
    "CrossEntropy smoothing": case((3, 5, 4), ce(label_smoothing=0.2), 4),
    "CrossEntropy ignored": case((3, 5, 4), ce(ignore_index=-100), 4, True),
    "CrossEntropy ignored example": case((4, 1, 4), ce(ignore_index=-100), 4, True),
    "CrossEntropy weights": case((6, 4), ce(weight=w), 4),
    "CrossEntropy all": case((3, 5, 4), ce(weight=w, label_smoothing=0.1, ignore_index=-100), 4, True),
    "BinaryCrossEntropy": case((4, 3), F.binary_cross_entropy_with_logits),
    "BinaryCrossEntropy positive": case((4, 3), lambda o, y: F.binary_cross_entropy_with_logits(o, y, pos_weight=torch.tensor(3.0))),
    "BinaryCrossEntropy focal": case((4, 3), focal),
    "KLDivergence": case((4, 3), lambda o, y: F.kl_div(F.log_softmax(o, -1), y, reduction="batchmean"), rows=True),
    "MSE": case((4, 3), F.mse_loss),
    "MAE": case((4, 3), F.l1_loss),
    "Huber": case((4, 3), F.huber_loss),
    "Huber delta": case((4, 3), lambda o, y: F.huber_loss(o, y, delta=0.3)),
}, separators=(",", ":")))
