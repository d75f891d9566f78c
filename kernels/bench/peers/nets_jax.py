# Nets of package bench (nets.go) that are no list of layers, in JAX. Each is a function of
# make, which makes a layer, chain, which makes several, and the description; it returns the losses
# of a training step of its own, or None, and the net and the shape of what it gives, or None.
import jax, jax.numpy as jnp, math


def dense(make, name, shape, units, act="", bias=True):
    return make({"Kind": "dense", "Name": name, "Units": units, "Act": act, "Bias": bias}, shape, name)


def conv(make, name, shape, channels, kernel=3, stride=1, pad=1, act=""):
    return make({"Kind": "conv", "Name": name, "Units": channels, "Kernel": kernel, "Stride": stride, "Pad": pad, "Act": act, "Bias": True}, shape, name)


def scan(make, chain, D):
    u, length = 64, D["Input"][0]
    enter, forget, new = dense(make, "enter", D["Input"], 2 * u)[0], dense(make, "cell.forget", [u], u, bias=False)[0], dense(make, "cell.new", [u], u, bias=False)[0]
    rest, out = chain(D["Layers"], [length, u])

    def net(p, r, x, keys, means):
        def step(h, z):
            a, b = jnp.split(z, 2, -1)
            f = jax.nn.sigmoid(a + forget(p, r, h, keys, means))
            h = h + f * (jnp.tanh(b + new(p, r, f * h, keys, means)) - h)
            return h, h

        z = enter(p, r, x, keys, means).swapaxes(0, 1)
        return rest(p, r, jax.lax.scan(step, jnp.zeros((x.shape[0], u)), z)[1].swapaxes(0, 1), keys, means)

    return None, net, out


def text(make, chain, D):
    words, shape = make({"Kind": "embedding", "Vocab": D["Vocab"], "Units": 32}, D["Input"], "words")
    recurrent, shape = make(D["Inner"][0], shape, D["Inner"][0]["Name"])
    rest, out = chain(D["Layers"], shape[1:])

    def net(p, r, x, keys, new):
        mask = (x > 0).astype(jnp.float32)[..., None]
        h = recurrent(p, r, words(p, r, x, keys, new) * mask, keys, new)
        return rest(p, r, (h * mask).sum(1) / mask.sum(1), keys, new)

    return None, net, out


def table(make, chain, D):
    columns = [(i["Name"], make({"Kind": "embedding", "Vocab": i["Vocab"], "Units": 4}, [], i["Name"])[0]) for i in D["Inputs"] if i["Vocab"]]
    rest, out = chain(D["Layers"], [2 + 4 * len(columns)])
    return None, lambda p, r, x, keys, new: rest(p, r, jnp.concatenate([x["numbers"]] + [embed(p, r, x[name], keys, new) for name, embed in columns], -1), keys, new), out


def vae(make, chain, D):
    layers = lambda name, shape, *units: [dense(make, f"{name}.{n}", [a], b, act)[0] for (n, b, act), a in zip(units, [shape] + [u[1] for u in units])]
    encoder = ("e1", 256, "silu"), ("e2", 64, "silu"), ("e3", 2, "")
    parts = layers("mean", 256, *encoder), layers("variance", 256, *encoder), layers("decoder", 2, ("d1", 64, "silu"), ("d2", 256, "silu"), ("d3", 256, "sigmoid"))

    def loss(p, x, key):
        x = x.reshape(x.shape[0], -1)

        def run(part, y):
            for layer in part:
                y = layer(p, None, y, None, None)
            return y

        mean, log = run(parts[0], x), run(parts[1], x)
        q = jnp.clip(run(parts[2], mean + jnp.exp(log / 2) * jax.random.normal(key, mean.shape)), 1e-5, 1 - 1e-5)
        return -256 * jnp.mean(x * jnp.log(q) + (1 - x) * jnp.log(1 - q)) + jnp.mean(jnp.square(mean) + jnp.exp(log) - log - 1)

    return [("", loss)], None, None


def gan(make, chain, D):
    layers = lambda name, n, out: [dense(make, f"{name}.d{i + 1}", [a], b, act)[0] for i, (a, b, act) in enumerate([(n, 128, "leakyrelu"), (128, 128, "leakyrelu"), (128, out, "")])]
    parts = {"generator": layers("generator", 4, 2), "critic": layers("critic", 2, 1)}

    def run(p, part, x):
        for layer in parts[part]:
            x = layer(p, None, x, None, None)
        return x

    fake = lambda p, x, key: run(p, "generator", jax.random.normal(key, (x.shape[0], 4)))

    def critic(p, x, key):
        real = run(p, "critic", x)
        slope = jax.grad(lambda x: run(p, "critic", x).sum())(x)
        return jnp.mean(jax.nn.softplus(-real) + jax.nn.softplus(run(p, "critic", jax.lax.stop_gradient(fake(p, x, key))))) + 0.04 * jnp.mean(jnp.square(slope))

    return [("critic.", critic), ("generator.", lambda p, x, key: jnp.mean(jax.nn.softplus(-run(p, "critic", fake(p, x, key)))))], None, None


def diffusion(make, chain, D):
    time = dense(make, "time", [10], 64, "silu")[0]

    def block(name, channels, shape):
        shift, first, second = dense(make, name + "-time", [64], channels)[0], conv(make, name + "1", shape, channels)[0], conv(make, name + "2", shape[:2] + [channels], channels, act="silu")[0]
        return lambda p, t, *x: second(p, None, jax.nn.silu(shift(p, None, t, None, None)[:, None, None] + first(p, None, jnp.concatenate(x, -1), None, None)), None, None)

    patches = conv(make, "patches", [16, 16, 1], 32, 4, 2, 1)[0]
    down, bottom, up, upper = block("down", 32, [8, 8, 32]), block("bottom", 64, [4, 4, 32]), block("up", 32, [8, 8, 96]), block("top", 8, [16, 16, 9])
    attention = make({"Kind": "attention", "Heads": 4}, [16, 64], "attention")[0]
    larger = make({"Kind": "transposed", "Units": 8, "Kernel": 4, "Stride": 2, "Pad": 1}, [8, 8, 32], "larger")[0]
    last = conv(make, "v", [16, 16, 8], 1)[0]

    def loss(p, x, key):
        k1, k2 = jax.random.split(key)
        image, n = x["image"] * 2 - 1, x["time"].shape[0]
        t, noise = jax.random.uniform(k1, (n,)), jax.random.normal(k2, image.shape)
        angle = (t * (math.pi / 2))[:, None, None, None]
        noisy, v = jnp.cos(angle) * image + jnp.sin(angle) * noise, jnp.cos(angle) * noise - jnp.sin(angle) * image
        angles = t[:, None] * jnp.array([1., 2, 4, 8, 16])
        e = time(p, None, jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1), None, None)
        middle = down(p, e, patches(p, None, noisy, None, None))
        low = bottom(p, e, middle.reshape(n, 4, 2, 4, 2, 32).mean((2, 4)))
        low = low + attention(p, None, low.reshape(n, 16, 64), None, None).reshape(low.shape)
        middle = up(p, e, middle, low.repeat(2, 1).repeat(2, 2))
        got = last(p, None, upper(p, e, larger(p, None, middle, None, None), noisy), None, None)
        return jnp.mean(jnp.square(got - v))

    return [("", loss)], None, None


NETS = {"scan": scan, "text": text, "table": table, "vae": vae, "gan": gan, "diffusion": diffusion}
