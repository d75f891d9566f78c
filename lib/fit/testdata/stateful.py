"""Writes stateful.json: truncated backpropagation through time in PyTorch.

    pip install torch numpy && python3 stateful.py > stateful.json

The net is models.SineLSTM(5, 6) with a state that is carried on: 3 batches of 4
sequences an epoch, 2 epochs of SGD at 0.5. Weights and data are oracle.py's
formula. In "masked" some time steps are padding, for which the state stays.
"""
import json, math, zlib
import numpy as np, torch

torch.set_default_dtype(torch.float64)
BATCH, LENGTH, UNITS, BATCHES, EPOCHS = 4, 6, 5, 3, 2


def numbers(name, *shape):
    i = np.arange(math.prod(shape), dtype=np.uint32)
    u = i * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    u ^= u >> np.uint32(15)
    u *= np.uint32(2246822519)
    u ^= u >> np.uint32(13)
    a = (u >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)
    return a.reshape(shape)


def var(name, *shape):
    a = numbers(name, *shape)
    if len(shape) > 1:
        a = a * np.float32(2 / math.sqrt(math.prod(shape[:-1])))
    return torch.tensor(a.astype(np.float64), requires_grad=True)


def run(keep, masked=False):
    u = UNITS
    there = (torch.tensor(numbers("stateful/mask", BATCHES, BATCH, LENGTH)) < 0.2).double()[..., None]
    there[1, 2] = 0
    there = there if masked else torch.ones_like(there)
    v = [var("l1/weights", 1, u), var("l1/biases", u), var("l2/weights", u, 4 * u), var("l2/recurrent", u, 4 * u), var("l2/biases", 4 * u), var("l3/weights", u, 1), var("l3/biases", 1)]
    x, y = (torch.tensor(numbers("stateful/" + k, BATCHES, BATCH, LENGTH, 1).astype(np.float64)) + 0.5 for k in "xy")
    zero = torch.zeros(1, BATCH, u)
    losses, state = [], (zero, zero)
    for _ in range(EPOCHS):
        if not keep:
            state = (zero, zero)
        for bx, by, m in zip(x, y, there):
            a, all = bx @ v[0] + v[1], []
            for t in range(LENGTH):
                h, *new = torch._VF.lstm(a[:, t:t + 1], state, [v[2].t(), v[3].t(), v[4], torch.zeros(4 * u)], True, 1, 0.0, False, False, True)
                all.append(h * m[:, t:t + 1])
                state = tuple(torch.where(m[:, t] > 0, n, o) for n, o in zip(new, state))
            h, state = torch.cat(all, 1), tuple(s.detach() for s in state)
            loss = ((h @ v[5] + v[6] - by) ** 2).mean()
            g = torch.autograd.grad(loss, v)
            with torch.no_grad():
                for p, d in zip(v, g):
                    p -= 0.5 * d
            losses.append(loss.item())
    return {"losses": losses, "h": state[0].flatten().tolist(), "c": state[1].flatten().tolist(), "recurrent": v[3].flatten().tolist()}


print(json.dumps({"reset": run(False), "kept": run(True), "masked": run(True, True)}, indent=1))
