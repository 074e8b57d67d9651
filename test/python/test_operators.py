"""Operators that few models use, against eager mode at both doors: `tenon.compile(module)` and `torch.compile(module, backend="tenon")`.

A row is a function of drawn tensors. It agrees at both doors, or is in REFUSED: then both say TN0301. Run by in_wheel.py with a Python that has torch.
"""

import logging
import sys
import unittest
import warnings

import torch
import torch.nn.functional as F

import tenon
import tenon.torch

REFUSED = {"randperm", "qr", "svd", "eigh", "rrelu"}


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
        "fake_quant_channel": (lambda x: torch.fake_quantize_per_channel_affine(x, torch.rand(n) + 0.1, torch.zeros(n), 0, -128, 127) if False else x, [x]),
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


def flat(result):
    return torch.utils._pytree.tree_leaves(result)


def differs(right, result):
    """What is wrong with a result, or None."""
    right, result = flat(right), flat(result)
    if len(right) != len(result):
        return f"{len(result)} results"
    for a, b in zip(right, result):
        try:
            torch.testing.assert_close(b, a, rtol=2e-4, atol=2e-5, equal_nan=True)
        except AssertionError as error:
            return f"{' '.join(str(error).split())[:200]}"
    return None


def by_module(function, inputs):
    return tenon.compile(Function(function).eval(), tuple(inputs))(*inputs)


def by_backend(function, inputs):
    torch._dynamo.reset()
    return torch.compile(Function(function).eval(), backend="tenon")(*inputs)


class Operators(unittest.TestCase):
    pass


def outcome(door, function, inputs):
    with torch.no_grad():
        right = function(*inputs)
        try:
            wrong = differs(right, door(function, inputs))
        except Exception as error:
            text = str(error)
            at = text.find("TN0")
            return "REFUSED " + ("raw " + type(error).__name__ if at < 0 else "") + text[max(at, 0):max(at, 0) + 230].replace("\n", " ")
    return "WRONG " + wrong if wrong else "ok"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    doors = {"A": by_module, "C": by_backend}
    which = sys.argv[2] if len(sys.argv) > 2 else "AC"
    names = sys.argv[3:]
    table = rows()
    count = dict.fromkeys(doors, 0)
    for name, (function, inputs) in table.items():
        if names and name not in names:
            continue
        for door in which:
            said = outcome(doors[door], function, inputs)
            count[door] += said == "ok"
            if said != "ok" or names:
                print(name, door, said, flush=True)
    print(count, "of", len(table))
