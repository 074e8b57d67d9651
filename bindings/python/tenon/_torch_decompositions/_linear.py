"""Linear algebra: elimination with pivots, unrolled over the columns of small matrices, and products in other forms."""

from __future__ import annotations

import math

import torch

from ._table import is_fixed, own

# A matrix of more columns than this makes a graph of too many nodes.
_MOST_COLUMNS = 64


def _is_small(*matrices):
    return all(is_fixed(*m.shape[-2:]) and max(m.shape[-2:]) <= _MOST_COLUMNS for m in matrices)


def _swapped(x, first, second):
    """Rows `first`, a number, and `second`, one for each matrix, exchanged."""
    row = torch.arange(x.shape[-2], device=x.device)
    place = torch.where(row == first, second, torch.where(row == second, first, row))
    return x.gather(-2, place.unsqueeze(-1).expand(x.shape))


def _pivot(x, column):
    """The row of the largest element of a column that is not above the diagonal, for each matrix."""
    row = torch.arange(x.shape[-2], device=x.device)
    size = torch.where(row >= column, x[..., column].abs(), -1)
    return size.argmax(-1, keepdim=True)


def _lu(a, pivots=True):
    """Both triangles in one matrix, LAPACK's numbers of rows, and the first column without a pivot, or 0."""
    m, n = a.shape[-2:]
    row, column = torch.arange(m, device=a.device), torch.arange(n, device=a.device)
    rows, info = [], torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    for k in range(min(m, n)):
        at = _pivot(a, k) if pivots else torch.full([*a.shape[:-2], 1], k, device=a.device)
        a = _swapped(a, k, at) if pivots else a
        rows.append(at.to(torch.int32) + 1)
        pivot = a[..., k : k + 1, k : k + 1]
        info = torch.where((info == 0) & (pivot == 0).squeeze((-1, -2)), k + 1, info)
        factor = torch.where((row > k).unsqueeze(-1), a[..., :, k : k + 1] / torch.where(pivot == 0, 1, pivot), 0)
        rest = a - factor * a[..., k : k + 1, :]
        a = torch.where(column > k, rest, torch.where((column == k) & (row > k).unsqueeze(-1), factor, a))
    return a, torch.cat(rows, -1), info


def _reduced(a, b):
    """Gauss and Jordan's elimination of [a | b]: the solution, and the first column without a pivot, or 0."""
    n = a.shape[-1]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = torch.cat([a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])], -1)
    row = torch.arange(n, device=a.device).unsqueeze(-1)
    info = torch.zeros(batch, dtype=torch.int32, device=a.device)
    for k in range(n):
        x = _swapped(x, k, _pivot(x, k))
        pivot = x[..., k : k + 1, k : k + 1]
        info = torch.where((info == 0) & (pivot == 0).squeeze((-1, -2)), k + 1, info)
        own_row = x[..., k : k + 1, :] / pivot
        x = torch.where(row == k, own_row, x - x[..., :, k : k + 1] * own_row)
    return x[..., n:], info


def _factored(a):
    """The sign of the swaps, the diagonal, the factors and the pivots of its LU form."""
    lu, pivots, _ = _lu(a)
    place = torch.arange(1, lu.shape[-1] + 1, device=lu.device)
    swaps = (pivots != place).sum(-1)
    return torch.where(swaps % 2 == 1, -1.0, 1.0).to(lu.dtype), lu.diagonal(dim1=-2, dim2=-1), lu, pivots


@own("linalg_lu_factor_ex.default")
def lu_factor(a, *, pivot=True, check_errors=False):
    return _lu(a, pivot) if _is_small(a) else NotImplemented


@own("linalg_lu.default")
def lu(a, *, pivot=True):
    if not _is_small(a):
        return NotImplemented
    m, n = a.shape[-2:]
    factors, pivots, _ = _lu(a, pivot)
    order = torch.eye(m, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], m, m)
    for k in range(min(m, n)):
        order = _swapped(order, k, pivots[..., k : k + 1].to(torch.int64) - 1)
    k = min(m, n)
    lower = factors[..., :k].tril(-1) + torch.eye(m, k, dtype=a.dtype, device=a.device)
    return order.transpose(-1, -2), lower, factors[..., :k, :].triu()


@own("_linalg_det.default")
def determinant(a):
    if not _is_small(a):
        return NotImplemented
    sign, diagonal, factors, pivots = _factored(a)
    return sign * diagonal.prod(-1), factors, pivots


@own("_linalg_slogdet.default")
def log_determinant(a):
    if not _is_small(a):
        return NotImplemented
    sign, diagonal, factors, pivots = _factored(a)
    return sign * diagonal.sign().prod(-1), diagonal.abs().log().sum(-1), factors, pivots


@own("linalg_inv_ex.default")
def inverse(a, *, check_errors=False):
    return _reduced(a, torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)) if _is_small(a) else NotImplemented


@own("_linalg_solve_ex.default")
def solve(a, b, *, left=True, check_errors=False):
    if not _is_small(a):
        return NotImplemented
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    if left:
        x, info = _reduced(a, right)
    else:
        x, info = _reduced(a.transpose(-1, -2), right.transpose(-1, -2))
        x = x.transpose(-1, -2)
    factors, pivots, _ = _lu(a)
    return x.squeeze(-1) if is_vector else x, factors, pivots, info


@own("_linalg_check_errors.default")
def check_errors(info, api_name, *, is_matrix):
    """A singular matrix gives infinities or NaN."""
    return None


def _triangular(a, b, upper, is_unit):
    n = a.shape[-1]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = b.expand(*batch, *b.shape[-2:])
    row = torch.arange(n, device=a.device).unsqueeze(-1)
    for k in range(n - 1, -1, -1) if upper else range(n):
        own_row = x[..., k : k + 1, :]
        own_row = own_row if is_unit else own_row / a[..., k : k + 1, k : k + 1]
        is_left = row < k if upper else row > k
        x = torch.where(row == k, own_row, torch.where(is_left, x - a[..., :, k : k + 1] * own_row, x))
    return x


@own("linalg_solve_triangular.default")
def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    if not _is_small(a):
        return NotImplemented
    if left:
        return _triangular(a, b, upper, unitriangular)
    return _triangular(a.transpose(-1, -2), b.transpose(-1, -2), not upper, unitriangular).transpose(-1, -2)


@own("triangular_solve.default")
def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    if not _is_small(a):
        return NotImplemented
    return _triangular(a.transpose(-1, -2) if transpose else a, b, upper != transpose, unitriangular), a.clone()


@own("linalg_cholesky_ex.default")
def cholesky(a, *, upper=False, check_errors=False):
    """One column after the other; only the lower triangle is read (or the upper)."""
    if not _is_small(a):
        return NotImplemented
    n = a.shape[-1]
    rest = a.transpose(-1, -2) if upper else a
    row = torch.arange(n, device=a.device)
    columns, info = [], torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    for k in range(n):
        square = rest[..., k : k + 1, k]
        info = torch.where((info == 0) & ~(square > 0).squeeze(-1), k + 1, info)
        column = torch.where(row >= k, rest[..., k] / square.sqrt(), 0)
        columns.append(column)
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
    lower = torch.stack(columns, -1)
    return (lower.transpose(-1, -2) if upper else lower), info


@own("cholesky.default")
def cholesky_old(a, upper=False):
    both = cholesky(a, upper=upper)
    return both if both is NotImplemented else both[0]


@own("cholesky_solve.default")
def cholesky_solve(b, factor, upper=False):
    if not _is_small(factor):
        return NotImplemented
    lower = factor.transpose(-1, -2) if upper else factor
    return _triangular(lower.transpose(-1, -2), _triangular(lower, b, False, False), True, False)


@own("cholesky_inverse.default")
def cholesky_inverse(factor, upper=False):
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device), factor, upper)


@own("linalg_qr.default")
def qr(a, mode="reduced"):
    """Householder's reflections, with LAPACK's signs."""
    m, n = a.shape[-2:]
    if not _is_small(a):
        return NotImplemented
    row = torch.arange(m, device=a.device).unsqueeze(-1)
    q, r = torch.eye(m, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], m, m), a
    for k in range(min(m - 1, n)):
        column = torch.where(row >= k, r[..., :, k : k + 1], 0)
        first = r[..., k : k + 1, k : k + 1]
        below = torch.where(row > k, column, 0).abs().amax(-2, keepdim=True)
        length = torch.linalg.vector_norm(column, dim=-2, keepdim=True)
        normal = torch.where(row == k, column + torch.where(first < 0, -length, length), column)
        square = (normal * normal).sum(-2, keepdim=True)
        factor = torch.where((below == 0) | (square == 0), 0, 2 / torch.where(square == 0, 1, square))
        r = r - factor * normal @ (normal.transpose(-1, -2) @ r)
        q = q - (q @ normal) @ (factor * normal).transpose(-1, -2)
    k = min(m, n) if mode != "complete" else m
    return (q.new_empty(0) if mode == "r" else q[..., :k]), r[..., :k, :].triu()


@own("linalg_matrix_exp.default", "matrix_exp")
def matrix_exp(a):
    """Scaled down by a power of two, a series, and squared as often; in float64."""
    if a.is_complex():
        return NotImplemented
    x = a.double()
    size = x.abs().sum(-1).amax(-1).clamp(min=1e-30)
    times = (size.log2().ceil() + 2).clamp(0, 20).reshape([*a.shape[:-2], 1, 1])
    x = x * torch.pow(torch.full_like(times, 2.0), -times)
    total = torch.eye(a.shape[-1], dtype=x.dtype, device=x.device).expand(a.shape)
    term = total
    for k in range(1, 15):
        term = term @ x / k
        total = total + term
    for k in range(20):
        total = torch.where(times > k, total @ total, total)
    return total.to(a.dtype)


@own("addbmm")
def addbmm(x, a, b, *, beta=1, alpha=1):
    product = torch.bmm(a, b).sum(0) * alpha
    return product + x * beta if beta else product


@own("_trilinear.default")
def trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    for tensor, dims in ((0, expand1), (1, expand2), (2, expand3)):
        for dim in dims:
            a, b, c = (each.unsqueeze(dim) if index == tensor else each for index, each in enumerate((a, b, c)))
    return (a * b * c).sum(list(sumdim)) if sumdim else a * b * c


@own("bilinear")
def bilinear(x, y, weight, bias=None):
    result = torch.einsum("...i,oij,...j->...o", x, weight, y)
    return result if bias is None else result + bias


@own("_int_mm.default")
def int_mm(a, b):
    return torch.mm(a.to(torch.int32), b.to(torch.int32))


@own("_pdist_forward.default")
def pdist(x, p=2.0):
    if not is_fixed(x.shape[0]):
        return NotImplemented
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return torch.linalg.vector_norm(x[first] - x[second], p, dim=-1)


@own("cdist", "_cdist_forward")
def cdist(x, y, p=2.0, compute_mode=None):
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, dim=-1)


@own("pairwise_distance")
def pairwise_distance(x, y, p=2.0, eps=1e-6, keepdim=False):
    return torch.linalg.vector_norm(x - y + eps, p, dim=-1, keepdim=keepdim)


@own("dist.default")
def dist(x, y, p=2):
    apart = (x - y).abs()
    if p == 0:
        return (apart != 0).sum().to(apart.dtype)
    if math.isinf(p):
        return apart.amax() if p > 0 else apart.amin()
    return torch.linalg.vector_norm(apart, p)


def _complex_product(product):
    def call(a, b):
        if not (a.is_complex() or b.is_complex()):
            return NotImplemented
        return torch.complex(product(a.real, b.real) - product(a.imag, b.imag), product(a.real, b.imag) + product(a.imag, b.real))

    return call


for _name in ("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default"):
    own(_name)(_complex_product(getattr(torch, _name.partition(".")[0])))
