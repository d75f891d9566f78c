"""Writes oracle.json: PyTorch's activations and their slopes, in float64.

    pip install torch && python3 oracle.py > oracle.json
"""
import json
import torch
import torch.nn.functional as F

points = [-30, -8, -3.5, -3, -1.7, -0.3, -1e-3, 0, 1e-3, 0.25, 1, 2.9, 3, 5.5, 19.9, 20.1, 100]
names = {
    "Identity": lambda x: x, "ReLU": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "GELU": F.gelu,
    "GELUTanh": lambda x: F.gelu(x, approximate="tanh"), "SiLU": F.silu, "ELU": F.elu,
    "LeakyReLU": F.leaky_relu, "Softplus": F.softplus, "Hardswish": F.hardswish,
}
out = {"x": points}
for name, f in names.items():
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    y = f(x)
    y.sum().backward()
    out[name] = {"y": y.tolist(), "slope": x.grad.tolist()}
print(json.dumps(out))
