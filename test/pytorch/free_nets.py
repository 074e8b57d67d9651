"""Exports the nets of free_sizes.py into a folder: NAME-KIND.pt2, and inputs and eager results at each size."""

import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

NETS = {}
IMAGE, LINE, TOKENS = ("n", 3, "h", "w"), ("n", 4, "l"), ("n", "l", 16)
# The sizes of the export, and four that it never saw.
EXPORT = {"n": 3, "h": 24, "w": 40, "l": 12}
SIZES = [{"n": 1, "h": 32, "w": 24, "l": 7}, {"n": 2, "h": 16, "w": 48, "l": 33}, {"n": 5, "h": 40, "w": 16, "l": 18},
         {"n": 1, "h": 48, "w": 64, "l": 9}]


def net(*shapes, ids=False):
    """A function that makes the module, with the shapes of its inputs."""
    def register(make):
        NETS[make.__name__] = (make, shapes, ids)
        return make
    return register


class Fn(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.function(self, *inputs)


@net(("n", 16))
def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 5), nn.Softmax(-1))


@net(IMAGE)
def pools():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, 2, 1),
                         nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


@net(IMAGE)
def unet():
    def forward(m, x):
        a = m.a(x).relu()
        b = m.b(F.max_pool2d(a, 2)).relu()
        return m.c(torch.cat([a, m.up(b)], 1))
    return Fn(forward, a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(4, 8, 3, padding=1), up=nn.ConvTranspose2d(8, 4, 2, 2),
              c=nn.Conv2d(8, 2, 1))


@net(IMAGE)
def unet_resized():
    def forward(m, x):
        a = m.a(x).relu()
        b = m.b(F.max_pool2d(a, 2)).relu()
        return m.c(torch.cat([a, F.interpolate(b, size=a.shape[-2:], mode="nearest")], 1))
    return Fn(forward, a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(4, 4, 3, padding=1), c=nn.Conv2d(8, 2, 1))


@net(IMAGE)
def segmentation():
    def forward(m, x):
        y = m.head(m.body(x))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
    return Fn(forward, body=nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1)), head=nn.Conv2d(8, 5, 1))


@net(TOKENS)
def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False)


@net(("n", 10, 16))
def lstm():
    return Fn(lambda m, x: m.rnn(x)[0][:, -1], rnn=nn.LSTM(16, 8, batch_first=True))


@net(("n", 10, 16))  # torch.export unrolls it: the length is the export's
def gru():
    return Fn(lambda m, x: m.rnn(x)[0], rnn=nn.GRU(16, 8, batch_first=True))


@net(IMAGE)
def depthwise():
    return nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.Hardswish(), nn.Conv2d(8, 6, 1))


@net(IMAGE)
def residual():
    def forward(m, x):
        y = m.stem(x)
        return F.relu(m.two(F.relu(m.one(y))) + m.short(y))
    return Fn(forward, stem=nn.Conv2d(3, 4, 7, 2, 3), one=nn.Conv2d(4, 8, 3, 2, 1), two=nn.Conv2d(8, 8, 3, padding=1),
              short=nn.Conv2d(4, 8, 1, 2))


@net(TOKENS)
def attention():
    def forward(m, x):
        n, l, _ = x.shape
        q, k, v = m.qkv(x).view(n, l, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return m.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, l, 16))
    return Fn(forward, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16))


@net(("n", "l"), ids=True)
def embedding():
    return Fn(lambda m, x: m.out(m.table(x).mean(1)), table=nn.Embedding(50, 16), out=nn.Linear(16, 3))


@net(TOKENS)
def layer_norms():
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.RMSNorm(16))


@net(IMAGE)
def group_norms():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.InstanceNorm2d(8))


@net(("n", "h", "w", 4))
def windows():
    def forward(m, x):
        n, h, w, c = x.shape
        parts = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        parts = m.mix(parts).view(n, h // 4, w // 4, 4, 4, c)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c) + x
    return Fn(forward, mix=nn.Linear(4, 4))


@net(LINE)
def audio():
    return nn.Sequential(nn.Conv1d(4, 8, 3, padding=2, dilation=2), nn.ELU(), nn.Conv1d(8, 8, 4, 2, 1), nn.Conv1d(8, 2, 1))


@net(IMAGE)
def transposed():
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 3, 4, 2, 1), nn.Tanh())


@net(IMAGE)
def adaptive():
    return Fn(lambda m, x: torch.cat([F.adaptive_avg_pool2d(x, s).flatten(1) for s in (1, 2)], 1))


@net(IMAGE)
def shuffled():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PixelShuffle(2), nn.UpsamplingNearest2d(scale_factor=2))


@net(TOKENS)
def positions():
    def forward(m, x):
        at = torch.arange(x.shape[1], device=x.device)
        with torch.no_grad():
            angle = at[:, None] * torch.ones(16)
        mask = at[:, None] >= at[None]
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1)
        return scores @ (x * angle.cos())
    return Fn(forward)


@net(("n", "l", 4), ("n", "l", 4))
def pair():
    return Fn(lambda m, x, y: {"sum": (x + y).mean(1), "both": torch.cat([x, y], 1)})


def values(shape, sizes, ids):
    shape = [sizes.get(size, size) for size in shape]
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, 50, shape, generator=random) if ids else torch.randn(shape, generator=random)


def dims(shapes, kind, named):
    """For named Dims those of height and width are multiples of eight, as in the list of sizes."""
    def one(size):
        if kind == "auto":
            return Dim.AUTO
        return 8 * named.setdefault(size, Dim(f"{size}8", min=1, max=64)) if size in "hw" else named.setdefault(size, Dim(size, min=4 if size == "l" else 1))
    return [{i: one(size) for i, size in enumerate(shape) if isinstance(size, str)} for shape in shapes]


def leaves(result):
    return result if isinstance(result, dict) else {"output": result}


def main(folder, *names):
    for name, (make, shapes, ids) in NETS.items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        module = make().eval()
        for kind in ("auto", "named"):
            inputs = tuple(values(shape, EXPORT, ids) for shape in shapes)
            dynamic = tuple(dims(shapes, kind, {}))
            if isinstance(module, Fn):
                dynamic = (dynamic,)
            program = torch.export.export(module, inputs, dynamic_shapes=dynamic)
            torch.export.save(program, str(folder / f"{name}-{kind}.pt2"))
            ports = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
            for number, sizes in enumerate(SIZES):
                given = [values(shape, sizes, ids) for shape in shapes]
                with torch.no_grad():
                    results = leaves(module(*given))
                at = f"{name}-{kind}.{number}"
                np.savez(folder / f"{at}.in.npz", **{port: x.numpy() for port, x in zip(ports, given)})
                np.savez(folder / f"{at}.out.npz", **{key: x.numpy() for key, x in results.items()})


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
