"""What looks at the bits of numbers: signs, exponents, shifts, neighbours; divisors."""

from __future__ import annotations

import math

import torch

from ._table import own

_BITS = {torch.float64: (torch.int64, 52), torch.float32: (torch.int32, 23), torch.float16: (torch.int16, 10), torch.bfloat16: (torch.int16, 7)}


@own("signbit.default")
def signbit(x):
    if x.dtype not in _BITS:
        return x < 0 if x.dtype != torch.bool else torch.zeros_like(x)
    return x.view(_BITS[x.dtype][0]) < 0


@own("copysign")
def copysign(x, sign):
    if not isinstance(sign, torch.Tensor):
        sign = torch.full((), sign, dtype=torch.float32 if x.dtype not in _BITS else x.dtype, device=x.device)
    result = torch.result_type(x, sign)
    result = result if result.is_floating_point else torch.get_default_dtype()
    size = x.to(result).abs()
    return torch.where(signbit(sign), -size, size)


@own("frexp.Tensor")
def frexp(x):
    """Numbers that are less than normal are made larger first."""
    bits, mantissa = _BITS[x.dtype]
    least = torch.finfo(x.dtype).smallest_normal
    is_small = (x.abs() < least) & (x != 0)
    scaled = torch.where(is_small, x * 2.0**mantissa, x)
    width = torch.finfo(x.dtype).bits - 1 - mantissa
    bias = (1 << (width - 1)) - 1
    field = (scaled.view(bits).to(torch.int64) // (1 << mantissa)) & ((1 << width) - 1)
    exponent = field - (bias - 1) - torch.where(is_small, mantissa, 0)
    is_plain = (x != 0) & x.isfinite()
    pattern = scaled.view(bits).to(torch.int64) - (field - (bias - 1)) * (1 << mantissa)
    fraction = pattern.to(bits).view(x.dtype)
    return torch.where(is_plain, fraction, x), torch.where(is_plain, exponent, 0).to(torch.int32)


@own("ldexp.Tensor")
def ldexp(x, other):
    return x * torch.pow(2.0, other)


@own("nextafter.default")
def nextafter(x, towards):
    x, towards = torch.broadcast_tensors(x, towards)
    bits = _BITS[x.dtype][0]
    step = torch.where((towards > x) == (x > 0), 1, -1).to(bits)
    near = (x.view(bits) + step).view(x.dtype)
    smallest = torch.where(towards > 0, 1, torch.iinfo(bits).min + 1).to(bits).view(x.dtype)
    result = torch.where(x == 0, smallest, near)
    result = torch.where(x == towards, towards, result)
    return torch.where(x.isnan() | towards.isnan(), math.nan, result)


def _power_of_two(count):
    """2^count in int64, which wraps at 63."""
    power = torch.ones_like(count)
    for bit in range(6):
        factor = 1 << (1 << bit)
        power = torch.where((count & (1 << bit)) != 0, power * factor, power)
    return power


def _counts(x, count):
    if not isinstance(count, torch.Tensor):
        count = torch.full((), count, dtype=x.dtype, device=x.device)
    result = torch.result_type(x, count)
    width = torch.iinfo(result).bits
    count = count.to(torch.int64)
    return result, count.clamp(0, width - 1), (count < 0) | (count >= width)


@own("bitwise_left_shift", "__lshift__")
def left_shift(x, count):
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return x * torch.pow(2.0, count)
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, dtype=count.dtype, device=count.device)
    result, count, is_beyond = _counts(x, count)
    return torch.where(is_beyond, 0, x.to(torch.int64) * _power_of_two(count)).to(result)


@own("bitwise_right_shift", "__rshift__")
def right_shift(x, count):
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return x / torch.pow(2.0, count)
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, dtype=count.dtype, device=count.device)
    result, count, is_beyond = _counts(x, count)
    half = count // 2  # 2^63 is no int64
    shifted = (x.to(torch.int64) // _power_of_two(half)) // _power_of_two(count - half)
    return torch.where(is_beyond, torch.where(x < 0, -1, 0), shifted).to(result)


@own("gcd.default")
def gcd(a, b):
    """Remainders of least size, which halve at each step."""
    result = torch.result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(result).abs(), b.to(result).abs())
    for _ in range(torch.iinfo(result).bits):
        rest = torch.remainder(a, torch.where(b == 0, 1, b))
        rest = torch.minimum(rest, b - rest)
        a, b = torch.where(b == 0, a, b), torch.where(b == 0, b, rest)
    return a


@own("round.decimals")
def round_to(x, *, decimals):
    if not x.is_floating_point():
        return x.clone() if decimals >= 0 else NotImplemented
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals >= 0 else (x / scale).round() * scale


@own("isclose.default")
def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    result = torch.result_type(x, y)
    x, y = x.to(result), y.to(result)
    close = x == y
    if equal_nan:
        close = close | ((x != x) & (y != y))
    if rtol == 0 and atol == 0:
        return close
    apart = (x - y).abs()
    return close | (apart.isfinite() & (apart <= atol + (rtol * y).abs()))


@own("nansum.default")
def nansum(x, dim=None, keepdim=False, *, dtype=None):
    return torch.where(x.isnan(), 0, x).sum(list(range(x.dim())) if dim is None else dim, keepdim, dtype=dtype)


_INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def _width(dtype):
    return torch.finfo(dtype).bits if dtype.is_floating_point else torch.iinfo(dtype).bits


@own("view.dtype")
def view_bits(x, dtype):
    """As numbers of another width: the bits of one are spread over several, the lowest first, or put together."""
    if torch.bool in (x.dtype, dtype) or x.is_complex() or dtype.is_complex:
        return NotImplemented
    before, after = _width(x.dtype), _width(dtype)
    if before == after:
        return NotImplemented
    bits = x.view(_INTEGERS[before]).to(torch.int64)
    small = min(before, after)
    count, mask = max(before, after) // small, (1 << small) - 1
    if before > after:
        parts = torch.stack([right_shift(bits, k * small) & mask for k in range(count)], -1)
        return parts.flatten(-2).to(_INTEGERS[after]).view(dtype)
    parts = bits.unflatten(-1, (-1, count)) & (mask if small < 64 else -1)
    joined = parts[..., 0]
    for k in range(1, count):
        joined = joined | left_shift(parts[..., k], k * small)
    return joined.to(_INTEGERS[after]).view(dtype)
