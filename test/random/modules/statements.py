"""The statements of random modules, as rows by family: each takes a Sketch and gives an expression, or a Line."""

from sketch import Line, Retry
from torch import float32 as FLOAT32

ROWS = []


def row(weight=1):
    def register(make):
        ROWS.append((weight, make))
        return make

    return register


# Elementwise

REAL = """abs neg exp log log1p expm1 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf erfc ceil floor trunc round frac
asin acos atan sinh cosh asinh acosh atanh log2 log10 exp2 square sign sgn isnan isinf isfinite signbit nan_to_num deg2rad
rad2deg logit special.expit positive""".split()
ACTIVATIONS = """relu gelu silu mish elu selu softplus hardtanh hardswish hardsigmoid leaky_relu logsigmoid relu6 softsign
tanhshrink hardshrink softshrink celu""".split()
BINARY = "add sub mul div maximum minimum fmod remainder atan2 pow fmax fmin copysign hypot logaddexp xlogy rsub".split()
COMPARE = "eq ne lt le gt ge".split()


@row(6)
def unary(g):
    return f"torch.{g.choice(REAL)}({g.real()})"


@row(3)
def unary_whole(g):
    return f"torch.{g.choice(['abs', 'neg', 'sign', 'exp', 'sqrt', 'sigmoid', 'bitwise_not', 'square', 'sin', 'reciprocal', 'floor'])}({g.any()})"


@row(4)
def activation(g):
    return f"F.{g.choice(ACTIVATIONS)}({g.real()})"


@row(10)
def binary(g):
    a = g.any()
    return f"torch.{g.choice(BINARY)}({a}, {g.beside(g.of(a))})"


@row(4)
def operator(g):
    a = g.any()
    other = g.choice([g.scalar(), g.beside(g.of(a))])
    left, right = (a, other) if g.chance(0.6) else (other, a)
    return f"{left} {g.choice(['+', '-', '*', '/', '//', '%', '**', '&', '|', '^', '<', '>=', '=='])} {right}"


@row(3)
def with_alpha(g):
    a = g.any()
    return f"torch.{g.choice(['add', 'sub'])}({a}, {g.beside(g.of(a))}, alpha={g.scalar()})"


@row(4)
def division(g):
    a = g.any()
    other = g.choice([g.choice(["2", "3", "-3", "2.5"]), g.beside(g.of(a))])
    mode = g.choice(["'floor'", "'trunc'", "None"])
    if other[0] not in "23-" and not g.of(a).dtype.is_floating_point:
        other = f"({other}.abs() + 1)"
    return g.choice([f"torch.div({a}, {other}, rounding_mode={mode})", f"torch.remainder({a}, {other})",
                     f"torch.fmod({a}, {other})", f"torch.floor_divide({a}, {other})"])


@row(3)
def promotion(g):
    """0-d tensors and numbers beside tensors of other types."""
    a = g.any()
    scalar = g.choice([f"torch.tensor({g.choice(['2', '0.5', 'True'])})", f"{g.any()}.sum()", g.scalar(), f"{g.any(1)}.shape[0]"])
    return f"torch.{g.choice(['add', 'mul', 'sub', 'div', 'maximum', 'eq', 'lt', 'pow'])}({a}, {scalar})"


@row(3)
def compare(g):
    a = g.any()
    return f"torch.{g.choice(COMPARE)}({a}, {g.choice([g.scalar(), g.beside(g.of(a))])})"


@row(2)
def logical(g):
    a = g.any()
    return f"torch.logical_{g.choice(['and', 'or', 'xor'])}({a}, {g.beside(g.of(a))})" if g.chance(0.7) else f"torch.logical_not({a})"


@row(1)
def bitwise(g):
    a = g.whole()
    other = g.choice(["1", "3", g.beside(g.of(a), lambda y: not y.dtype.is_floating_point)])
    return f"torch.bitwise_{g.choice(['and', 'or', 'xor'])}({a}, {other})" if g.chance(0.7) else f"{a} {g.choice(['<<', '>>'])} 2"


@row(4)
def where(g):
    a = g.any()
    condition = g.truth(g.of(a))
    return g.choice([f"torch.where({condition}, {a}, {g.beside(g.of(a))})", f"torch.where({condition}, {a}, {g.scalar()})",
                     f"torch.where({condition}, {g.scalar()}, {a})", f"{a}.masked_fill({condition}, {g.scalar()})"])


@row(3)
def clamp(g):
    a = g.any()
    return g.choice([f"torch.clamp({a}, {g.scalar()}, {g.choice(['1', '2.5', 'None'])})", f"torch.clamp({a}, max={g.scalar()})",
                     f"torch.clamp_min({a}, {g.scalar()})", f"torch.clamp({a}, min={g.beside(g.of(a))})"])


@row(2)
def threefold(g):
    a = g.real()
    b, c = g.beside(g.of(a)), g.beside(g.of(a))
    return g.choice([f"torch.addcmul({a}, {b}, {c}, value={g.scalar()})", f"torch.addcdiv({a}, {b}, {c}.abs() + 1, value=0.5)",
                     f"torch.lerp({a}, {b}, {g.choice(['0.3', c])})", f"F.threshold({a}, 0.1, 5.0)", f"F.prelu({a}, torch.tensor([0.2]))",
                     f"F.glu({a}, {g.dim(g.of(a))})", f"F.gelu({a}, approximate='tanh')"])  # fmt: skip


@row(4)
def cast(g):
    kind = g.choice(["float32", "float32", "int64", "int32", "bool", "float16", "bfloat16", "int8", "uint8", "float64", "int16"])
    x = g.any()
    if g.of(x).dtype.is_floating_point and "int" in kind:
        return f"{x}.nan_to_num(0).clamp({'0' if kind == 'uint8' else '-100'}, 100).to(torch.{kind})"
    return f"{x}.to(torch.{kind})"


# Reductions and scans


def dims(g, x, several=True):
    rank = g.of(x).dim()
    if rank and several and g.chance(0.3):
        return str(g.rng.sample(range(-rank, 0), g.rng.randrange(1, rank + 1)))
    return str(g.dim(g.of(x)))


def keep(g):
    return g.choice(["", ", keepdim=True"])


@row(6)
def reduce(g):
    x = g.any()
    name = g.choice(["sum", "mean", "amax", "amin", "prod", "any", "all", "nansum", "logsumexp"])
    if g.chance(0.2):
        return f"torch.{name}({x})" if name not in ("amax", "amin", "logsumexp") else f"torch.{name}({x}, ())"
    return f"torch.{name}({x}, {dims(g, x, name not in ('prod',))}{keep(g)})"


@row(1)
def reduce_typed(g):
    x = g.any()
    return f"torch.{g.choice(['sum', 'mean', 'cumsum'])}({x}, {dims(g, x, False)}, dtype=torch.{g.choice(['float32', 'int64', 'float64'])})"


@row(3)
def spread(g):
    x = g.single(1)
    d = dims(g, x)
    return g.choice([f"torch.var({x}, {d}, correction={g.choice('012')}{keep(g)})", f"torch.std({x}, {d}{keep(g)})",
                     f"torch.var_mean({x}, {d}{keep(g)})", f"torch.std({x})",
                     f"torch.linalg.vector_norm({x}, {g.choice(['2', '1', '0', '3', 'torch.inf'])}, {d}{keep(g)})",
                     f"torch.norm({x}, dim={d}{keep(g)})", f"F.normalize({x}, dim={g.dim(g.of(x))})"])  # fmt: skip


@row(3)
def extreme(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    return g.choice([f"torch.max({x}, {d}{keep(g)})[0]", f"torch.min({x}, {d}{keep(g)})[0]", f"torch.argmax({x}, {d}{keep(g)})",
                     f"torch.argmin({x}, {d})", f"torch.aminmax({x}, dim={d})", f"torch.max({x})", f"torch.median({x}, {d})[0]"])  # fmt: skip


@row(3)
def scan(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    return g.choice([f"torch.cumsum({x}, {d})", f"torch.cumsum({x}, {d})", f"torch.cumprod({x}, {d})", f"torch.cummax({x}, {d})[0]",
                     f"torch.cummin({x}, {d})[0]", f"torch.logcumsumexp({x}, {d})", f"torch.diff({x}, dim={d})"])  # fmt: skip


@row(3)
def softmax(g):
    x = g.real(1)
    return f"{g.choice(['torch.softmax', 'torch.log_softmax', 'F.softmin'])}({x}, {g.dim(g.of(x))}{g.choice(['', '', ', dtype=torch.float32'])})"


@row(4)
def order(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    k = g.rng.randrange(0, g.of(x).shape[d] + 1)
    down = g.choice(["", ", descending=True"])
    return g.choice([f"torch.sort({x}, stable=True, dim={d}{down})", f"torch.sort({x}, {d}{down})[0]", f"torch.topk({x}, {k}, {d})[0]",
                     f"torch.argsort({x}, dim={d}, stable=True{down})", f"torch.topk({x}, {k}, {d}, largest=False)[0]",
                     f"torch.kthvalue({x}, {max(k, 1)}, {d})[0]"])  # fmt: skip


# Shapes


def bound(g, size, name, d):
    choices = ["", str(g.rng.randrange(-size - 2, size + 3)), str(g.rng.randrange(0, size + 1)), f"{name}.shape[{d}] // 2",
               f"{name}.shape[{d}] - 1", "-1", "1000", "-1000"]
    return g.choice(choices)


@row(8)
def cut(g):
    x = g.any(1)
    parts = []
    for d, size in enumerate(g.of(x).shape):
        kind = g.rng.randrange(8)
        if kind < 3:
            parts.append(f"{bound(g, size, x, d)}:{bound(g, size, x, d)}{g.choice(['', '', ':2', ':3', ':1000'])}")
        elif kind == 3 and size:
            parts.append(str(g.rng.randrange(-size, size)))
        elif kind == 4:
            parts.append(g.choice(["None", "..."]) if "..." not in parts else "None")
        else:
            parts.append(":")
    return f"{x}[{', '.join(parts)}]"


@row(3)
def narrow(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    size = g.of(x).shape[d]
    begin = g.rng.randrange(0, size + 1)
    return g.choice([f"{x}.narrow({d}, {begin}, {g.rng.randrange(0, size - begin + 1)})", f"{x}.select({d}, {g.rng.randrange(-size - 0, max(size, 1))})",
                     f"{x}.narrow({d}, 1, {x}.shape[{d}] - 1)", f"{x}.unfold({d}, {g.rng.randrange(1, max(size, 1) + 1)}, {g.choice('12')})"])  # fmt: skip


@row(7)
def reshape(g):
    x = g.any()
    shape = list(g.of(x).shape)
    texts = [g.size(x, d) for d in range(len(shape))]
    kind = g.rng.randrange(6)
    if kind == 0:
        return f"{x}.{g.choice(['reshape', 'view'])}(-1)"
    if kind == 1 and len(shape) >= 2:
        d = g.rng.randrange(len(shape) - 1)
        return f"{x}.reshape({', '.join(texts[:d] + ['-1'] + texts[d + 2:])})"
    if kind == 2 and shape:
        d = g.rng.randrange(len(shape))
        factor = g.choice([f for f in (1, 2, 3, 4) if shape[d] % f == 0])
        return f"{x}.view({', '.join(texts[:d] + [str(factor), '-1'] + texts[d + 1:])})"
    if kind == 3 and len(shape) >= 2:
        d = g.rng.randrange(len(shape) - 1)
        return f"{x}.flatten({d}, {g.choice([d + 1, -1])})"
    if kind == 4 and shape:
        d = g.dim(g.of(x))
        return f"{x}.unflatten({d}, ({g.choice([f for f in (1, 2, 3) if shape[d] % f == 0])}, -1))"
    return f"{x}.unsqueeze({g.rng.randrange(-len(shape) - 1, len(shape) + 1)})"


@row(6)
def permute(g):
    x = g.any(1)
    rank = g.of(x).dim()
    a, b = g.dim(g.of(x)), g.dim(g.of(x))
    order = g.rng.sample(range(rank), rank)
    return g.choice([f"{x}.permute({order})", f"{x}.transpose({a}, {b})", f"torch.movedim({x}, {a}, {b})", f"{x}.squeeze({a})", f"{x}.squeeze()",
                     f"torch.flip({x}, [{a}])", f"torch.roll({x}, {g.choice(['1', '-2', '5'])}, {a})", f"{x}.mT", f"torch.rot90({x}, 1, [{a}, {b}])",
                     f"torch.atleast_2d({x})", f"{x}.contiguous()", f"{x}.clone()"])  # fmt: skip


@row(4)
def spread_out(g):
    x = g.any()
    rank = g.of(x).dim()
    like = g.value(lambda y: spreads_to(g.of(x), y))
    counts = [g.choice([1, 1, 2, 3]) for _ in range(rank + g.rng.randrange(2))]
    return g.choice([f"{x}.expand_as({like})", f"{x}.expand({like}.shape)", f"{x}.repeat({counts or [2]})", f"torch.tile({x}, {tuple(counts) or (2,)})",
                     f"{x}.repeat_interleave({g.choice('123')}, {g.dim(g.of(x)) if rank else 0})",
                     f"torch.broadcast_tensors({x}, {like})", f"{x}.expand(2, {', '.join(['-1'] * rank)})"])  # fmt: skip


def spreads_to(x, y):
    return x.dim() <= y.dim() and all(a in (1, b) for a, b in zip(reversed(x.shape), reversed(y.shape)))


@row(3)
def corners(g):
    x = g.any(2)
    k = g.choice(["0", "1", "-1", "2"])
    return g.choice([f"torch.tril({x}, {k})", f"torch.triu({x}, {k})", f"torch.diagonal({x}, {k})",
                     f"torch.diagonal({x}, 0, {g.dim(g.of(x))}, {g.dim(g.of(x))})", f"torch.diag_embed({x})", f"torch.diag({x})",
                     f"torch.trace({x})"])  # fmt: skip


@row(5)
def join(g):
    x = g.any()
    shape = g.of(x).shape
    same = lambda: g.value(lambda y: y.shape == shape)
    if g.chance(0.4):
        return f"torch.{g.choice(['stack', 'stack', 'hstack', 'vstack', 'dstack'])}([{x}, {same()}])"
    if not shape:
        raise Retry
    d = g.dim(g.of(x))
    fits = lambda y: y.dim() == len(shape) and all(i == d % len(shape) or a == b for i, (a, b) in enumerate(zip(shape, y.shape)))
    others = [g.value(fits) for _ in range(g.rng.randrange(0, 3))]
    return f"torch.cat([{', '.join([x, *others])}], {d})"


@row(4)
def split(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    size = g.of(x).shape[d]
    first = g.rng.randrange(0, size + 1)
    return g.choice([f"torch.split({x}, {g.rng.randrange(1, size + 2)}, {d})", f"torch.chunk({x}, {g.rng.randrange(1, 5)}, {d})",
                     f"torch.split({x}, [{first}, {size - first}], {d})", f"torch.unbind({x}, {d})", f"torch.tensor_split({x}, {g.choice('23')}, {d})"])  # fmt: skip


@row(5)
def pad(g):
    x = g.real(1)
    rank = g.of(x).dim()
    if g.chance(0.5):
        amounts = [g.choice([0, 1, 2, -1]) for _ in range(2 * g.rng.randrange(1, rank + 1))]
        return f"F.pad({x}, {amounts}, value={g.choice(['0.0', '1.5'])})"
    amounts = [g.choice([0, 1, 2]) for _ in range(2 * g.rng.randrange(1, min(rank, 3) + 1))]
    return f"F.pad({x}, {amounts}, mode='{g.choice(['reflect', 'replicate', 'circular'])}')"


# Indices


def indices(g, x, d, shape=None):
    """Text of indices into dim d of x, by numbers or by data."""
    size = g.of(x).shape[d]
    if g.chance(0.5) and shape is None:
        return f"torch.tensor({[g.rng.randrange(size) for _ in range(g.rng.randrange(1, 4))]})"
    like = shape or g.any(1)
    return f"torch.remainder({like}.nan_to_num(0).clamp(-100, 100).to(torch.int64), {x}.shape[{d}])"


@row(5)
def pick(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    if not g.of(x).shape[d]:
        raise Retry
    if g.chance(0.5):
        return f"torch.gather({x}, {d}, {indices(g, x, d, x)})"
    return g.choice([f"torch.index_select({x}, {d}, {indices(g, x, d)}.flatten())", f"torch.take_along_dim({x}, {indices(g, x, d, x)}, {d})",
                     f"{x}[{indices(g, x, 0)}]", f"{x}[:, {indices(g, x, 1)}]" if g.of(x).dim() > 1 else f"{x}[{indices(g, x, 0)}]",
                     f"{x}[{indices(g, x, 0)}, ..., :1]", f"torch.take({x}, torch.tensor([0, -1]))"])  # fmt: skip


@row(2)
def pick_two(g):
    x = g.any(2)
    if 0 in g.of(x).shape:
        raise Retry
    rows = [g.rng.randrange(-g.of(x).shape[0], g.of(x).shape[0]) for _ in range(2)]
    columns = [g.rng.randrange(-g.of(x).shape[-1], g.of(x).shape[-1]) for _ in range(2)]
    return g.choice([f"{x}[torch.tensor({rows}), ..., torch.tensor({columns})]", f"{x}[torch.tensor({rows}), torch.tensor({rows})]",
                     f"{x}[..., torch.tensor([{columns}])]", f"{x}[torch.tensor({rows}).unsqueeze(1), torch.tensor([[0]])]",
                     f"{x}[:, None, torch.tensor({rows})]"])  # fmt: skip


@row(4)
def scatter(g):
    x = g.any(1)
    d = g.dim(g.of(x))
    if not g.of(x).shape[d]:
        raise Retry
    source = g.value(lambda y: y.dtype == g.of(x).dtype and y.dim() == g.of(x).dim())
    own = f"torch.arange({x}.shape[{d}])"
    at = indices(g, x, d, source)
    rows = g.value(lambda y: y.shape == g.of(x).shape and y.dtype == g.of(x).dtype)
    return g.choice([f"torch.scatter_add({x}, {d}, {at}, {source})", f"torch.scatter({x}, {d}, {indices(g, x, d, x)}, 0)",
                     f"torch.scatter_reduce({x}, {d}, {at}, {source}, '{g.choice(['sum', 'amax', 'amin', 'prod', 'mean'])}', include_self={g.chance(0.5)})",
                     f"torch.index_add({x}, {d}, {own}.flip(0), {rows})", f"torch.index_copy({x}, {d}, {own}.flip(0), {rows})",
                     f"torch.index_fill({x}, {d}, torch.tensor([0, -1]), 2)", f"torch.select_scatter({x}, {rows}.select({d}, 0), {d}, -1)",
                     f"torch.slice_scatter({x}, {rows}.narrow({d}, 0, 1), {d}, 0, 1)",
                     f"torch.index_put({x}, (torch.tensor([0, -1]),), {rows}[:1], accumulate={g.chance(0.5)})",
                     f"torch.diagonal_scatter({x}, torch.diagonal({rows}))"])  # fmt: skip


@row(2)
def select(g):
    x = g.any()
    mask = g.truth(g.of(x))
    return g.choice([f"torch.masked_scatter({x}, {mask}, torch.arange({max(g.of(x).numel(), 1)}).to({x}.dtype))",
                     f"F.one_hot(torch.remainder({g.whole()}, 4).to(torch.int64), 4)", f"torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.5]))",
                     f"torch.searchsorted(torch.tensor([-1.0, 0.0, 1.5]), {g.single()})", f"torch.isin({x}, torch.tensor([0, 1, 2]))",
                     f"torch.count_nonzero({x})", f"F.embedding(torch.remainder({g.whole()}, 5).to(torch.int64), {g.weight(FLOAT32, [5, 3])})"])  # fmt: skip


# Making


@row(3)
def create(g):
    x = g.any(1)
    size = g.size(x, g.dim(g.of(x)))
    return g.choice([f"torch.arange({size})", f"torch.arange(1, 2 * {size}, 2)", f"torch.arange({size}, dtype=torch.float32) * 0.5", f"torch.arange(5, 0, -2)",
                     f"torch.linspace(-1, 1, {size})", f"torch.eye({size})", f"torch.full(({size}, 2), {g.scalar()})", f"torch.zeros_like({x})",
                     f"torch.ones({size})", f"torch.full_like({x}, 2)", f"torch.tensor([1.0, 2.0, 3.0])", f"{x}.new_zeros({size}, 3)",
                     f"torch.empty_like({x}).fill_(1)", f"torch.tril_indices(3, 3)", f"torch.full_like({x}, 1.5, dtype=torch.float32)",
                     f"{x}.new_full(({size},), 3)", f"torch.scalar_tensor({g.scalar()})"])  # fmt: skip


@row(1)
def mesh(g):
    a, b = g.value(lambda x: x.dim() == 1), g.value(lambda x: x.dim() == 1)
    return g.choice([f"torch.meshgrid({a}, {b}, indexing='{g.choice(['ij', 'xy'])}')", f"torch.cartesian_prod({a}, {b})"])


# In place

INPLACE = ["add_({y})", "mul_({y})", "sub_({y})", "copy_({y})", "div_(2)", "add_(1)", "fill_(2)", "zero_()", "clamp_(-1, 1)", "abs_()", "relu_()", "neg_()",
           "add_({y}, alpha=2)", "masked_fill_({m}, 3)", "sigmoid_()", "fmod_(2)", "cumsum_(0)", "lerp_({y}, 0.25)"]  # fmt: skip


@row(9)
def in_place(g):
    inputs = [input.name for input in g.inputs]
    x = g.value(lambda x: x.dim() >= 0)
    if x in inputs:
        raise Retry
    return Line(f"{x}.{g.choice(INPLACE).format(y=fitting(g, x), m=g.truth(g.of(x)))}")


def fitting(g, x):
    return g.value(lambda y: spreads_to(y, g.of(x)))


@row(5)
def assign(g):
    inputs = [input.name for input in g.inputs]
    x = g.any(1)
    if x in inputs:
        raise Retry
    size = g.of(x).shape[0]
    where = g.choice([f"{bound(g, size, x, 0)}:{bound(g, size, x, 0)}{g.choice(['', ':2'])}", "0", "-1", "..., 0", "..., 1:", "None, 0", ":",
                      f"torch.tensor([0, -1])", g.truth(g.of(x))])  # fmt: skip
    what = g.choice([g.scalar(), g.any(), f"{x} * 2", f"{x}[{where}] + 1"])
    return Line(f"{x}[{where}] {g.choice(['=', '=', '+=', '*='])} {what}")


@row(3)
def mutate_buffer(g):
    if not g.buffers():
        raise Retry
    b = g.choice(g.buffers())
    return Line(f"{b}{g.choice(['', '[..., 0]', '[:1]', '.view(-1)', '.t()'])}.{g.choice(INPLACE).format(y=fitting(g, b), m=g.truth(g.of(b)))}")


# Products


@row(5)
def product(g):
    x = g.single(1)
    k = g.of(x).shape[-1]
    n = g.choice([1, 2, 5, 8])
    other = g.value(lambda y: y.dtype == FLOAT32 and y.dim() >= 1 and y.shape[max(-2, -y.dim())] == k)
    return g.choice([f"torch.matmul({x}, {other})", f"{x} @ {g.weight(FLOAT32, [k, n])}", f"F.linear({x}, {g.weight(FLOAT32, [n, k])}, {g.weight(FLOAT32, [n])})",
                     f"F.linear({x}, {g.weight(FLOAT32, [n, k])})", f"torch.matmul({x}, {x}.mT)", f"torch.addmm({g.weight(FLOAT32, [n])}, {x}, {g.weight(FLOAT32, [k, n])}, beta=0.5, alpha=2)",
                     f"torch.bmm({x}, {x}.transpose(1, 2))", f"torch.outer({x}, {x})", f"torch.mv({x}, {g.weight(FLOAT32, [k])})", f"torch.dot({x}, {x})",
                     f"torch.einsum('...i,...i->...', {x}, {x})", f"torch.baddbmm({x}, {x}, {x}.mT @ {x})", f"torch.kron({x}, {g.weight(FLOAT32, [2, 2])})",
                     f"torch.tensordot({x}, {g.weight(FLOAT32, [k, n])}, 1)", f"torch.cdist({x}, {x})"])  # fmt: skip


@row(3)
def einsum(g):
    x = g.single(2, 4)
    letters = "abcd"[:g.of(x).dim()]
    other = "".join(g.rng.sample(letters, g.rng.randrange(1, len(letters) + 1)))
    sizes = dict(zip(letters, g.of(x).shape))
    y = g.weight(FLOAT32, [sizes[c] for c in other] + [3])
    out = "".join(g.rng.sample(letters + "z", g.rng.randrange(0, len(letters) + 2)))
    return f"torch.einsum('{letters},{other}z->{out}', {x}, {y})"


@row(5)
def convolution(g):
    n = g.choice([1, 2, 2])
    x = g.single(n + 1, n + 2)
    channels = g.of(x).shape[-n - 1]
    groups = g.choice([d for d in (1, 1, 2, channels) if channels % d == 0])
    kernel = [g.choice([1, 2, 3]) for _ in range(n)]
    options = f"stride={g.choice('112')}, padding={g.choice(['0', '1', '2'])}, dilation={g.choice('112')}, groups={groups}"
    if g.chance(0.3):
        weight = g.weight(FLOAT32, [channels, g.choice([1, 2]), *kernel])
        return f"F.conv_transpose{n}d({x}, {weight}, stride={g.choice('12')}, padding={g.choice('01')}, groups={groups}, dilation={g.choice('12')})"
    outputs = groups * g.choice([1, 2])
    bias = g.choice(["None", g.weight(FLOAT32, [outputs])])
    if g.chance(0.15):
        options = f"padding='{g.choice(['same', 'valid'])}', dilation={g.choice('12')}, groups={groups}"
    return f"F.conv{n}d({x}, {g.weight(FLOAT32, [outputs, channels // groups, *kernel])}, {bias}, {options})"


@row(4)
def pool(g):
    n = g.choice([1, 2, 2])
    x = g.single(n + 1, n + 2)
    k, s, p = g.choice([1, 2, 3]), g.choice([1, 2, 3]), g.choice([0, 1])
    ceil = g.choice(["False", "True"])
    return g.choice([f"F.max_pool{n}d({x}, {k}, {s}, {min(p, k // 2)}, {g.choice('12')}, ceil_mode={ceil})",
                     f"F.avg_pool{n}d({x}, {k}, {s}, {min(p, k // 2)}, {ceil}, {g.choice(['True', 'False'])})",
                     f"F.adaptive_avg_pool{n}d({x}, {g.choice('123')})", f"F.adaptive_max_pool{n}d({x}, {g.choice('12')})",
                     f"F.max_pool{n}d({x}, {k}, {s}, return_indices=True)", f"F.lp_pool{n}d({x}.abs() + 0.1, 2, {k}, {s})"])  # fmt: skip


@row(4)
def norm(g):
    x = g.single(1)
    shape = g.of(x).shape
    last = shape[-g.rng.randrange(1, len(shape) + 1):]
    choices = [f"F.layer_norm({x}, {list(last)})", f"F.layer_norm({x}, {[last[-1]]}, {g.weight(FLOAT32, [last[-1]])}, {g.weight(FLOAT32, [last[-1]])}, eps=1e-3)",
               f"F.rms_norm({x}, {[last[-1]]}, {g.weight(FLOAT32, [last[-1]])})"]  # fmt: skip
    if len(shape) >= 2:
        c = shape[1]
        choices += [f"F.batch_norm({x}, {g.weight(FLOAT32, [c])}, {g.weight(FLOAT32, [c])}.abs() + 0.5, {g.weight(FLOAT32, [c])}, {g.weight(FLOAT32, [c])})",
                    f"F.group_norm({x}, {g.choice([d for d in (1, 2, c) if c % max(d, 1) == 0 and d])}, {g.weight(FLOAT32, [c])})", f"F.instance_norm({x})",
                    f"F.local_response_norm({x}, 3)"]  # fmt: skip
    return g.choice(choices)


@row(3)
def attention(g):
    q = g.single(3, 4)
    k = g.value(lambda y: y.dtype == FLOAT32 and y.dim() == g.of(q).dim() and y.shape[-1] == g.of(q).shape[-1] and y.shape[:-2] == g.of(q).shape[:-2] and y.numel())
    v = g.value(lambda y: y.dtype == FLOAT32 and y.shape[:-1] == g.of(k).shape[:-1] and y.numel())
    mask = f"attn_mask=torch.ones({q}.shape[-2], {k}.shape[-2], dtype=torch.bool).tril()"
    bias = f"attn_mask=({q} @ {k}.mT) * 0.1"
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, {g.choice(['is_causal=True', 'scale=0.5', mask, bias, 'scale=None'])})"


@row(4)
def resize(g):
    n = g.choice([1, 2, 2, 3])
    x = g.single(n + 2, n + 2)
    mode = g.choice({1: ["nearest", "linear", "nearest-exact", "area"], 2: ["nearest", "bilinear", "bicubic", "nearest-exact", "area"], 3: ["nearest", "trilinear"]}[n])
    align = f", align_corners={g.choice(['True', 'False'])}" if "linear" in mode or mode == "bicubic" else ""
    amount = g.choice([f"scale_factor={g.choice(['2', '0.5', '1.7'])}", f"size={[g.choice([1, 2, 5, 7]) for _ in range(n)]}",
                       f"size=[{', '.join([f'{x}.shape[-1] * 2'] * n)}]"])  # fmt: skip
    antialias = ", antialias=True" if mode in ("bilinear", "bicubic") and g.chance(0.15) else ""
    # Whether a neighbour that has no weight is read shows where it is NaN.
    return f"F.interpolate({x}.nan_to_num(0, 1, -1), {amount}, mode='{mode}'{align}{antialias})"


@row(1)
def picture(g):
    x = g.single(4, 4)
    return g.choice([f"F.pixel_shuffle({x}, 2)", f"F.pixel_unshuffle({x}, 2)", f"F.unfold({x}, {g.choice('12')}, padding=1)", f"F.channel_shuffle({x}, 2)",
                     f"F.grid_sample({x}.nan_to_num(0, 1, -1), torch.tanh({g.single(4, 4)}[..., :2]), mode='{g.choice(['bilinear', 'nearest', 'bicubic'])}', padding_mode='{g.choice(['zeros', 'border', 'reflection'])}', align_corners={g.chance(0.5)})",
                     f"F.affine_grid({g.weight(FLOAT32, [1, 2, 3])}.expand({x}.shape[0], 2, 3), {x}.shape, align_corners={g.chance(0.5)})"])  # fmt: skip


@row(1)
def loss(g):
    x = g.single(1)
    y = g.value(lambda t: t.shape == g.of(x).shape and t.dtype == FLOAT32)
    return f"F.{g.choice(['mse_loss', 'l1_loss', 'smooth_l1_loss', 'huber_loss', 'binary_cross_entropy_with_logits', 'soft_margin_loss'])}({x}, {y}, reduction='{g.choice(['mean', 'sum', 'none'])}')"


def statement(g):
    return g.rng.choices([make for _, make in ROWS], [g.likes(make) * weight for weight, make in ROWS])[0](g)
