"""Small architectures with free sizes, in addition to the nets of free_nets.py and exported as those are."""

import torch
from torch import nn
from torch.nn import functional as F

from free_nets import IMAGE, LINE, TOKENS, Fn, net


def conv(inner, outer, kernel=3, stride=1, **options):
    return nn.Sequential(nn.Conv2d(inner, outer, kernel, stride, kernel // 2, **options), nn.BatchNorm2d(outer), nn.ReLU())


@net(IMAGE, odd=True)
def fpn():
    def forward(m, x):
        c2 = m.c2(m.stem(x))
        c3 = m.c3(c2)
        c4 = m.c4(c3)
        p4 = m.l4(c4)
        p3 = m.l3(c3) + F.interpolate(p4, size=c3.shape[-2:], mode="nearest")
        p2 = m.l2(c2) + F.interpolate(p3, size=c2.shape[-2:], mode="nearest")
        return {"p2": m.out(p2), "p3": m.out(p3), "p4": m.out(p4)}
    return Fn(forward, stem=conv(3, 4, 3, 2), c2=conv(4, 6), c3=conv(6, 8, 3, 2), c4=conv(8, 8, 3, 2), l2=nn.Conv2d(6, 4, 1),
              l3=nn.Conv2d(8, 4, 1), l4=nn.Conv2d(8, 4, 1), out=nn.Conv2d(4, 4, 3, padding=1))


@net(IMAGE, odd=True)
def detector():
    """Scores and boxes of all anchors of two maps, with the anchors made from the sizes of the maps."""
    def forward(m, x):
        scores, boxes = [], []
        y = m.stem(x)
        for stage, stride in ((m.one, 4), (m.two, 8)):
            y = stage(y)
            n, _, h, w = y.shape
            at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1).reshape(-1, 2)
            centers = (at.to(x.dtype) + 0.5) * stride
            box = m.box(y).permute(0, 2, 3, 1).reshape(n, -1, 4)
            scores.append(m.score(y).permute(0, 2, 3, 1).flatten(1, 2))
            boxes.append(torch.cat([centers - box[..., :2].exp(), centers + box[..., 2:].exp()], -1))
        return {"scores": torch.cat(scores, 1).sigmoid(), "boxes": torch.cat(boxes, 1)}
    return Fn(forward, stem=conv(3, 4, 3, 2), one=conv(4, 8, 3, 2), two=conv(8, 8, 3, 2), score=nn.Conv2d(8, 3, 1), box=nn.Conv2d(8, 4, 1))


@net(TOKENS, ("n", "l"), ids=(False, True))
def masked_encoder():
    """Padding is masked where the id is small."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return Fn(lambda m, x, ids: m.layer(x, src_key_padding_mask=(ids < 9) & (torch.arange(x.shape[1]) > 0)), layer=layer)


@net(TOKENS, ("n", "s", 16))
def decoder():
    def forward(m, x, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return m.layer(x, memory, tgt_mask=mask, tgt_is_causal=True)
    return Fn(forward, layer=nn.TransformerDecoderLayer(16, 2, 32, batch_first=True))


@net(("n", "l"), ids=True)
def decoder_only():
    def forward(m, ids):
        n, l = ids.shape
        x = m.tokens(ids) + m.places(torch.arange(l, device=ids.device))
        q, k, v = m.qkv(m.norm(x)).reshape(n, l, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / 8 ** 0.5
        scores = scores.masked_fill(torch.ones(l, l, dtype=torch.bool).triu(1), float("-inf"))
        x = x + m.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, l, 16))
        return x @ m.tokens.weight.T
    return Fn(forward, tokens=nn.Embedding(50, 16), places=nn.Embedding(64, 16), norm=nn.LayerNorm(16), qkv=nn.Linear(16, 48), out=nn.Linear(16, 16))


@net(("n", "l"), ids=True)
def lstm_tagger():
    return Fn(lambda m, ids: m.head(m.rnn(m.table(ids))[0]), table=nn.Embedding(50, 8), rnn=nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True),
              head=nn.Linear(12, 5))


@net(TOKENS)
def gru_tagger():
    return Fn(lambda m, x: m.head(m.rnn(x)[1][-1]), rnn=nn.GRU(16, 6, 1, batch_first=True, bidirectional=True), head=nn.Linear(6, 5))


@net(LINE)
def tcn():
    """Causal convolutions: what is padded on both sides is cut at the end."""
    def forward(m, x):
        y = m.one(x)[..., :-4].relu()
        y = m.two(F.pad(y, (8, 0))).relu() + m.short(x)
        return m.head(y[:, :, -1])
    return Fn(forward, one=nn.Conv1d(4, 8, 3, padding=4, dilation=2), two=nn.Conv1d(8, 8, 3, dilation=4), short=nn.Conv1d(4, 8, 1), head=nn.Linear(8, 3))


@net(IMAGE)
def vit():
    """Position embeddings of 4 x 4 are interpolated to as many patches as there are."""
    def forward(m, x):
        x = m.patch(x)
        n, c, h, w = x.shape
        places = F.interpolate(m.places, size=(h, w), mode="bicubic", align_corners=False)
        tokens = torch.cat([m.cls.expand(n, -1, -1), (x + places).flatten(2).transpose(1, 2)], 1)
        return m.head(m.layer(tokens)[:, 0])
    made = Fn(forward, patch=nn.Conv2d(3, 16, 8, 8), layer=nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), head=nn.Linear(16, 4))
    made.places = nn.Parameter(torch.randn(1, 16, 4, 4))
    made.cls = nn.Parameter(torch.randn(1, 1, 16))
    return made


@net(("n", "h", "w", 8), odd=True)
def shifted_windows():
    """Windows of 4 x 4 of a map that is padded to whole windows and rolled by half of one."""
    def forward(m, x):
        n, h, w, c = x.shape
        y = F.pad(x, (0, 0, 0, -w % 4, 0, -h % 4))
        _, hp, wp, _ = y.shape
        y = torch.roll(y, (-2, -2), (1, 2))
        y = y.view(n, hp // 4, 4, wp // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = m.qkv(y).chunk(3, -1)
        y = m.out(F.scaled_dot_product_attention(q, k, v))
        y = y.view(n, hp // 4, wp // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, hp, wp, c)
        return x + torch.roll(y, (2, 2), (1, 2))[:, :h, :w]
    return Fn(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))


@net(("n", 3, 16, 16))
def mixer():
    def forward(m, x):
        y = m.patch(x).flatten(2)
        y = y + m.tokens(m.one(y.transpose(1, 2)).transpose(1, 2))
        y = y.transpose(1, 2)
        return m.head((y + m.channels(m.two(y))).mean(1))
    return Fn(forward, patch=nn.Conv2d(3, 8, 4, 4), one=nn.LayerNorm(8), two=nn.LayerNorm(8), head=nn.Linear(8, 3),
              tokens=nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), channels=nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)))


@net(IMAGE, odd=True)
def squeezed():
    """Depthwise convolutions with squeeze and excitation."""
    def forward(m, x):
        y = m.depth(m.expand(x))
        gate = m.up(m.down(F.adaptive_avg_pool2d(y, 1)).relu()).sigmoid()
        return m.project(y * gate).mean((2, 3))
    return Fn(forward, expand=conv(3, 12, 1), depth=conv(12, 12, 5, 2, groups=12), down=nn.Conv2d(12, 3, 1), up=nn.Conv2d(3, 12, 1), project=nn.Conv2d(12, 6, 1))


@net(("n", "samples"))
def spectrogram():
    """A short-time Fourier transform as a convolution, and filters over it."""
    def forward(m, x):
        y = F.pad(x[:, None], (8, 8), mode="reflect")
        real, imaginary = m.waves(y).chunk(2, 1)
        power = real ** 2 + imaginary ** 2
        y = m.filters(power.transpose(1, 2)).clamp(min=1e-4).log10()
        y = torch.maximum(y, y.amax((1, 2), keepdim=True) - 8)
        return m.head(y.transpose(1, 2))
    return Fn(forward, waves=nn.Conv1d(1, 18, 16, 4, bias=False), filters=nn.Linear(9, 6, bias=False), head=nn.Conv1d(6, 4, 3, 2, 1))


@net(("n", "samples"))
def stft():
    def forward(m, x):
        y = torch.stft(x, 16, 4, window=m.window, return_complex=True)
        return torch.view_as_real(y).pow(2).sum(-1).add(1e-5).log()
    made = Fn(forward)
    made.register_buffer("window", torch.hann_window(16))
    return made


@net(IMAGE, odd=True)
def super_resolution():
    def forward(m, x):
        return m.out(m.body(x)) + F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)
    return Fn(forward, body=conv(3, 8), out=nn.Sequential(nn.Conv2d(8, 27, 3, padding=1), nn.PixelShuffle(3)))


@net(IMAGE, odd=True)
def deeplab():
    """Dilated convolutions beside global pooling that is spread over the map, enlarged to the size of the input."""
    def forward(m, x):
        y = m.body(x)
        parts = [branch(y) for branch in (m.one, m.two)]
        parts.append(F.interpolate(m.image(F.adaptive_avg_pool2d(y, 1)), size=y.shape[-2:], mode="bilinear", align_corners=False))
        return F.interpolate(m.head(torch.cat(parts, 1)), size=x.shape[-2:], mode="bilinear", align_corners=False)
    return Fn(forward, body=nn.Sequential(conv(3, 8, 3, 2), conv(8, 8, 3, 2)), one=conv(8, 4, 1), two=nn.Conv2d(8, 4, 3, padding=2, dilation=2),
              image=nn.Conv2d(8, 4, 1), head=nn.Conv2d(12, 3, 1))


@net(IMAGE, odd=True)
def pyramid_pooling():
    def forward(m, x):
        y = m.body(x)
        pools = [F.interpolate(F.adaptive_avg_pool2d(y, s), size=y.shape[-2:], mode="bilinear", align_corners=True) for s in (1, 2)]
        return m.head(torch.cat([y, *pools], 1)).log_softmax(1)
    return Fn(forward, body=conv(3, 4, 3, 2), head=nn.Conv2d(12, 3, 1))


@net(IMAGE, odd=True)
def unet_padded():
    """Skips of any size: what was enlarged is padded to the size of the skip."""
    def forward(m, x):
        a = m.a(x)
        b = m.b(F.max_pool2d(a, 2))
        up = m.up(m.c(F.max_pool2d(b, 2)))
        up = F.pad(up, (0, b.shape[3] - up.shape[3], 0, b.shape[2] - up.shape[2]))
        y = m.d(torch.cat([b, up], 1))
        y = F.interpolate(y, size=a.shape[2:], mode="bilinear", align_corners=True)
        return m.e(torch.cat([a, y], 1)).argmax(1)
    return Fn(forward, a=conv(3, 4), b=conv(4, 6), c=conv(6, 8), up=nn.ConvTranspose2d(8, 6, 2, 2), d=conv(12, 6), e=nn.Conv2d(10, 3, 1))


@net(IMAGE, odd=True)
def bottleneck():
    def forward(m, x):
        y = F.max_pool2d(m.stem(x), 3, 2, 1)
        return m.head(F.relu(m.body(y) + m.short(y)).mean((2, 3)))
    return Fn(forward, stem=conv(3, 8, 7, 2), body=nn.Sequential(conv(8, 4, 1), conv(4, 4, 3, 2), nn.Conv2d(4, 16, 1), nn.BatchNorm2d(16)),
              short=nn.Conv2d(8, 16, 1, 2), head=nn.Linear(16, 4))


@net(TOKENS)
def relative_attention():
    """Scores with a bias by distance, gathered from a table."""
    def forward(m, x):
        n, l, c = x.shape
        at = torch.arange(l)
        distance = (at[None] - at[:, None]).clamp(-7, 7) + 7
        bias = m.table(distance).permute(2, 0, 1)
        q, k, v = (part.view(n, l, 2, 8).transpose(1, 2) for part in m.qkv(x).split(16, -1))
        return m.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None]).transpose(1, 2).flatten(2))
    return Fn(forward, table=nn.Embedding(15, 2), qkv=nn.Linear(16, 48), out=nn.Linear(16, 16))


@net(TOKENS)
def rotary():
    def forward(m, x):
        n, l, c = x.shape
        angle = torch.outer(torch.arange(l).float(), m.steps)
        angle = torch.cat([angle, angle], -1)
        def turn(y):
            first, second = y.chunk(2, -1)
            return y * angle.cos() + torch.cat([-second, first], -1) * angle.sin()
        q, k, v = (part(x) for part in (m.q, m.k, m.v))
        return F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
    made = Fn(forward, q=nn.Linear(16, 16), k=nn.Linear(16, 16), v=nn.Linear(16, 16))
    made.register_buffer("steps", 100 ** -(torch.arange(8) / 8))
    return made


@net(IMAGE)
def crops():
    """The middle half, halves, flips and strided parts of a map."""
    def forward(m, x):
        h, w = x.shape[-2:]
        middle = x[:, :, h // 4:h // 4 + h // 2, w // 4:w // 4 + w // 2]
        parts = x[:, :, ::2, 1::2] + x.flip(3)[:, :, 1::2, ::2]
        return {"middle": m.one(middle), "parts": m.one(torch.cat([parts, F.avg_pool2d(x, 2)], 1)[:, :3])}
    return Fn(forward, one=nn.Conv2d(3, 4, 3, padding=1))
