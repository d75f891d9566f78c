# Trains a net, a description as JSON, in PyTorch from the weights and data that bench
# accuracy has left in a folder, once for each seed, and prints its accuracies: one JSON
# line a figure.   python accuracy_torch.py FOLDER EPOCHS DESCRIPTION SEEDS
import json, os, sys, time
try:
    import numpy as np, torch, torch.nn.functional as F
    from net_torch import chain, cuda, dev, load, optimizer
except ImportError:
    raise SystemExit(0)

folder, epochs, D, seeds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
name, batch, shape = D["Name"], D["Batch"], D["Input"]


def data(part):
    x = np.fromfile(os.path.join(folder, part + ".x"), np.uint8).reshape([-1] + shape)
    y = np.fromfile(os.path.join(folder, part + ".y"), np.int32)
    return torch.tensor(x).permute(0, 3, 1, 2).contiguous().to(dev), torch.tensor(y).long().to(dev)


(x, y), (tx, ty) = data("train"), data("test")
n = len(y)


def train(seed):  # the accuracy on the test data in %, and seconds
    torch.manual_seed(seed)
    net = chain(D["Layers"], shape)[0]
    load(net, os.path.join(folder, f"weights-{seed}.safetensors"))
    net.to(dev)
    opt = optimizer(D, net.parameters())

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
