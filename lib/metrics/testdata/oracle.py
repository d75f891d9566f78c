"""Writes oracle.json: metrics by their definitions, written out with PyTorch in float64.

    pip install torch && python3 oracle.py > oracle.json

Number k of the output is 3·sin((k+1)·0.7) and of numbers as targets 100 + 2·sin((k+1)·1.1), or
1 where that sine is above 0, else 0. Label k is k² + k/3 (rounded down) modulo the classes; every fourth has
weight 0, as has number k where k%5 is 2, in cases called weighted.
"""
import json, math
import torch

torch.set_default_dtype(torch.float64)


def wave(step, shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape)


def labels(shape, weighted=False):
    out, k = 3 * wave(0.7, shape), torch.arange(math.prod(shape[:-1]))
    y, w = (k * k + k // 3) % shape[-1], torch.ones(len(k))
    if weighted:
        w[::4] = 0
    return out.reshape(-1, shape[-1]), y, w


def numbers(shape, weighted=False, binary=False, scale=1):
    out, y = 3 * wave(0.7, shape), 100 + 2 * wave(1.1, shape)
    if binary:
        y = (wave(1.1, shape) > 0).double()
    elif scale:
        out = y + out * 0.3
    w = torch.ones(math.prod(shape))
    if weighted:
        w[2::5] = 0
    return out.reshape(-1, shape[-1]), y.reshape(-1, shape[-1]), w.reshape(-1, shape[-1])


def mean(x, w):
    return (x * w).sum() / w.sum()


def accuracy(out, y, w):
    return mean((out.argmax(-1) == y).double(), w)


def topk(k):
    return lambda out, y, w: mean((out.topk(k, -1).indices == y[:, None]).any(-1).double(), w)


def perplexity(out, y, w):
    return mean(torch.nn.functional.cross_entropy(out, y, reduction="none"), w).exp()


def mae(out, y, w):
    return mean((out - y).abs(), w)


def rmse(out, y, w):
    return mean((out - y) ** 2, w).sqrt()


def r2(out, y, w):  # sklearn.metrics.r2_score of several outputs
    m = (y * w).sum(0) / w.sum(0)
    return (1 - (w * (y - out) ** 2).sum(0) / (w * (y - m) ** 2).sum(0)).mean()


def counts(yes, true, w):
    return ((yes & true) * w).sum(0), ((yes & ~true) * w).sum(0), ((~yes & true) * w).sum(0)


def of_counts(name, tp, fp, fn):
    part, whole = {"precision": (tp, tp + fp), "recall": (tp, tp + fn), "f1": (2 * tp, 2 * tp + fp + fn), "mean_iou": (tp, tp + fp + fn)}[name]
    seen = tp + fp + fn > 0
    return torch.where(whole > 0, part / whole, 0)[seen].mean()


def binary(name, threshold=0.5):
    def value(out, y, w):
        p = out.softmax(-1)[:, 1]
        return of_counts(name, *(c[None] for c in counts(p > threshold, y == 1, w)))
    return value


def macro(name):
    def value(out, y, w):
        one = lambda l: torch.nn.functional.one_hot(l, out.shape[-1]).bool()
        return of_counts(name, *counts(one(out.argmax(-1)), one(y), w[:, None]))
    return value


def multilabel(name, threshold=0.5):
    return lambda out, y, w: of_counts(name, *counts(out.sigmoid() > threshold, y > 0.5, w))


def auc(of, thresholds):  # keras.metrics.AUC, curve "ROC", summation_method "interpolation"
    def value(out, y, w):
        p, true, w = of(out).flatten(), y.flatten() > 0.5, w.flatten()
        t = torch.tensor([-1e-7] + [i / (thresholds - 1) for i in range(1, thresholds - 1)] + [1 + 1e-7])
        above = p[:, None] > t
        tp, fp = (above * (true * w)[:, None]).sum(0), (above * (~true * w)[:, None]).sum(0)
        x, h = fp / (~true * w).sum(), tp / (true * w).sum()
        return ((x[:-1] - x[1:]) * (h[:-1] + h[1:]) / 2).sum()
    return value


two = lambda out: out.softmax(-1)[:, 1]
L, P = [23, 5], [7, 4, 6]
cases = {
    "Accuracy": accuracy(*labels(L)),
    "Accuracy positions weighted": accuracy(*labels(P, True)),
    "Accuracy of 0 and 1": (lambda o, y, w: mean(((o > 0) == (y > 0.5)).double(), w))(*numbers([23, 3], True, True)),
    "TopK 1": topk(1)(*labels(L)),
    "TopK 3": topk(3)(*labels(L)),
    "TopK positions weighted": topk(2)(*labels(P, True)),
    "Perplexity": perplexity(*labels(L)),
    "Perplexity positions weighted": perplexity(*labels(P, True)),
    "MAE": mae(*numbers([23, 3])),
    "RMSE weighted": rmse(*numbers([7, 4, 3], True)),
    "R2": r2(*numbers([23, 3])),
    "R2 one": r2(*numbers([23, 1])),
    "R2 weighted": r2(*numbers([23, 2], True)),
    "Func": mae(*numbers([23, 3], True)),
    "AUC": auc(two, 200)(*labels([61, 2])),
    "AUC of 0 and 1 weighted": auc(torch.sigmoid, 50)(*numbers([23, 3], True, True)),
}
for name, title in (("Precision", "precision"), ("Recall", "recall"), ("F1", "f1")):
    cases[name] = binary(title)(*labels([61, 2]))
    cases[name + " threshold"] = binary(title, 0.8)(*labels([61, 2], True))
    cases[name + " macro of two"] = macro(title)(*labels([61, 2]))
    cases[name + " macro weighted"] = macro(title)(*labels(P, True))
    cases[name + " of 0 and 1"] = multilabel(title, 0.3)(*numbers([23, 3], True, True))
cases["MeanIoU"] = macro("mean_iou")(*labels(P, True))
cases["MeanIoU of two"] = macro("mean_iou")(*labels([61, 2]))
cases["MeanIoU of 0 and 1"] = multilabel("mean_iou", 0.3)(*numbers([23, 3], True, True))
json.dump({k: v.item() for k, v in cases.items()}, __import__("sys").stdout, indent=1)
