# Training steps of the sources' nets in PyTorch: eager, a CUDA graph of the
# whole step, and torch.compile. One JSON line a case.
#   python train_torch.py SAMPLES NET
import json, logging, math, sys, time
try:
    import torch, torch.nn as nn, torch.nn.functional as F
except ImportError:
    raise SystemExit(0)

SAMPLES, NAME = int(sys.argv[1]), sys.argv[2]
logging.disable(logging.WARNING)
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
S, R, L = nn.Sigmoid, nn.ReLU, nn.Linear


class LSTM(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.l1, self.l2, self.l3 = L(1, units), nn.LSTM(units, units, batch_first=True), L(units, 1)

    def forward(self, x):
        return self.l3(self.l2(self.l1(x))[0])


class Block(nn.Module):
    def __init__(self, cin, w, stride):
        super().__init__()
        c = lambda i, o, k, s: [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]
        self.main = nn.Sequential(*c(cin, w, 1, 1), R(), *c(w, w, 3, stride), R(), *c(w, 4 * w, 1, 1))
        self.skip = nn.Sequential(*c(cin, 4 * w, 1, stride)) if cin != 4 * w or stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.main(x) + self.skip(x))


def resnet(*depths):
    l, width, cin = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), R(), nn.MaxPool2d(3, 2, 1)], 64, 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            l.append(Block(cin, width, 2 if block == 0 and stage > 0 else 1))
            cin = 4 * width
        width *= 2
    return nn.Sequential(*l, nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(2048, 10)).to(memory_format=torch.channels_last)


def image(*shape):
    return lambda n: (torch.randint(0, 256, (n,) + shape, dtype=torch.uint8), torch.randint(0, 10, (n,)))


def sines(n):
    t = torch.arange(n)[:, None] * 0.37 + torch.arange(100) * 0.1
    return torch.sin(t)[..., None], torch.sin(t + 0.1)[..., None]


def surface(n):
    x = torch.rand(n, 2) * 6 - 3
    return x, torch.sin(x[:, :1]) * x[:, 1:]


M, C = image(1, 28, 28), image(3, 32, 32)
# batch, examples on a GPU and a CPU, optimizer, rate, data, net
NETS = {
    "mlp-b100": (100, 60000, 6000, "adam", 1e-3, M, lambda: nn.Sequential(nn.Flatten(), L(784, 1000), R(), L(1000, 1000), R(), L(1000, 10))),
    "seedcnn-b8": (8, 60000, 6000, "adam", 1e-3, M, lambda: nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), R(), nn.MaxPool2d(2), nn.Flatten(), L(1960, 100), R(), L(100, 10))),
    "kerascnn-b128": (128, 60000, 1280, "adadelta", 1e-3, M, lambda: nn.Sequential(nn.Conv2d(1, 32, 3), R(), nn.Conv2d(32, 64, 3), R(), nn.MaxPool2d(2), nn.Dropout(.25), nn.Flatten(), L(9216, 128), R(), nn.Dropout(.5), L(128, 10))),
    "lenet5-b100": (100, 50000, 5000, "adam", 1e-3, C, lambda: nn.Sequential(nn.Conv2d(3, 6, 5), S(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), S(), nn.MaxPool2d(2), nn.Conv2d(16, 120, 4), S(), nn.Flatten(), L(480, 84), S(), L(84, 10))),
    "lstm5-b20": (20, 2000, 2000, "adam", 1e-3, sines, lambda: LSTM(5)),
    "lstm128-b64": (64, 6400, 640, "adam", 1e-3, sines, lambda: LSTM(128)),
    "peaks-b40000": (40000, 40000, 40000, "adam", 0.08, surface, lambda: nn.Sequential(L(2, 20), R(), L(20, 5), R(), L(5, 1))),
    "resnet14-b32": (32, 3200, 64, "momentum", 0.01, C, lambda: resnet(1, 1, 1, 1)),
    "resnet152-b2048": (2048, 20480, 20480, "momentum", 0.01, C, lambda: resnet(3, 8, 36, 3)),
}
batch, many, few, kind, rate, data, make = NETS[NAME]


def optimizer(params):
    if kind == "adam":
        return torch.optim.Adam(params, lr=rate, capturable=cuda, fused=cuda, foreach=None if cuda else True)
    if kind == "momentum":
        return torch.optim.SGD(params, lr=rate, momentum=0.9, fused=cuda, foreach=None if cuda else True)
    return torch.optim.Adadelta(params, lr=rate, rho=.95, eps=1e-7, capturable=cuda, foreach=True)


def wait():
    if cuda:
        torch.cuda.synchronize()


def show(case, subject, unit, samples):
    print(json.dumps({"Case": case, "Subject": f"PyTorch {torch.__version__} {subject}", "Unit": unit, "Samples": samples}), flush=True)


def measure(step):
    for i in range(5):
        step(i % steps)
    wait()
    began = time.perf_counter()
    for i in range(3):
        step(i % steps)
    wait()
    count = int(max(2, min(1000, 0.4 / ((time.perf_counter() - began) / 3))))
    samples = []
    for _ in range(SAMPLES):
        wait()
        began = time.perf_counter()
        for i in range(count):
            step(i % steps)
        wait()
        samples.append((time.perf_counter() - began) / count * 1e6)
    return samples


n = many if cuda else few
torch.manual_seed(1)
x, y = (t.to(dev) for t in data(n))
steps = n // batch
perm = torch.randperm(n, device=dev)


def forward(net, idx):
    bx, by = (x, y) if steps == 1 else (x[idx], y[idx])
    if bx.dtype == torch.uint8:
        bx = bx.float() / 255
    if bx.dim() == 4 and NAME.startswith("resnet"):
        bx = bx.contiguous(memory_format=torch.channels_last)
    out = net(bx)
    if by.is_floating_point():
        return F.mse_loss(out, by)
    return F.cross_entropy(out, by)


net = make().to(dev)
opt = optimizer(net.parameters())


def eager(i):
    opt.zero_grad(set_to_none=True)
    forward(net, perm[i * batch:(i + 1) * batch]).backward()
    opt.step()


show(NAME, "eager", "µs", measure(eager))
if cuda:
    show(NAME + "-memory", "eager", "MB", [torch.cuda.max_memory_allocated() / 1e6])
    del net, opt
    net = make().to(dev)
    opt = optimizer(net.parameters())
    sidx = torch.arange(batch, device=dev)

    def body():
        loss = forward(net, sidx)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()

    try:
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

        show(NAME, "CUDA graph", "µs", measure(replay))
        del graph
    except Exception as e:  # a net that cannot be captured is no failure of the others
        print(f"CUDA graph: {NAME}: {str(e)[:200]}", file=sys.stderr)
    if NAME != "resnet152-b2048":  # takes minutes to compile
        net = make().to(dev)
        opt = optimizer(net.parameters())
        compiled = torch.compile(lambda idx: forward(net, idx), mode="reduce-overhead")

        def compiled_step(i):
            opt.zero_grad(set_to_none=True)
            compiled(perm[i * batch:(i + 1) * batch]).backward()
            opt.step()

        began = time.perf_counter()
        try:
            compiled_step(0)
            wait()
            first = time.perf_counter() - began
            show(NAME, "compile", "µs", measure(compiled_step))
            show(NAME + "-first", "compile", "s", [first])
        except Exception as e:  # a compiler that is not there is no failure of the others
            print(f"torch.compile: {NAME}: {str(e)[:200]}", file=sys.stderr)
