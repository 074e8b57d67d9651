"""Order statistics and running products, maxima and the like."""

from __future__ import annotations

import math

import torch

from ._table import along, is_fixed, own, positions, storage_error


def _scan(x, dim, combine, neutral):
    """Running results of an associative function, in as many steps as the length has bits."""
    length, step = x.shape[dim], 1
    while step < length:
        before = torch.full_like(x.narrow(dim, 0, step), neutral)
        x = combine(torch.cat([before, x.narrow(dim, 0, length - step)], dim), x)
        step *= 2
    return x


def _reduced(x, dim, reduce, neutral):
    """The same of a free length: each element of all before it."""
    spread = x.movedim(dim, -1)
    n = spread.shape[-1]
    before = torch.arange(n, device=x.device)
    kept = torch.where(before <= before.unsqueeze(-1), spread.unsqueeze(-2), neutral)
    return reduce(kept).movedim(-1, dim)


def _running(x, dim, combine, reduce, neutral):
    if x.dim() == 0:
        return x
    return _scan(x, dim, combine, neutral) if is_fixed(x.shape[dim]) else _reduced(x, dim, reduce, neutral)


@own("cumprod")
def cumprod(x, dim, *, dtype=None):
    result = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    return _running(x.to(result), dim, torch.mul, lambda y: y.prod(-1), 1)


@own("logcumsumexp")
def logcumsumexp(x, dim):
    return _running(x, dim, torch.logaddexp, lambda y: y.logsumexp(-1), -math.inf)


def _running_extreme(x, dim, combine, reduce, neutral):
    values = _running(x, dim, combine, reduce, neutral)
    if x.dim() == 0:
        return values, torch.zeros_like(x, dtype=torch.int64)
    is_new = (x == values) | (x != x)
    last = torch.where(is_new, positions(x, dim), 0)
    return values, _running(last, dim, torch.maximum, lambda y: y.amax(-1), 0)


def _least(x):
    return -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min


def _most(x):
    return math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max


@own("cummax.default")
def cummax(x, dim):
    return _running_extreme(x, dim, torch.maximum, lambda y: y.amax(-1), _least(x))


@own("cummin.default")
def cummin(x, dim):
    return _running_extreme(x, dim, torch.minimum, lambda y: y.amin(-1), _most(x))


def _kept(values, indices, dim, keepdim):
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _ranked(x, dim, rank, keepdim):
    """The element of that rank along a dim, and where it is; `rank` is a number or a tensor."""
    values, indices = torch.sort(x, dim=dim, stable=True)
    if isinstance(rank, torch.Tensor):
        return _kept(values.gather(dim, rank), indices.gather(dim, rank), dim, keepdim)
    return _kept(values.narrow(dim, rank, 1), indices.narrow(dim, rank, 1), dim, keepdim)


@own("kthvalue.default")
def kthvalue(x, k, dim=-1, keepdim=False):
    return (x, torch.zeros_like(x, dtype=torch.int64)) if x.dim() == 0 else _ranked(x, dim, k - 1, keepdim)


@own("median.dim")
def median(x, dim, keepdim=False):
    if x.dim() == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    values, indices = _ranked(x, dim, (x.shape[dim] - 1) // 2, keepdim)
    if not x.is_floating_point():
        return values, indices
    is_nan = x.isnan()
    has_nan = is_nan.any(dim, keepdim)
    first = is_nan.int().argmax(dim, keepdim)
    return torch.where(has_nan, math.nan, values), torch.where(has_nan, first, indices)


@own("median.default")
def median_of_all(x):
    return median(x.reshape(-1), 0)[0]


@own("nanmedian.dim")
def nanmedian(x, dim, keepdim=False):
    if not x.is_floating_point() or x.dim() == 0:
        return median(x, dim, keepdim)
    count = (~x.isnan()).sum(dim, keepdim=True)
    return _ranked(x, dim, ((count - 1) // 2).clamp(min=0), keepdim)


@own("nanmedian.default")
def nanmedian_of_all(x):
    return nanmedian(x.reshape(-1), 0)[0]


@own("mode.default")
def mode(x, dim=-1, keepdim=False):
    """The smallest of the most frequent values, and the last place that has it."""
    if x.dim() == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    is_frequent = counts == counts.amax(-1, keepdim=True)
    value = torch.where(is_frequent, rows, _most(x)).amin(-1, keepdim=True)
    place = torch.where(rows == value, torch.arange(rows.shape[-1], device=x.device), 0).amax(-1, keepdim=True)
    return _kept(value.movedim(-1, dim), place.movedim(-1, dim), dim, keepdim)


@own("aminmax.default")
def aminmax(x, *, dim=None, keepdim=False):
    dims = list(range(x.dim())) if dim is None else [dim]
    return x.amin(dims, keepdim), x.amax(dims, keepdim)


@own("histc.default")
def histc(x, bins=100, min=0, max=0):
    flat = x.reshape(-1)
    least, most = (flat.amin(), flat.amax()) if min == max else (x.new_full((), min), x.new_full((), max))
    if min == max:  # of equal elements
        least, most = torch.where(least == most, least - 1, least), torch.where(least == most, most + 1, most)
    place = ((flat - least) / (most - least) * bins).floor().clamp(max=bins - 1)
    place = torch.where((flat >= least) & (flat <= most), place, -1)
    return (place.unsqueeze(-1) == torch.arange(bins, device=x.device)).sum(0).to(x.dtype)


@own("masked_scatter.default")
def masked_scatter(x, mask, source):
    x, mask = torch.broadcast_tensors(x, mask)
    flat = mask.reshape(-1)
    place = (flat.to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return torch.where(flat, source.reshape(-1)[place], x.reshape(-1)).reshape(x.shape)


@own("put.default")
def put(x, index, source, accumulate=False):
    flat = x.reshape(-1)
    index = torch.where(index < 0, index + flat.shape[0], index).reshape(-1)
    return flat.index_put([index], source.reshape(-1), accumulate).reshape(x.shape)


@own("index_reduce.default")
def index_reduce(x, dim, index, source, reduce, *, include_self=True):
    place = along(index, dim, x.dim()).expand(source.shape)
    return x.scatter_reduce(dim, place, source, reduce, include_self=include_self)


@own("repeat_interleave.Tensor")
def repeats(counts, *, output_size=None):
    if output_size is None:
        return NotImplemented
    ends = counts.cumsum(0)
    return (torch.arange(output_size, device=counts.device).unsqueeze(-1) >= ends).sum(-1).to(counts.dtype)


@own("isin.Tensor_Tensor")
def isin(x, test, *, assume_unique=False, invert=False):
    found = (x.unsqueeze(-1) == test.reshape(-1)).any(-1)
    return ~found if invert else found


@own("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, dtype=sequence.dtype, device=sequence.device)
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    if sequence.dim() == 1:
        sequence = sequence.reshape([1] * x.dim() + [-1])
    else:
        sequence = sequence.unsqueeze(-2)
    is_right = right or side == "right"
    value = x.unsqueeze(-1)
    return ((sequence <= value) if is_right else (sequence < value)).sum(-1).to(torch.int32 if out_int32 else torch.int64)


@own("tril_indices.default")
def tril_indices(row, col, offset=0, *, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return _triangle(row, col, lambda i, j: j - i <= offset, dtype, device)


@own("triu_indices.default")
def triu_indices(row, col, offset=0, *, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return _triangle(row, col, lambda i, j: j - i >= offset, dtype, device)


def _triangle(row, col, belongs, dtype, device):
    """Rows and columns of a triangle: row i has so many elements, and the first of them is in that column."""
    if not is_fixed(row, col):
        return NotImplemented
    counts = [[j for j in range(col) if belongs(i, j)] for i in range(row)]
    rows = [torch.full((len(each),), i, dtype=dtype, device=device) for i, each in enumerate(counts) if each]
    cols = [torch.arange(each[0], each[-1] + 1, dtype=dtype, device=device) for each in counts if each]
    return torch.stack([torch.cat(rows), torch.cat(cols)]) if rows else torch.zeros((2, 0), dtype=dtype, device=device)


@own("as_strided.default")
def as_strided(x, size, stride, offset=None):
    """Pooling states the strides of dims of size 1 in this way, which means nothing for a dense tensor; windows that overlap
    are a gather of the elements."""
    start = 0 if offset is None else offset - x.storage_offset()
    if list(size) == list(x.shape) and start == 0 and all(n == 1 or a == b for n, a, b in zip(size, stride, x.stride())):
        return x.view(size)
    # As it lies in memory, if what is read lies in it.
    stored = x.permute(sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), -x.shape[dim])))
    if not stored.is_contiguous():
        return NotImplemented
    if start < 0 or start + sum((n - 1) * step for n, step in zip(size, stride)) >= x.numel():
        raise storage_error("as_strided reads elements of the storage that are none of the tensor's")
    place = torch.full((), start, dtype=torch.int64, device=x.device)
    for n, step in zip(size, stride):
        place = place.unsqueeze(-1) + torch.arange(n, device=x.device) * step
    return stored.reshape(-1)[place]


@own("diagonal_scatter.default")
def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    if x.dim() != 2 or not is_fixed(*source.shape) or source.numel() == 0:
        return NotImplemented
    row, column = positions(x, dim1), positions(x, dim2)
    place = (torch.arange(x.shape[dim1], device=x.device) - max(-offset, 0)).clamp(0, source.shape[0] - 1)
    return torch.where(column - row == offset, along(source[place], dim1, 2), x)


@own("lcm.default")
def lcm(a, b):
    divisor = torch.gcd(a, b)
    return torch.where(divisor == 0, 0, (a // torch.where(divisor == 0, 1, divisor) * b).abs())


@own("nonzero_static.default")
def nonzero_static(x, *, size, fill_value=-1):
    """The place of the k-th element that is not zero is where the running count first is k + 1."""
    counts = (x != 0).reshape(-1).to(torch.int64).cumsum(0)
    wanted = torch.arange(1, size + 1, device=x.device)
    place = (counts < wanted.unsqueeze(-1)).sum(-1)
    columns = []
    for n in reversed(x.shape):
        columns.insert(0, place % n)
        place = place // n
    rows = torch.stack(columns, -1) if columns else x.new_zeros((size, 0), dtype=torch.int64)
    return torch.where((wanted <= counts[-1:]).unsqueeze(-1), rows, fill_value)
