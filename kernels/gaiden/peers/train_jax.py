# Training steps of the sources' nets in JAX: a jitted step and a scan over the
# epoch, both with donated state and the batch gathered on the device. One JSON
# line a case.   python train_jax.py EPOCHS [NET...]
import json, math, sys, time
try:
    import jax, jax.numpy as jnp
    import numpy as np
    from jax import lax
except ImportError:
    raise SystemExit(0)

EPOCHS = int(sys.argv[1])
only = sys.argv[2:]
relu, sigmoid = jax.nn.relu, jax.nn.sigmoid
rng = np.random.RandomState(1)


def dense(x, w, b):
    return x @ w + b


def conv(x, w, b, pad="VALID", stride=1):
    y = lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y if b is None else y + b


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def dropout(key, rate, x):
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


def mlp(p, x, key):
    x = x.reshape(x.shape[0], -1)
    return dense(relu(dense(relu(dense(x, p[0], p[1])), p[2], p[3])), p[4], p[5])


def seedcnn(p, x, key):
    h = pool(relu(conv(x, p[0], p[1], "SAME"))).reshape(x.shape[0], -1)
    return dense(relu(dense(h, p[2], p[3])), p[4], p[5])


def keras(p, x, key):
    k1, k2 = jax.random.split(key)
    h = pool(relu(conv(relu(conv(x, p[0], p[1])), p[2], p[3])))
    h = dropout(k1, 0.25, h).reshape(x.shape[0], -1)
    return dense(dropout(k2, 0.5, relu(dense(h, p[4], p[5]))), p[6], p[7])


def lenet5(p, x, key):
    h = pool(sigmoid(conv(x, p[0], p[1])))
    h = pool(sigmoid(conv(h, p[2], p[3])))
    h = sigmoid(conv(h, p[4], p[5])).reshape(x.shape[0], -1)
    return dense(sigmoid(dense(h, p[6], p[7])), p[8], p[9])


def adam(p, g, s, t):
    m, v = s
    m = [.9 * a + .1 * b for a, b in zip(m, g)]
    v = [.999 * a + .001 * b * b for a, b in zip(v, g)]
    c1, c2 = 1 - .9 ** t, 1 - .999 ** t
    return [a - 1e-3 * (b / c1) / (jnp.sqrt(c / c2) + 1e-8) for a, b, c in zip(p, m, v)], (m, v)


def adadelta(p, g, s, t):
    q, d = s
    q = [.95 * a + .05 * b * b for a, b in zip(q, g)]
    u = [jnp.sqrt(b + 1e-7) / jnp.sqrt(a + 1e-7) * c for a, b, c in zip(q, d, g)]
    d = [.95 * a + .05 * b * b for a, b in zip(d, u)]
    return [a - 1e-3 * b for a, b in zip(p, u)], (q, d)


NETS = {
    "mlp-b100": (mlp, adam, 100, (28, 28, 1), [(784, 1000), (1000,), (1000, 1000), (1000,), (1000, 10), (10,)]),
    "seedcnn-b8": (seedcnn, adam, 8, (28, 28, 1), [(3, 3, 1, 10), (10,), (1960, 100), (100,), (100, 10), (10,)]),
    "kerascnn-b128": (keras, adadelta, 128, (28, 28, 1), [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (9216, 128), (128,), (128, 10), (10,)]),
    "lenet5-b100": (lenet5, adam, 100, (32, 32, 3), [(5, 5, 3, 6), (6,), (5, 5, 6, 16), (16,), (4, 4, 16, 120), (120,), (480, 84), (84,), (84, 10), (10,)]),
}
SIZES = {"lenet5-b100": 50000}
cpu = jax.devices()[0].platform == "cpu"
for name, (logits, update, batch, shape, sizes) in NETS.items():
    if only and name not in only:
        continue
    n = SIZES.get(name, 60000)
    if cpu:
        n = n // 10
    x = jnp.asarray(rng.randint(0, 256, (n,) + shape).astype(np.uint8))
    y = jnp.asarray(rng.randint(0, 10, n).astype(np.int32))

    def make():
        p = [jnp.asarray((rng.randn(*s) / math.sqrt(np.prod(s[:-1]))).astype(np.float32)) if len(s) > 1 else jnp.zeros(s) for s in sizes]
        return p, ([jnp.zeros_like(a) for a in p], [jnp.zeros_like(a) for a in p]), jnp.float32(0), jax.random.key(1, impl="rbg")

    def step(state, idx, x, y):
        p, s, t, key = state
        key, k = jax.random.split(key)
        bx, by = x[idx].astype(jnp.float32) / 255, y[idx]

        def loss(p):
            l = jax.nn.log_softmax(logits(p, bx, k))
            return -jnp.mean(jnp.take_along_axis(l, by[:, None], 1)), jnp.mean(jnp.argmax(l, 1) == by)

        (value, right), g = jax.value_and_grad(loss, has_aux=True)(p)
        t = t + 1
        p, s = update(p, g, s, t)
        return (p, s, t, key), (value, right)

    steps = n // batch

    def one(state, x, y, perm, i):
        return step(state, lax.dynamic_slice(perm, (i * batch,), (batch,)), x, y)

    def epoch(state, x, y, key):
        perm = jax.random.permutation(key, n)[: steps * batch].reshape(steps, batch)
        return lax.scan(lambda s, idx: step(s, idx, x, y), state, perm)

    versions = "JAX " + jax.__version__
    one = jax.jit(one, donate_argnums=0)
    perm = jnp.arange(n, dtype=jnp.int32)
    state = make()
    began = time.perf_counter()
    state, out = one(state, x, y, perm, 0)
    jax.block_until_ready(state)
    first = time.perf_counter() - began
    samples = []
    count = min(steps, 300 if cpu else 2000)
    for _ in range(EPOCHS):
        began = time.perf_counter()
        for i in range(count):
            state, out = one(state, x, y, perm, i)
        jax.block_until_ready(state)
        samples.append((time.perf_counter() - began) / count * 1e6)
    print(json.dumps({"Case": name, "Subject": versions + " jit step", "Unit": "µs", "Samples": samples}), flush=True)
    print(json.dumps({"Case": name + "-first", "Subject": versions + " jit step", "Unit": "s", "Samples": [first]}), flush=True)

    epoch = jax.jit(epoch, donate_argnums=0)
    state, samples = make(), []
    began = time.perf_counter()
    state, out = epoch(state, x, y, jax.random.key(0))
    jax.block_until_ready(state)
    first = time.perf_counter() - began
    for e in range(EPOCHS):
        began = time.perf_counter()
        state, out = epoch(state, x, y, jax.random.key(e))
        jax.block_until_ready(state)
        samples.append((time.perf_counter() - began) / steps * 1e6)
    print(json.dumps({"Case": name, "Subject": versions + " scan", "Unit": "µs", "Samples": samples}), flush=True)
    print(json.dumps({"Case": name + "-first", "Subject": versions + " scan", "Unit": "s", "Samples": [first]}), flush=True)
    stats = jax.devices()[0].memory_stats()
    if stats:
        print(json.dumps({"Case": name + "-memory", "Subject": versions + " scan", "Unit": "MB", "Samples": [stats["peak_bytes_in_use"] / 1e6]}), flush=True)
