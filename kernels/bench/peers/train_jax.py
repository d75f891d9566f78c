# Training steps of a net in JAX: a jitted step and a scan over the epoch, both with
# donated state and the batch gathered on the device. The net is a description as JSON
# (describe.go). It prepares both ways, or those it is given, and prints each that is
# ready, and nothing when all are; then, for each that a line of its input names, one
# sample. All it prints is JSON lines.   python train_jax.py DESCRIPTION [WAY ...]
import itertools, json, math, os, sys, time
try:
    import jax, jax.numpy as jnp
    import numpy as np
    from jax import lax
    from weights import Weights, examples
except ImportError:
    raise SystemExit(0)

D = json.loads(sys.argv[1])
NAME, batch, n, epochs, settings = D["Name"], D["Batch"], D["Examples"], D["Epochs"], D["Settings"]
rng = np.random.RandomState(1)
cpu = jax.devices()[0].platform == "cpu"
ACTS = {"": lambda x: x, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "silu": jax.nn.silu, "gelu": lambda x: jax.nn.gelu(x, approximate=False), "leakyrelu": jax.nn.leaky_relu}
params, means, dropouts, tables = {}, [], itertools.count(), set()  # tables: those that PyTorch has in the same layout


def param(name, *shape, at=None):  # at: the axis of inputs, if it is not the usual one
    w = rng.randn(*shape) / math.sqrt(np.prod(shape[:-1]) if at is None else shape[1 - at]) if len(shape) > 1 else np.zeros(shape)
    if at == 0:
        tables.add(name)
    params[name] = jnp.asarray(w.astype(np.float32))
    return name


def low(x):
    return x.astype(jnp.bfloat16) if D["BF16"] else x


# A layer of a description becomes a function of parameters, running means, an input,
# random keys and a dict of the next means, and the shape of what it gives.
def dense(l, shape, name):
    w, b = param(name + ".weight", shape[-1], l["Units"]), l.get("Bias") and param(name + ".bias", l["Units"])
    return lambda p, r, x, keys, new: low(x) @ low(p[w]) + low(p[b]) if b else low(x) @ low(p[w]), shape[:-1] + [l["Units"]]


def tied(l, shape, name):
    table, b = l["Of"] + ".weight", l.get("Bias") and param(name + ".bias", params[l["Of"] + ".weight"].shape[0])
    return lambda p, r, x, keys, new: low(x) @ low(p[table]).T + low(p[b]) if b else low(x) @ low(p[table]).T, shape[:-1] + [params[table].shape[0]]


def conv(l, shape, name):
    k, s, pad = l["Kernel"], l["Stride"], l.get("Pad", 0)
    w, b = param(name + ".weight", k, k, shape[-1], l["Units"]), l.get("Bias") and param(name + ".bias", l["Units"])

    def run(p, r, x, keys, new):
        y = lax.conv_general_dilated(x, p[w], (s, s), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y + p[b] if b else y

    return run, [(d + 2 * pad - k) // s + 1 for d in shape[:2]] + [l["Units"]]


def transposed(l, shape, name):
    k, s, pad = l["Kernel"], l["Stride"], l.get("Pad", 0)
    w, b = param(name + ".weight", k, k, shape[-1], l["Units"]), param(name + ".bias", l["Units"])

    def run(p, r, x, keys, new):
        return lax.conv_transpose(x, p[w], (s, s), [(k - 1 - pad, k - 1 - pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")) + p[b]

    return run, [(d - 1) * s - 2 * pad + k for d in shape[:2]] + [l["Units"]]


def norm(l, shape, name):
    scale, offset, at, keep = param(name + ".weight", shape[-1]), param(name + ".bias", shape[-1]), len(means), l["Momentum"]
    params[scale] = jnp.ones(shape[-1])
    means.extend([jnp.zeros(shape[-1]), jnp.ones(shape[-1])])

    def run(p, r, x, keys, new):
        axes = tuple(range(x.ndim - 1))
        m = x.mean(axes)
        v = jnp.square(x - m).mean(axes)
        count = x.size // x.shape[-1]
        new[at], new[at + 1] = keep * r[at] + (1 - keep) * lax.stop_gradient(m), keep * r[at + 1] + (1 - keep) * lax.stop_gradient(v) * count / (count - 1)
        return (x - m) * (lax.rsqrt(v + l["Epsilon"]) * p[scale]) + p[offset]

    return run, shape


def pool(l, shape, name):
    k, s, pad = l["Kernel"], l["Stride"], l.get("Pad", 0)
    pads = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    return lambda p, r, x, keys, new: lax.reduce_window(x, -jnp.inf, lax.max, (1, k, k, 1), (1, s, s, 1), pads), [(d + 2 * pad - k) // s + 1 for d in shape[:2]] + shape[2:]


def dropout(l, shape, name):
    i, rate = next(dropouts), l["Rate"]
    return lambda p, r, x, keys, new: x if keys is None else jnp.where(jax.random.bernoulli(keys[i], 1 - rate, x.shape), x / (1 - rate), 0), shape


def lstm(l, shape, name):
    u = l["Units"]
    w, rec, b = param(name + ".weight_ih_l0", shape[-1], 4 * u), param(name + ".weight_hh_l0", u, 4 * u), param(name + ".bias_ih_l0", 4 * u)

    def run(p, r, x, keys, new):
        z = (x @ p[w] + p[b]).swapaxes(0, 1)  # what the inputs give the gates, at once
        zero = jnp.zeros((x.shape[0], u))

        def step(s, z):
            h, c = s
            i, f, a, o = jnp.split(z + h @ p[rec], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(a)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, (zero, zero), z)[1].swapaxes(0, 1)

    return run, shape[:-1] + [u]


def gru(l, shape, name):
    u = l["Units"]
    w, rec, b, rb = param(name + ".weight_ih_l0", shape[-1], 3 * u), param(name + ".weight_hh_l0", u, 3 * u), param(name + ".bias_ih_l0", 3 * u), param(name + ".bias_hh_l0", 3 * u)

    def run(p, r, x, keys, new):
        def step(h, z):
            a, b, c = jnp.split(z, 3, -1)
            ha, hb, hc = jnp.split(h @ p[rec] + p[rb], 3, -1)
            update = jax.nn.sigmoid(b + hb)
            n = jnp.tanh(c + jax.nn.sigmoid(a + ha) * hc)
            h = n + update * (h - n)
            return h, h

        z = (x @ p[w] + p[b]).swapaxes(0, 1)
        return lax.scan(step, jnp.zeros((x.shape[0], u)), z)[1].swapaxes(0, 1)

    return run, shape[:-1] + [u]


def bidirectional(l, shape, name):
    (there, out), (back, _) = make(l["Main"][0], shape, name + ".forward"), make(l["Main"][0], shape, name + ".backward")
    return lambda p, r, x, keys, new: jnp.concatenate([there(p, r, x, keys, new), back(p, r, x[:, ::-1], keys, new)[:, ::-1]], -1), out[:-1] + [2 * out[-1]]


def embedding(l, shape, name):
    table = param(name + ".weight", l["Vocab"], l["Units"], at=0)
    return lambda p, r, x, keys, new: p[table][x], shape + [l["Units"]]


def positions(l, shape, name):
    table = param(name + ".weight", l["Units"], shape[-1], at=0)
    return lambda p, r, x, keys, new: x + p[table][:x.shape[1]], shape


def layernorm(l, shape, name):
    scale, offset = param(name + ".weight", shape[-1]), param(name + ".bias", shape[-1])
    params[scale] = jnp.ones(shape[-1])

    def run(p, r, x, keys, new):
        x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + l["Epsilon"]) * p[scale] + p[offset]

    return run, shape


def attention(l, shape, name):
    d, heads = shape[-1], l["Heads"]
    qkv, out = dense({"Units": 3 * d, "Bias": True}, shape, name + ".qkv")[0], dense({"Units": d, "Bias": True}, shape, name + ".output")[0]

    def run(p, r, x, keys, new):
        n, t, _ = x.shape
        q, k, v = jnp.split(qkv(p, r, x, keys, new).reshape(n, t, 3 * heads, d // heads), 3, 2)
        return out(p, r, jax.nn.dot_product_attention(q, k, v, is_causal=l.get("Causal", False), implementation="cudnn" if D["BF16"] and not cpu else None).reshape(n, t, d), keys, new)

    return run, shape


def feedforward(l, shape, name):
    up, wide = dense({"Units": l.get("Units") or 4 * shape[-1], "Bias": True}, shape, name + ".up")
    down = dense({"Units": shape[-1], "Bias": True}, wide, name + ".down")[0]
    return lambda p, r, x, keys, new: down(p, r, ACTS["gelu"](up(p, r, x, keys, new)), keys, new), shape


def sequential(l, shape, name):
    return chain(l["Main"], shape, name + ".")


def residual(l, shape, name):
    if l["Name"].startswith("_"):  # a part of a block, whose layers have the block's name
        name = name[:-len(l["Name"]) - 1]
    main, out = chain(l["Main"], shape, name + ".")
    skip = chain(l["Skip"], shape, name + ".")[0] if l.get("Skip") else lambda p, r, x, keys, new: x
    return lambda *a: main(*a) + skip(*a), out


KINDS = {"dense": dense, "conv": conv, "norm": norm, "pool": pool, "dropout": dropout, "lstm": lstm, "residual": residual, "gru": gru, "transposed": transposed, "bidirectional": bidirectional, "embedding": embedding, "positions": positions,
         "layernorm": layernorm, "attention": attention, "feedforward": feedforward, "tied": tied, "sequential": sequential,
         "last": lambda l, shape, name: (lambda p, r, x, keys, new: x[:, -1], shape[1:]), "unflatten": lambda l, shape, name: (lambda p, r, x, keys, new: x.reshape([-1] + l["Dims"]), l["Dims"]), "activation": lambda l, shape, name: (lambda p, r, x, keys, new: x, shape),
         "flatten": lambda l, shape, name: (lambda p, r, x, keys, new: x.reshape(x.shape[0], -1), [int(np.prod(shape))]), "mean": lambda l, shape, name: (lambda p, r, x, keys, new: x.mean((1, 2)), shape[2:])}
flat = {}  # shapes of images before a flatten, by the parameter of the dense layer that follows


def make(l, shape, name):
    """A layer with its activation."""
    run, shape = KINDS[l["Kind"]](l, shape, name)
    act = ACTS[l.get("Act", "")]
    return lambda *a: act(run(*a)), shape


def chain(layers, shape, prefix=""):
    runs, image = [], None
    for l in layers:
        if l["Kind"] == "flatten" and len(shape) == 3:
            image = shape
        elif l["Kind"] == "dense" and image:
            flat[prefix + l["Name"] + ".weight"], image = image, None
        run, shape = make(l, shape, prefix + l["Name"])
        runs.append(run)

    def all(p, r, x, keys, new):
        for run in runs:
            x = run(p, r, x, keys, new)
        return x

    return all, shape


own = None  # losses of a step of the user's
if D["Net"]:
    import nets_jax
    own, net, out = nets_jax.NETS[D["Net"]](make, chain, D)
else:
    net, out = chain(D["Layers"], D["Input"])
drops = next(dropouts)


def some(dims, vocab):
    return rng.randint(0, vocab, [n] + dims).astype(np.int32) if vocab else rng.uniform(size=[n] + dims).astype(np.float32)


def data():
    x = rng.randint(0, 256, [n] + D["Input"]).astype(np.uint8) if D["Bytes"] else some(D["Input"] or [], D["Vocab"])
    if D["Inputs"]:
        x = {i["Name"]: some(i["Dims"], i["Vocab"]) for i in D["Inputs"]}
    if own or D["Same"]:
        return x, x
    if D["Loss"] == "cross entropy":
        return x, rng.randint(0, out[-1], [n] + out[:-1]).astype(np.int32)
    y = rng.uniform(size=[n] + out).astype(np.float32)
    if D["Loss"] == "visibility":
        return x, (y, np.repeat((rng.uniform(size=(n, out[0] // 2)) > .1).astype(np.float32), 2, 1))
    return x, y


def update(p, g, s, t):
    rate, tree = settings["rate"], jax.tree.map
    if D["Optimizer"] == "adamw":
        p = tree(lambda a: a * (1 - rate * settings["decay"]), p)
    elif settings["decay"]:
        g = tree(lambda a, b: a + settings["decay"] * b, g, p)
    if D["Optimizer"] in ("adam", "adamw"):
        b1, b2 = settings["beta1"], settings["beta2"]
        m, v = tree(lambda a, b: b1 * a + (1 - b1) * b, s[0], g), tree(lambda a, b: b2 * a + (1 - b2) * b * b, s[1], g)
        c1, c2 = 1 - b1 ** t, 1 - b2 ** t
        return tree(lambda a, b, c: a - rate * (b / c1) / (jnp.sqrt(c / c2) + settings["epsilon"]), p, m, v), (m, v)
    if D["Optimizer"] == "adadelta":
        rho, e = settings["rho"], settings["epsilon"]
        q = tree(lambda a, b: rho * a + (1 - rho) * b * b, s[0], g)
        u = tree(lambda a, b, c: jnp.sqrt(b + e) / jnp.sqrt(a + e) * c, q, s[1], g)
        return tree(lambda a, b: a - rate * b, p, u), (q, tree(lambda a, b: rho * a + (1 - rho) * b * b, s[1], u))
    if settings["momentum"]:
        v = tree(lambda a, b: settings["momentum"] * a + b, s[0], g)
        u = tree(lambda a, b: a + settings["momentum"] * b, g, v) if settings["nesterov"] else v
        return tree(lambda a, b: a - rate * b, p, u), (v,)
    return tree(lambda a, b: a - rate * b, p, g), s


def loss(p, r, bx, by, keys):
    if D["Bytes"]:
        bx = bx.astype(jnp.float32) / 255
    new = {}
    y = net(p, r, bx, keys, new)
    r = [new.get(i, a) for i, a in enumerate(r)]
    if D["Same"]:
        by = bx
    if isinstance(by, tuple):  # positions, and which can be seen
        t, v = by
        return jnp.sum(jnp.square((y - t) * v)) / (jnp.sum(v) / 2), (r, jnp.float32(0))
    if by.dtype == jnp.float32:
        return jnp.mean(jnp.square(y - by)), (r, jnp.float32(0))
    y = y.astype(jnp.float32)
    if y.ndim > 2:  # of language models, whose logits are many, nobody asks for the accuracy
        return jnp.mean(jax.nn.logsumexp(y, -1) - jnp.take_along_axis(y, by[..., None], -1)[..., 0]), (r, jnp.float32(0))
    l = jax.nn.log_softmax(y)
    return -jnp.mean(jnp.take_along_axis(l, by[..., None], -1)), (r, jnp.mean(jnp.argmax(y, -1) == by))


def step(state, idx, x, y):
    p, r, s, t, key = state
    key, k = jax.random.split(key)
    bx, by = (x, y) if idx is None else jax.tree.map(lambda a: a[idx], (x, y))
    t = t + 1
    if own:
        if D["Bytes"]:
            bx = bx.astype(jnp.float32) / 255
        value = 0
        for prefix, of in own:  # one after the other, each with the weights of its part
            part = lambda tree: {name: a for name, a in tree.items() if name.startswith(prefix)}
            one, g = jax.value_and_grad(lambda q: of({**p, **q}, bx, k))(part(p))
            q, moments = update(part(p), g, tuple(part(m) for m in s), t)
            p, s, value = {**p, **q}, tuple({**a, **b} for a, b in zip(s, moments)), value + one
        return (p, r, s, t, key), (value, value)
    still = {name: a for name, a in p.items() if name not in s[0]} if s else {}
    (value, (r, right)), g = jax.value_and_grad(lambda q, *a: loss({**still, **q}, *a), has_aux=True)({name: a for name, a in p.items() if name not in still}, r, bx, by, jax.random.split(k, drops) if drops else None)
    p, s = update({name: a for name, a in p.items() if name not in still}, g, s, t)
    return ({**still, **p}, r, s, t, key), (value, right)


def subject(way):
    return f"JAX {jax.__version__} {way}"


def show(case, subject, unit, *samples):
    print(json.dumps({"Case": case, "Subject": subject, "Unit": unit, "Samples": samples}), flush=True)


def check(folder):
    """The losses of Gaiden's batches, in order, with Gaiden's initial weights, which have PyTorch's layouts."""
    count = n if D["Curve"] else batch
    file, p = Weights(os.path.join(folder, "weights.safetensors")), {}
    for name, old in params.items():
        w = file.get(name, old.shape if name in tables or old.ndim != 2 else old.shape[::-1], name in tables)
        if name in flat:  # channels come first
            h, wide, c = flat[name]
            w = w.reshape(-1, c, h, wide).transpose(0, 2, 3, 1).reshape(len(w), -1)
        p[name] = jnp.asarray(w if name in tables else w.transpose(2, 3, 1, 0) if w.ndim == 4 else w.T)
    if D["Inputs"]:
        x = {i["Name"]: examples(folder, "x-" + i["Name"], False, i["Vocab"], [count] + i["Dims"]) for i in D["Inputs"]}
    else:
        x = examples(folder, "x", D["Bytes"], D["Vocab"], [count] + D["Input"])
    y = x if D["Same"] else examples(folder, "y", False, D["Loss"] == "cross entropy", [count] + (out[:-1] if D["Loss"] == "cross entropy" else out))
    x, y = jax.tree.map(jnp.asarray, (x, y))
    if not D["Curve"]:
        return [float(jax.jit(lambda p, x, y: loss(p, means, x, y, None)[0])(p, x, y))]

    def learn(state, at):
        p, r, s, t = state
        (value, (r, _)), g = jax.value_and_grad(loss, has_aux=True)(p, r, *jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, at * batch, batch), (x, y)), None)
        p, s = update(p, g, s, t + 1)
        return (p, r, s, t + 1), value

    zeros = tuple(jax.tree.map(jnp.zeros_like, p) for _ in range(moments))
    return lax.scan(jax.jit(learn), (p, means, zeros, jnp.float32(0)), jnp.arange(D["Curve"]) % (count // batch))[1].tolist()


moments = {"adam": 2, "adamw": 2, "adadelta": 2, "sgd": int(settings.get("momentum", 0) > 0)}[D["Optimizer"]]
if D["Check"]:
    losses = check(D["Check"])
    show(NAME + "-loss", subject("first step"), "loss", *losses[:1])
    if D["Curve"]:
        show(NAME + "-curve", subject("scan"), "loss", *losses)
x, y = jax.tree.map(jnp.asarray, data())
steps = n // batch
full = steps == 1  # nothing to shuffle


def one(state, x, y, perm, i):
    return step(state, None if full else lax.dynamic_slice(perm, (i * batch,), (batch,)), x, y)


def epoch(state, x, y, key):
    if full:
        return lax.scan(lambda s, _: step(s, None, x, y), state, None, epochs)
    perm = jax.random.permutation(key, n)[: steps * batch].reshape(steps, batch)
    return lax.scan(lambda s, idx: step(s, idx, x, y), state, perm)


one, epoch = jax.jit(one, donate_argnums=0), jax.jit(epoch, donate_argnums=0)
perm, seeds = jnp.arange(n, dtype=jnp.int32), itertools.count()
state = (params, means, tuple({name: jnp.zeros_like(a) for name, a in params.items() if not D["Frozen"] or not name.startswith(D["Frozen"])} for _ in range(moments)), jnp.float32(0), jax.random.key(1, impl="rbg"))  # each way continues with what the other has left


def singles(count):
    global state
    for i in range(count):
        state, _ = one(state, x, y, perm, i % steps)
    jax.block_until_ready(state)


def scan():
    global state
    for _ in range(1 if full else epochs):
        state, _ = epoch(state, x, y, jax.random.key(next(seeds)))
    jax.block_until_ready(state)


def clock(run, *args):
    began = time.perf_counter()
    run(*args)
    return time.perf_counter() - began


def wanted(way):
    return (not D["Ways"] or way in D["Ways"]) and (len(sys.argv) < 3 or subject(way) in sys.argv[2:])


ways = {}


def ready(way, measure):
    ways[subject(way)] = measure
    print(json.dumps({"Subjects": [subject(way)]}), flush=True)


tests = D["Tests"]
if tests:  # whole runs: a loop over steps, the mean loss and a validation after each epoch
    score = jax.jit(lambda p, r, bx, by: loss(p, r, bx, by, None))
    size, nowhere = min(500, tests), open(os.devnull, "w")

    def run():
        global state
        for _ in range(epochs):
            losses = []
            for i in range(steps):
                state, (value, right) = one(state, x, y, perm, i)
                losses.append(value)
            mean = float(jnp.stack(losses).mean())
            seen = [score(state[0], state[1], *jax.tree.map(lambda a: a[at:at + size], (x, y)))[0] for at in range(0, tests - size + 1, size)]
            print(mean, float(jnp.stack(seen).mean()), file=nowhere)

    run()
    ready("loop", lambda: clock(run) / (steps * epochs))
    wanted = lambda way: False


if wanted("jit step"):
    show(NAME + "-first", subject("jit step"), "s", clock(singles, 1))
    count = int(max(1, min(1000, 0.5 / (clock(singles, 3) / 3))))
    ready("jit step", lambda: clock(singles, count) / count)
endless = cpu and NAME in ("kerascnn-b128", "resnet50-b256")  # their scans did not come to an end in minutes on two cores
if steps * max(1, epochs) > 1 and wanted("scan") and not endless:  # XLA makes no loop of one step
    adapt, epochs = epochs == 0, max(1, epochs)
    show(NAME + "-first", subject("scan"), "s", clock(scan))
    if adapt:
        epochs = max(1, math.ceil(0.3 / clock(scan)))
    stats = jax.devices()[0].memory_stats()
    if stats:
        show(NAME + "-memory", subject("scan"), "MB", stats["peak_bytes_in_use"] / 1e6)
    ready("scan", lambda: clock(scan) / (steps * epochs))

print(json.dumps({"Subjects": []}), flush=True)
for line in sys.stdin:
    way = line.strip()
    show(NAME, way, "µs", ways[way]() * 1e6)
