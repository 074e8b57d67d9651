"""Functions of torch whose kernels ask for data as they are traced, in other words while a module is exported."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from ._table import is_fixed


def quantile(x, q, dim=None, keepdim=False, *, interpolation="linear", ignores_nan=False):
    q = q.to(x.dtype) if isinstance(q, torch.Tensor) else torch.full((), q, dtype=x.dtype, device=x.device)
    flat = dim is None
    rows = x.reshape(-1) if flat else x.movedim(dim, -1)
    values, _ = torch.sort(rows, dim=-1)
    is_nan = rows.isnan()
    count = (~is_nan).sum(-1, keepdim=True) if ignores_nan else torch.full([*rows.shape[:-1], 1], rows.shape[-1], device=x.device)
    # A dim for the quantiles, which comes first at the end.
    rank = q.reshape(-1) * (count - 1).clamp(min=0).to(x.dtype)
    below, above = rank.floor(), rank.ceil()
    weight = rank - below
    if interpolation == "nearest":
        below = above = rank.round()
    elif interpolation in ("lower", "higher"):
        below = above = below if interpolation == "lower" else above
    elif interpolation == "midpoint":
        weight = torch.where(below == above, 0.0, 0.5)
    low, high = values.gather(-1, below.long()), values.gather(-1, above.long())
    y = low if interpolation in ("nearest", "lower", "higher") else torch.lerp(low, high, weight)
    if not ignores_nan:
        y = torch.where(is_nan.any(-1, keepdim=True), float("nan"), y)
    if keepdim:
        y = y.reshape([*q.shape[:0], *([1] * x.dim()), -1]) if flat else y.unsqueeze(dim if dim >= 0 else dim - 1 + 0)
    y = y.movedim(-1, 0)
    return y if q.dim() else y.squeeze(0)


def nanquantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    return quantile(x, q, dim, keepdim, interpolation=interpolation, ignores_nan=True)


def cov(x, *, correction=1, fweights=None, aweights=None):
    if fweights is not None or aweights is not None:
        return NotImplemented
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    rows = rows - rows.mean(1, keepdim=True)
    y = rows @ rows.mT.conj() / max(rows.shape[1] - correction, 0) if is_fixed(rows.shape[1]) else rows @ rows.mT / (rows.shape[1] - correction)
    return y.squeeze() if x.dim() < 2 else y


def corrcoef(x):
    if x.dim() < 2:
        c = cov(x)
        return c / c
    c = cov(x)
    scale = c.diagonal().sqrt()
    return (c / scale.unsqueeze(1) / scale.unsqueeze(0)).clamp(-1, 1)


def combinations(x, r=2, with_replacement=False):
    import itertools

    if not is_fixed(x.shape[0]):
        return NotImplemented
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(x.shape[0]), r))
    if not rows:
        return x.new_empty(0, r)
    return torch.stack([x[torch.tensor([row[k] for row in rows], device=x.device)] for k in range(r)], 1)


def gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction="mean"):
    import math

    if not isinstance(var, torch.Tensor):
        var = torch.full_like(x, var)
    if var.shape != x.shape and x.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (x - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


_REPLACED = {
    torch.quantile: quantile, torch.Tensor.quantile: quantile, torch.nanquantile: nanquantile, torch.Tensor.nanquantile: nanquantile,
    torch.cov: cov, torch.Tensor.cov: cov, torch.corrcoef: corrcoef, torch.Tensor.corrcoef: corrcoef, torch.combinations: combinations,
    torch.nn.functional.gaussian_nll_loss: gaussian_nll_loss,
}  # fmt: skip


class Replaced(TorchFunctionMode):
    """The functions of this file in the place of torch's."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        own = _REPLACED.get(function)
        result = own(*args, **(kwargs or {})) if own else NotImplemented
        return function(*args, **(kwargs or {})) if result is NotImplemented else result
