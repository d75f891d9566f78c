"""Loads files that Gaiden saved into PyTorch modules, strictly, and compares outputs.

    GAIDEN_PEERS=/path/to/python go test ./lib/fit -run 'TestPyTorch$' -v

makes the files and runs this with their folder: NET.safetensors is what Net.Save
wrote, NET.run has an input x and what Gaiden's net returned for it, y. Images are
[n height width channels] there.
"""
import json, struct, sys
import numpy as np, torch
from torch import nn


def read(path):
    """The float32 tensors of a safetensors file."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    return {k: torch.from_numpy(np.frombuffer(data, np.float32, (e["data_offsets"][1] - e["data_offsets"][0]) // 4, e["data_offsets"][0]).reshape(e["shape"]).copy())
            for k, e in header.items() if k != "__metadata__"}


class SineLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(1, 5), nn.LSTM(5, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x):
        return self.l3(self.l2(self.l1(x))[0])


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5), nn.Conv2d(16, 120, 4)
        self.fc4, self.fc5 = nn.Linear(480, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.sigmoid(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.sigmoid(self.conv2(x)), 2)
        return self.fc5(torch.sigmoid(self.fc4(torch.sigmoid(self.conv3(x)).flatten(1))))


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(2, 3, 3), nn.BatchNorm1d(12), nn.Linear(12, 5)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x).flatten(1)))


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.conv4, self.bn4 = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.bn4(self.conv4(x)))


class ResNet14(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.res2_1, self.res3_1 = Block(64, 64, 1), Block(256, 128, 2)
        self.res4_1, self.res5_1 = Block(512, 256, 2), Block(1024, 512, 2)
        self.fc6 = nn.Linear(2048, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc6(self.res5_1(self.res4_1(self.res3_1(self.res2_1(x)))).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)), is_causal=True)
        return self.output(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feedforward = Attention(width, heads), FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feedforward(self.norm2(x))


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gru, self.rnn = nn.Conv1d(4, 5, 2), nn.GRU(5, 3, batch_first=True), nn.RNN(3, 6, batch_first=True)
        self.blocks = nn.Sequential(TransformerBlock(6, 2), TransformerBlock(6, 2))
        self.norm, self.fc = nn.LayerNorm(6), nn.Linear(6, 2)

    def forward(self, x):
        x = self.rnn(self.gru(self.conv(x.mT).mT)[0])[0]
        return self.fc(self.norm(self.blocks(x)))


bad = False
for net in SineLSTM, ResNet14, LeNet5, Flat, Sequences:
    path, module = sys.argv[1] + "/" + net.__name__, net().eval()
    weights, run = read(path + ".safetensors"), read(path + ".run")
    module.load_state_dict(weights, strict=True)
    x = run["x"] if run["x"].dim() < 4 else run["x"].permute(0, 3, 1, 2)
    with torch.no_grad():
        y = module(x).reshape(run["y"].shape)
    largest, off = y.abs().max().item(), (y - run["y"]).abs().max().item()
    bad |= not off < 1e-5 * largest
    print(f"{net.__name__}: {len(weights)} tensors loaded; largest output {largest:.4g}, furthest apart {off:.2g}")
sys.exit(bad)
