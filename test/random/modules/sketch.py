"""A random module of PyTorch, grown a statement at a time: what eager refuses is taken back."""

import contextlib
import random
import re

import torch

MOST_ELEMENTS, MOST_RANK = 4096, 5
SCALARS = ["2", "3", "-2", "0.5", "1.5", "-0.25", "True"]


class Retry(Exception):
    """The statement needs a value that is not there."""


class Line(str):
    """A whole statement, where other rows give an expression."""


def source_of(lines, outputs):
    body = "".join(f"        {line}\n" for line in lines)
    return f"class Model(torch.nn.Module):\n    def forward(self, {{inputs}}):\n{body}        return ({', '.join(outputs)},)\n"


def wide(text):
    """The same in float64."""
    return re.sub(r"torch\.(float32|float16|bfloat16)", "torch.float64", text)


@contextlib.contextmanager
def default_type(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def tensor_of(rng, dtype, shape):
    """Data with ties, zeros and both signs."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    x = torch.randn(shape, generator=generator)
    if dtype == torch.bool:
        return x > 0
    if dtype.is_floating_point:
        kind = rng.randrange(6)
        return (x if kind else (x * 4).round() / 2).to(dtype)
    return (x * 4).round().abs().to(dtype) if dtype == torch.uint8 else (x * 4).round().to(dtype)


class Input:
    def __init__(self, name, dtype, dims, symbols):
        self.name, self.dtype, self.dims = name, dtype, dims
        self.offsets = [0 if isinstance(dim, int) else 1 for dim in dims]
        self.symbols = symbols

    def shape(self, sizes):
        return [dim if isinstance(dim, int) else sizes[dim[0]] * dim[1] + dim[2] for dim in self.dims]


class Sketch:
    """`lines` over `inputs`, `weights` (parameters and buffers, as self.NAME) and what lines define."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.sizes = {name: size for name, size in zip("stu", self.rng.sample(range(2, 8), 3))}
        self.inputs, self.weights, self.lines = [], {}, []
        self.count = 0
        self.likings = {}
        self.namespace = {"torch": torch, "F": torch.nn.functional}
        holder = torch.nn.Module()
        self.namespace["self"] = holder
        for i in range(self.rng.randrange(1, 4)):
            self.add_input(f"x{i}")
        for i in range(self.rng.randrange(0, 3)):
            self.weight(self.rng.choice([torch.float32] * 3 + [torch.int64]), self.dims_like(), is_buffer=True)

    def likes(self, row):
        """Each module has kinds of statements that it prefers, so that these meet each other."""
        return self.likings.setdefault(row, self.rng.choice([0.2, 1, 1, 5]))

    # What there is

    def dims_like(self):
        """Dims of an input in the example's sizes, or new ones."""
        known = [input.shape(self.sizes) for input in self.inputs]
        if known and self.rng.random() < 0.7:
            dims = self.rng.choice(known)
            return [1 if self.rng.random() < 0.15 else dim for dim in dims[self.rng.randrange(len(dims) + 1):]]
        return [self.rng.choice([1, 2, 3, 4]) for _ in range(self.rng.randrange(0, 4))]

    def add_input(self, name):
        rng = self.rng
        dims = []
        if self.inputs and rng.random() < 0.5:
            dims = list(rng.choice(self.inputs).dims)
            dims = [1 if rng.random() < 0.1 else dim for dim in dims]
        else:
            for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 3, 4, 4])):
                kind = rng.random()
                symbol = (rng.choice("stu"), rng.choice([1, 1, 1, 1, 2]), rng.choice([0, 0, 0, 0, 1]))
                dims.append(symbol if kind < 0.5 else rng.choice([1, 2, 3, 4, 4, 6, 8] + [0] * (kind > 0.97)))
        dtype = rng.choice([torch.float32] * 8 + [torch.int64, torch.int64, torch.int32, torch.bool, torch.float16, torch.uint8])
        if not any(input.dtype == torch.float32 for input in self.inputs):
            dtype = torch.float32
        input = Input(name, dtype, dims, self.sizes)
        self.inputs.append(input)
        self.namespace[name] = tensor_of(rng, dtype, input.shape(self.sizes))

    def weight(self, dtype, shape, is_buffer=False):
        """The text that reads a new parameter or buffer."""
        name = f"{'b' if is_buffer else 'w'}{len(self.weights)}"
        tensor = tensor_of(self.rng, dtype, list(shape))
        if is_buffer and self.rng.random() < 0.4:
            tensor = torch.zeros_like(tensor)
        self.weights[name] = tensor.clone()
        self.namespace["self"].register_buffer(name, tensor.clone())
        return f"self.{name}"

    def buffers(self):
        return [f"self.{name}" for name in self.weights if name.startswith("b")]

    def of(self, text):
        return eval(text, self.namespace)

    def names(self):
        own = [name for name, value in self.namespace.items() if isinstance(value, torch.Tensor)]
        return own + [f"self.{name}" for name in self.weights if name.startswith("b")]

    def value(self, fits=lambda x: True):
        """A name whose tensor fits, rather a late one."""
        found = [name for name in self.names() if fits(self.of(name))]
        if not found:
            raise Retry
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def real(self, least=0, most=MOST_RANK):
        return self.value(lambda x: x.dtype.is_floating_point and least <= x.dim() <= most)

    def single(self, least=0, most=MOST_RANK):
        return self.value(lambda x: x.dtype == torch.float32 and least <= x.dim() <= most and x.numel() > 0)

    def whole(self, least=0):
        return self.value(lambda x: not x.dtype.is_floating_point and x.dtype != torch.bool and x.dim() >= least)

    def truth(self, like=None):
        fits = lambda x: x.dtype == torch.bool and (like is None or spreads(x.shape, like.shape))
        try:
            return self.value(fits)
        except Retry:
            if like is None:
                raise
            return f"({self.beside(like)} > {self.scalar()})"

    def any(self, least=0):
        return self.value(lambda x: x.dim() >= least)

    def beside(self, x, fits=lambda y: True):
        """What broadcasts with x."""
        if self.rng.random() < 0.15:
            shape = [1 if self.rng.random() < 0.3 else size for size in x.shape[self.rng.randrange(x.dim() + 1):]]
            return self.weight(torch.float32, shape)
        return self.value(lambda y: broadcasts(x.shape, y.shape) and fits(y))

    def scalar(self):
        return self.rng.choice(SCALARS)

    def choice(self, options):
        return self.rng.choice(options)

    def chance(self, probability):
        return self.rng.random() < probability

    def dim(self, x):
        if x.dim() == 0:
            raise Retry
        return self.rng.randrange(-x.dim(), x.dim())

    def size(self, name, dim):
        return f"{name}.shape[{dim}]" if self.chance(0.8) else str(self.of(name).shape[dim])

    # Growing

    def add(self, made):
        """Whether eager takes the statement and its results are of a size to go on with."""
        line = made if isinstance(made, Line) else None
        if line is None:
            try:
                result = self.of(made)
            except Exception:
                return False
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            if not results or not all(fits_in(x) for x in results):
                return False
            names = [f"v{self.count + i}" for i in range(len(results))]
            self.count += len(results)
            line = f"{', '.join(names)}{',' * isinstance(result, (tuple, list))} = {made}"
            self.namespace.update(zip(names, results))
        else:
            try:
                exec(line, self.namespace)
            except Exception:
                return False
        self.lines.append(str(line))
        return True

    def outputs(self):
        own = [name for name in self.names() if name.startswith("v")]
        chosen = [name for name in own if self.rng.random() < 0.4] or own[-1:]
        return list(dict.fromkeys(chosen + own[-1:]))


def fits_in(x):
    return (isinstance(x, torch.Tensor) and x.numel() <= MOST_ELEMENTS and x.dim() <= MOST_RANK
            and x.dtype not in (torch.complex64, torch.complex128))


def broadcasts(a, b):
    try:
        torch.broadcast_shapes(a, b)
        return True
    except RuntimeError:
        return False


def spreads(a, b):
    return broadcasts(a, b) and tuple(torch.broadcast_shapes(a, b)) == tuple(b)


class Module:
    """A finished sketch: its text, and instances of it."""

    def __init__(self, inputs, weights, lines, outputs):
        self.inputs, self.weights, self.lines, self.outputs = inputs, weights, lines, outputs

    def without(self, word):
        """The module without the lines that have a word, and those that need what they define; None without outputs."""
        lines, gone = [], set()
        for line in self.lines:
            defined = set(re.findall(r"\bv\d+\b", line.split(" = ")[0])) if " = " in line else set()
            if word in line or gone & set(re.findall(r"\bv\d+\b", line)):
                gone |= defined
            else:
                lines.append(line)
        outputs = [name for name in self.outputs if name not in gone]
        text = "\n".join(lines)
        left = sorted(set(re.findall(r"^(v\d+)(?:, v\d+)*,? = ", text, re.MULTILINE)), key=lambda name: int(name[1:]))
        return Module(self.inputs, self.weights, lines, outputs or left[-1:]) if outputs or left else None

    def source(self):
        return source_of(self.lines, self.outputs).format(inputs=", ".join(input.name for input in self.inputs))

    def make(self, is_wide=False):
        namespace = {"torch": torch, "F": torch.nn.functional}
        text = self.source()
        exec(wide(text) if is_wide else text, namespace)
        module = namespace["Model"]()
        for name, tensor in self.weights.items():
            tensor = tensor.double() if is_wide and tensor.dtype.is_floating_point else tensor.clone()
            if name.startswith("w"):
                tensor = torch.nn.Parameter(tensor, requires_grad=False)
                setattr(module, name, tensor)
            else:
                module.register_buffer(name, tensor)
        return module.eval()

    def data(self, seed, sizes):
        rng = random.Random(seed)
        return [tensor_of(rng, input.dtype, input.shape(sizes)) for input in self.inputs]

    def text(self):
        weights = [f"{name}: {str(x.dtype)[6:]}{list(x.shape)}" for name, x in self.weights.items() if f"self.{name}" in "".join(self.lines)]
        inputs = [f"{x.name}: {str(x.dtype)[6:]}[{', '.join(dim_text(dim) for dim in x.dims)}]" for x in self.inputs]
        return f"# {', '.join(inputs + weights)}\n{self.source()}"


def dim_text(dim):
    if isinstance(dim, int):
        return str(dim)
    name, factor, offset = dim
    return f"{factor}*{name}".removeprefix("1*") + (f"+{offset}" if offset else "")
