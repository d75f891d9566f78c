# Trains a net in PyTorch from the weights and data that bench accuracy has
# left in a folder, once for each seed, and prints its accuracies: one JSON line a
# figure.
#   python accuracy_torch.py FOLDER EPOCHS NET SEEDS
import json, os, sys, time
from collections import OrderedDict
try:
    import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
except ImportError:
    raise SystemExit(0)

folder, epochs, name, seeds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
S, R, P = nn.Sigmoid, nn.ReLU, lambda: nn.MaxPool2d(2)


def chain(*layers):  # names of layers with weights are Gaiden's
    return nn.Sequential(OrderedDict((l[0], l[1]) if isinstance(l, tuple) else (f"_{i}", l) for i, l in enumerate(layers)))


adam = lambda p: torch.optim.Adam(p, lr=1e-3, capturable=cuda)
NETS = {
    "seedcnn-b8": (8, (28, 28, 1), adam, lambda: chain(("conv", nn.Conv2d(1, 10, 3, padding=1)), R(), P(), nn.Flatten(), ("dense", nn.Linear(1960, 100)), R(), ("output", nn.Linear(100, 10)))),
    "mlp-b100": (100, (28, 28, 1), adam, lambda: chain(nn.Flatten(), ("l1", nn.Linear(784, 1000)), R(), ("l2", nn.Linear(1000, 1000)), R(), ("l3", nn.Linear(1000, 10)))),
    "kerascnn-b128": (128, (28, 28, 1), lambda p: torch.optim.Adadelta(p, lr=1e-3, rho=.95, eps=1e-7, capturable=cuda), lambda: chain(("conv2d", nn.Conv2d(1, 32, 3)), R(), ("conv2d_1", nn.Conv2d(32, 64, 3)), R(), P(), nn.Dropout(.25), nn.Flatten(), ("dense", nn.Linear(9216, 128)), R(), nn.Dropout(.5), ("dense_1", nn.Linear(128, 10)))),
    "lenet5-b100": (100, (32, 32, 3), adam, lambda: chain(("conv1", nn.Conv2d(3, 6, 5)), S(), P(), ("conv2", nn.Conv2d(6, 16, 5)), S(), P(), ("conv3", nn.Conv2d(16, 120, 4)), S(), nn.Flatten(), ("fc4", nn.Linear(480, 84)), S(), ("fc5", nn.Linear(84, 10)))),
}
batch, shape, optimizer, make = NETS[name]


def read(path):  # safetensors
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + size])
    at = lambda t: np.frombuffer(raw, np.float32, offset=8 + size + t["data_offsets"][0], count=(t["data_offsets"][1] - t["data_offsets"][0]) // 4)
    return {k: torch.tensor(at(t).reshape(t["shape"])) for k, t in head.items() if k != "__metadata__"}


def data(part):
    x = np.fromfile(os.path.join(folder, part + ".x"), np.uint8).reshape((-1,) + shape)
    y = np.fromfile(os.path.join(folder, part + ".y"), np.int32)
    return torch.tensor(x).permute(0, 3, 1, 2).contiguous().to(dev), torch.tensor(y).long().to(dev)


(x, y), (tx, ty) = data("train"), data("test")
n = len(y)


def train(seed):  # the accuracy on the test data in %, and seconds
    torch.manual_seed(seed)
    net = make()
    net.load_state_dict(read(os.path.join(folder, f"weights-{seed}.safetensors")))
    net.to(dev)
    opt = optimizer(net.parameters())

    def step(idx):
        loss = F.cross_entropy(net(x[idx].float() / 255), y[idx])
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()

    graph, place = None, torch.arange(batch, device=dev)
    if cuda:  # the same steps, launched at once
        keep = [p.detach().clone() for p in net.parameters()]
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                step(place)
        torch.cuda.current_stream().wait_stream(s)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(place)
        with torch.no_grad():  # as if nothing had been trained
            for p, k in zip(net.parameters(), keep):
                p.copy_(k)
            for state in opt.state.values():
                for v in state.values():
                    v.zero_()

    net.train()
    began = time.perf_counter()
    for _ in range(epochs):
        perm = torch.randperm(n, device=dev)
        for i in range(0, n, batch):
            idx = perm[i:i + batch]
            if graph is not None and len(idx) == batch:
                place.copy_(idx)
                graph.replay()
            else:
                step(idx)
    if cuda:
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    net.eval()
    with torch.no_grad():
        right = sum((net(tx[i:i + 500].float() / 255).argmax(1) == ty[i:i + 500]).sum().item() for i in range(0, len(ty), 500))
    return 100 * right / len(ty), took


accuracies, times = zip(*(train(seed) for seed in range(1, seeds + 1)))
show = lambda subject, unit, v: print(json.dumps({"Case": name, "Subject": f"PyTorch {torch.__version__}{subject}", "Unit": unit, "Samples": v}), flush=True)
show(", test", f"% after {epochs} epochs", accuracies)
show("", "s", times)
