# Training steps of a net of the sources in JAX: a jitted step and a scan over the
# epoch, both with donated state and the batch gathered on the device. It prepares
# both, or those it is given, and prints each that is ready, and nothing when all are;
# then, for each that a line of its input names, one sample. All it prints is JSON lines.
#   python train_jax.py NET [WAY ...]
import functools, itertools, json, math, sys, time
try:
    import jax, jax.numpy as jnp
    import numpy as np
    from jax import lax
except ImportError:
    raise SystemExit(0)

NAME = sys.argv[1]
JOINTS = 14
relu, sigmoid = jax.nn.relu, jax.nn.sigmoid
rng = np.random.RandomState(1)
cpu = jax.devices()[0].platform == "cpu"


def dense(x, w, b):
    return x @ w + b


def conv(x, w, b=None, pad="VALID", stride=1):
    y = lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y if b is None else y + b


def pool(x, size=2, stride=2, pad=((0, 0),) * 4):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pad)


def dropout(key, rate, x):
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


# A net takes parameters, running means (or none), a batch and random numbers; it
# returns its output and the next means.
def mlp(p, r, x, key):
    x = x.reshape(x.shape[0], -1)
    return dense(relu(dense(relu(dense(x, p[0], p[1])), p[2], p[3])), p[4], p[5]), r


def seedcnn(p, r, x, key):
    h = pool(relu(conv(x, p[0], p[1], "SAME"))).reshape(x.shape[0], -1)
    return dense(relu(dense(h, p[2], p[3])), p[4], p[5]), r


def keras(p, r, x, key):
    k1, k2 = jax.random.split(key)
    h = pool(relu(conv(relu(conv(x, p[0], p[1])), p[2], p[3])))
    h = dropout(k1, 0.25, h).reshape(x.shape[0], -1)
    return dense(dropout(k2, 0.5, relu(dense(h, p[4], p[5]))), p[6], p[7]), r


def lenet5(p, r, x, key):
    h = pool(sigmoid(conv(x, p[0], p[1])))
    h = pool(sigmoid(conv(h, p[2], p[3])))
    h = sigmoid(conv(h, p[4], p[5])).reshape(x.shape[0], -1)
    return dense(sigmoid(dense(h, p[6], p[7])), p[8], p[9]), r


def fcn(p, r, x, key):
    for w, b in zip(p[:-2:2], p[1:-2:2]):
        x = sigmoid(dense(x, w, b))
    return dense(x, p[-2], p[-1]), r


def deeppose(p, r, x, key):
    k1, k2 = jax.random.split(key)
    h = pool(relu(conv(x, p[0], p[1], "VALID", 4)), 3, 2)
    h = pool(relu(conv(h, p[2], p[3], "SAME")), 3, 2)
    for i in (4, 6, 8):
        h = relu(conv(h, p[i], p[i + 1], "SAME"))
    h = pool(h, 3, 2).reshape(x.shape[0], -1)
    h = dropout(k1, 0.5, relu(dense(h, p[10], p[11])))
    return dense(dropout(k2, 0.5, relu(dense(h, p[12], p[13]))), p[14], p[15]), r


def peaks(p, r, x, key):
    return dense(relu(dense(relu(dense(x, p[0], p[1])), p[2], p[3])), p[4], p[5]), r


def lstm(p, r, x, key):
    z = dense(dense(x, p[0], p[1]), p[2], p[4]).swapaxes(0, 1)  # what the inputs give the gates, at once
    zero = jnp.zeros((x.shape[0], p[3].shape[0]))

    def place(s, z):
        h, c = s
        i, f, a, o = jnp.split(z + h @ p[3], 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(a)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    _, h = lax.scan(place, (zero, zero), z)
    return dense(h.swapaxes(0, 1), p[5], p[6]), r


def blocks(depths):
    width, cin = 64, 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            yield cin, width, 2 if block == 0 and stage > 0 else 1
            cin = 4 * width
        width *= 2


def resnet_sizes(depths):
    norm = lambda c: [("one", c), ("zero", c)]
    s = [(7, 7, 3, 64)] + norm(64)
    for cin, w, stride in blocks(depths):
        s += [(1, 1, cin, w)] + norm(w) + [(3, 3, w, w)] + norm(w) + [(1, 1, w, 4 * w)] + norm(4 * w)
        if cin != 4 * w or stride > 1:
            s += [(1, 1, cin, 4 * w)] + norm(4 * w)
    return s + [(32 * 64, 10), (10,)]


def resnet(depths, p, r, x, key):
    p, r, new = iter(p), iter(r), []

    def bn(x):
        scale, offset, mean, var = next(p), next(p), next(r), next(r)
        m = x.mean((0, 1, 2))
        v = jnp.square(x - m).mean((0, 1, 2))
        n = x.size // x.shape[-1]
        new.extend([0.9 * mean + 0.1 * lax.stop_gradient(m), 0.9 * var + 0.1 * lax.stop_gradient(v) * n / (n - 1)])
        return (x - m) * (lax.rsqrt(v + 1e-5) * scale) + offset

    def cb(x, stride=1, pad=0):
        return bn(conv(x, next(p), None, [(pad, pad)] * 2, stride))

    x = pool(relu(cb(x, 2, 3)), 3, 2, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for cin, w, stride in blocks(depths):
        y = cb(relu(cb(relu(cb(x)), stride, 1)))
        x = relu(y + (cb(x, stride) if cin != 4 * w or stride > 1 else x))
    return dense(x.mean((1, 2)), next(p), next(p)), new


def adam(rate, p, g, s, t):
    m, v = s
    m = [.9 * a + .1 * b for a, b in zip(m, g)]
    v = [.999 * a + .001 * b * b for a, b in zip(v, g)]
    c1, c2 = 1 - .9 ** t, 1 - .999 ** t
    return [a - rate * (b / c1) / (jnp.sqrt(c / c2) + 1e-8) for a, b, c in zip(p, m, v)], (m, v)


def adadelta(rate, p, g, s, t):
    q, d = s
    q = [.95 * a + .05 * b * b for a, b in zip(q, g)]
    u = [jnp.sqrt(b + 1e-7) / jnp.sqrt(a + 1e-7) * c for a, b, c in zip(q, d, g)]
    d = [.95 * a + .05 * b * b for a, b in zip(d, u)]
    return [a - rate * b for a, b in zip(p, u)], (q, d)


def sgd(rate, p, g, s, t):
    return [a - rate * b for a, b in zip(p, g)], s


def momentum(rate, p, g, s, t):
    v = [.9 * a + b for a, b in zip(s[0], g)]
    return [a - rate * b for a, b in zip(p, v)], (v,)


def lstm_sizes(u):
    return [(1, u), (u,), (u, 4 * u), (u, 4 * u), (4 * u,), (u, 1), (1,)]


def image(shape):
    return lambda n: (rng.randint(0, 256, (n,) + shape).astype(np.uint8), rng.randint(0, 10, n).astype(np.int32))


def sines(n):
    t = np.arange(n)[:, None] * 0.37 + np.arange(100) * 0.1
    return np.sin(t)[..., None].astype(np.float32), np.sin(t + 0.1)[..., None].astype(np.float32)


def poses(n):
    x, _ = image((227, 227, 3))(n)
    seen = (rng.uniform(size=(n, JOINTS)) > .1).astype(np.float32)
    return x, (rng.uniform(size=(n, 2 * JOINTS)).astype(np.float32), np.repeat(seen, 2, 1))


def surface(n):
    x = rng.uniform(-3, 3, (n, 2)).astype(np.float32)
    return x, np.sin(x[:, :1]) * x[:, 1:]


M, C = image((28, 28, 1)), image((32, 32, 3))
fast, middle, rare = (1, 1, 1, 1), (3, 4, 6, 3), (3, 8, 36, 3)
# net, optimizer, its states, rate, batch, examples on a GPU and a CPU, epochs a measurement, data, parameters
NETS = {
    "mlp-b100": (mlp, adam, 2, 1e-3, 100, 60000, 6000, 20, M, [(784, 1000), (1000,), (1000, 1000), (1000,), (1000, 10), (10,)]),
    "seedcnn-b8": (seedcnn, adam, 2, 1e-3, 8, 60000, 6000, 1, M, [(3, 3, 1, 10), (10,), (1960, 100), (100,), (100, 10), (10,)]),
    "kerascnn-b128": (keras, adadelta, 2, 1e-3, 128, 60000, 1280, 5, M, [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (9216, 128), (128,), (128, 10), (10,)]),
    "lenet5-b100": (lenet5, adam, 2, 1e-3, 100, 50000, 5000, 10, C, [(5, 5, 3, 6), (6,), (5, 5, 6, 16), (16,), (4, 4, 16, 120), (120,), (480, 84), (84,), (84, 10), (10,)]),
    "lstm5-b20": (lstm, adam, 2, 1e-3, 20, 2000, 2000, 10, sines, lstm_sizes(5)),
    "lstm128-b64": (lstm, adam, 2, 1e-3, 64, 6400, 640, 10, sines, lstm_sizes(128)),
    "peaks-b40000": (peaks, adam, 2, 0.08, 40000, 40000, 40000, 2000, surface, [(2, 20), (20,), (20, 5), (5,), (5, 1), (1,)]),
    "resnet14-b32": (functools.partial(resnet, fast), momentum, 1, 0.01, 32, 3200, 320, 5, C, resnet_sizes(fast)),
    "resnet152-b2048": (functools.partial(resnet, rare), momentum, 1, 0.01, 2048, 20480, 20480, 5, C, resnet_sizes(rare)),
    "resnet152-b32": (functools.partial(resnet, rare), momentum, 1, 0.01, 32, 64, 64, 1, C, resnet_sizes(rare)),
    "fcn-b1024": (fcn, sgd, 0, 0.01, 1024, 61440, 8192, 10, image((784,)), [(784, 2048), (2048,), (2048, 2048), (2048,), (2048, 2048), (2048,), (2048, 10), (10,)]),
    "resnet50-b256": (functools.partial(resnet, middle), sgd, 0, 0.01, 256, 5120, 512, 5, C, resnet_sizes(middle)),
    "deeppose-b128": (deeppose, adam, 2, 1e-4, 128, 1280, 128, 5, poses, [(11, 11, 3, 96), (96,), (5, 5, 96, 256), (256,), (3, 3, 256, 384), (384,), (3, 3, 384, 384), (384,), (3, 3, 384, 256), (256,), (9216, 4096), (4096,), (4096, 4096), (4096,), (4096, 2 * JOINTS), (2 * JOINTS,)]),
}
net, update, states, rate, batch, many, few, epochs, data, sizes = NETS[NAME]
n, epochs = (few, max(1, epochs // 10)) if cpu else (many, epochs)
x, y = jax.tree.map(jnp.asarray, data(n))


def make():
    p, r = [], []
    for s in sizes:
        if s[0] in ("one", "zero"):
            p.append(jnp.full(s[1], float(s[0] == "one")))
            r.append(jnp.full(s[1], float(s[0] == "zero")))  # mean 0 for the scale's place, variance 1
        elif len(s) == 1:
            p.append(jnp.zeros(s))
        else:
            p.append(jnp.asarray((rng.randn(*s) / math.sqrt(np.prod(s[:-1]))).astype(np.float32)))
    return p, r, tuple([jnp.zeros_like(a) for a in p] for _ in range(states)), jnp.float32(0), jax.random.key(1, impl="rbg")


def step(state, idx, x, y):
    p, r, s, t, key = state
    key, k = jax.random.split(key)
    bx, by = (x, y) if idx is None else jax.tree.map(lambda a: a[idx], (x, y))
    if bx.dtype == jnp.uint8:
        bx = bx.astype(jnp.float32) / 255

    def loss(p):
        out, new = net(p, r, bx, k)
        if isinstance(by, tuple):  # places of joints, and which can be seen
            t, v = by
            return jnp.sum(jnp.square((out - t) * v)) / (jnp.sum(v) / 2), (new, jnp.float32(0))
        if by.dtype == jnp.float32:
            return jnp.mean(jnp.square(out - by)), (new, jnp.float32(0))
        l = jax.nn.log_softmax(out)
        return -jnp.mean(jnp.take_along_axis(l, by[:, None], 1)), (new, jnp.mean(jnp.argmax(out, 1) == by))

    (value, (r, right)), g = jax.value_and_grad(loss, has_aux=True)(p)
    t = t + 1
    p, s = update(rate, p, g, s, t)
    return (p, r, s, t, key), (value, right)


steps = n // batch
full = steps == 1  # nothing to shuffle


def one(state, x, y, perm, i):
    return step(state, None if full else lax.dynamic_slice(perm, (i * batch,), (batch,)), x, y)


def epoch(state, x, y, key):
    if full:
        return lax.scan(lambda s, _: step(s, None, x, y), state, None, epochs)
    perm = jax.random.permutation(key, n)[: steps * batch].reshape(steps, batch)
    return lax.scan(lambda s, idx: step(s, idx, x, y), state, perm)


def subject(way):
    return f"JAX {jax.__version__} {way}"


def show(case, subject, unit, sample):
    print(json.dumps({"Case": case, "Subject": subject, "Unit": unit, "Samples": [sample]}), flush=True)


one, epoch = jax.jit(one, donate_argnums=0), jax.jit(epoch, donate_argnums=0)
perm, keys = jnp.arange(n, dtype=jnp.int32), itertools.count()
state = make()  # each way goes on with what the other has left


def singles(count):
    global state
    for i in range(count):
        state, out = one(state, x, y, perm, i % steps)
    jax.block_until_ready(state)


def scan():
    global state
    for _ in range(1 if full else epochs):
        state, out = epoch(state, x, y, jax.random.key(next(keys)))
    jax.block_until_ready(state)


def clock(run, *args):
    began = time.perf_counter()
    run(*args)
    return time.perf_counter() - began


show(NAME + "-first", subject("jit step"), "s", clock(singles, 1))
count = int(max(1, min(1000, 0.5 / (clock(singles, 3) / 3))))
ways = {}


def ready(way, measure):
    ways[subject(way)] = measure
    print(json.dumps({"Subjects": [subject(way)]}), flush=True)


ready("jit step", lambda: clock(singles, count) / count)
asked = subject("scan") in (sys.argv[2:] or [subject("scan")])
endless = cpu and NAME in ("kerascnn-b128", "resnet50-b256")  # their scans did not come to an end in 240 and 150 s on two cores
if steps * epochs > 1 and asked and not endless:  # XLA makes no loop of one step
    show(NAME + "-first", subject("scan"), "s", clock(scan))
    stats = jax.devices()[0].memory_stats()
    if stats:
        show(NAME + "-memory", subject("scan"), "MB", stats["peak_bytes_in_use"] / 1e6)
    ready("scan", lambda: clock(scan) / (steps * epochs))

print(json.dumps({"Subjects": []}), flush=True)
for line in sys.stdin:
    way = line.strip()
    show(NAME, way, "µs", ways[way]() * 1e6)
