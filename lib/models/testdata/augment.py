"""Writes augment.json: what augmentations with given numbers make of images, in float64.

    pip install torch numpy && python3 augment.py > augment.json

Pixel k of the images [3 5 7 3] is (sin((k+1)·0.7)+1)/2. Affine maps are PyTorch's grid_sample,
colours torchvision's formulas, the others are loops.
"""
import json, math
import numpy as np
import torch
import torch.nn.functional as F

N, H, W, C = 3, 5, 7, 3
x = (np.sin((np.arange(N * H * W * C) + 1) * 0.7) + 1).reshape(N, H, W, C) / 2
out = {}


def put(name, y):
    out[name] = [float(f"{v:.7g}") for v in np.asarray(y).flatten()]


# flips of the first and the last image
y = x.copy()
for i in (0, 2):
    y[i] = y[i][:, ::-1]
put("flip", y)
y = x.copy()
for i in (0, 2):
    y[i] = y[i][::-1]
put("flip vertically", y)

# parts of 4x6 from given rows and columns on, outside too
y = np.zeros((N, 4, 6, C))
for i, (top, left) in enumerate([(-2, 1), (0, 0), (3, -1)]):
    for r in range(4):
        for c in range(6):
            if 0 <= top + r < H and 0 <= left + c < W:
                y[i, r, c] = x[i, top + r, left + c]
put("crop", y)

# squares of 3 and of 4 around pixels
for size in (3, 4):
    y = x.copy()
    for i, (cy, cx) in enumerate([(0, 0), (2, 3), (4, 6)]):
        y[i, max(0, cy - size // 2):max(0, cy - size // 2 + size), max(0, cx - size // 2):max(0, cx - size // 2 + size)] = 0
    put(f"cutout {size}", y)

factors = np.array([0.5, 1.0, 1.6]).reshape(N, 1, 1, 1)
put("brightness", np.clip(x * factors, 0, 1))
gray = (x @ np.array([0.2989, 0.587, 0.114])).mean(axis=(1, 2)).reshape(N, 1, 1, 1)
put("contrast", np.clip(gray + (x - gray) * factors, 0, 1))
one = x[..., :1]
mean = one.mean(axis=(1, 2, 3), keepdims=True)
put("contrast of gray", np.clip(mean + (one - mean) * factors, 0, 1))

# output pixel p comes from R(-angle)·(p - shift)/scale, about the middle
theta = []
for angle, scale, down, right in zip([0.0, 0.5, -2.0], [1.0, 0.8, 1.3], [1.0, 0.25, -0.7], [-2.0, 0.5, 1.1]):
    c, s = math.cos(angle) / scale, math.sin(angle) / scale
    theta.append([[c, s * H / W, -(c * right + s * down) * 2 / W], [-s * W / H, c, -(c * down - s * right) * 2 / H]])
t = torch.tensor(x).permute(0, 3, 1, 2)
grid = F.affine_grid(torch.tensor(theta, dtype=torch.float64), list(t.shape), align_corners=False)
put("affine", F.grid_sample(t, grid, mode="bilinear", padding_mode="zeros", align_corners=False).permute(0, 2, 3, 1))

for alpha in (0.1, 0.2, 1, 4):
    # E[max] and E[max²] of λ and 1-λ, by the trapezoid rule in y with λ = 1/(1+exp(-y))
    v = np.linspace(0, 400, 4_000_001)
    l = 1 / (1 + np.exp(-v))
    density = np.exp(alpha * (np.log(l) - v + np.log(l)))
    out[f"share {alpha:g}"] = [float((f * density).sum() / density.sum()) for f in (l, l * l)]

json.dump(out, __import__("sys").stdout, indent=0)
