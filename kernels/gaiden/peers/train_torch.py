# Training steps of the sources' nets in PyTorch: eager, a CUDA graph of the
# whole step, and torch.compile. One JSON line a case.
#   python train_torch.py EPOCHS [NET...]
import json, sys, time
try:
    import torch, torch.nn as nn, torch.nn.functional as F
except ImportError:
    raise SystemExit(0)

EPOCHS = int(sys.argv[1])
only = sys.argv[2:]
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
S = nn.Sigmoid
NETS = {
    "mlp-b100": (100, (1, 28, 28), "adam", lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10))),
    "seedcnn-b8": (8, (1, 28, 28), "adam", lambda: nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1960, 100), nn.ReLU(), nn.Linear(100, 10))),
    "kerascnn-b128": (128, (1, 28, 28), "adadelta", lambda: nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(.5), nn.Linear(128, 10))),
    "lenet5-b100": (100, (3, 32, 32), "adam", lambda: nn.Sequential(nn.Conv2d(3, 6, 5), S(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), S(), nn.MaxPool2d(2), nn.Conv2d(16, 120, 4), S(), nn.Flatten(), nn.Linear(480, 84), S(), nn.Linear(84, 10))),
}
SIZES = {"lenet5-b100": 50000}


def optimizer(kind, params):
    if kind == "adam":
        return torch.optim.Adam(params, lr=1e-3, capturable=cuda, fused=cuda, foreach=None if cuda else True)
    return torch.optim.Adadelta(params, lr=1e-3, rho=.95, eps=1e-7, capturable=cuda, foreach=True)


def wait():
    if cuda:
        torch.cuda.synchronize()


def show(case, subject, unit, samples):
    print(json.dumps({"Case": case, "Subject": f"PyTorch {torch.__version__} {subject}", "Unit": unit, "Samples": samples}), flush=True)


def measure(step, steps):
    count = min(steps, 1000 if cuda else 200)
    samples = []
    for _ in range(EPOCHS):
        wait()
        began = time.perf_counter()
        for i in range(count):
            step(i)
        wait()
        samples.append((time.perf_counter() - began) / count * 1e6)
    return samples


for name, (batch, shape, kind, make) in NETS.items():
    if only and name not in only:
        continue
    n = SIZES.get(name, 60000) // (1 if cuda else 10)
    torch.manual_seed(1)
    x = torch.randint(0, 256, (n,) + shape, dtype=torch.uint8).to(dev)
    y = torch.randint(0, 10, (n,)).to(dev)
    steps = n // batch
    perm = torch.randperm(n, device=dev)

    def forward(net, idx):
        out = net(x[idx].float() / 255)
        loss = F.cross_entropy(out, y[idx])
        return loss, (out.argmax(1) == y[idx]).float().mean()

    net = make().to(dev)
    opt = optimizer(kind, net.parameters())

    def eager(i):
        opt.zero_grad(set_to_none=True)
        loss, right = forward(net, perm[i * batch:(i + 1) * batch])
        loss.backward()
        opt.step()

    for i in range(5):
        eager(i)
    show(name, "eager", "µs", measure(eager, steps))
    if cuda:
        net = make().to(dev)
        opt = optimizer(kind, net.parameters())
        sidx = torch.arange(batch, device=dev)

        def body():
            loss, right = forward(net, sidx)
            opt.zero_grad(set_to_none=False)
            loss.backward()
            opt.step()

        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(5):
                body()
        torch.cuda.current_stream().wait_stream(s)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body()

        def replay(i):
            sidx.copy_(perm[i * batch:(i + 1) * batch])
            graph.replay()

        for i in range(5):
            replay(i)
        show(name, "CUDA graph", "µs", measure(replay, steps))
        net = make().to(dev)
        opt = optimizer(kind, net.parameters())
        compiled = torch.compile(lambda idx: forward(net, idx), mode="reduce-overhead")

        def compiled_step(i):
            opt.zero_grad(set_to_none=True)
            loss, right = compiled(perm[i * batch:(i + 1) * batch])
            loss.backward()
            opt.step()

        began = time.perf_counter()
        try:
            for i in range(5):
                compiled_step(i)
            wait()
            first = time.perf_counter() - began
            show(name, "compile", "µs", measure(compiled_step, steps))
            show(name + "-first", "compile", "s", [first])
        except Exception as e:  # a compiler that is not there is no failure of the others
            print(f"torch.compile: {name}: {str(e)[:200]}", file=sys.stderr)
        show(name + "-memory", "eager", "MB", [torch.cuda.max_memory_allocated() / 1e6])
        torch.cuda.reset_peak_memory_stats()
