# Nets of package bench (nets.go) that are no list of layers, in PyTorch. Each is a function of
# the description that returns what makes the net, the losses of a training step of its own with the
# parts of the net that they train, or None, the shape of what the net gives, and whether it is wide.
import math
import torch, torch.nn as nn, torch.nn.functional as F
from net_torch import ACTS, Attention, chain


class Function(nn.Module):
    """A net that is a function of its modules and the inputs."""
    def __init__(self, run, **modules):
        super().__init__()
        self.run = run
        for name, m in modules.items():
            self.add_module(name, m)

    def forward(self, *x):
        return self.run(self, *x)


class Rest(nn.Module):
    """The layers that follow a function; their names are the net's."""
    def __init__(self, function, layers):
        super().__init__()
        self.function = function
        for name, m in layers.named_children():
            self.add_module(name, m)
        self.names = [name for name, _ in layers.named_children()]

    def forward(self, *x):
        x = self.function(*x)
        for name in self.names:
            x = getattr(self, name)(x)
        return x


class Cell(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.forget, self.new = nn.Linear(units, units, bias=False), nn.Linear(units, units, bias=False)


def scan(D):
    def run(m, x):
        h, all = torch.zeros(x.shape[0], 64, device=x.device), []
        for z in m.enter(x).unbind(1):
            a, b = z.chunk(2, -1)
            f = torch.sigmoid(a + m.cell.forget(h))
            h = h + f * (torch.tanh(b + m.cell.new(f * h)) - h)
            all.append(h)
        return torch.stack(all, 1)

    length, size = D["Input"]
    out = chain(D["Layers"], [length, 64])[1]
    return lambda: Rest(Function(run, enter=nn.Linear(size, 128), cell=Cell(64)), chain(D["Layers"], [length, 64])[0]), None, out, False


def text(D):
    name = D["Inner"][0]["Name"]

    def run(m, x):
        mask = (x > 0).float()[..., None]
        h = m.get_submodule(name)(m.words(x) * mask)[0]
        return (h * mask).sum(1) / mask.sum(1)

    _, shape, _ = chain(D["Inner"], [D["Input"][0], 32])
    make = lambda: Rest(Function(run, words=nn.Embedding(D["Vocab"], 32), **{name: chain(D["Inner"], [D["Input"][0], 32])[0].get_submodule(name)}), chain(D["Layers"], shape[1:])[0])
    return make, None, chain(D["Layers"], shape[1:])[1], False


def table(D):
    columns = {i["Name"]: i["Vocab"] for i in D["Inputs"] if i["Vocab"]}
    run = lambda m, numbers, *ids: torch.cat([numbers] + [m.get_submodule(c)(x) for c, x in zip(columns, ids)], -1)
    size = [2 + 4 * len(columns)]
    return lambda: Rest(Function(run, **{c: nn.Embedding(v, 4) for c, v in columns.items()}), chain(D["Layers"], size)[0]), None, chain(D["Layers"], size)[1], False


def mlp(shape, *units):
    layers = []
    for n, act in units:
        layers += [nn.Linear(shape, n)] + ([ACTS[act]()] if act else [])
        shape = n
    return nn.Sequential(*layers)


def vae(D):
    encoder = lambda: mlp(256, (256, "silu"), (64, "silu"), (2, ""))

    def loss(m, x):
        x = x.flatten(1)
        mean, log = m.mean(x), m.variance(x)
        q = m.decoder(mean + (log / 2).exp() * torch.randn_like(mean)).clamp(1e-5, 1 - 1e-5)
        return -256 * (x * q.log() + (1 - x) * (1 - q).log()).mean() + (mean.square() + log.exp() - log - 1).mean()

    return lambda: Function(None, mean=encoder(), variance=encoder(), decoder=mlp(2, (64, "silu"), (256, "silu"), (256, "sigmoid"))), [("", loss)], None, False


def gan(D):
    part = lambda a, b: mlp(a, (128, "leakyrelu"), (128, "leakyrelu"), (b, ""))

    def critic(m, x):
        x.requires_grad_(True)
        real, fake = m.critic(x), m.generator(torch.randn(x.shape[0], 4, device=x.device)).detach()
        slope = torch.autograd.grad(real.sum(), x, create_graph=True)[0]
        return (F.softplus(-real) + F.softplus(m.critic(fake))).mean() + 0.04 * slope.square().mean()

    def generator(m, x):
        return F.softplus(-m.critic(m.generator(torch.randn(x.shape[0], 4, device=x.device)))).mean()

    return lambda: Function(None, generator=part(4, 2), critic=part(2, 1)), [("critic", critic), ("generator", generator)], None, False


class Block(nn.Module):
    def __init__(self, inputs, channels):
        super().__init__()
        self.time, self.first, self.second = nn.Linear(64, channels), nn.Conv2d(inputs, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, t, *x):
        return F.silu(self.second(F.silu(self.time(t)[:, :, None, None] + self.first(torch.cat(x, 1)))))


def diffusion(D):
    def loss(m, image, time):
        image, t, noise = image * 2 - 1, torch.rand_like(time), torch.randn_like(image)
        angle = (t * (math.pi / 2))[:, None, None, None]
        noisy, v = angle.cos() * image + angle.sin() * noise, angle.cos() * noise - angle.sin() * image
        angles = t[:, None] * torch.tensor([1., 2, 4, 8, 16], device=t.device)
        e = F.silu(m.time(torch.cat([angles.sin(), angles.cos()], -1)))
        middle = m.down(e, m.patches(noisy))
        low = m.bottom(e, F.avg_pool2d(middle, 2))
        low = low + m.attention(low.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(low.shape)
        middle = m.up(e, middle, F.interpolate(low, scale_factor=2))
        return F.mse_loss(m.v(m.top(e, m.larger(middle), noisy)), v)

    make = lambda: Function(None, time=nn.Linear(10, 64), patches=nn.Conv2d(1, 32, 4, 2, 1), down=Block(32, 32), bottom=Block(32, 64), attention=Attention(64, 4, False),
                            up=Block(96, 32), larger=nn.ConvTranspose2d(32, 8, 4, 2, 1), top=Block(9, 8), v=nn.Conv2d(8, 1, 3, padding=1))
    return make, [("", loss)], None, False


NETS = {"scan": scan, "text": text, "table": table, "vae": vae, "gan": gan, "diffusion": diffusion}
