# Nets of descriptions (describe.go) in PyTorch, for the scripts next to this one.
import re
from collections import OrderedDict
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from weights import Weights

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
ACTS = {"": None, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU, "gelu": nn.GELU, "leakyrelu": nn.LeakyReLU}


class First(nn.Module):
    def forward(self, x):
        return x[0]


class Residual(nn.Module):
    def __init__(self, main, skip):
        super().__init__()
        self.main, self.skip = main, skip

    def forward(self, x):
        return self.main(x) + self.skip(x)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Positions(nn.Module):
    def __init__(self, length, units):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, units) * .02)

    def forward(self, x):
        return x + self.weight[:x.shape[1]]


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.output, self.heads, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, causal

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (a.view(n, t, self.heads, d // self.heads).transpose(1, 2) for a in self.qkv(x).split(d, 2))
        return self.output(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(n, t, d))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Tied(nn.Module):
    def __init__(self, embedding, bias):
        super().__init__()
        self.of = (embedding,)  # no module of its own
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings)) if bias else None

    def forward(self, x):
        return F.linear(x, self.of[0].weight, self.bias)


# Each layer of a description becomes a module with its name; shape is that of an example,
# with channels last, as Gaiden has it.
def chain(layers, shape):
    all, wide = OrderedDict(), False  # wide: worth the layout that tensor cores like
    for i, l in enumerate(layers):
        kind, units, k, s, pad = l["Kind"], l.get("Units"), l.get("Kernel"), l.get("Stride"), l.get("Pad", 0)
        side = lambda d: (d + 2 * pad - k) // s + 1
        if kind == "dense":
            m, shape = nn.Linear(shape[-1], units, bias="Bias" in l), shape[:-1] + [units]
        elif kind == "conv":
            wide = wide or shape[-1] >= 64
            m, shape = nn.Conv2d(shape[-1], units, k, s, pad, bias="Bias" in l), [side(shape[0]), side(shape[1]), units]
        elif kind == "norm":
            m = (nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d)(shape[-1], eps=l["Epsilon"], momentum=1 - l["Momentum"])
        elif kind == "pool":
            m, shape = nn.MaxPool2d(k, s, pad), [side(shape[0]), side(shape[1]), shape[2]]
        elif kind == "flatten":
            m, shape = nn.Flatten(), [int(np.prod(shape))]
        elif kind == "lstm":
            m, shape = nn.LSTM(shape[-1], units, batch_first=True), shape[:-1] + [units]
        elif kind == "gru":
            m, shape = nn.GRU(shape[-1], units, batch_first=True), shape[:-1] + [units]
        elif kind == "bidirectional":
            m, shape = {"lstm": nn.LSTM, "gru": nn.GRU}[l["Main"][0]["Kind"]](shape[-1], l["Main"][0]["Units"], batch_first=True, bidirectional=True), shape[:-1] + [2 * l["Main"][0]["Units"]]
        elif kind == "embedding":
            m, shape = nn.Embedding(l["Vocab"], units), shape + [units]
        elif kind == "tied":
            m = Tied(all[l["Of"]], "Bias" in l)
            shape = shape[:-1] + [all[l["Of"]].num_embeddings]
        elif kind == "positions":
            m = Positions(units, shape[-1])
        elif kind == "layernorm":
            m = nn.LayerNorm(shape[-1], eps=l["Epsilon"])
        elif kind == "attention":
            m = Attention(shape[-1], l["Heads"], l.get("Causal", False))
        elif kind == "feedforward":
            m = FeedForward(shape[-1], units or 4 * shape[-1])
        elif kind == "last":
            m, shape = Last(), shape[1:]
        elif kind == "unflatten":  # channels come first
            m, shape = nn.Unflatten(1, [l["Dims"][2], l["Dims"][0], l["Dims"][1]]), l["Dims"]
        elif kind == "sequential":
            m, shape, a = chain(l["Main"], shape)
            wide = wide or a
        elif kind == "residual":
            (main, out, a), (skip, _, b) = chain(l["Main"], shape), chain(l.get("Skip", []), shape)
            m, shape, wide = Residual(main, skip), out, wide or a or b
        else:
            m = {"dropout": lambda: nn.Dropout(l["Rate"]), "mean": Mean, "activation": nn.Identity}[kind]()
            shape = shape[2:] if kind == "mean" else shape
        all[l["Name"]] = m
        if kind in ("lstm", "gru", "bidirectional"):
            all[f"first{i}"] = First()  # nn.LSTM gives its last state, too
        if l.get("Act"):
            all[f"_{i}"] = ACTS[l["Act"]]()
    return nn.Sequential(all), shape, wide


def optimizer(D, params):
    settings = D["Settings"]
    rate, decay = settings["rate"], settings["decay"]
    params = [p for p in params if p.requires_grad]
    if D["Optimizer"] in ("adam", "adamw"):
        return (torch.optim.Adam if D["Optimizer"] == "adam" else torch.optim.AdamW)(params, lr=rate, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"], weight_decay=decay, capturable=cuda, fused=True)
    if D["Optimizer"] == "sgd":
        return torch.optim.SGD(params, lr=rate, momentum=settings["momentum"], nesterov=settings["nesterov"] > 0, weight_decay=decay, fused=True)
    return torch.optim.Adadelta(params, lr=rate, rho=settings["rho"], eps=settings["epsilon"], weight_decay=decay, capturable=cuda, foreach=True)


def load(net, path):
    """Gives a net the weights of a file of Gaiden's."""
    file, weights = Weights(path), {}
    tables = {name + ".weight" for name, m in net.named_modules() if isinstance(m, (nn.Embedding, Positions))}
    for k, old in net.state_dict().items():
        if "num_batches" in k:
            continue
        name = re.sub(r"(^|\.)(_\d+\.|)(main|skip)\.", r"\1", k.removeprefix("function."))  # parts of a transformer block, _1 and _2, have its name
        if "_l0" in name and any(k.endswith("_reverse") or other == k + "_reverse" for other in net.state_dict()):
            at = name.rindex(".") + 1
            name = name[:at] + ("backward." if k.endswith("_reverse") else "forward.") + name[at:].removesuffix("_reverse")
        weights[k] = torch.tensor(file.get(name, list(old.shape), k in tables))
    net.load_state_dict(weights, strict=False)
