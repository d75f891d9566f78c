"""Writes pytorchnets.json: what PyTorch's nets return that flatten images, make images of vectors,
and read sequences in both directions.

    pip install torch numpy && python3 pytorchnets.py > pytorchnets.json

Weights are oracle.py's formula of their names, variances 1 more; the input is that of the
net's name. Images are given and returned as [n height width channels].
"""
import json, math, sys, zlib
import numpy as np, torch
from torch import nn

torch.set_default_dtype(torch.float64)


def numbers(name, *shape):
    i = np.arange(math.prod(shape), dtype=np.uint32)
    u = i * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    u ^= u >> np.uint32(15)
    u *= np.uint32(2246822519)
    u ^= u >> np.uint32(13)
    return ((u >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)).reshape(shape)


class Net(nn.Module):
    """A net of modules and of a function that calls them."""

    def __init__(self, call, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.call = call

    def forward(self, x):
        return self.call(self, x)


def group(**modules):
    return Net(None, **modules)


relu, lin = torch.relu, nn.Linear
conv = lambda: nn.Conv2d(2, 3, 3)  # [4 4 2] → [2 2 3]
image = lambda: {"conv": conv()}
start = lambda m, x: m.conv(x).flatten(1)

NETS = {
    "sequential": ((4, 4, 2), Net(lambda m, x: m.last(relu(m.head.fc(start(m, x)))), **image(), head=group(fc=lin(12, 5)), last=lin(5, 2))),
    "residual": ((4, 4, 2), Net(lambda m, x: m.last((lambda v: relu(v + m.res.fc(v)))(start(m, x))), **image(), res=group(fc=lin(12, 12)), last=lin(12, 2))),
    "both branches": ((4, 4, 2), Net(lambda m, x: m.last((lambda v: m.res.main(v) + m.res.skip(v))(start(m, x))), **image(), res=group(main=lin(12, 5), skip=lin(12, 5)), last=lin(5, 2))),
    "concat": ((4, 4, 2), Net(lambda m, x: m.last((lambda v: torch.cat([m.all.fc(v), v], 1))(start(m, x))), **image(), all=group(fc=lin(12, 5)), last=lin(17, 2))),
    "channels": ((4, 4, 2), Net(lambda m, x: m.last(torch.cat([m.all.a(x), m.all.b(x)], 1).flatten(1)), all=group(a=conv(), b=conv()), last=lin(24, 2))),
    "norms": ((4, 4, 2), Net(lambda m, x: m.last(m.all.prelu(m.all.norm(m.all.bn(start(m, x))))), **image(), all=group(bn=nn.BatchNorm1d(12), norm=nn.LayerNorm(12), prelu=nn.PReLU(12)), last=lin(12, 2))),
    "repeat": ((4, 4, 2), Net(lambda m, x: m.last((lambda v: (lambda w: w + m.blocks[1].fc(w))(v + m.blocks[0].fc(v)))(start(m, x))), **image(), blocks=nn.ModuleList([group(fc=lin(12, 12)), group(fc=lin(12, 12))]), last=lin(12, 2))),
    "decoder": ((3,), Net(lambda m, x: m.up(relu(m.bn(m.fc(x))).unflatten(1, (3, 2, 2))), fc=lin(3, 12), bn=nn.BatchNorm1d(12), up=nn.ConvTranspose2d(3, 2, 2, 2))),
    "residual decoder": ((3,), Net(lambda m, x: m.up((lambda v: v + m.res.a(v))(m.fc(x)).unflatten(1, (3, 2, 2))), fc=lin(3, 12), res=group(a=lin(12, 12)), up=nn.ConvTranspose2d(3, 2, 2, 2))),
    "conv1d": ((7, 2), Net(lambda m, x: m.fc(nn.functional.max_pool1d(relu(m.conv(x.mT)), 2).flatten(1)), conv=nn.Conv1d(2, 4, 2), fc=lin(12, 3))),
    "gru": ((6, 2), Net(lambda m, x: m.fc(m.gru(x)[0].flatten(1)), gru=nn.GRU(2, 3, batch_first=True), fc=lin(18, 3))),
    "conv3d": ((3, 3, 3, 2), Net(lambda m, x: m.fc(m.conv(x.permute(0, 4, 1, 2, 3)).flatten(1)), conv=nn.Conv3d(2, 3, 2), fc=lin(24, 3))),
    "to conv1d": ((3,), Net(lambda m, x: m.last(m.conv(m.fc(x).unflatten(1, (2, 6))).flatten(1)), fc=lin(3, 12), conv=nn.Conv1d(2, 3, 2), last=lin(15, 2))),
    "to gru": ((3,), Net(lambda m, x: m.last(m.gru(m.fc(x).unflatten(1, (6, 2)))[0].flatten(1)), fc=lin(3, 12), gru=nn.GRU(2, 3, batch_first=True), last=lin(18, 2))),
    "feedforward": ((4, 4, 2), Net(lambda m, x: m.ff.down(nn.functional.gelu(m.ff.up(start(m, x)))), **image(), ff=group(up=lin(12, 5), down=lin(5, 12)))),
    "pixels": ((4, 4, 2), Net(lambda m, x: m.last(m.gru(m.conv(x).flatten(2).mT)[0][:, -1]), **image(), gru=nn.GRU(3, 2, batch_first=True), last=lin(2, 2))),
    "bidirectional": ((5, 2), Net(lambda m, x: m.last(m.body.rnn(m.body.gru(m.body.lstm(x)[0])[0])[0][:, -1]), body=group(lstm=nn.LSTM(2, 3, batch_first=True, bidirectional=True),
        gru=nn.GRU(6, 2, batch_first=True, bidirectional=True), rnn=nn.RNN(4, 3, batch_first=True, bidirectional=True)), last=lin(6, 2))),
}

all = {}
for name, (dims, net) in NETS.items():
    net.eval()
    state = {k: torch.tensor(numbers(k, *v.shape).astype(np.float64)) + k.endswith("running_var") for k, v in net.state_dict().items() if v.dim() > 0}
    net.load_state_dict(state, strict=False)
    x = torch.tensor(numbers(name, 3, *dims).astype(np.float64))
    if len(dims) == 3:
        x = x.permute(0, 3, 1, 2)
    with torch.no_grad():
        y = net(x)
    if y.dim() == 4:
        y = y.permute(0, 2, 3, 1)
    all[name] = {"weights": {k: list(v.shape) for k, v in state.items()}, "y": y.flatten().tolist()}
json.dump(all, sys.stdout, indent=None, separators=(",", ":"))
