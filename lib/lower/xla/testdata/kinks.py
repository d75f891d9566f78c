"""Writes kinks.json: PyTorch's gradients of functions where they have a corner, a tie or a pole.

    pip install torch && python3 kinks.py > kinks.json

Each case has one input or two, and the gradients of the sum of the results. null is NaN.
"""
import json, math, sys
import torch
import torch.nn.functional as F

inf = math.inf
CASES = {
    "Max": (torch.maximum, [1, 2, 0, -inf], [1, 1, 0, -inf]),
    "Min": (torch.minimum, [1, 2, 0, inf], [1, 1, 0, inf]),
    "MaxScalar": (lambda x: x.clamp(min=1), [1, 2, 0]),
    "MinScalar": (lambda x: x.clamp(max=1), [1, 2, 0]),
    "ClipScalar": (lambda x: x.clamp(0, 1), [0, 1, 0.5, 2, -1]),
    "Abs": (torch.abs, [0, 2, -2]),
    "Abs of complex": (lambda x, y: torch.complex(x, y).abs(), [0, 3], [0, 4]),
    "Sign": (lambda x: x * torch.sign(x), [0, 2, -2]),
    "L1Norm": (lambda x: x.norm(1), [0, 2, -2]),
    "L2Norm": (lambda x: x.norm(2), [0, 0, 0]),
    "L2Norm of rows": (lambda x: x.reshape(2, 2).norm(2, dim=1), [0, 0, 3, 4]),
    "distance": (lambda x, y: (x - y).norm(2), [1, 2], [1, 2]),
    "deviation": (lambda x: x.std(unbiased=False), [3, 3, 3]),
    "deviation of rows": (lambda x: x.reshape(2, 2).std(dim=1, unbiased=False), [3, 3, 3, 5]),
    "Sqrt": (torch.sqrt, [0, 4]),
    "Rsqrt": (torch.rsqrt, [0, 4]),
    "Log": (torch.log, [0, 4]),
    "Pow": (torch.pow, [0, 0, 0, 0, 2, 0.5, -2], [0, 0.5, 1, 2, 0, 0, 3]),
    "Pow of itself": (lambda x: x ** x, [0, 1]),
    "PowScalar 0": (lambda x: x ** 0, [0, 2]),
    "PowScalar 2": (lambda x: x ** 2, [0, 2]),
    "PowScalar 0.5": (lambda x: x ** 0.5, [0, 4]),
    "Atan2": (torch.atan2, [0, 0, 1, 0], [0, 1, 0, -1]),
    "LogAddExp": (torch.logaddexp, [0, 1, 1], [0, 1, 2]),
    "Softplus": (F.softplus, [0, 1]),
    "ReLU": (F.relu, [0, 1, -1]),
    "LeakyReLU": (F.leaky_relu, [0, 1, -1]),
    "ELU": (F.elu, [0, 1, -1]),
    "Hardswish": (F.hardswish, [0, 3, -3, 4, -4]),
    "LogSumExp": (lambda x: x.reshape(2, 2).logsumexp(1), [-inf, 0, 1, 1]),
    "Softmax": (lambda x: x.reshape(2, 2).softmax(1)[:, 1], [-inf, 0, 1, 1]),
    "LogSoftmax": (lambda x: x.reshape(2, 2).log_softmax(1)[:, 1], [-inf, 0, 1, 1]),
    "ReduceMax": (lambda x: x.amax(0), [1, 1, -2, 1]),
    "ReduceMin": (lambda x: x.reshape(2, 2).amin(1), [5, 5, 3, 4]),
    "ReduceMultiply": (lambda x: x.prod(), [2, 0, 5]),
    "Sort": (lambda x: x.sort(stable=True)[0] * torch.arange(3.0, dtype=torch.float64), [1, 1, 1]),
    "CosineSimilarity": (lambda x, y: F.cosine_similarity(x, y, dim=0), [1, 2], [2, 4]),
    "MAE": (F.l1_loss, [1, 2, 0], [1, 1, 1]),
    "MSE": (F.mse_loss, [1, 2, 0], [1, 1, 1]),
    "Huber": (F.huber_loss, [1, 2, 0, 4], [1, 1, 1, 1]),
    "Hinge": (lambda x, y: (1 - x * y).clamp(min=0).mean(), [1, -1, 0.5, 2], [1, -1, 1, 1]),
    "Poisson": (F.poisson_nll_loss, [0, 1], [0, 2]),
    "Cosine": (lambda x, y: 1 - F.cosine_similarity(x, y, dim=0), [1, 2], [2, 4]),
    "BinaryCrossEntropy": (F.binary_cross_entropy_with_logits, [0, 100, -100, 100], [0.25, 1, 0, 0]),
    "KLDivergence": (lambda x, y: F.kl_div(x.log_softmax(0), y, reduction="sum"), [0, 0], [0, 1]),
    "focal": (lambda x, y: (F.binary_cross_entropy_with_logits(x, y, reduction="none") * (1 - x.sigmoid()) ** 2).mean(), [0, 1], [1, 1]),
    "CrossEntropy": (lambda x: F.cross_entropy(x[None], torch.tensor([1])), [200, 200, -200]),
}

all = {}
for name, (f, *inputs) in CASES.items():
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in inputs]
    slopes = torch.autograd.grad(f(*inputs).sum(), inputs, allow_unused=True)
    number = lambda v: None if math.isnan(v) else repr(v) if math.isinf(v) else v
    all[name] = {"x": [[number(v) for v in x.tolist()] for x in inputs], "slopes": [[number(v) for v in s.tolist()] if s is not None else [] for s in slopes]}
print("{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in all.items()) + "\n}")
