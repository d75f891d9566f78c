# Training steps of a net in PyTorch: eager, torch.compile, and on a GPU a CUDA graph of
# the whole step, and one of a compiled step. The net is a description as JSON
# (describe.go). It prepares the ways, or those it is given, and prints each that is
# ready, and nothing when all are; then, for each that a line of its input names, one
# sample. All it prints is JSON lines.   python train_torch.py DESCRIPTION [WAY ...]
import gc, json, logging, os, sys, time
try:
    import numpy as np, torch, torch.nn.functional as F
    from weights import examples
    from net_torch import chain, cuda, dev, load, optimizer
except ImportError:
    raise SystemExit(0)

D = json.loads(sys.argv[1])
NAME, batch, n = D["Name"], D["Batch"], D["Examples"]
logging.disable(logging.WARNING)
torch.backends.cudnn.benchmark = True
own = None  # the losses of a step of the user's
if D["Net"]:
    import nets_torch
    build, own, out, wide = nets_torch.NETS[D["Net"]](D)
else:
    build, (_, out, wide) = lambda: chain(D["Layers"], D["Input"])[0], chain(D["Layers"], D["Input"])
layout = torch.channels_last if wide else torch.contiguous_format


def make():
    net = build().to(dev, memory_format=layout)
    if D["Frozen"]:
        for name, p in net.named_parameters():
            p.requires_grad_(not name.startswith(D["Frozen"]))
    return net


def arrange(x):
    return x.permute(0, 3, 1, 2).contiguous(memory_format=layout) if x.dim() == 4 else x


def some(dims, vocab):
    return torch.randint(0, vocab, [n] + dims) if vocab else torch.rand([n] + dims)


def data():  # a tuple: the inputs, and the targets if they are not the inputs
    x = torch.randint(0, 256, [n] + D["Input"], dtype=torch.uint8) if D["Bytes"] else some(D["Input"] or [], D["Vocab"])
    if D["Inputs"]:
        x = [arrange(some(i["Dims"], i["Vocab"])) for i in D["Inputs"]]
    if own or D["Same"]:
        return x if isinstance(x, list) else [arrange(x)]
    if D["Loss"] == "cross entropy":
        y = torch.randint(0, out[-1], [n] + out[:-1])
        return (*x, y) if isinstance(x, list) else (arrange(x), y)
    y = torch.rand([n] + out)
    if D["Loss"] == "visibility":
        return arrange(x), y, (torch.rand(n, out[0] // 2) > .1).float().repeat_interleave(2, 1)
    return arrange(x), y


def wait():
    if cuda:
        torch.cuda.synchronize()


def subject(way):
    return f"PyTorch {torch.__version__} {way}"


def show(case, subject, unit, *samples):
    print(json.dumps({"Case": case, "Subject": subject, "Unit": unit, "Samples": samples}), flush=True)


def clock(step, count):
    wait()
    began = time.perf_counter()
    for i in range(count):
        step(i % steps)
    wait()
    return (time.perf_counter() - began) / count


def check(folder):
    """The losses of Gaiden's batches, in order, with Gaiden's initial weights."""
    net = make()
    load(net, os.path.join(folder, "weights.safetensors"))
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.eval()
    count = n if D["Curve"] else batch
    read = lambda *a: arrange(torch.tensor(examples(folder, *a)).to(dev))
    if D["Inputs"]:
        all = [read("x-" + i["Name"], False, i["Vocab"], [count] + i["Dims"]) for i in D["Inputs"]]
    else:
        all = [read("x", D["Bytes"], D["Vocab"], [count] + D["Input"])]
    if not D["Same"]:
        all.append(read("y", False, True, [count] + out[:-1]).long() if D["Loss"] == "cross entropy" else read("y", False, 0, [count] + out))
    opt, losses = optimizer(D, net.parameters()), []
    for i in range(max(1, D["Curve"])):
        at = i % (count // batch) * batch
        loss = lossOf(net, *(t[at:at + batch] for t in all))
        losses.append(loss.detach())
        if D["Curve"]:
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
    return [loss.item() for loss in losses]


torch.manual_seed(1)
all = [t.to(dev) for t in data()]
inputs = len(D["Inputs"] or [0])
steps = n // batch
perm = torch.randperm(n, device=dev)


def lossOf(net, *batch):
    with torch.autocast(dev, torch.bfloat16, enabled=D["BF16"]):
        return plainLoss(net, *batch)


def plainLoss(net, *batch):
    bx, by = batch[:inputs], batch[inputs:]
    if bx[0].dtype == torch.uint8:
        bx = [bx[0].float() / 255]
    if own:
        return own[0][1](net, *bx)
    got = net(*bx)
    by = bx if D["Same"] else by
    if len(by) == 2:  # positions, and which can be seen
        t, v = by
        return ((got - t) * v).square().sum() / (v.sum() / 2)
    if by[0].is_floating_point():
        return F.mse_loss(got, by[0])
    return F.cross_entropy(got.flatten(0, -2), by[0].flatten())


def forward(net, idx):
    return lossOf(net, *(all if steps == 1 else (t[idx] for t in all)))


class InTurn:
    """Losses of a step of the user's, each of a part of the net with an optimizer of its own."""
    def __init__(self, net, compiled):
        self.net = net
        self.turns = [(optimizer(D, getattr(net, part).parameters()), torch.compile(of) if compiled else of) for part, of in own]

    def step(self, idx):
        bx, total = [t[idx] for t in all], 0
        for opt, of in self.turns:
            opt.zero_grad(set_to_none=True)
            loss = of(self.net, *bx)
            loss.backward()
            opt.step()
            total = total + loss.detach()
        return total


if D["Check"]:
    losses = check(D["Check"])
    show(NAME + "-loss", subject("first step"), "loss", *losses[:1])
    if D["Curve"]:
        show(NAME + "-curve", subject("eager"), "loss", *losses)


# A way makes a net of its own and returns the function that does step i.
def eager():
    net = make()
    if own and len(own) > 1:
        turns = InTurn(net, False)
        return lambda i: turns.step(perm[i * batch:(i + 1) * batch])
    opt = optimizer(D, net.parameters())

    def step(i):
        opt.zero_grad(set_to_none=True)
        loss = forward(net, perm[i * batch:(i + 1) * batch])
        loss.backward()
        opt.step()
        return loss.detach()

    step.net = net, opt
    return step


def graph(compiled=False):
    net = make()
    opt = optimizer(D, net.parameters())
    sidx = torch.arange(batch, device=dev)
    run = torch.compile(lambda idx: forward(net, idx)) if compiled else lambda idx: forward(net, idx)

    def body():
        loss = run(sidx)
        opt.zero_grad(set_to_none=compiled)
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


def compiled(mode="reduce-overhead"):
    net = make()
    if own and len(own) > 1:
        turns = InTurn(net, True)
        step = lambda i: turns.step(perm[i * batch:(i + 1) * batch])
        step.first = clock(step, 1)
        return step
    opt = optimizer(D, net.parameters())
    run = torch.compile(lambda idx: forward(net, idx), mode=mode)

    def step(i):
        opt.zero_grad(set_to_none=True)
        loss = run(perm[i * batch:(i + 1) * batch])
        loss.backward()
        opt.step()
        return loss.detach().clone()

    step.net = net, opt
    step.first = clock(step, 1)
    return step


def whole(make):
    """Whole runs: a loop over steps, the mean loss and a validation after each epoch."""
    step, tests = make(), D["Tests"]
    size, nowhere = min(500, tests), open(os.devnull, "w")

    def run():
        for _ in range(D["Epochs"]):
            losses = [step(i) for i in range(steps)]
            mean = torch.stack(losses).mean().item()
            with torch.no_grad():
                seen = [lossOf(step.net[0], *(t[at:at + size] for t in all)) for at in range(0, tests - size + 1, size)]
            print(mean, torch.stack(seen).mean().item(), file=nowhere)

    return run


ways, ready = {"eager": eager}, {}
if cuda:
    ways["CUDA graph"] = graph
ways["compile"] = compiled
if cuda:
    ways["CUDA graph of a compiled step"] = lambda: graph(True)
    if "compile max-autotune" in (D["Ways"] or []):  # it takes minutes
        ways["compile max-autotune"] = lambda: compiled("max-autotune")
if D["Tests"]:
    ways = {"loop": eager, "loop of compiled steps": compiled}
ways = {way: make for way, make in ways.items() if (not D["Ways"] or way in D["Ways"]) and (len(sys.argv) < 3 or subject(way) in sys.argv[2:])}


def prepare(way):
    if cuda and torch.cuda.max_memory_allocated() > torch.cuda.mem_get_info()[1] / 3:  # others need some, too
        ready.clear()
        torch.compiler.reset()  # its graphs keep memory, and it gives up after some compilations
        gc.collect()
        torch.cuda.empty_cache()
    if D["Tests"]:
        run = whole(ways[way])
        run()
        ready[way] = run, 0
        return
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
    step, count = ready[way]
    if count:
        show(NAME, subject(way), "µs", clock(step, count) * 1e6)
    else:
        show(NAME, subject(way), "µs", clock(lambda _: step(), 1) * 1e6 / (steps * D["Epochs"]))
