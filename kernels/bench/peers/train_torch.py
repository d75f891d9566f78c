# Training steps of a net of the sources in PyTorch: eager, on a GPU a CUDA graph of the
# whole step, and torch.compile. It prepares them, or those it is given, and prints each
# that is ready, and nothing when all are; then, for each that a line of its input names,
# one sample. All it prints is JSON lines.   python train_torch.py NET [WAY ...]
import gc, json, logging, sys, time
try:
    import torch, torch.nn as nn, torch.nn.functional as F
except ImportError:
    raise SystemExit(0)

NAME = sys.argv[1]
logging.disable(logging.WARNING)
cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
S, R, L = nn.Sigmoid, nn.ReLU, nn.Linear
JOINTS = 14


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


def deeppose():
    c = lambda i, o, k, *s: [nn.Conv2d(i, o, k, *s), R(True)]
    pool = lambda: nn.MaxPool2d(3, 2)
    return nn.Sequential(
        *c(3, 96, 11, 4), pool(), *c(96, 256, 5, 1, 2), pool(), *c(256, 384, 3, 1, 1), *c(384, 384, 3, 1, 1), *c(384, 256, 3, 1, 1), pool(), nn.Flatten(),
        L(9216, 4096), R(True), nn.Dropout(.5), L(4096, 4096), R(True), nn.Dropout(.5), L(4096, 2 * JOINTS)).to(memory_format=torch.channels_last)


def image(*shape, order=torch.contiguous_format):
    return lambda n: (torch.randint(0, 256, (n,) + shape, dtype=torch.uint8).contiguous(memory_format=order), torch.randint(0, 10, (n,)))


def poses(n):
    seen = (torch.rand(n, JOINTS) > .1).float()
    return image(3, 227, 227, order=torch.channels_last)(n)[0], torch.rand(n, 2 * JOINTS), seen.repeat_interleave(2, 1)


def sines(n):
    t = torch.arange(n)[:, None] * 0.37 + torch.arange(100) * 0.1
    return torch.sin(t)[..., None], torch.sin(t + 0.1)[..., None]


def surface(n):
    x = torch.rand(n, 2) * 6 - 3
    return x, torch.sin(x[:, :1]) * x[:, 1:]


M, C, NHWC = image(1, 28, 28), image(3, 32, 32), image(3, 32, 32, order=torch.channels_last)
# batch, examples on a GPU and a CPU, optimizer, rate, data, net
NETS = {
    "mlp-b100": (100, 60000, 6000, "adam", 1e-3, M, lambda: nn.Sequential(nn.Flatten(), L(784, 1000), R(), L(1000, 1000), R(), L(1000, 10))),
    "seedcnn-b8": (8, 60000, 6000, "adam", 1e-3, M, lambda: nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), R(), nn.MaxPool2d(2), nn.Flatten(), L(1960, 100), R(), L(100, 10))),
    "kerascnn-b128": (128, 60000, 1280, "adadelta", 1e-3, M, lambda: nn.Sequential(nn.Conv2d(1, 32, 3), R(), nn.Conv2d(32, 64, 3), R(), nn.MaxPool2d(2), nn.Dropout(.25), nn.Flatten(), L(9216, 128), R(), nn.Dropout(.5), L(128, 10))),
    "lenet5-b100": (100, 50000, 5000, "adam", 1e-3, C, lambda: nn.Sequential(nn.Conv2d(3, 6, 5), S(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), S(), nn.MaxPool2d(2), nn.Conv2d(16, 120, 4), S(), nn.Flatten(), L(480, 84), S(), L(84, 10))),
    "lstm5-b20": (20, 2000, 2000, "adam", 1e-3, sines, lambda: LSTM(5)),
    "lstm128-b64": (64, 6400, 640, "adam", 1e-3, sines, lambda: LSTM(128)),
    "peaks-b40000": (40000, 40000, 40000, "adam", 0.08, surface, lambda: nn.Sequential(L(2, 20), R(), L(20, 5), R(), L(5, 1))),
    "resnet14-b32": (32, 3200, 320, "momentum", 0.01, NHWC, lambda: resnet(1, 1, 1, 1)),
    "resnet152-b2048": (2048, 20480, 20480, "momentum", 0.01, NHWC, lambda: resnet(3, 8, 36, 3)),
    "resnet152-b32": (32, 64, 64, "momentum", 0.01, NHWC, lambda: resnet(3, 8, 36, 3)),
    "fcn-b1024": (1024, 61440, 8192, "sgd", 0.01, image(784), lambda: nn.Sequential(L(784, 2048), S(), L(2048, 2048), S(), L(2048, 2048), S(), L(2048, 10))),
    "resnet50-b256": (256, 5120, 512, "sgd", 0.01, NHWC, lambda: resnet(3, 4, 6, 3)),
    "deeppose-b128": (128, 1280, 128, "adam", 1e-4, poses, deeppose),
}
batch, many, few, kind, rate, data, make = NETS[NAME]


def optimizer(params):
    if kind == "adam":
        return torch.optim.Adam(params, lr=rate, capturable=cuda, fused=True)
    if kind in ("sgd", "momentum"):
        return torch.optim.SGD(params, lr=rate, momentum=0.9 if kind == "momentum" else 0, fused=True)
    return torch.optim.Adadelta(params, lr=rate, rho=.95, eps=1e-7, capturable=cuda, foreach=True)


def wait():
    if cuda:
        torch.cuda.synchronize()


def subject(way):
    return f"PyTorch {torch.__version__} {way}"


def show(case, subject, unit, sample):
    print(json.dumps({"Case": case, "Subject": subject, "Unit": unit, "Samples": [sample]}), flush=True)


def clock(step, count):
    wait()
    began = time.perf_counter()
    for i in range(count):
        step(i % steps)
    wait()
    return (time.perf_counter() - began) / count


n = many if cuda else few
torch.manual_seed(1)
x, *y = (t.to(dev) for t in data(n))
steps = n // batch
perm = torch.randperm(n, device=dev)


def forward(net, idx):
    bx, *by = (x, *y) if steps == 1 else (t[idx] for t in (x, *y))
    if bx.dtype == torch.uint8:
        bx = bx.float() / 255
    out = net(bx)
    if len(by) == 2:  # places of joints, and which can be seen
        t, v = by
        return ((out - t) * v).square().sum() / (v.sum() / 2)
    if by[0].is_floating_point():
        return F.mse_loss(out, by[0])
    return F.cross_entropy(out, by[0])


# A way makes a net of its own and returns the function that does step i.
def eager():
    net = make().to(dev)
    opt = optimizer(net.parameters())

    def step(i):
        opt.zero_grad(set_to_none=True)
        forward(net, perm[i * batch:(i + 1) * batch]).backward()
        opt.step()

    return step


def graph():
    net = make().to(dev)
    opt = optimizer(net.parameters())
    sidx = torch.arange(batch, device=dev)

    def body():
        loss = forward(net, sidx)
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

    def step(i):
        sidx.copy_(perm[i * batch:(i + 1) * batch])
        graph.replay()

    step.net = net, opt  # the graph's weights are theirs
    return step


def compiled():
    net = make().to(dev)
    opt = optimizer(net.parameters())
    run = torch.compile(lambda idx: forward(net, idx), mode="reduce-overhead")

    def step(i):
        opt.zero_grad(set_to_none=True)
        run(perm[i * batch:(i + 1) * batch]).backward()
        opt.step()

    step.first = clock(step, 1)
    return step


ways, ready = {"eager": eager}, {}
if cuda:
    ways["CUDA graph"] = graph
ways["compile"] = compiled
if len(sys.argv) > 2:
    ways = {way: make for way, make in ways.items() if subject(way) in sys.argv[2:]}
# Each way takes 35 GB of the device, which others need, too.
alone = NAME == "resnet152-b2048" and torch.cuda.mem_get_info()[1] < 120e9


def prepare(way):
    if alone:
        ready.clear()
        torch.compiler.reset()  # its graphs keep memory, and it gives up after some compilations
        gc.collect()
        torch.cuda.empty_cache()
    step = ways[way]()
    clock(step, 5)
    ready[way] = step, int(max(1, min(1000, 0.4 / clock(step, 3))))


for way in list(ways):
    try:
        prepare(way)
        if cuda and way == "eager":
            show(NAME + "-memory", subject(way), "MB", torch.cuda.max_memory_allocated() / 1e6)
        if way == "compile":
            show(NAME + "-first", subject(way), "s", ready[way][0].first)
        print(json.dumps({"Subjects": [subject(way)]}), flush=True)
    except Exception as e:  # a net that cannot be captured, or a compiler that is not there, is no failure of the others
        print(f"{way}: {NAME}: {str(e)[:200]}", file=sys.stderr)
        del ways[way]

print(json.dumps({"Subjects": []}), flush=True)
for line in sys.stdin:
    way = next(w for w in ways if subject(w) == line.strip())
    if way not in ready:
        prepare(way)
    show(NAME, subject(way), "µs", clock(*ready[way]) * 1e6)
