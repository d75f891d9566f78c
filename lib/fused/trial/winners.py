"""What TF32 decides in a step of KerasCNN, and what that does to its gradients.

    python3 winners.py  # on any CPU, with PyTorch; half a minute

Each line is a step in one precision against the same step in float64: how many
winners of the pool and signs of the three ReLUs differ, and the relative errors
of the gradients. A step may be given the winners, the signs, or both, of the
exact one: what error is left then is that of the products themselves.

The last lines are float32 with the exact winners, and the exact signs but for a
few of the second ReLU, those of the numbers that are closest to 0: what a
different order of sums can do to a step whose products are all float32.
"""

import torch
import torch.nn.functional as F

torch.manual_seed(1)
BATCH = 128
x = torch.randint(0, 256, (BATCH, 1, 28, 28)).float() / 255
labels = torch.randint(0, 10, (BATCH,))
SIZES = {"conv1": (32, 1, 3, 3), "bias1": (32,), "conv2": (64, 32, 3, 3), "bias2": (64,), "dense": (9216, 128), "out": (128, 10)}
weights = {name: (torch.rand(size) - 0.5) * 0.1 for name, size in SIZES.items()}


def tf32(t):
    """Rounded to 10 bits of mantissa."""
    return ((t.detach().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Product(torch.autograd.Function):
    """A convolution whose factors are rounded, forwards and backwards."""

    @staticmethod
    def forward(ctx, x, w, rounded):
        ctx.save_for_backward(rounded(x), rounded(w))
        ctx.rounded = rounded
        return F.conv2d(rounded(x), rounded(w))

    @staticmethod
    def backward(ctx, g):
        (x, w), g = ctx.saved_tensors, ctx.rounded(g)
        return torch.nn.grad.conv2d_input(x.shape, w, g), torch.nn.grad.conv2d_weight(x, w.shape, g), None


def step(rounded, dtype, winners=None, signs=None):
    """The winners, the signs and the gradients of a step."""
    p = {name: w.clone().to(dtype).requires_grad_() for name, w in weights.items()}
    seen, near = [], []

    def relu(z):
        seen.append(z > 0)
        near.append(z.detach().abs())
        return z * (seen[-1] if signs is None else signs[len(seen) - 1]).to(dtype)

    def dense(a, w):
        return Product.apply(a[:, :, None, None], w.t()[:, :, None, None], rounded)[:, :, 0, 0]

    a = relu(Product.apply(x.to(dtype), p["conv1"], rounded) + p["bias1"][:, None, None])
    z = Product.apply(a, p["conv2"], rounded) + p["bias2"][:, None, None]
    h, at = F.max_pool2d(z, 2, return_indices=True)
    if winners is not None:
        h = z.flatten(2).gather(2, winners.flatten(2)).view(h.shape)
    h = relu(h).flatten(1)
    F.cross_entropy(dense(relu(dense(h, p["dense"])), p["out"]), labels).backward()
    return at, seen, near, {name: w.grad.double() for name, w in p.items()}


def same(t):
    return t


def told(name, got):
    changed = int((got[0] != want[0]).sum())
    signs = sum(int((a != b).sum()) for a, b in zip(got[1], want[1]))
    off = "  ".join(f"{n} {float((g - want[3][n]).norm() / want[3][n].norm()):.1e}" for n, g in got[3].items())
    print(f"{name:22} {changed:4} of {want[0].numel()} winners, {signs:4} of {sum(s.numel() for s in want[1])} signs differ;  {off}", flush=True)


want = step(same, torch.float64)
for name, rounded, given in [("float32", same, {}), ("float32, both given", same, {"winners": want[0], "signs": want[1]}), ("TF32", tf32, {}), ("TF32, winners given", tf32, {"winners": want[0]}),
                             ("TF32, signs given", tf32, {"signs": want[1]}), ("TF32, both given", tf32, {"winners": want[0], "signs": want[1]})]:
    told(name, step(rounded, torch.float32, **given))
closest = want[2][1].flatten().argsort()[:3]
for i in closest:
    signs = [s.clone() for s in want[1]]
    signs[1].view(-1)[i] ^= True
    told(f"sign of {float(want[2][1].view(-1)[i]):.1e}", step(same, torch.float32, want[0], signs))
