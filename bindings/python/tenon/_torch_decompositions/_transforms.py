"""Fourier transforms of several dims and with other scales, and functions of complex numbers."""

from __future__ import annotations

import math

import torch

from ._table import is_fixed, own

_aten = torch.ops.aten
_NONE, _BY_ROOT, _BY_LENGTH = 0, 1, 2


def _scaled(y, lengths, wanted, given):
    """From one scale to another."""
    if wanted == given:
        return y
    count = math.prod(lengths)
    power = {_NONE: 0.0, _BY_ROOT: 0.5, _BY_LENGTH: 1.0}
    return y * float(count) ** (power[given] - power[wanted])


@own("_fft_c2c.default")
def complex_to_complex(x, dim, normalization, forward):
    given = _NONE if forward else _BY_LENGTH
    lengths = [x.shape[d] for d in dim]
    if normalization == given or not is_fixed(*lengths):
        return NotImplemented
    return _scaled(_aten._fft_c2c(x, dim, given, forward), lengths, normalization, given)


@own("_fft_r2c.default")
def real_to_complex(x, dim, normalization, onesided):
    lengths = [x.shape[d] for d in dim]
    if (normalization == _NONE and len(dim) == 1) or not is_fixed(*lengths):
        return NotImplemented
    y = _aten._fft_r2c(x, [dim[-1]], _NONE, onesided)
    y = _aten._fft_c2c(y, list(dim[:-1]), _NONE, True) if len(dim) > 1 else y
    return _scaled(y, lengths, normalization, _NONE)


@own("_fft_c2r.default")
def complex_to_real(x, dim, normalization, last_dim_size):
    lengths = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    needed = last_dim_size // 2 + 1
    if not is_fixed(*lengths, x.shape[dim[-1]]):
        return NotImplemented
    if normalization == _BY_LENGTH and len(dim) == 1:
        if x.shape[dim[-1]] >= needed:
            return NotImplemented
        missing = list(x.shape)
        missing[dim[-1]] = needed - x.shape[dim[-1]]
        return _aten._fft_c2r(torch.cat([x, torch.zeros(missing, dtype=x.dtype, device=x.device)], dim[-1]), dim, normalization, last_dim_size)
    x = _aten._fft_c2c(x, list(dim[:-1]), _BY_LENGTH, False) if len(dim) > 1 else x
    return _scaled(_aten._fft_c2r(x, [dim[-1]], _BY_LENGTH, last_dim_size), lengths, normalization, _BY_LENGTH)


def _of_complex(*names):
    """For an operator that Tenon has of real numbers."""

    def enter(function):
        own(*names)(lambda x, *rest: function(x, *rest) if x.is_complex() else NotImplemented)
        return function

    return enter


@_of_complex("exp.default")
def exp(x):
    return torch.polar(x.real.exp(), x.imag)


@_of_complex("log.default")
def log(x):
    return torch.complex(x.abs().log(), torch.atan2(x.imag, x.real))


@_of_complex("reciprocal.default")
def reciprocal(x):
    square = x.real * x.real + x.imag * x.imag
    return torch.complex(x.real / square, -x.imag / square)


@_of_complex("sqrt.default")
def sqrt(x):
    return torch.polar(x.abs().sqrt(), torch.atan2(x.imag, x.real) / 2)


@_of_complex("sgn.default")
def sgn(x):
    size = x.abs()
    scale = torch.where(size == 0, 0.0, 1 / torch.where(size == 0, 1.0, size))
    return torch.complex(x.real * scale, x.imag * scale)


@_of_complex("pow.Tensor_Scalar")
def power(x, exponent):
    if exponent == 2:
        return x * x
    if isinstance(exponent, complex):
        return NotImplemented
    return torch.polar(x.abs().pow(exponent), torch.atan2(x.imag, x.real) * exponent)


def _creation(name):
    create = getattr(torch, name)

    def call(*args, dtype=None, **options):
        like = args[0] if isinstance(args[0], torch.Tensor) else None
        value = args[-1] if "full" in name or name == "scalar_tensor" else None
        dtype = dtype or (like.dtype if like is not None else torch.complex64 if isinstance(value, complex) else None)
        if dtype is None or not dtype.is_complex:
            return NotImplemented
        options["dtype"] = torch.float32 if dtype == torch.complex64 else torch.float64
        if like is not None:
            args = (like.real, *args[1:])
        real = create(*args[:-1], value.real, **options) if value is not None else create(*args, **options)
        imaginary = value.imag if value is not None else 0
        return torch.complex(real, torch.full_like(real, imaginary))

    return call


for _name in ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "scalar_tensor"):
    own(f"{_name}.default")(_creation(_name))
