"""Writes layers.json: what PyTorch makes of layers, in float64.

    pip install torch && python3 layers.py > layers.json

Number k of input and variables is sin((k+1)·step)/2, where the step of the input is 0.7 and
that of variable i, in the order of their names, 0.3+i/10; scales of norms are larger by 1.
Ids are k²+k modulo the vocabulary. The loss is the sum of y²·sin((k+1)·0.9). Variables have
our names and layouts. Each case has y and the gradients of the loss for the input ("x", not
for ids) and the variables. "Second" are the gradients of the sum of their squares, each
multiplied by sin((k+1)·1.1), for some of the layers.
"""
import json, math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
with_second = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)  # others have no second derivatives
with_second.__enter__()


def wave(step, *shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape) / 2


def case(shapes, x, apply):
    names = sorted(shapes)
    p = {}
    for i, name in enumerate(names):
        v = wave(0.3 + i / 10, *shapes[name])
        if name.split("/")[-1] == "scale":
            v = v + 1
        p[name] = v.requires_grad_()
    ids = not isinstance(x, tuple)
    if not ids:
        x = wave(0.7, *x).requires_grad_()
    y = apply(x, p)
    loss = (y**2 * 2 * wave(0.9, *y.shape)).sum()
    wrt = names if ids else ["x"] + names
    of = [x if n == "x" else p[n] for n in wrt]

    def derive(y):
        got = torch.autograd.grad(y, of, allow_unused=True, create_graph=True) if y.requires_grad else [None] * len(of)
        return [torch.zeros_like(v) if g is None else g for v, g in zip(of, got)]  # of spectral norm's vectors

    got = derive(loss)
    second = derive(sum((g**2 * 2 * wave(1.1, *g.shape)).sum() for g in got))
    flat = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    return {"Y": flat(y), "Gradients": {n: flat(g) for n, g in zip(wrt, got)}, "Second": {n: flat(g) for n, g in zip(wrt, second)}}


def ids(n, length, vocab):
    k = torch.arange(n * length)
    return ((k * k + k) % vocab).reshape(n, length)


def inside(p, prefix):
    return {k[len(prefix) + 1 :]: v for k, v in p.items() if k.startswith(prefix + "/")}


def under(prefix, shapes):
    return {f"{prefix}/{k}": v for k, v in shapes.items()}


def dense(x, p):
    y = x @ p["weights"]
    return y + p["biases"] if "biases" in p else y


def dense_shapes(a, b, bias=True):
    return {"weights": (a, b), "biases": (b,)} if bias else {"weights": (a, b)}


def layer_norm(x, p):
    return F.layer_norm(x, x.shape[-1:], p["scale"], p["offset"])


def rms_norm(x, p):
    return F.rms_norm(x, x.shape[-1:], p["scale"], 1e-6)


def group_norm(x, p, groups):
    return F.group_norm(x.movedim(-1, 1), groups, p["scale"], p["offset"]).movedim(1, -1)


def rope(x, base):  # [n heads length size], by complex numbers
    length, half = x.shape[2], x.shape[3] // 2
    z = torch.complex(x[..., :half], x[..., half:])
    angle = torch.outer(torch.arange(length).double(), base ** (-torch.arange(half).double() / half))
    z = z * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1)


def turned(x, frequencies):  # rope of the first part of each head, by a matrix for each pair
    length, half = x.shape[2], len(frequencies)
    y = x.clone()
    for t in range(length):
        for i, f in enumerate(frequencies):
            c, s = math.cos(t * f), math.sin(t * f)
            a, b = x[:, :, t, i], x[:, :, t, i + half]
            y[:, :, t, i], y[:, :, t, i + half] = a * c - b * s, a * s + b * c
    return y


def plus_one_norm(x, p):
    return F.rms_norm(x, x.shape[-1:], 1 + p["scale"], 1e-6)


def slopes(heads):  # as in ALiBi's repository
    def powers(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return powers(heads)
    close = 2 ** math.floor(math.log2(heads))
    return powers(close) + slopes(2 * close)[0::2][: heads - close]


def attention(x, p, heads, kv=0, causal=False, window=0, base=0, alibi=False, frequencies=None, scale=None, cap=0, norm=None):
    n, length, width = x.shape
    kv = kv or heads
    split = lambda t, count: t.reshape(n, length, count, -1).transpose(1, 2)
    q, k, v = (split(dense(x, inside(p, w)), c) for w, c in (("query", heads), ("key", kv), ("value", kv)))
    if norm:
        q, k = norm(q, inside(p, "query_norm")), norm(k, inside(p, "key_norm"))
    if base:
        q, k = rope(q, base), rope(k, base)
    if frequencies:
        q, k = turned(q, frequencies), turned(k, frequencies)
    k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
    i = torch.arange(length)
    distance = i[:, None] - i[None, :]
    mask = torch.zeros(heads, length, length)
    if alibi:
        mask = mask - torch.tensor(slopes(heads))[:, None, None] * distance
    if causal:
        mask = mask.masked_fill(distance < 0, -math.inf)
    if window:
        mask = mask.masked_fill(distance >= window, -math.inf)
    if cap:
        scores = q @ k.transpose(-1, -2) * scale
        y = torch.softmax(torch.tanh(scores / cap) * cap + mask, -1) @ v
    else:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None], scale=scale)
    return dense(y.transpose(1, 2).reshape(n, length, -1), inside(p, "output"))


def attention_shapes(width, heads, kv=0, bias=True, size=0):
    size = size or width // heads
    s = {}
    for name, a, b in (("query", width, heads * size), ("key", width, (kv or heads) * size), ("value", width, (kv or heads) * size), ("output", heads * size, width)):
        s |= under(name, dense_shapes(a, b, bias))
    return s


def feed_forward(x, p, act=F.gelu, gated=False):
    y = act(dense(x, inside(p, "gate"))) * dense(x, inside(p, "up")) if gated else act(dense(x, inside(p, "up")))
    return dense(y, inside(p, "down"))


def feed_forward_shapes(width, hidden, gated=False, bias=True):
    s = under("up", dense_shapes(width, hidden, bias)) | under("down", dense_shapes(hidden, width, bias))
    return s | under("gate", dense_shapes(width, hidden, bias)) if gated else s


norm_shapes = lambda width: {"scale": (width,), "offset": (width,)}


def gpt(x, p):
    x = x + attention(layer_norm(x, inside(p, "norm1")), inside(p, "attention"), 2, causal=True)
    return x + feed_forward(layer_norm(x, inside(p, "norm2")), inside(p, "feedforward"))


gpt_shapes = under("norm1", norm_shapes(6)) | under("norm2", norm_shapes(6)) | under("attention", attention_shapes(6, 2)) | under("feedforward", feed_forward_shapes(6, 24))


def llama(x, p):
    x = x + attention(rms_norm(x, inside(p, "norm1")), inside(p, "attention"), 4, kv=2, causal=True, base=10000)
    return x + feed_forward(rms_norm(x, inside(p, "norm2")), inside(p, "feedforward"), F.silu, True)


llama_shapes = under("norm1", {"scale": (8,)}) | under("norm2", {"scale": (8,)}) | under("attention", attention_shapes(8, 4, 2, False)) | under("feedforward", feed_forward_shapes(8, 12, True, False))


def recurrent(kind, x, w, u, biases, recurrent_biases, **kw):
    m = kind(x.shape[-1], u.shape[0], batch_first=True, **kw)
    return torch.func.functional_call(m, {"weight_ih_l0": w.T, "weight_hh_l0": u.T, "bias_ih_l0": biases, "bias_hh_l0": recurrent_biases}, (x,))[0]


def gru(x, p, kind=torch.nn.GRU, **kw):
    return recurrent(kind, x, p["weights"], p["recurrent/weights"], p["biases"], p["recurrent/biases"], **kw)


def lstm(x, p):
    return recurrent(torch.nn.LSTM, x, p["weights"], p["recurrent"], p["biases"], torch.zeros_like(p["biases"]))


def recurrent_shapes(width, units, gates=1):
    return dense_shapes(width, gates * units) | under("recurrent", dense_shapes(units, gates * units))


def both(x, p, one):
    return torch.cat([one(x, inside(p, "forward")), one(x.flip(1), inside(p, "backward")).flip(1)], -1)


def average(x, p):
    decay, mean, all = torch.sigmoid(p["decay"]), torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        mean = decay * mean + (1 - decay) * x[:, t]
        all.append(mean)
    return torch.stack(all, 1)


def conv1d(x, p, before, after, **kw):
    return F.conv1d(F.pad(x.movedim(-1, 1), (before, after)), p["weights"].permute(2, 1, 0), p["biases"], **kw).movedim(1, -1)


def depthwise(x, p, before, after, **kw):
    w = p["weights"].permute(2, 0, 1)[:, None]
    return F.conv2d(F.pad(x.movedim(-1, 1), (before, after) * 2), w, p["biases"], groups=x.shape[-1], **kw).movedim(1, -1)


def transposed(x, p, **kw):
    return F.conv_transpose2d(x.movedim(-1, 1), p["weights"].permute(0, 3, 1, 2), p["biases"], **kw).movedim(1, -1)


def pooled(x, window, stride):
    return F.avg_pool2d(x.movedim(-1, 1), window, stride).movedim(1, -1)


def convolution(x, p, pads, of, stride=1, **kw):  # pads of each side, before and after
    sides = x.ndim - 2
    w = p["weights"].permute(sides + 1, sides, *range(sides))
    x = F.pad(x.movedim(-1, 1), [n for side in reversed(pads) for n in side])
    return of(x, w, p["biases"], stride=stride, **kw).movedim(1, -1)


def pool(x, of, *args, **kw):
    return of(x.movedim(-1, 1), *args, **kw).movedim(1, -1)


def spectral(p, w):  # one step of PyTorch's parametrizations.spectral_norm
    m = w.reshape(-1, w.shape[-1]).T
    with torch.no_grad():
        u = F.normalize(m @ p["v"], dim=0)
        v = F.normalize(m.T @ u, dim=0)
    return w / (u @ m @ v)


def sinusoids(length, units):
    angle = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, units, 2).double() / units)
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(length, -1)[:, :units]


def timestep(x, units):
    angle = x.reshape(-1, 1) * 10000 ** (-torch.arange(units // 2).double() / (units // 2))
    return torch.cat([angle.sin(), angle.cos()], -1)


there = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]]).bool()
first = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()


def masked(x, one, mask=there):  # of each example, what is there by itself; zeros between
    all = []
    for i in range(len(x)):
        at = mask[i].nonzero().flatten()
        y = one(x[i : i + 1, at])[0]
        all.append(y if y.ndim == 1 else torch.zeros(x.shape[1], y.shape[-1]).index_copy(0, at, y))
    return torch.stack(all)


def windows(x, of, window, stride, pad=0):  # the mean over windows with something in them, of what is there
    all = []
    for example, there_ in zip(x, there):
        spans = [range(max(0, at), min(5, at + window)) for at in range(-pad, 5 + pad - window + 1, stride)]
        found = [[k for k in span if there_[k]] for span in spans]
        all.append(torch.stack([of(example[at]) for at in found if at]).mean(0))
    return torch.stack(all)


def batch_norm_masked(x, p):
    y = F.batch_norm(x[there], None, None, p["l/scale"], p["l/offset"], True)
    return torch.stack([F.gelu(part).mean(0) for part in y.split([int(n) for n in there.sum(1)])])


def encoder(x, p):
    x = x + attention(layer_norm(x, inside(p, "norm1")), inside(p, "attention"), 2)
    return x + feed_forward(layer_norm(x, inside(p, "norm2")), inside(p, "feedforward"))


image = (2, 5, 6, 3)
s4 = (2, 5, 4)
lstm_named = {f"l/{k}": v for k, v in {"weights": (4, 12), "recurrent": (3, 12), "biases": (12,)}.items()}
lstm_shapes = {"weights": (4, 12), "recurrent": (3, 12), "biases": (12,)}
s6 = (2, 5, 6)
second = """GRU; RNN; Scan; Scan masked; LSTM masked; Bidirectional GRU; Bidirectional LSTM; Embedding masked; LayerNorm; GroupNorm; BatchNorm; SpectralNorm;
SpectralNorm Conv2D; Conv1D causal; ConvTranspose2D; MaxPool1D; Attention grouped, RoPE; PReLU; InstanceNorm""".replace("\n", " ").split("; ")
all = {
    "Embedding": case({"weights": (7, 4)}, ids(3, 5, 7), lambda x, p: F.embedding(x, p["weights"])),
    "Positions": case({"weights": (8, 6)}, s6, lambda x, p: x + p["weights"][:5]),
    "LayerNorm": case(norm_shapes(6), s6, layer_norm),
    "RMSNorm": case({"scale": (6,)}, s6, rms_norm),
    "GroupNorm": case(norm_shapes(6), (2, 3, 4, 6), lambda x, p: group_norm(x, p, 3)),
    "GroupNorm one": case(norm_shapes(6), (2, 3, 4, 6), lambda x, p: group_norm(x, p, 1)),
    "Attention": case(attention_shapes(6, 2), s6, lambda x, p: attention(x, p, 2)),
    "Attention one step": case(attention_shapes(6, 2), (2, 1, 6), lambda x, p: attention(x, p, 2, causal=True)),
    "Attention causal": case(attention_shapes(6, 3), s6, lambda x, p: attention(x, p, 3, causal=True)),
    "Attention window": case(attention_shapes(6, 2), s6, lambda x, p: attention(x, p, 2, causal=True, window=2)),
    "Attention grouped, RoPE": case(attention_shapes(8, 4, 2, False), (2, 5, 8), lambda x, p: attention(x, p, 4, kv=2, causal=True, base=10000)),
    "Attention head size": case(attention_shapes(6, 2, size=4), s6, lambda x, p: attention(x, p, 2, base=100)),
    "Attention ALiBi": case(attention_shapes(6, 6), s6, lambda x, p: attention(x, p, 6, causal=True, alibi=True)),
    "Attention frequencies": case(attention_shapes(6, 1), s6, lambda x, p: attention(x, p, 1, causal=True, frequencies=[0.5, 0.01])),
    "Attention soft cap": case(attention_shapes(6, 2), s6, lambda x, p: attention(x, p, 2, causal=True, scale=1.5, cap=0.2)),
    "Attention norms of heads": case(attention_shapes(6, 2) | {"query_norm/scale": (3,), "key_norm/scale": (3,)}, s6, lambda x, p: attention(x, p, 2, norm=plus_one_norm, scale=0.7)),
    "Attention no bias of the output": case({k: v for k, v in attention_shapes(6, 2).items() if k != "output/biases"}, s6, lambda x, p: attention(x, p, 2)),
    "RMSNorm plus one": case({"scale": (6,)}, s6, plus_one_norm),
    "Embedding scaled": case({"weights": (7, 4)}, ids(3, 5, 7), lambda x, p: F.embedding(x, p["weights"]) * 2),
    "Tied": case({"tokens/weights": (7, 4), "norm/scale": (4,)}, ids(3, 5, 7), lambda x, p: rms_norm(F.embedding(x, p["tokens/weights"]), inside(p, "norm")) @ p["tokens/weights"].T),
    "ClassToken": case({"weights": (6,)}, s6, lambda x, p: torch.cat([p["weights"].expand(2, 1, 6), x], 1)),
    "FirstStep": case({}, s6, lambda x, p: x[:, 0]),
    "SoftCap": case({}, s6, lambda x, p: torch.tanh(x / 0.3) * 0.3),
    "FeedForward": case(feed_forward_shapes(6, 24), s6, feed_forward),
    "FeedForward gated": case(feed_forward_shapes(6, 5, True, False), s6, lambda x, p: feed_forward(x, p, F.silu, True)),
    "TransformerBlock GPT-2": case(gpt_shapes, s6, gpt),
    "TransformerBlock Llama": case(llama_shapes, (2, 5, 8), llama),
    "Repeat": case(under("0", gpt_shapes) | under("1", gpt_shapes), s6, lambda x, p: gpt(gpt(x, inside(p, "0")), inside(p, "1"))),
    "GRU": case(recurrent_shapes(4, 3, 3), (2, 5, 4), gru),
    "GRU one step": case(recurrent_shapes(4, 3, 3), (2, 1, 4), gru),
    "RNN": case(recurrent_shapes(4, 3), (2, 5, 4), lambda x, p: gru(x, p, torch.nn.RNN)),
    "RNN ReLU": case(recurrent_shapes(4, 3), (2, 5, 4), lambda x, p: gru(x, p, torch.nn.RNN, nonlinearity="relu")),
    "Bidirectional GRU": case(under("forward", recurrent_shapes(4, 3, 3)) | under("backward", recurrent_shapes(4, 3, 3)), (2, 5, 4), lambda x, p: both(x, p, gru)),
    "Bidirectional LSTM": case(under("forward", lstm_shapes) | under("backward", lstm_shapes), (2, 5, 4), lambda x, p: both(x, p, lstm)),
    "LastStep": case(under("gru", recurrent_shapes(4, 3, 3)), (2, 5, 4), lambda x, p: gru(x, inside(p, "gru"))[:, -1]),
    "Conv1D": case({"weights": (3, 4, 5), "biases": (5,)}, (2, 6, 4), lambda x, p: conv1d(x, p, 0, 0)),
    "Conv1D same": case({"weights": (3, 4, 5), "biases": (5,)}, (2, 6, 4), lambda x, p: conv1d(x, p, 0, 1, stride=2)),
    "Conv1D causal": case({"weights": (2, 4, 5), "biases": (5,)}, (2, 6, 4), lambda x, p: conv1d(x, p, 2, 0, dilation=2)),
    "DepthwiseConv2D": case({"weights": (3, 3, 3), "biases": (3,)}, image, lambda x, p: depthwise(x, p, 0, 0)),
    "DepthwiseConv2D same": case({"weights": (3, 3, 3), "biases": (3,)}, (2, 5, 5, 3), lambda x, p: depthwise(x, p, 1, 1, stride=2)),
    "DepthwiseConv2D dilated": case({"weights": (2, 2, 3), "biases": (3,)}, image, lambda x, p: depthwise(x, p, 0, 0, dilation=3)),
    "ConvTranspose2D": case({"weights": (3, 4, 4, 2), "biases": (2,)}, image, lambda x, p: transposed(x, p, stride=2, padding=1)),
    "ConvTranspose2D odd": case({"weights": (3, 3, 3, 2), "biases": (2,)}, image, lambda x, p: transposed(x, p, stride=2)),
    "ConvTranspose2D stride 1": case({"weights": (3, 3, 3, 2), "biases": (2,)}, image, lambda x, p: transposed(x, p, padding=2)),
    "AvgPool2D": case({}, image, lambda x, p: pooled(x, 2, 2)),
    "AvgPool2D stride": case({}, image, lambda x, p: pooled(x, 3, 2)),
    "Unflatten": case({}, image, lambda x, p: x.flatten(1).unflatten(1, (3, 5, 6))),
    "Upsample2D": case({}, image, lambda x, p: F.interpolate(x.movedim(-1, 1), scale_factor=2).movedim(1, -1)),
    "Concat": case(under("a", dense_shapes(6, 3)) | under("b", dense_shapes(6, 2)), s6, lambda x, p: torch.cat([dense(x, inside(p, "a")), x, dense(x, inside(p, "b"))], -1)),
    "Conv1D groups": case({"weights": (3, 2, 6), "biases": (6,)}, (2, 9, 4), lambda x, p: convolution(x, p, [(0, 0)], F.conv1d, dilation=2, groups=2)),
    "Conv2D dilated": case({"weights": (3, 3, 3, 4), "biases": (4,)}, image, lambda x, p: convolution(x, p, [(2, 2)] * 2, F.conv2d, 2, dilation=2)),
    "Conv2D groups": case({"weights": (2, 2, 1, 6), "biases": (6,)}, image, lambda x, p: convolution(x, p, [(0, 1)] * 2, F.conv2d, groups=3)),
    "Conv3D": case({"weights": (2, 2, 2, 3, 4), "biases": (4,)}, (2, 3, 4, 5, 3), lambda x, p: convolution(x, p, [(0, 0)] * 3, F.conv3d)),
    "Conv3D same": case({"weights": (3, 3, 3, 2, 3), "biases": (3,)}, (2, 5, 4, 3, 2), lambda x, p: convolution(x, p, [(1, 1), (0, 1), (1, 1)], F.conv3d, 2)),
    "Conv3D dilated groups": case({"weights": (2, 2, 2, 1, 4), "biases": (4,)}, (2, 3, 4, 5, 2), lambda x, p: convolution(x, p, [(1, 1)] * 3, F.conv3d, dilation=3, groups=2)),
    "AvgPool1D": case({}, (2, 7, 3), lambda x, p: pool(x, F.avg_pool1d, 3, 2)),
    "AvgPool3D": case({}, (2, 4, 5, 6, 2), lambda x, p: pool(x, F.avg_pool3d, 2)),
    "MaxPool1D": case({}, (2, 7, 3), lambda x, p: pool(x, F.max_pool1d, 3, 2, padding=1)),
    "MaxPool3D": case({}, (2, 4, 5, 6, 2), lambda x, p: pool(x, F.max_pool3d, 3, 2, padding=1)),
    "GlobalAvgPool": case({}, image, lambda x, p: x.mean((1, 2))),
    "GlobalMaxPool": case({}, (2, 3, 4, 5, 2), lambda x, p: x.amax((1, 2, 3))),
    "BatchNorm": case({n: (3,) for n in ("mean", "offset", "scale", "variance")}, image, lambda x, p: F.batch_norm(x.movedim(-1, 1), None, None, p["scale"], p["offset"], True).movedim(1, -1)),
    "InstanceNorm": case({"scale": (3,), "offset": (3,)}, image, lambda x, p: F.instance_norm(x.movedim(-1, 1), weight=p["scale"], bias=p["offset"]).movedim(1, -1)),
    "PReLU": case({"weights": (3,)}, image, lambda x, p: F.prelu(x.movedim(-1, 1), p["weights"]).movedim(1, -1)),
    "PReLU shared": case({"weights": (1,)}, image, lambda x, p: F.prelu(x, p["weights"])),
    "SinusoidalPositions": case({}, (2, 5, 7), lambda x, p: x + sinusoids(5, 7)),
    "TimestepEncoding": case({}, (5, 1), lambda x, p: timestep(x, 6)),
    "SpectralNorm": case(dense_shapes(6, 4) | {"u": (4,), "v": (6,)}, s6, lambda x, p: x @ spectral(p, p["weights"]) + p["biases"]),
    "SpectralNorm Conv2D": case({"weights": (2, 2, 3, 4), "biases": (4,), "u": (4,), "v": (12,)}, image, lambda x, p: convolution(x, p | {"weights": spectral(p, p["weights"])}, [(0, 0)] * 2, F.conv2d)),
    "GRU masked": case(under("l", recurrent_shapes(4, 3, 3)), s4, lambda x, p: masked(x, lambda x: gru(x, inside(p, "l")))),
    "LSTM masked": case(lstm_named, s4, lambda x, p: masked(x, lambda x: lstm(x, inside(p, "l")))),
    "RNN masked, last": case(under("l", recurrent_shapes(4, 3)), s4, lambda x, p: masked(x, lambda x: gru(x, inside(p, "l"), torch.nn.RNN)[:, -1])),
    "Scan masked": case({"l/decay": (1, 4)}, s4, lambda x, p: masked(x, lambda x: average(x, inside(p, "l")))),
    "Bidirectional masked": case(under("l/forward", lstm_shapes) | under("l/backward", lstm_shapes), s4, lambda x, p: masked(x, lambda x: both(x, inside(p, "l"), lstm))),
    "Conv1D masked": case({"l/weights": (3, 4, 5), "l/biases": (5,)}, s4, lambda x, p: masked(x, lambda x: conv1d(x, inside(p, "l"), 1, 1, stride=2).mean(1), first)),
    "Conv1D masked, valid": case({"l/weights": (2, 4, 5), "l/biases": (5,)}, s4, lambda x, p: masked(x, lambda x: conv1d(x, inside(p, "l"), 0, 0).amax(1), first)),
    "GlobalMaxPool masked": case({}, s4, lambda x, p: masked(x, lambda x: x.amax(1))),
    "Embedding masked": case({"e/weights": (7, 4)} | under("l", recurrent_shapes(4, 3, 3)), ids(3, 5, 7), lambda x, p: masked(F.embedding(x, p["e/weights"]), lambda x: gru(x, inside(p, "l")).mean(1), x != 0)),
    "Attention masked": case(under("l", gpt_shapes), s6, lambda x, p: masked(x, lambda x: encoder(x, inside(p, "l")).mean(1))),
    "ClassToken masked": case({"c/weights": (6,)} | under("l", gpt_shapes), s6, lambda x, p: torch.cat([encoder(torch.cat([p["c/weights"].reshape(1, 1, 6), x[i : i + 1, there[i]]], 1), inside(p, "l"))[:, 0] for i in range(2)])),
    "MaxPool1D masked": case({}, s4, lambda x, p: windows(x, lambda x: x.amax(0), 2, 1)),
    "MaxPool1D masked, padded": case({}, s4, lambda x, p: windows(x, lambda x: x.amax(0), 3, 2, 1)),
    "AvgPool1D masked": case({}, s4, lambda x, p: windows(x, lambda x: x.mean(0), 2, 1)),
    "BatchNorm masked": case(under("l", {n: (4,) for n in ("mean", "offset", "scale", "variance")}), s4, batch_norm_masked),
    "GroupNorm masked": case(under("l", norm_shapes(4)), s4, lambda x, p: masked(x, lambda x: F.gelu(group_norm(x, inside(p, "l"), 2)).mean(1))),
    "InstanceNorm masked": case(under("l", norm_shapes(4)), s4, lambda x, p: masked(x, lambda x: F.gelu(group_norm(x, inside(p, "l"), 4)).mean(1))),
    "Scan": case({"decay": (1, 4)}, (2, 5, 4), average),
}
for name, of in all.items():
    if name not in second:
        del of["Second"]
print(json.dumps(all, separators=(",", ":")))
