"""Special functions, in float64: series, asymptotic expansions and steps of Newton."""

from __future__ import annotations

import math

import torch

from ._table import own, wide

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# From here on the expansions for large arguments are exact to what float64 has, or nearly.
_LARGE = 10
# Bernoulli's numbers B2, B4, ...
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510]


def _polynomial(x, coefficients):
    """With the constant first."""
    y = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        y = y * x + coefficient
    return y


@own("erfinv", "special_erfinv")
@wide
def erfinv(y):
    """Rational approximations of three digits, and steps of Newton."""
    square = y * y
    near = y * _polynomial(square, [0.886226899, -1.645349621, 0.914624893, -0.140543331])
    near = near / _polynomial(square, [1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801])
    z = (-((1 - y.abs()) / 2).log()).sqrt()
    far = _polynomial(z, [-1.970840454, -1.624906493, 3.429567803, 1.641345311]) / _polynomial(z, [1.0, 3.5438892, 1.6370678])
    x = torch.where(y.abs() <= 0.7, near, torch.where(y < 0, -far, far))
    for _ in range(3):
        x = x - (x.erf() - y) / (2 / math.sqrt(math.pi) * (-x * x).exp())
    x = torch.where(y.abs() == 1, y * math.inf, x)
    return torch.where(y.abs() > 1, math.nan, torch.where(y == 0, y, x))


@own("special_ndtri")
@wide
def ndtri(p):
    """By erfinv; small tails by Newton on the logarithm of the integral's asymptotic expansion."""
    t = (-2 * p.log()).sqrt()
    for _ in range(5):
        q = 1 / (t * t)
        log_tail = -t * t / 2 - t.log() - _HALF_LOG_TWO_PI + torch.log1p(-q * _polynomial(q, [1.0, -3.0, 15.0, -105.0, 945.0]))
        t = t + (log_tail - p.log()) / (t + 1 / t)
    middle = math.sqrt(2) * erfinv(2 * p - 1)
    x = torch.where(p < 1e-10, -t, middle)
    x = torch.where(p == 0, -math.inf, x)
    return torch.where((p < 0) | (p > 1), math.nan, x)


@own("lgamma")
@wide
def lgamma(x):
    """Stirling's series above 10, to which smaller arguments are moved; the reflection below 0.5."""
    is_reflected = x < 0.5
    z = torch.where(is_reflected, 1 - x, x)
    product, moved = torch.ones_like(z), z
    for _ in range(_LARGE):
        is_small = moved < _LARGE
        product = torch.where(is_small, product * moved, product)
        moved = torch.where(is_small, moved + 1, moved)
    terms = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(_BERNOULLI)]
    series = _polynomial(1 / (moved * moved), terms) / moved
    y = (moved - 0.5) * moved.log() - moved + _HALF_LOG_TWO_PI + series - product.log()
    sine = torch.sin(math.pi * (x - x.floor())).abs()
    y = torch.where(is_reflected, math.log(math.pi) - sine.log() - y, y)
    y = torch.where((x <= 0) & (x == x.floor()), math.inf, y)
    return torch.where(x.isinf(), math.inf, y)


@own("mvlgamma", "special_multigammaln")
@wide
def mvlgamma(x, p):
    parts = [lgamma(x - j / 2) for j in range(p)]
    return sum(parts[1:], parts[0]) + p * (p - 1) / 4 * math.log(math.pi)


@own("digamma", "special_psi", "special_digamma")
@wide
def digamma(x):
    is_reflected = x < 0
    z = torch.where(is_reflected, 1 - x, x)
    y = torch.zeros_like(z)
    for _ in range(_LARGE):
        is_small = z < _LARGE
        y = torch.where(is_small, y - 1 / z, y)
        z = torch.where(is_small, z + 1, z)
    square = 1 / (z * z)
    y = y + z.log() - 0.5 / z - square * _polynomial(square, [b / (2 * k + 2) for k, b in enumerate(_BERNOULLI)])
    y = torch.where(is_reflected, y - math.pi / torch.tan(math.pi * (x - x.floor())), y)
    y = torch.where(is_reflected & (x == x.floor()), math.nan, y)
    return torch.where(x == 0, -math.inf / torch.where(1 / x < 0, -1.0, 1.0), y)


def _zeta(s, q):
    """Hurwitz's, of s > 1 and q > 0: the first terms, and Euler and Maclaurin's formula for the rest."""
    total, z = torch.zeros_like(q), q
    for _ in range(_LARGE):
        total, z = total + z**-s, z + 1
    total = total + z ** (1 - s) / (s - 1) + 0.5 * z**-s
    factor, power = s, z ** (-s - 1)
    for k, b in enumerate(_BERNOULLI):
        total = total + b / math.factorial(2 * k + 2) * factor * power
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2)
        power = power / (z * z)
    return total


@own("polygamma.default", "special_polygamma")
def polygamma(n, x):
    return digamma(x) if n == 0 else trigamma(x) if n == 1 else NotImplemented


@wide
def trigamma(x):
    y = _zeta(2.0, torch.where(x > 0, x, 1 - x))
    reflected = (math.pi / torch.sin(math.pi * (x - x.floor()))) ** 2 - y
    return torch.where(x > 0, y, torch.where(x == x.floor(), math.inf, reflected))


def _bessel(x, order):
    """exp(-|x|) I(x) of order 0 or 1: the power series up to 18, the expansion for large arguments beyond."""
    size = x.abs()
    near = size.clamp(max=18)
    quarter = near * near / 4
    terms = [1.0]
    for k in range(1, 60):
        terms.append(terms[-1] / (k * (k + order)))
    small = _polynomial(quarter, terms) * (near / 2 if order else 1) * (-near).exp()
    far = size.clamp(min=18)
    expansion, term = [1.0], 1.0
    for k in range(1, 16):
        term *= -((4 * order * order) - (2 * k - 1) ** 2) / (k * 8)
        expansion.append(term)
    large = _polynomial(1 / far, expansion) / (2 * math.pi * far).sqrt()
    y = torch.where(size < 18, small, large)
    return torch.where(x < 0, -y, y) if order else y


@own("special_i0e")
@wide
def i0e(x):
    return _bessel(x, 0)


@own("i0", "special_i0")
@wide
def i0(x):
    return _bessel(x, 0) * x.abs().exp()


@own("special_i1e")
@wide
def i1e(x):
    return _bessel(x, 1)


@own("special_i1")
@wide
def i1(x):
    return _bessel(x, 1) * x.abs().exp()


def _scaled_erfc(x):
    """exp(x^2) erfc(x) of x >= 0: from erf below 2, by a continued fraction above."""
    near = x.clamp(max=2)
    small = (near * near).exp() * (1 - near.erf())
    far = x.clamp(min=2)
    fraction = far
    for k in range(60, 0, -1):
        fraction = far + k / 2 / fraction
    return torch.where(x < 2, small, 1 / (math.sqrt(math.pi) * fraction))


@own("special_erfcx")
@wide
def erfcx(x):
    y = _scaled_erfc(x.abs())
    return torch.where(x < 0, 2 * (x * x).exp() - y, y)


@own("special_log_ndtr")
@wide
def log_ndtr(x):
    t = x / math.sqrt(2)
    tail = (_scaled_erfc(t.abs()) / 2).log() - t * t
    return torch.where(x < 0, tail, torch.log1p(-tail.exp()))


@own("special_xlog1py")
def xlog1py(x, y):
    result = torch.result_type(x, y)
    result = result if result.is_floating_point else torch.get_default_dtype()
    x, y = (v.to(result) if isinstance(v, torch.Tensor) else v for v in (x, y))
    product = x * (torch.log1p(y) if isinstance(y, torch.Tensor) else math.log1p(y))
    is_zero = torch.as_tensor(x == 0)
    return torch.where(is_zero, torch.where(torch.as_tensor(y != y), math.nan, 0.0), product).to(result)


@own("logaddexp2")
def logaddexp2(x, y):
    return torch.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def _recurrent(next_of, second):
    """Polynomials by a recurrence of three terms; the degree is a number."""

    def call(x, n):
        if isinstance(n, torch.Tensor) or not isinstance(x, torch.Tensor):
            return NotImplemented
        before, now = torch.ones_like(x), second(x)
        if n < 0:
            return torch.zeros_like(x)
        for k in range(1, int(n)):
            before, now = now, next_of(x, k, now, before)
        return now if n else before

    return call


for _name, _second, _next in (
    ("chebyshev_polynomial_t", lambda x: x, lambda x, k, p, q: 2 * x * p - q),
    ("chebyshev_polynomial_u", lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - q),
    ("chebyshev_polynomial_v", lambda x: 2 * x - 1, lambda x, k, p, q: 2 * x * p - q),
    ("chebyshev_polynomial_w", lambda x: 2 * x + 1, lambda x, k, p, q: 2 * x * p - q),
    ("hermite_polynomial_h", lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    ("hermite_polynomial_he", lambda x: x, lambda x, k, p, q: x * p - k * q),
    ("legendre_polynomial_p", lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
    ("laguerre_polynomial_l", lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
):
    own(f"special_{_name}.n_scalar")(_recurrent(_next, _second))


#===--- Windows ---===#


def _window(length, periodic, options, cosines):
    """The sum of cosines over a period, which ends behind the last element or on it."""
    options = {key: options.get(key) for key in ("dtype", "device")}
    if isinstance(length, int) and length <= 1:
        return torch.ones(length, **options)
    turn = torch.arange(length, dtype=torch.float64, device=options["device"]) * (2 * math.pi / (length if periodic else length - 1))
    y = sum((factor * torch.cos(k * turn) for k, factor in enumerate(cosines[1:], 1)), torch.full_like(turn, cosines[0]))
    return y.to(options["dtype"] or torch.get_default_dtype())


@own("hann_window")
def hann_window(length, periodic=True, **options):
    return _window(length, periodic, options, [0.5, -0.5])


@own("hamming_window")
def hamming_window(length, periodic=True, alpha=0.54, beta=0.46, **options):
    return _window(length, periodic, options, [alpha, -beta])


@own("blackman_window")
def blackman_window(length, periodic=True, **options):
    return _window(length, periodic, options, [0.42, -0.5, 0.08])


@own("bartlett_window")
def bartlett_window(length, periodic=True, **options):
    options = {key: options.get(key) for key in ("dtype", "device")}
    if isinstance(length, int) and length <= 1:
        return torch.ones(length, **options)
    place = torch.arange(length, dtype=torch.float64, device=options["device"]) * (2 / (length if periodic else length - 1))
    return torch.minimum(place, 2 - place).to(options["dtype"] or torch.get_default_dtype())


@own("kaiser_window")
def kaiser_window(length, periodic=True, beta=12.0, **options):
    options = {key: options.get(key) for key in ("dtype", "device")}
    if isinstance(length, int) and length <= 1:
        return torch.ones(length, **options)
    place = torch.arange(length, dtype=torch.float64, device=options["device"]) * (2 / (length if periodic else length - 1)) - 1
    y = i0(beta * (1 - place * place).clamp(min=0).sqrt()) / i0(torch.full((), beta, dtype=torch.float64))
    return y.to(options["dtype"] or torch.get_default_dtype())


@own("angle.default")
def angle(x):
    if x.is_complex():
        return torch.atan2(x.imag, x.real)
    result = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    return torch.where(result < 0, math.pi, torch.where(result != result, result, 0.0)).to(result.dtype)
