"""Writes oracle.json: PyTorch's losses of batches and their gradients, in float64.

    pip install torch && python3 oracle.py > oracle.json

Number k of out is 3·sin((k+1)·0.7), and of numbers as targets (1 + sin((k+1)·1.1))/2. Label k
is k²+k modulo the classes, and every fourth is -100 where labels are ignored.
"""
import json, math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(step, shape):
    return torch.sin((torch.arange(math.prod(shape), dtype=torch.float64) + 1) * step).reshape(shape)


def case(shape, loss, classes=0, ignore=False, rows=False):
    out = (3 * wave(0.7, shape)).requires_grad_()
    if classes:
        k = torch.arange(math.prod(shape[:-1]))
        y = (k * k + k) % classes
        if ignore:
            y[::4] = -100
        y = y.reshape(shape[:-1])
    else:
        y = (1 + wave(1.1, shape)) / 2
        if rows:
            y = y / y.sum(-1, keepdim=True)
    value = loss(out, y)
    (g,) = torch.autograd.grad(value, [out])
    return {"Loss": value.item(), "Gradient": g.flatten().tolist()}


def ce(**kw):
    return lambda out, y: F.cross_entropy(out.reshape(-1, out.shape[-1]), y.flatten(), **kw)


def focal(out, y, gamma=2.0):
    p = torch.sigmoid(out)
    return (F.binary_cross_entropy_with_logits(out, y, reduction="none") * (y * (1 - p) + (1 - y) * p) ** gamma).mean()


def weighted(each, v, per=None):  # the weighted mean of losses of numbers, positions or examples
    if v.dim() == 1 and each.dim() > 1:
        each = each.flatten(1).mean(1)
    return (each * v).sum() / (v if per is None else per * v).sum()


def weights(shape):
    v = 1 + wave(1.7, shape)
    v.view(-1)[1] = 0
    return v


def contrastive(out, y, t=0.1, v=None):
    z = F.normalize(out)
    s = z @ z.T / t
    n = len(z)
    other = ~torch.eye(n, dtype=torch.bool)
    log = s - torch.logsumexp(s.masked_fill(~other, -math.inf), 1, keepdim=True)
    pairs = (y[:, None] == y[None]) & other
    many = pairs.sum(1)
    each = -(log.masked_fill(~pairs, 0)).sum(1) / many.clamp(min=1)
    counts = (many > 0).to(out.dtype) * (1 if v is None else v)
    return (each * counts).sum() / counts.sum()


def ctc(blank, v=None, steps=None):
    lengths = torch.tensor([3, 2, 0, 3])
    steps = steps and torch.tensor(steps)

    def loss(out, _):
        y = torch.tensor([[1, 2, 2], [3, 1, -1], [-1, -1, -1], [4, 4, 4]])
        if blank == 4:
            y = torch.where(y == 4, 0, y)
        l = F.ctc_loss(F.log_softmax(out, -1).transpose(0, 1), y.clamp(min=0), torch.full((4,), out.shape[1]) if steps is None else steps, lengths, blank=blank, reduction="none", zero_infinity=True)
        return l.mean() if v is None else weighted(l, v)

    return loss


def focal_ce(out, y, gamma=2.0):
    l = F.cross_entropy(out, y, reduction="none")
    return (l * (1 - torch.exp(-l)) ** gamma).mean()


w = torch.tensor([0.5, 2.0, 0.0, 1.0])
MORE = {
    "CrossEntropy focal": case((6, 4), focal_ce, 4),
    "CrossEntropy V": case((6, 4), lambda o, y: weighted(F.cross_entropy(o, y, reduction="none"), weights((6,))), 4),
    "CrossEntropy positions V": case((3, 5, 4), lambda o, y: weighted(F.cross_entropy(o.transpose(1, 2), y, reduction="none"), weights((3, 5))), 4),
    "CrossEntropy positions V example": case((3, 5, 4), lambda o, y: weighted(F.cross_entropy(o.transpose(1, 2), y, reduction="none"), weights((3,))), 4),
    "CrossEntropy weights V": case((6, 4), lambda o, y: weighted(F.cross_entropy(o, y, reduction="none", weight=w), weights((6,)), w[y]), 4),
    "BinaryCrossEntropy V": case((4, 3), lambda o, y: weighted(F.binary_cross_entropy_with_logits(o, y, reduction="none"), weights((4, 3)))),
    "MSE V": case((4, 3), lambda o, y: weighted((o - y) ** 2, weights((4, 3)))),
    "MSE V example": case((4, 3), lambda o, y: weighted((o - y) ** 2, weights((4,)))),
    "MAE V": case((4, 3), lambda o, y: weighted((o - y).abs(), weights((4, 3)))),
    "Huber V": case((4, 3), lambda o, y: weighted(F.huber_loss(o, y, reduction="none"), weights((4, 3)))),
    "KLDivergence V example": case((4, 3), lambda o, y: weighted(F.kl_div(F.log_softmax(o, -1), y, reduction="none").sum(1), weights((4,))), rows=True),
    "Hinge": case((4, 3), lambda o, y: torch.relu(1 - torch.sign(y - 0.5) * o).mean()),
    "Poisson": case((4, 3), F.poisson_nll_loss),
    "Poisson V": case((4, 3), lambda o, y: weighted(F.poisson_nll_loss(o, y, reduction="none"), weights((4, 3)))),
    "Cosine": case((4, 3), lambda o, y: F.cosine_embedding_loss(o, y, torch.ones(4))),
    "Cosine V example": case((4, 3), lambda o, y: weighted(F.cosine_embedding_loss(o, y, torch.ones(4), reduction="none"), weights((4,)))),
    "Contrastive": case((8, 4), contrastive, 4),
    "Contrastive V example": case((8, 4), lambda o, y: contrastive(o, y, 0.5, weights((8,))), 4),
    "CTC": case((4, 7, 5), ctc(0), 5),
    "CTC blank": case((4, 7, 5), ctc(4), 5),
    "CTC V example": case((4, 7, 5), ctc(0, weights((4,))), 5),
    "CTC lengths": case((4, 7, 5), ctc(0, None, [7, 4, 2, 4]), 5),
    "CTC blank, lengths": case((4, 7, 5), ctc(4, None, [7, 4, 2, 4]), 5),
    "CTC short": case((4, 3, 5), ctc(0), 5),
    "CTC one": case((4, 1, 5), ctc(0), 5),
}
print(json.dumps(MORE | {
    "CrossEntropy": case((6, 4), ce(), 4),
    "CrossEntropy positions": case((3, 5, 4), ce(), 4),
    "CrossEntropy smoothing": case((3, 5, 4), ce(label_smoothing=0.2), 4),
    "CrossEntropy ignored": case((3, 5, 4), ce(ignore_index=-100), 4, True),
    "CrossEntropy ignored example": case((4, 1, 4), ce(ignore_index=-100), 4, True),
    "CrossEntropy weights": case((6, 4), ce(weight=w), 4),
    "CrossEntropy all": case((3, 5, 4), ce(weight=w, label_smoothing=0.1, ignore_index=-100), 4, True),
    "BinaryCrossEntropy": case((4, 3), F.binary_cross_entropy_with_logits),
    "BinaryCrossEntropy positive": case((4, 3), lambda o, y: F.binary_cross_entropy_with_logits(o, y, pos_weight=torch.tensor(3.0))),
    "BinaryCrossEntropy focal": case((4, 3), focal),
    "KLDivergence": case((4, 3), lambda o, y: F.kl_div(F.log_softmax(o, -1), y, reduction="batchmean"), rows=True),
    "MSE": case((4, 3), F.mse_loss),
    "MAE": case((4, 3), F.l1_loss),
    "Huber": case((4, 3), F.huber_loss),
    "Huber delta": case((4, 3), lambda o, y: F.huber_loss(o, y, delta=0.3)),
}, separators=(",", ":")))
