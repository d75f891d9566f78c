# Nets of descriptions (describe.go) in PyTorch, for the scripts next to this one.
import json
from collections import OrderedDict
import numpy as np, torch, torch.nn as nn

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
ACTS = {"": None, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


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
        elif kind == "residual":
            (main, out, a), (skip, _, b) = chain(l["Main"], shape), chain(l.get("Skip", []), shape)
            m, shape, wide = Residual(main, skip), out, wide or a or b
        else:
            m = {"dropout": lambda: nn.Dropout(l["Rate"]), "mean": Mean, "activation": nn.Identity}[kind]()
            shape = shape[2:] if kind == "mean" else shape
        all[l["Name"]] = m
        if kind == "lstm":
            all[f"first{i}"] = First()  # nn.LSTM gives its last state, too
        if l.get("Act"):
            all[f"_{i}"] = ACTS[l["Act"]]()
    return nn.Sequential(all), shape, wide


def optimizer(D, params):
    settings = D["Settings"]
    rate, decay = settings["rate"], settings["decay"]
    if D["Optimizer"] == "adam":
        return torch.optim.Adam(params, lr=rate, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"], weight_decay=decay, capturable=cuda, fused=True)
    if D["Optimizer"] == "sgd":
        return torch.optim.SGD(params, lr=rate, momentum=settings["momentum"], nesterov=settings["nesterov"] > 0, weight_decay=decay, fused=True)
    return torch.optim.Adadelta(params, lr=rate, rho=settings["rho"], eps=settings["epsilon"], weight_decay=decay, capturable=cuda, foreach=True)


def load(net, path):
    """Gives a net the weights of a file of Gaiden's, in the format safetensors."""
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    head, weights = json.loads(raw[8:8 + size]), {}
    for k in net.state_dict():
        if "num_batches" not in k:
            t = head[k.replace(".main.", ".").replace(".skip.", ".")]
            begin, end = t["data_offsets"]
            weights[k] = torch.tensor(np.frombuffer(raw, np.float32, (end - begin) // 4, 8 + size + begin).reshape(t["shape"]))
    net.load_state_dict(weights, strict=False)
