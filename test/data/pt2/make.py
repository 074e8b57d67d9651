"""Writes the programs of this folder, NAME.pt2, and NAME.npz: inputs in0, in1, ... and the results out0, ... of eager PyTorch,
again1_out0, ... of a second call.

Run with an environment that has torch (scripts/requirements-torch.txt); the tests read the files without it. Each program
is about one thing that torch.export leaves to whoever reads it.
"""

import io
import pathlib
import re
import sys
import zipfile

import numpy as np
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401, has the forms of PT2E
from torch.export import Dim
from torchvision.ops import roi_align

HERE = pathlib.Path(__file__).parent
PROGRAMS = {}


def program(*inputs, dynamic=None, calls=1):
    def register(cls):
        PROGRAMS[cls.__name__.lower()] = (cls, inputs, dynamic, calls)
        return cls
    return register


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@program(randn(4, 6))
class Writes(nn.Module):
    """Writes through views are seen by whoever looks at the same memory."""

    def forward(self, x):
        y = x.clone()
        y[:, 1:3] = 7
        row = y[2]
        row.mul_(2)
        y.view(2, 2, 6)[1, :, 5] = -1
        y[:, ::2].add_(x[:, ::2])
        y.t()[0].zero_()
        first, second = y.chunk(2)
        second.copy_(first + 1)
        y[y > 6] = 6
        return y, row, second


@program(randn(5, 24))
class Quantized(nn.Module):
    """The quantized forms of PT2E: a scale known ahead and one found at run time, weights with a scale for each output, a range that is
    narrower than its type."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.arange(-384, 384).remainder(251).sub(125).to(torch.int8).reshape(32, 24))
        self.register_buffer("scales", torch.linspace(0.001, 0.004, 32))
        self.register_buffer("zeros", torch.zeros(32, dtype=torch.int64))

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        q = ops.quantize_per_tensor(x, 0.03, 117, 0, 255, torch.uint8)
        known = nn.functional.linear(ops.dequantize_per_tensor(q, 0.03, 117, 0, 255, torch.uint8), weight)
        scale, zero = ops.choose_qparams(x, 0, 255, 1e-6, torch.uint8)
        q = ops.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        found = nn.functional.linear(ops.dequantize_per_tensor(q, scale, zero, 0, 255, torch.uint8), weight)
        narrow = ops.quantize_per_tensor(x, 0.02, 0, -100, 90, torch.int8)
        channels = ops.quantize_per_channel(x, self.scales[:24] * 9, self.zeros[:24] + 3, 1, -128, 127, torch.int8)
        return known, found, narrow, channels


@program(randn(3, 4), calls=3)
class State(nn.Module):
    """Buffers that are written are state: one begins with zeros, one with other numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("count", torch.ones((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(3, 5, 4))

    def forward(self, x):
        self.total += x.sum(0)
        self.cache.index_copy_(1, self.count[None], x[:, None])
        self.count.add_(1)
        return self.total / self.count, self.cache.sum(1)


@program(randn(5, 3), randn(10, 3), dynamic=({0: Dim("n", min=2, max=32)}, {0: 2 * Dim("n", min=2, max=32)}))
class Relations(nn.Module):
    """A dim that is twice another, and sizes computed of them."""

    def forward(self, x, y):
        n = x.shape[0]
        return torch.cat([x, y])[: y.shape[0]], y.view(n, 2, 3).mean(1) + x, torch.arange(n) * (n // 2)


@program(randn(2, 3, 8), randn(2, 8, 5), dynamic=({0: Dim("b", min=1, max=8)}, {0: Dim("b", min=1, max=8)}))
class Products(nn.Module):
    def forward(self, x, y):
        return (torch.einsum("bij,bjk->bki", x, y), torch.einsum("bij,bij->b", x, x), torch.einsum("bij,cjk->bcik", x, y),
                x @ y[0], torch.baddbmm(torch.ones(1, 3, 5), x, y, beta=0.5, alpha=2))


@program(randn(3, 4))
class Branches(nn.Module):
    def forward(self, x):
        def grow(i, y):
            return i + 1, y * 1.5 + 0.1

        steps, y = torch.while_loop(lambda i, y: (i < 6) & (y.abs().sum() < 40), grow, (torch.tensor(0), x))
        return torch.cond(x.sum() > 0, lambda v: v.relu(), lambda v: v.tanh() - 1, (x,)), y, steps


@program(randn(4, 5), torch.tensor([[0, 2], [3, -1]]), torch.tensor([1, 4]))
class Indices(nn.Module):
    def forward(self, x, rows, columns):
        y = x.clone()
        y[rows[0], columns] = torch.tensor([10.0, 20.0])
        z = x.index_put((columns.clamp(max=3),), x[:2] * 2, accumulate=True)
        return (x[rows], x[:, columns], x[rows, columns], x[rows[0], :, None], y, z, x[x > 0], (x > 0).nonzero(),
                x.scatter(1, columns[None].expand(4, 2), 3.0), x.gather(0, rows.clamp(min=0)[:, :2]),
                torch.scatter_reduce(x, 0, rows.clamp(min=0), x[:2, :2], "mean", include_self=False))


@program(randn(1, 4, 9, 7))
class Images(nn.Module):
    def forward(self, x):
        f = nn.functional
        grid = f.affine_grid(torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 1.1, 0.2]]]), [1, 4, 5, 6], align_corners=False)
        return (f.interpolate(x, scale_factor=2.0), f.interpolate(x, size=(5, 11), mode="bilinear"),
                f.interpolate(x, size=(18, 14), mode="bicubic", align_corners=True), f.adaptive_avg_pool2d(x, (4, 3)),
                f.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False),
                f.unfold(x, 3, padding=1, stride=2), f.max_pool2d(x, 3, 2, 1, ceil_mode=True), f.pixel_shuffle(x, 2),
                f.group_norm(x, 2), f.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


@program(torch.arange(12).view(3, 4) - 5, randn(3, 4))
class Types(nn.Module):
    """Promotion of types, division and remainders of negative numbers, numbers as truths."""

    def forward(self, i, x):
        return (i / 2, i // 3, i % 3, torch.fmod(i, 3), i + 1.5, i + True, (x > 0) + (i > 0), x * i, i.pow(2), i.float().pow(-1),
                torch.div(x, 0.3, rounding_mode="trunc"), torch.div(i, 3, rounding_mode="floor"), x.to(torch.uint8),
                i.clamp(-2, 3), torch.where(i > 0, x, 0), x.half() + i, (i > 0).sum(), (i > 0).any(1), i.to(torch.bool),
                (x > 0).masked_fill(x > 1, -2), torch.full((3, 4), 0.25, dtype=torch.bool) ^ (x > 0),
                torch.nn.functional.pad(i > 0, (1, 1), value=4))


@program(randn(2, 6, 3))
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 5, batch_first=True)
        self.heads = nn.MultiheadAttention(5, 1, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        y, last = self.gru(y)
        z, weights = self.heads(y, y, y)
        return {"z": z, "weights": weights, "states": (h, c, last)}


@program(randn(2, 6, 8), randn(5, 4), dynamic=({0: Dim("b", min=1, max=8), 1: Dim("n", min=2, max=32)}, {0: Dim("p", min=2, max=8)}))
class Rotations(nn.Module):
    """Complex tensors, which no input and no output is: rotations by position, products, quotients, parts."""

    def forward(self, x, y):
        n = x.shape[1]
        angles = torch.outer(torch.arange(n).float(), torch.tensor([1.0, 0.3, 0.1, 0.03]))
        turns = torch.polar(torch.ones_like(angles), angles) * 1.5
        z = torch.view_as_complex(x.reshape(-1, n, 4, 2))
        rotated = torch.view_as_real(z * turns[None].to(torch.complex64)).flatten(2)
        w = torch.complex(y, y.flip(0))
        moved = torch.cat([w.t(), w.conj().t() / (w.t() + 2)], 1)[1:, :].unsqueeze(0)
        return rotated, torch.view_as_real(moved - y[0, 0]), moved.abs(), (w * y).imag.sum(0), w.sum(0).real


@program(randn(2, 6, 8), randn(3, 10), dynamic=({0: Dim("b", min=1, max=8), 1: Dim("n", min=2, max=32)}, None))
class Transforms(nn.Module):
    """Fourier transforms over dims of constants and of symbols."""

    def forward(self, x, y):
        f = torch.fft
        back = f.ifft(f.fft(x, dim=1) * 2, dim=1)
        return (f.fftn(x, dim=(1, 2)).real, back.real, back.imag, torch.view_as_real(f.rfft(y)), f.irfft(f.rfft(y)),
                f.irfft(f.rfft(y), n=9), f.ifft2(y).imag,
                torch.view_as_real(torch.ops.aten._fft_c2c(y.to(torch.complex64), [0, 1], 0, True)),
                torch.ops.aten._fft_r2c(y, [1], 0, True).abs())


@program(randn(2, 5, 3), dynamic=({1: Dim("n", min=3, max=32)},))
class Padded(nn.Module):
    """Pads that sizes decide, and a window that is larger than what it looks at."""

    def forward(self, x):
        n = x.shape[1]
        f = nn.functional
        return (f.pad(x, (0, 0, 1, (8 - n % 8) % 8), value=2.0), f.pad(x, (0, 0, n % 2, 0)),
                f.pad(x, (0, 0, n // 2, 1), mode="replicate"), f.avg_pool1d(x, 4, ceil_mode=True),
                f.max_pool1d(x, 4, 2, ceil_mode=True))


@program(randn(2, 3, 12, 10), torch.tensor([[0, 1.0, 2.0, 7.0, 9.0], [1, -3.0, 0.5, 4.0, 30.0], [1, 2.0, 2.0, 2.5, 2.1]]),
         dynamic=({0: Dim("images", min=1, max=4)}, {0: Dim("boxes", min=2, max=8)}))
class Regions(nn.Module):
    """torchvision's pooling in boxes, of which some reach beyond the image."""

    def forward(self, x, boxes):
        return roi_align(x, boxes, (3, 2), 0.5, 2, True), roi_align(x, boxes, 2, 1.0, 3, False)


@program(randn(4, 6), randn(1, 1, 4, 3), randn(6, 7, 10), randn(0, 4), dynamic=(None, None, {1: Dim.AUTO, 2: Dim.AUTO}, None))
class Shared(nn.Module):
    """What is a view and what a copy, by strides; and what random modules found wrong."""

    def forward(self, x, image, long, nothing):
        y = x * 1
        diagonal, windows = torch.diagonal(y, 1), y.unfold(1, 2, 3)
        diagonal.add_(3)
        copied, seen, part = y.t().reshape(-1), y.reshape(-1), y[:, :4].reshape(4, 2, 2)
        for tensor in (copied, seen, part, y.t().contiguous(), y.to(torch.float32, copy=True)):
            tensor.mul_(2)
        a, b, c, d = torch.chunk(long, 4, 2)
        turned = long.transpose(0, 1).flatten()
        return (y, diagonal, windows, copied, seen, part, torch.cat([c, d, a], 2), turned, torch.einsum("abc,ab->ac", long, long[:, :, 0]),
                nn.functional.interpolate(image, size=[7, 2], mode="bicubic", antialias=True),
                nn.functional.interpolate(image, scale_factor=1.7, mode="bilinear", align_corners=True),
                torch.all(nothing.to(torch.uint8)), nn.functional.max_pool2d(image, 3, 3, 1, ceil_mode=True))


@program(torch.where(randn(2, 6, 8) > 0, 1, -1) * (randn(2, 6, 8).abs().clamp(0.5, 3).round() + 0.003).clamp(min=1.003),
         dynamic=({0: Dim.AUTO, 1: Dim.AUTO},))
class Modes(nn.Module):
    """Regions of no_grad, of autocast, and of autocast that is off. The casts of autocast are not in the program: they make
    integers of the inputs, so that sums of products are exact in bfloat16, and other numbers without them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.dense, self.conv, self.norm = nn.Linear(8, 8), nn.Conv1d(8, 8, 3, padding=1), nn.LayerNorm(8)
        self.batch = nn.BatchNorm1d(8)
        with torch.no_grad():
            for parameter in [*self.dense.parameters(), *self.conv.parameters()]:
                parameter.copy_(parameter.sign())

    def forward(self, x):
        with torch.no_grad():
            angle = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * torch.ones(8)
            cosine, sine = angle.cos(), angle.sin()
            written = x * 1
            with torch.enable_grad():
                written[:, 0] = 3
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.dense(x)
            z = self.norm(y) + self.batch(self.conv(x.transpose(1, 2))).transpose(1, 2)
            with torch.autocast("cpu", enabled=False):
                exact = x @ x.transpose(1, 2)
            scores = torch.softmax(torch.matmul(y.sign(), x.transpose(1, 2)), -1)
        return x * cosine + self.dense(x) * sine, written, y.float(), z.float(), exact, scores.float()


@program(randn(4, 3), randn(3))
class Wrapped(nn.Module):
    """Graphs over rows and graphs with something around them."""

    def forward(self, x, y):
        from torch._higher_order_ops.hints_wrap import hints_wrapper
        from torch._higher_order_ops.map import map as over_rows
        from torch._higher_order_ops.scan import scan

        region = torch.compiler.nested_compile_region(lambda a: a.sin() + 1)
        rows = over_rows(lambda a, b: (a * b).sin() + 1, x, y)
        last, all_rows = scan(lambda c, a: (c * 0.5 + a, (c + a).tanh()), y, x, dim=0)
        hinted = hints_wrapper(lambda a, b: (a * b,), (x, y), {}, hints={"kind": 1})[0]
        return rows, last, all_rows, hinted, region(region(x))


@program(randn(2, 3, 3), randn(2, 3, 3, 5), dynamic=({0: Dim("b", min=2, max=8)}, {0: Dim("b", min=2, max=8)}))
class Equations(nn.Module):
    """einsum with diagonals, with ellipses of several dims, and without a result."""

    def forward(self, x, y):
        e = torch.einsum
        return (e("bii->bi", x), e("bii", x), e("iij,bi->bj", y[0], x[:, 0]), e("...ij,...jk", x[:, None], y), e("i...,i...", y, x[..., None]),
                e("bhqd,bkhd->bhqk", y, y), e("bii,bijk->bkj", x, y), e("i,i", x[0, 0], x[1, 1]), e("b...->...", y), e("ij,jk,bkl->bil", x[0], x[1], x))


@program(randn(3, 1, 4, 1), randn(2, 6), dynamic=({0: Dim.AUTO, 2: Dim.AUTO}, {1: Dim.AUTO}))
class Squeezed(nn.Module):
    """Removing all dims of 1: torch.export takes none that varies for one."""

    def forward(self, x, y):
        chosen = (y > 0).flatten().nonzero().squeeze()
        return x.squeeze() * 2, x.squeeze().sum(0), y.flatten()[chosen], y.squeeze()


@program(randn(2, 3, 5, 4) * 3, randn(2, 2, 3, 4), randn(2, 2, 5, 4), dynamic=({2: Dim("h", min=2, max=16), 3: Dim("w", min=2, max=16)}, None, None))
class Forms(nn.Module):
    """Activations with parameters, attention of fewer queries than keys, and maps resized by ratios that sizes decide."""

    def forward(self, x, q, k):
        f = nn.functional
        h, w = x.shape[2:]
        return (f.celu(x, 0.7), f.celu(x), f.selu(x), f.elu(x, 0.3), f.hardswish(x), f.hardsigmoid(x), f.softplus(x, 2, 3), f.mish(x), f.softsign(x),
                f.gelu(x), f.gelu(x, approximate="tanh"), f.scaled_dot_product_attention(q, k, k, is_causal=True),
                f.scaled_dot_product_attention(q, k, k, attn_mask=q[..., :1] > k[:, :, :, 0][:, :, None], scale=0.3),
                f.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True), f.interpolate(x, size=(w, h)),
                f.interpolate(x, scale_factor=(1.5, 2), mode="bilinear"), f.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True))


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else [value]


def stable(path):
    """The archive without what is different in each run or on each machine, or what nobody reads: example inputs, an identity,
    the folders of source files."""
    archive = zipfile.ZipFile(path)
    kept = [name for name in archive.namelist() if "sample_inputs" not in name and "serialization_id" not in name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as smaller:
        for name in kept:
            data = re.sub(rb'File \\"[^"]*/(site-packages/|(?=make.py))', rb'File \\"\1', archive.read(name))
            smaller.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    path.write_bytes(out.getvalue())


def main():
    """Those that are named, or all."""
    for name, (cls, inputs, dynamic, calls) in PROGRAMS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        exported = torch.export.export(cls().eval(), inputs, dynamic_shapes=dynamic)
        path = HERE / f"{name}.pt2"
        torch.export.save(exported, str(path))
        stable(path)
        model = cls().eval()
        arrays = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
        for call in range(calls):
            with torch.no_grad():
                results = leaves(model(*[x.clone() for x in inputs]))
            again = f"again{call}_" if call else ""
            arrays |= {f"{again}out{i}": x.detach().numpy().copy() for i, x in enumerate(results)}
        np.savez_compressed(HERE / f"{name}.npz", **arrays)
        print(name, path.stat().st_size)


if __name__ == "__main__":
    main()
