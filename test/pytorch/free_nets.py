"""Small nets whose inputs have free sizes. export_nets.py exports them; architectures.py has more of them."""

import torch
from torch import nn
from torch.nn import functional as F

NETS = {}
IMAGE, LINE, TOKENS = ("n", 3, "h", "w"), ("n", 4, "l"), ("n", "l", 16)


def net(*shapes, ids=False, odd=False):
    """A function that makes the module, with the shapes of its inputs. `ids`: these are integers, all or each by its own flag;
    `odd`: height and width may be any, not only multiples of eight."""
    def register(make):
        NETS[make.__name__] = (make, shapes, ids if isinstance(ids, tuple) else (ids,) * len(shapes), odd)
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
