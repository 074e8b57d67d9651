"""Operators that few models use, against eager mode at both doors: `tenon.compile(module)` and `torch.compile(module, backend="tenon")`.

A row is a function of drawn tensors. It agrees at both doors, or is in REFUSED: then the module's door says TN0301, and what it advises works. Run by in_wheel.py with a Python that has torch.
"""

import collections
import dataclasses
import logging
import os
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F

import tenon
import tenon.torch

REFUSED = ["randperm", "svd", "lstsq", "bessel_j0"]
# Refused as well, for sizes that data decides and for decompositions that would need other ones.
DATA = ["unique", "bincount", "zeta", "eigh", "pinv"]


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def draw(*shape, dtype=torch.float32):
    if dtype == torch.int64:
        return torch.randint(0, 5, shape)
    return torch.randn(shape, dtype=dtype)


def spd(n, *batch):
    """Well conditioned and positive definite."""
    x = torch.randn(*batch, n, n)
    return x @ x.mT + n * torch.eye(n)


def square(n, *batch):
    return torch.randn(*batch, n, n) + n * torch.eye(n)


def rows():
    """{name: (function, inputs)}"""
    n, m = (torch.randint(2, 7, ()).item() for _ in range(2))
    x, y, a, v = draw(n, m), draw(n, m), draw(2, 3, m), draw(m)
    u, p = torch.rand(n, m) * 0.98 + 0.01, torch.rand(n, m) + 0.1
    i, j = torch.randint(-9, 9, (n, m)), torch.randint(0, 4, (n, m))
    image, ids, long = draw(1, 4, 9, 9), torch.tensor([[1, 2, 4], [3, 4, 2]]), draw(2, 64)
    complexes = draw(n, m, dtype=torch.complex64)
    target, words = torch.randint(0, m, (n,)), draw(10, 4)
    return {
        "hann_window": (lambda x: x * torch.hann_window(m), [x]),
        "hamming": (lambda x: x * torch.hamming_window(m, False), [x]),
        "kaiser": (lambda x: x * torch.kaiser_window(m), [x]),
        "blackman": (lambda x: x * torch.blackman_window(m), [x]),
        "linspace": (lambda x: x * torch.linspace(0, 1, m), [x]),
        "logspace": (lambda x: x * torch.logspace(0, 1, m), [x]),
        "randperm": (lambda x: x[:, torch.randperm(m)], [x]),
        "eye": (lambda x: x @ torch.eye(m), [x]),
        "tril_indices": (lambda x: x @ x.mT + torch.tril_indices(n, n).sum(), [x]),
        "triu_indices": (lambda x: torch.triu_indices(n, m, 1).float().sum() + x, [x]),
        "bartlett": (lambda x: x * torch.bartlett_window(m), [x]),
        "erfinv": (torch.erfinv, [u * 2 - 1]),
        "lgamma": (torch.lgamma, [x * 4]),
        "digamma": (torch.digamma, [p * 4]),
        "polygamma": (lambda x: torch.polygamma(1, x), [p * 4]),
        "i0": (torch.i0, [x * 4]),
        "i0e": (torch.special.i0e, [x * 4]),
        "i1": (torch.special.i1, [x * 4]),
        "i1e": (torch.special.i1e, [x * 4]),
        "ndtri": (torch.special.ndtri, [u]),
        "copysign": (torch.copysign, [x, y]),
        "signbit": (torch.signbit, [x]),
        "median": (lambda x: x.median(-1), [x]),
        "median_all": (torch.median, [x]),
        "nanmedian": (lambda x: torch.nanmedian(torch.where(x > 0.5, torch.nan, x), -1)[0], [a]),
        "kthvalue": (lambda x: x.kthvalue(2, -1), [x]),
        "mode": (lambda x: x.mode(-1)[0], [j]),
        "cumprod": (lambda x: x.cumprod(-1), [a]),
        "cummax": (lambda x: x.cummax(1), [a]),
        "cummin": (lambda x: x.cummin(-1), [a]),
        "logcumsumexp": (lambda x: x.logcumsumexp(-1), [x]),
        "bincount": (lambda x: torch.bincount(x, minlength=6), [j[0]]),
        "histc": (lambda x: torch.histc(x, 5, -2.0, 2.0), [x]),
        "unique": (lambda x: torch.unique(x), [j]),
        "quantile": (lambda x: torch.quantile(x, 0.3, dim=-1), [x]),
        "nanquantile": (lambda x: torch.nanquantile(x, 0.3, dim=-1), [x]),
        "lshift": (lambda x: x << 2, [j]),
        "rshift": (lambda x: x >> 1, [i]),
        "shift_tensor": (lambda x, y: torch.bitwise_right_shift(x, y) + torch.bitwise_left_shift(x, y), [i, j]),
        "round_dec": (lambda x: x.round(decimals=2), [x]),
        "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), [x, x > 0, y]),
        "embedding_bag": (lambda i, w: F.embedding_bag(i, w, mode="mean"), [ids, words]),
        "embedding_bag_offsets": (lambda i, o, w: F.embedding_bag(i, w, o, mode="sum"), [ids.flatten(), torch.tensor([0, 2, 2]), words]),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), [image]),
        "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 1), [a]),
        "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 3)), [image]),
        "adaptive_max_pool2d_uneven": (lambda x: F.adaptive_max_pool2d(x, (2, 4), return_indices=True), [image]),
        "max_unpool": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 3, return_indices=True), 3), [image]),
        "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 3), [image]),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 3), [image]),
        "cdist": (torch.cdist, [x, y]),
        "cdist_3": (lambda x, y: torch.cdist(x, y, p=3.0), [x, y]),
        "pdist": (F.pdist, [x]),
        "cov": (torch.cov, [x]),
        "corrcoef": (torch.corrcoef, [x]),
        "det": (torch.linalg.det, [square(n)]),
        "inv": (torch.linalg.inv, [square(n, 2)]),
        "inverse": (torch.inverse, [square(3)]),
        "solve": (torch.linalg.solve, [square(n), draw(n, 2)]),
        "solve_vector": (torch.linalg.solve, [square(n), draw(n)]),
        "solve_triangular": (lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False), [square(n), draw(n, 2)]),
        "cholesky": (torch.linalg.cholesky, [spd(n, 2)]),
        "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), [spd(n), draw(n, 2)]),
        "qr": (torch.linalg.qr, [square(n)]),
        "svd": (torch.linalg.svdvals, [x]),
        "eigh": (torch.linalg.eigvalsh, [spd(n)]),
        "matrix_exp": (torch.matrix_exp, [draw(n, n)]),
        "pinv": (torch.linalg.pinv, [square(n)]),
        "lstsq": (lambda a, b: torch.linalg.lstsq(a, b)[0], [square(n), draw(n, 2)]),
        "matrix_norm": (torch.linalg.matrix_norm, [x]),
        "slogdet": (torch.linalg.slogdet, [square(n, 2)]),
        "trace": (torch.trace, [x]),
        "tensordot": (lambda a: torch.tensordot(a, a, ([1, 2], [1, 2])), [a]),
        "multi_dot": (lambda x: torch.linalg.multi_dot([x, x.T, x]), [x]),
        "matrix_power": (lambda x: torch.matrix_power(x, 3), [draw(n, n)]),
        "vdot": (torch.vdot, [v, v]),
        "inner": (torch.inner, [x, y]),
        "ger": (torch.outer, [v, x[0]]),
        "addr": (torch.addr, [x, x[:, 0], v]),
        "addbmm": (torch.addbmm, [draw(3, 3), a, a.mT]),
        "mv": (torch.mv, [x, v]),
        "bilinear": (F.bilinear, [x, y, draw(2, m, m)]),
        "sinc": (torch.sinc, [x]),
        "ndtr": (torch.special.ndtr, [x]),
        "heaviside": (torch.heaviside, [x, torch.tensor(0.5)]),
        "take": (torch.take, [x, ids]),
        "msort": (torch.msort, [x]),
        "gcd": (torch.gcd, [i * 6, j * 4]),
        "lcm": (torch.lcm, [i, j]),
        "ldexp": (torch.ldexp, [x, j]),
        "frexp": (torch.frexp, [x]),
        "nextafter": (torch.nextafter, [x, y]),
        "float_power": (torch.float_power, [p, y]),
        "logit": (torch.logit, [u]),
        "xlogy": (torch.xlogy, [x, p]),
        "entr": (torch.special.entr, [x]),
        "erfcx": (torch.special.erfcx, [x]),
        "polar": (lambda r, t: torch.view_as_real(torch.polar(r, t)), [p, x]),
        "angle": (torch.angle, [x]),
        "angle_complex": (lambda x, y: torch.angle(torch.complex(x, y)), [x, y]),
        "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), [long]),
        "fft2": (lambda x: torch.fft.fft2(x).abs(), [image]),
        "rfft2": (lambda x: torch.fft.rfft2(x).abs(), [image]),
        "irfft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=(9, 9)), [image]),
        "fftshift": (torch.fft.fftshift, [x]),
        "istft": (lambda x: torch.istft(torch.stft(x, 16, window=torch.hann_window(16), return_complex=True), 16, window=torch.hann_window(16)), [long]),
        "mse": (F.mse_loss, [x, y]),
        "l1": (F.l1_loss, [x, y]),
        "ce": (F.cross_entropy, [x, target]),
        "ce_smooth": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=1), [x, target]),
        "nll": (lambda x, t: F.nll_loss(x.log_softmax(-1), t), [x, target]),
        "bce": (F.binary_cross_entropy, [u, p.clamp(0, 1)]),
        "bcel": (F.binary_cross_entropy_with_logits, [x, u]),
        "kl": (lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), [x, y]),
        "smoothl1": (F.smooth_l1_loss, [x, y]),
        "huber": (F.huber_loss, [x, y]),
        "fake_quant": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), [x]),
        "fake_quant_channel": (lambda x, s: torch.fake_quantize_per_channel_affine(x, s, torch.zeros(n), 0, -128, 127), [x, torch.rand(n) + 0.1]),
        "view_dtype": (lambda x: x.view(torch.int32), [x]),
        "as_strided": (lambda x: x.as_strided((2, 2), (1, 1)), [x]),
        "unfold": (lambda x: x.unfold(1, 4, 2), [long]),
        "renorm": (lambda x: x.renorm(2, 0, 1.0), [x]),
        "repeat_interleave_t": (lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=4), [x[:2], torch.tensor([1, 3])]),
        "index_reduce": (lambda x, i, s: x.index_reduce(0, i, s, "amax"), [x, torch.tensor([0, 1, 0]), draw(3, m)]),
        "index_reduce_mean": (lambda x, i, s: x.index_reduce(0, i, s, "mean", include_self=False), [x, torch.tensor([0, 1, 0]), draw(3, m)]),
        "scatter_reduce": (lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), [x, torch.zeros(n, m, dtype=torch.int64), y]),
        "put": (lambda x, i, s: x.put(i, s), [x, torch.tensor([0, 3]), draw(2)]),
        "put_accumulate": (lambda x, i, s: x.put(i, s, accumulate=True), [x, torch.tensor([0, 0, 3]), draw(3)]),
        "dist": (torch.dist, [x, y]),
        "isclose_nan": (lambda x, y: torch.isclose(torch.where(x > 0, torch.nan, x), torch.where(y > 0, torch.nan, x), equal_nan=True), [x, y]),
        "trapz": (lambda x: torch.trapezoid(x, dx=0.5), [x]),
        "gradient": (lambda x: torch.gradient(x, spacing=2.0), [draw(4, 5)]),
        "diff": (torch.diff, [x]),
        "roll": (lambda x: x.roll(1, -1), [x]),
        "rot90": (torch.rot90, [x]),
        "block_diag": (torch.block_diag, [x, v]),
        "cartesian": (torch.cartesian_prod, [v, x[0]]),
        "combinations": (lambda x: torch.combinations(x, 2), [v]),
        "vander": (lambda x: torch.vander(x, 4), [v]),
        "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), [v, x[0]]),
        "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), [x]),
        "logdet": (torch.logdet, [spd(n)]),
        "unravel": (lambda i: torch.unravel_index(i, (3, 4)), [ids]),
        "complex_matmul": (lambda x, y: torch.view_as_real(torch.complex(x, y) @ torch.complex(y, x).mT), [x, y]),
        "grid3d": (lambda x, g: F.grid_sample(x, g, align_corners=False), [draw(1, 2, 3, 4, 5), torch.rand(1, 2, 3, 2, 3) * 2 - 1]),
        "rrelu": (lambda x: F.rrelu(x, training=False), [x]),
        "threshold": (lambda x: F.threshold(x, 0.1, 2.0), [x]),
        "hardshrink": (F.hardshrink, [x]),
        "softshrink": (F.softshrink, [x]),
        "prelu": (F.prelu, [x, torch.tensor([0.3])]),
        "glu": (F.glu, [draw(3, 6)]),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), [image]),
        "local_response": (lambda x: F.local_response_norm(x, 2), [image]),
        "instance_norm": (F.instance_norm, [image]),
        "cos_embed": (lambda x, y, t: F.cosine_embedding_loss(x, y, t), [x, y, torch.ones(n)]),
        "triplet": (F.triplet_margin_loss, [x, y, x.roll(1, 0)]),
        "margin_ranking": (F.margin_ranking_loss, [x, y, y.sign()]),
        "multi_margin": (F.multi_margin_loss, [x, target]),
        "multilabel_soft_margin": (F.multilabel_soft_margin_loss, [x, y.heaviside(x)]),
        "gaussian_nll": (F.gaussian_nll_loss, [x, y, p]),
        "poisson_nll": (F.poisson_nll_loss, [x, p]),
        "hinge": (F.hinge_embedding_loss, [x, y.sign()]),
        "int_mm": (lambda a, b: torch._int_mm(a, b), [torch.randint(-99, 99, (24, 16), dtype=torch.int8), torch.randint(-99, 99, (16, 8), dtype=torch.int8)]),
        "stack_complex": (lambda x, y: torch.view_as_real(torch.stack([torch.complex(x, y), torch.complex(y, x)])), [x, y]),
        "nansum": (lambda x: torch.nansum(torch.where(x > 1, torch.nan, x), -1) + torch.nanmean(x, -1), [x]),
        "aminmax": (lambda x: tuple(torch.aminmax(x, dim=-1)), [x]),
        "logaddexp2": (torch.logaddexp2, [x, y]),
        "exp2_log2": (lambda x: torch.exp2(x).log2(), [x]),
        "xlog1py": (torch.special.xlog1py, [x, p]),
        "log_ndtr": (torch.special.log_ndtr, [x * 3]),
        "sgn": (torch.sgn, [x]),
        "fmax": (lambda x, y: torch.fmax(torch.where(x > 1, torch.nan, x), y) + torch.fmin(x, y), [x, y]),
        "mvlgamma": (lambda x: torch.mvlgamma(x + 2, 2), [p]),
        "zeta": (lambda x: torch.special.zeta(x + 2, x + 1), [p]),
        "chebyshev": (lambda x: torch.special.chebyshev_polynomial_t(x, 3), [x]),
        "bessel_j0": (torch.special.bessel_j0, [x * 5]),
        "select_scatter": (lambda x, y: torch.select_scatter(x, y[0], 0, 1).slice_scatter(y[:1], 0, 0, 1), [x, y]),
        "diagonal_scatter": (lambda x: torch.diagonal_scatter(x, torch.zeros(min(n, m))), [x]),
        "diag_embed": (torch.diag_embed, [x]),
        "kron": (torch.kron, [x, y]),
        "fold": (lambda x: F.fold(F.unfold(x, 3), (9, 9), 3), [image]),
        "tile_flip": (lambda x: torch.tile(x, (2, 1)).fliplr().flipud(), [x]),
        "tensor_split": (lambda x: torch.tensor_split(x, 2, 1), [x]),
        "index_fill": (lambda x: x.index_fill(0, torch.tensor([1]), 2.0).index_add(0, torch.tensor([0, 0]), x[:2]).index_copy(0, torch.tensor([1]), x[:1]), [x]),
        "searchsorted": (lambda x: torch.searchsorted(torch.arange(12.0).reshape(2, 6), x[:2, :2].abs() * 3), [x]),
        "logical": (lambda x, y: torch.logical_xor(x > 0, y > 0) | torch.logical_not(x > 1), [x, y]),
        "std_mean": (lambda x: torch.std_mean(x, -1, correction=0), [x]),
        "cumulative_trapezoid": (torch.cumulative_trapezoid, [x]),
        "nonzero_static": (lambda x: torch.nonzero_static(x > 0, size=3), [x]),
        "isin": (lambda x: torch.isin(x, torch.tensor([1, 3])), [j]),
        "clamp_tensor": (lambda x, y: torch.clamp(x, y - 1, y + 1), [x, y]),
        "fractional": (lambda x: F.pad(x, (1, 2), mode="circular"), [a]),
    }  # fmt: skip


def by_module(module, inputs):
    return tenon.compile(module.eval(), tuple(inputs))(*inputs)


def by_backend(module, inputs):
    torch._dynamo.reset()
    return torch.compile(module.eval(), backend="tenon")(*inputs)


def difference(door, function, inputs):
    """What differs from eager mode, or None; NaN is equal to NaN."""
    right, result = (torch.utils._pytree.tree_leaves(each) for each in (function(*inputs), door(Function(function), inputs)))
    try:
        torch.testing.assert_close(result, right, rtol=2e-4, atol=3e-5, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]


class Operators(unittest.TestCase):
    """A slice of the table for each door, since every row is a compilation; TENON_ALL_OPERATORS=1 takes all rows."""

    def differences(self, door, first, step):
        torch.manual_seed(0)
        table = rows()
        names = [name for name in table if name not in REFUSED + DATA]
        chosen = names if os.environ.get("TENON_ALL_OPERATORS") else names[first::step]
        with torch.no_grad():
            return {name: wrong for name in chosen if (wrong := difference(door, *table[name]))}

    def test_module(self):
        self.assertEqual({}, self.differences(by_module, 0, 5))

    def test_backend(self):
        self.assertEqual({}, self.differences(by_backend, 2, 10))

    def test_what_is_refused_says_what_works(self):
        torch.manual_seed(20261127)
        table = rows()
        for name in REFUSED:
            function, inputs = table[name]
            with torch.no_grad(), self.subTest(name), self.assertRaises(tenon.UnsupportedError) as caught:
                by_module(Function(function), inputs)
            self.assertEqual(caught.exception.id, "TN0301")
            self.assertIn("options={'fallback': True}", caught.exception.hint + str(caught.exception))
            if name != "randperm":  # which draws
                torch._dynamo.reset()
                with torch.no_grad():
                    result = torch.compile(Function(function).eval(), backend="tenon", options={"fallback": True})(*inputs)
                    torch.testing.assert_close(result, function(*inputs))

    def test_a_file_with_gaps(self):
        module, x = Function(lambda x: torch.erfinv(x.tanh()) + F.pixel_unshuffle(x, 2).sum()), torch.randn(1, 4, 4)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = os.path.join(folder, "m.pt2")
            torch.export.save(torch.export.export(module.eval(), (x,)), path)
            self.assertEqual(tenon.check(path)["gaps"], [])
            torch.testing.assert_close(tenon.compile(path)(x), module(x), rtol=1e-4, atol=1e-5)


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Parts:
    a: torch.Tensor
    b: torch.Tensor


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: self.norm(x) * 2, (x,))


class Rotary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.polar(torch.ones(8, 4), torch.outer(torch.arange(8.0), torch.arange(4.0))))

    def forward(self, x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(2, 6, 4, 2)) * self.table[: x.shape[1]]).flatten(2)


class Modules(unittest.TestCase):
    """What whole modules are made of: fast paths, complex buffers, trees, branches, functions over batches."""

    def same(self, module, *inputs, doors=(by_module, by_backend)):
        with torch.no_grad():
            right = module.eval()(*inputs)
            for door in doors:
                result = door(module, inputs)
                for a, b in zip(leaves(right), leaves(result), strict=True):
                    torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)

    def test_fast_paths_of_attention(self):
        x, hidden = torch.randn(2, 6, 8), torch.arange(6) >= torch.tensor([[6], [4]])
        for norm_first, activation in ((False, "relu"), (True, "gelu")):
            layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation)
            self.same(layer, x)
            self.same(Function(lambda x, hidden, layer=layer.eval(): layer(x, src_key_padding_mask=hidden)), x, hidden)

    def test_complex_buffers(self):
        self.same(Rotary(), torch.randn(2, 6, 8))

    def test_branches_with_modules(self):
        for x in (torch.ones(2, 8), -torch.ones(2, 8)):
            self.same(Branches(), x)

    def test_functions_over_a_batch(self):
        self.same(Function(lambda x: torch.vmap(lambda row: row.softmax(0) @ row)(x)), torch.randn(3, 4))

    def test_trees(self):
        x = torch.randn(3, 3)
        self.same(Function(lambda x: {"k": Pair(x, x + 1)}), x)
        self.same(Function(lambda x: Parts(x, x * 2)), x)
        engine = tenon.compile(Function(lambda pair, parts: Parts(pair.a - pair.b, parts.a)).eval(), (Pair(x, x * 2), Parts(x * 3, x)))
        for a, b in zip(engine(Pair(x, x * 2), Parts(x * 3, x)), (-x, x * 3)):
            torch.testing.assert_close(a, b)
        self.assertEqual([port.name for port in engine.outputs], ["a", "b"])

    def test_what_nobody_needs_may_be_missing(self):
        self.same(Function(lambda x: (torch.linalg.svdvals(x).sum() * 2, x + 1)[1]), torch.randn(3, 3), doors=[by_module])
        self.same(torch.nn.AdaptiveMaxPool2d(1), torch.randn(1, 2, 5, 5))

    def test_a_buffer_that_the_graph_writes_is_no_weight(self):
        cache = torch.zeros(4, 3)
        torch._dynamo.mark_static_address(cache)

        def step(cache, x, at):
            cache.index_copy_(0, at, x)
            return cache.sum(0)

        torch._dynamo.reset()
        tenon.torch.reset()
        compiled = torch.compile(step, backend="tenon", mode="reduce-overhead")
        with torch.no_grad():
            for at in range(4):
                compiled(cache, torch.ones(1, 3), torch.tensor([at]))
            torch.testing.assert_close(cache, torch.ones(4, 3))
        self.assertEqual([graph["recompiled"] for graph in tenon.report()["graphs"]], [0])


class Errors(unittest.TestCase):
    """Every error at a door is one of Tenon's, with a code, and names no file of its own."""

    def test_arguments(self):
        module, x = torch.nn.Linear(4, 4).eval(), torch.randn(2, 4)
        engine = tenon.compile(module, (x,))
        calls = [
            *(lambda key=key, value=value: tenon.compile(module, (x,), **{key: value})
              for key, value in {"precision": 3, "target": 3, "allow": 3, "taps": ("nope",), "states": [1], "threads": "2", "output": 3, "passes": [3],
                                 "max_weights": "a", "dynamic_shapes": {"y": {0: torch.export.Dim.AUTO}}}.items()),
            *(lambda model=model: tenon.compile(model, (x,)) for model in (3, b"", b"text", lambda x: x, "/nope.onnx")),
            *(lambda inputs=inputs: tenon.compile(module, inputs) for inputs in ((x, x), (torch.ones(3, 5),), (x.numpy(),), 3)),
            *(lambda value=value: engine(value) for value in (None, "abc", [[1, 2], [3]], x.to_sparse(), x.to("meta"), x.double(), torch.ones(3, 5))),
            lambda: tenon.load(3), lambda: engine.record(3), lambda: engine.explain("fusion", "nope"), lambda: engine.save(3),
            lambda: tenon.inspect(module, (x,), format="onnx"), lambda: tenon.check(module, (x,), target=3), lambda: tenon.graph(3),
            lambda: tenon.quantize(3, {}), lambda: tenon.accuracy(engine, 3), lambda: tenon.tune(module),
            lambda: tenon.compile(Function(lambda x: x if x.sum() > 0 else -x).eval(), (x,)),
        ]  # fmt: skip
        for index, call in enumerate(calls):
            with self.subTest(index), torch.no_grad(), self.assertRaises(tenon.Error) as caught:
                call()
            self.assertRegex(str(caught.exception), "^TN[0-9]{4}: ")
            self.assertNotRegex(str(caught.exception), "tenon-export|/tmp/tenon")

    def test_what_the_users_code_raises_stays(self):
        def progress(phase, fraction):
            raise TypeError("mine")

        with self.assertRaisesRegex(TypeError, "mine"):
            tenon.compile(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),), progress=progress, cache=False)

    def test_records_and_submodules(self):
        engine = tenon.compile(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),))
        self.assertEqual(engine.record("precision")["precision"], "keep")
        for name in ("compare", "drift", "mlflow", "onnxruntime", "pipeline", "prune", "ray_serve"):
            self.assertEqual(getattr(tenon, name).__name__, f"tenon.{name}")


def leaves(tree):
    return torch.utils._pytree.tree_leaves(dataclasses.asdict(tree) if dataclasses.is_dataclass(tree) else tree)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    unittest.main()
