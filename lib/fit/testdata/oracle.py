"""Writes oracle.json: what PyTorch makes of the nets, in float64.

    pip install torch numpy && python3 oracle.py > oracle.json

Weights and inputs are made by a formula that oracle_test.go has too. Variables
have our names and layouts (kernel kernel in out; in out), images are
[n height width channels]. Of each array the file has the largest absolute value,
some elements at hashed places, and two sums over all: its norm, and its dot product
with fixed numbers, which shows what is flipped, permuted or missing.
"""
import json, math, sys, zlib
import numpy as np, torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(2)


def hashes(name, n):
    """n numbers of 32 bits, by name."""
    i = np.arange(n, dtype=np.uint32)
    u = i * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    u ^= u >> np.uint32(15)
    u *= np.uint32(2246822519)
    u ^= u >> np.uint32(13)
    return u


def numbers(name, n):
    """n numbers from -0.5 to 0.5, by name."""
    return (hashes(name, n) >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)


class Net:
    """Makes variables when they are first asked for.

    decided has the offsets of batch norms at 5, or -5 in each fourth channel: no
    activation is so near 0 that rounding decides whether ReLU lets it through, and
    each channel as good as passes or is off. Else some are that near, and in
    ResNet50 float32 differs from float64 by 0.2 of a gradient's largest element; so
    by 1e-4, and in ResNet152 by 1e-3.
    """

    def __init__(self, decided=False):
        self.v, self.running, self.decided = {}, {}, decided

    def var(self, name, *shape):
        if name not in self.v:
            a = numbers(name, math.prod(shape))
            last = name.split("/")[-1]
            if last == "scale":
                a = np.float32(1) + a
            elif last == "offset" and self.decided:
                a = np.float32(5) + a
                a[3::4] *= -1
            elif len(shape) > 1:
                a = a * np.float32(2 / math.sqrt(math.prod(shape[:-1])))
            self.v[name] = torch.tensor(a.astype(np.float64).reshape(shape), requires_grad=True)
        return self.v[name]

    def dense(self, name, x, units, act=None, bias=True):
        y = x @ self.var(name + "/weights", x.shape[-1], units)
        if bias:
            y = y + self.var(name + "/biases", units)
        return act(y) if act else y

    def conv(self, name, x, channels, k, act=None, stride=1, pad=0, bias=True):
        w = self.var(name + "/weights", k, k, x.shape[-1], channels)
        b = self.var(name + "/biases", channels) if bias else None
        y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), b, stride, pad).permute(0, 2, 3, 1)
        return act(y) if act else y

    def bn(self, name, x, act=None):
        c = x.shape[-1]
        mean, var = torch.zeros(c), torch.ones(c)
        y = F.batch_norm(x.reshape(-1, c), mean, var, self.var(name + "/scale", c), self.var(name + "/offset", c), True, 0.1, 1e-5)
        self.running[name + "/mean"], self.running[name + "/variance"] = mean, var
        y = y.reshape(x.shape)
        return act(y) if act else y


def pool(x, k, stride=None, pad=0):
    return F.max_pool2d(x.permute(0, 3, 1, 2), k, stride or k, pad).permute(0, 2, 3, 1)


def flat(x):
    return x.reshape(x.shape[0], -1)


relu, sigmoid = torch.relu, torch.sigmoid


def seedcnn(n, x):
    x = pool(n.conv("conv", x, 10, 3, relu, pad=1), 2)
    return n.dense("output", n.dense("dense", flat(x), 100, relu), 10)


def mlp(n, x):
    return n.dense("l3", n.dense("l2", n.dense("l1", flat(x), 1000, relu), 1000, relu), 10)


def kerascnn(n, x):
    x = pool(n.conv("conv2d_1", n.conv("conv2d", x, 32, 3, relu), 64, 3, relu), 2)
    return n.dense("dense_1", n.dense("dense", flat(x), 128, relu), 10)


def lenet5(n, x):
    x = pool(n.conv("conv1", x, 6, 5, sigmoid), 2)
    x = n.conv("conv3", pool(n.conv("conv2", x, 16, 5, sigmoid), 2), 120, 4, sigmoid)
    return n.dense("fc5", n.dense("fc4", flat(x), 84, sigmoid), 10)


def peaks(n, x):
    return n.dense("l3", n.dense("l2", n.dense("l1", x, 20, relu), 5, relu), 1)


def fcn(n, x):
    return n.dense("output", n.dense("l2", n.dense("l1", x, 300, sigmoid), 100, sigmoid), 10)


def sinelstm(n, x):
    x, u = n.dense("l1", x, 5), 5
    w, r, b = n.var("l2/weights", 5, 4 * u), n.var("l2/recurrent", u, 4 * u), n.var("l2/biases", 4 * u)
    zero = torch.zeros(1, x.shape[0], u)
    x = torch._VF.lstm(x, (zero, zero), [w.t(), r.t(), b, torch.zeros(4 * u)], True, 1, 0.0, False, False, True)[0]
    return n.dense("l3", x, 1)


def deeppose(n, x):
    x = pool(n.conv("conv1", x, 96, 11, relu, stride=4), 3, 2)
    x = pool(n.conv("conv2", x, 256, 5, relu, pad=2), 3, 2)
    x = n.conv("conv4", n.conv("conv3", x, 384, 3, relu, pad=1), 384, 3, relu, pad=1)
    x = flat(pool(n.conv("conv5", x, 256, 3, relu, pad=1), 3, 2))
    return n.dense("fc8", n.dense("fc7", n.dense("fc6", x, 4096, relu), 4096, relu), 28)


def resnet(*depths):
    def build(n, x):
        x = pool(n.bn("bn1", n.conv("conv1", x, 64, 7, stride=2, pad=3, bias=False), relu), 3, 2, 1)
        width = 64
        for s, depth in enumerate(depths):
            for b in range(depth):
                p, stride = "res%d_%d/" % (s + 2, b + 1), 2 if b == 0 and s > 0 else 1
                y = n.bn(p + "bn1", n.conv(p + "conv1", x, width, 1, bias=False), relu)
                y = n.bn(p + "bn2", n.conv(p + "conv2", y, width, 3, stride=stride, pad=1, bias=False), relu)
                y = n.bn(p + "bn3", n.conv(p + "conv3", y, 4 * width, 1, bias=False))
                if b == 0:
                    x = n.bn(p + "bn4", n.conv(p + "conv4", x, 4 * width, 1, stride=stride, bias=False))
                x = relu(y + x)
            width *= 2
        return n.dense("fc6", x.mean((1, 2)), 10)

    return build


def entropy(out, y, v):
    return F.cross_entropy(out, y)


def mse(out, y, v):
    return F.mse_loss(out, y)


def visibility(out, y, v):
    d = (out - y) * v
    return (d * d).sum() / (v.sum() / 2)


def blind(out, y, v):
    return visibility(out, y, torch.ones_like(y))


def pick(name, a, most=24):
    """What the file has of an array. Places are hashed, for evenly spread ones fall on
    one channel where the step is a multiple of the last axis. The dot product is not
    with numbers(name), the weights: a gradient before a batch norm has none along them.
    """
    a = a.detach().reshape(-1).numpy()
    n = a.size
    at = hashes(name, most) % n if n > most else range(n)
    few = lambda x, digits: float("%.*g" % (digits, x))
    return {
        "n": n, "max": few(abs(a).max(), 9), "norm": few(np.linalg.norm(a), 9),
        "dot": few(a @ numbers(name + "/dot", n).astype(np.float64), 9), "at": [few(a[i], 7) for i in at],
    }


def data(name, batch, shape, loss, outputs):
    x = torch.tensor((numbers(name + "/x", batch * math.prod(shape)) + np.float32(0.5)).astype(np.float64).reshape(batch, *shape))
    if loss is entropy:
        return x, torch.tensor([i * 7 % 10 for i in range(batch)]), None
    y = torch.tensor((numbers(name + "/y", batch * math.prod(outputs)) + np.float32(0.5)).astype(np.float64).reshape(batch, *outputs))
    v = torch.tensor((numbers(name + "/v", y.numel()) > 0).astype(np.float64).reshape(y.shape))
    return x, y, v


# Name, net, batch, input, loss, output; decided offsets, picked of a gradient.
CASES = [
    ("SeedCNN", seedcnn, 8, (28, 28, 1), entropy, None),
    ("MLP", mlp, 10, (28, 28, 1), entropy, None),
    ("KerasCNN", kerascnn, 4, (28, 28, 1), entropy, None),
    ("LeNet5", lenet5, 5, (32, 32, 3), entropy, None),
    ("Peaks", peaks, 50, (2,), mse, (1,)),
    ("FCN", fcn, 6, (784,), entropy, None),
    ("SineLSTM", sinelstm, 3, (20, 1), mse, (20, 1)),
    ("DeepPose", deeppose, 2, (227, 227, 3), visibility, (28,)),
    ("Peaks/seen", peaks, 50, (2,), visibility, (1,)),
    ("Peaks/blind", peaks, 50, (2,), blind, (1,)),
    ("ResNet14", resnet(1, 1, 1, 1), 16, (32, 32, 3), entropy, None),
    ("ResNet50", resnet(3, 4, 6, 3), 16, (32, 32, 3), entropy, None, True),
    ("ResNet152", resnet(3, 8, 36, 3), 16, (32, 32, 3), entropy, None, True, 11),
]

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd decay": lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "momentum decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.08),
    "adam betas": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adadelta keras": lambda p: torch.optim.Adadelta(p, lr=0.001, rho=0.95, eps=1e-7),
    "adadelta decay": lambda p: torch.optim.Adadelta(p, lr=0.5, weight_decay=0.1),
}


def main():
    out = {"torch": torch.__version__, "nets": {}, "optimizers": {}}
    for name, build, batch, shape, loss, outputs, *more in CASES:
        n = Net(*more[:1])
        x, y, v = data(name.split("/")[0], batch, shape, loss, outputs)
        o = build(n, x)
        l = loss(o, y, v)
        l.backward()
        out["nets"][name] = {
            "batch": batch, "loss": float(l.detach()), "out": pick("output", o),
            "params": sum(p.numel() for p in n.v.values()),
            "gradients": {k: pick(k, p.grad, *more[1:]) for k, p in n.v.items()},
            "running": {k: pick(k, p, 8) for k, p in n.running.items()},
        }
        print(name, float(l.detach()), file=sys.stderr)
    for name, make in OPTIMIZERS.items():
        n = Net()
        x, y, v = data("Peaks", 50, (2,), mse, (1,))
        peaks(n, x)
        o, losses = make(list(n.v.values())), []
        for _ in range(10):
            o.zero_grad()
            l = mse(peaks(n, x), y, v)
            l.backward()
            o.step()
            losses.append(float(l.detach()))
        out["optimizers"][name] = {"losses": losses, "weights": {k: pick(k, p) for k, p in n.v.items()}}
    json.dump(out, sys.stdout, indent=0, sort_keys=True)
    print()


main()
