"""Numbers at the ends of their types: digits of small results, squares and numbers beside narrow floats, zeros with signs, quotients that round down, rows that a mask hides.

Compares with eager PyTorch, and where that loses digits itself with float64. Run by in_wheel.py with a Python that has torch.
"""

import math
import unittest

import torch
import torch.nn.functional as F

import tenon
import tenon.torch

INFINITY, NAN = math.inf, math.nan


class Module(torch.nn.Module):
    """Several functions of the same inputs as one model."""

    def __init__(self, functions):
        super().__init__()
        self.functions = list(functions)

    def forward(self, *inputs):
        return tuple(function(*inputs) for function in self.functions)


def results(functions, *inputs):
    """(eager, compiled) results of each function."""
    module = Module(functions).eval()
    compiled = tenon.compile(module, inputs)(*inputs)
    return module(*inputs), compiled if isinstance(compiled, (tuple, list)) else (compiled,)


# Sum and difference of nearly equal parts, which is where digits go.
TAILS = {"softplus": F.softplus, "mish": F.mish, "logsigmoid": F.logsigmoid, "elu": F.elu, "selu": F.selu, "celu": F.celu, "expm1": torch.expm1, "log1p": torch.log1p,
         "sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh, "erf": torch.erf, "sinh": torch.sinh, "asinh": torch.asinh, "atanh": torch.atanh, "atan": torch.atan, "erfc": torch.erfc, "exp2": torch.exp2}

NORMS = {"normalize": lambda x, y: F.normalize(x, dim=-1), "norm": lambda x, y: x.norm(dim=-1), "norm 3": lambda x, y: torch.linalg.vector_norm(x, 3, dim=-1),
         "cosine": F.cosine_similarity, "distance": F.pairwise_distance, "std": lambda x, y: x.std(-1), "hypot": torch.hypot,
         "logsumexp": lambda x, y: torch.logsumexp(x, -1), "sum": lambda x, y: x.sum(-1), "mean": lambda x, y: x.mean(-1)}

# What stands beside a number, which eager mode keeps in f32 or rounds to the tensor's type. Softshrink's vectors give 0 where the elements behind
# the last whole vector give -0.
BESIDE = {"add": lambda x, n: x + n, "from": lambda x, n: n - x, "product": lambda x, n: x * n, "quotient": lambda x, n: x / n, "floor": lambda x, n: x // n,
          "trunc": lambda x, n: torch.div(x, n, rounding_mode="trunc"), "remainder": lambda x, n: x % n, "fmod": torch.fmod, "above": lambda x, n: x > n,
          "equal": lambda x, n: x == n, "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n), "lerp": lambda x, n: torch.lerp(x, x.flip(0), n),
          "alpha": lambda x, n: torch.sub(x, x.flip(0), alpha=n), "softshrink": lambda x, n: F.softshrink(x, n) + 0.0, "threshold": lambda x, n: F.threshold(x, n, 20.0),
          "scalar": lambda x, n: x * torch.tensor(n)}

# What two numbers give, of all pairs of SPECIAL.
SPECIAL = [0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 2.5, -2.5, 1e-30, 1e30]
PAIRS = {"atan2": torch.atan2, "hypot": torch.hypot, "floor": lambda a, b: a // b, "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "fmod": torch.fmod,
         "remainder": torch.remainder, "logaddexp": torch.logaddexp}


class Numbers(unittest.TestCase):
    def same(self, eager, compiled, what, bound=0.0):
        """Equal within a relative bound, NaN and signs of zeros too."""
        eager, compiled = eager.double(), compiled.double()
        close = (eager == compiled) | ((eager - compiled).abs() <= bound * eager.abs()) | (eager.isnan() & compiled.isnan())
        wrong = ~close | ((eager == 0) & (compiled == 0) & (eager.signbit() != compiled.signbit()))
        self.assertEqual([], [(eager[tuple(at)].item(), compiled[tuple(at)].item(), at) for at in wrong.nonzero().tolist()][:4], what)

    def test_tails_keep_their_digits(self):
        sizes = torch.logspace(-37, 1.9, 300, dtype=torch.float64)
        for element, bound in ((torch.float32, 1e-6), (torch.float16, 1.5e-3), (torch.bfloat16, 1.2e-2)):
            x = torch.cat([-sizes, sizes]).to(element)
            _, compiled = results(TAILS.values(), x)
            for (name, function), y in zip(TAILS.items(), compiled):
                right = function(x.double())
                # Below the smallest normal number there are no digits to keep.
                counts = right.to(element).isfinite() & (right.abs() >= torch.finfo(element).smallest_normal)
                self.same(right[counts], y[counts], f"{name} {element}", bound)

    def test_norms_of_narrow_floats(self):
        torch.manual_seed(0)
        for element, bound in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            for size in (1e-4, 1.0, 300.0):
                x = (torch.randn(3, 2000) * size).to(element)
                y = (x.float() + torch.randn(3, 2000) * size).to(element)
                _, compiled = results(NORMS.values(), x, y)
                for (name, function), y_ in zip(NORMS.items(), compiled):
                    right = function(x.double(), y.double())
                    fits = right.to(element).isfinite() & (right.abs() >= 16 * torch.finfo(element).smallest_normal)
                    floor = bound * right.abs().max() if name in ("sum", "mean") else torch.zeros(())
                    error = (right - y_.double()).abs()[fits]
                    self.assertTrue(bool((error <= bound * right.abs()[fits] + floor).all()), (name, element, size, error))

    def test_special_pairs(self):
        x = torch.tensor(SPECIAL)
        a, b = (part.contiguous() for part in torch.broadcast_tensors(x[:, None], x[None]))
        eager, compiled = results(PAIRS.values(), a, b)
        for name, right, y in zip(PAIRS, eager, compiled):
            self.same(right, y, name, 1e-6)

    def test_numbers_beside_narrow_floats(self):
        torch.manual_seed(0)
        for element in (torch.float16, torch.bfloat16):
            for number in (0.1, 1.7, 257.3):
                x = torch.cat([torch.randn(500) * 3, torch.tensor([number, 2 * number, 3 * number, -number])]).to(element)
                functions = [lambda x, function=function, number=number: function(x, number) for function in BESIDE.values()]
                for name, right, y in zip(BESIDE, *results(functions, x)):
                    # Eager mode fuses this product and sum in its vectors only: that is one rounding of the product.
                    summands = x.double().abs() + (number * x.double().flip(0)).abs()
                    fused = torch.finfo(element).eps * summands / right.double().abs().clamp_min(1e-30)
                    self.same(right, y, f"{name} {number} {element}", fused if name == "alpha" else 0.0)

    def test_signs_of_zeros(self):
        x = torch.tensor([0.0, -0.0, 1.0, -1.0, INFINITY])
        functions = [lambda v: v + 0.0, lambda v: 0.0 + v, lambda v: v - 0.0, lambda v: v + -0.0, lambda v: v - -0.0, lambda v: v * 1.0, lambda v: v / 1.0, lambda v: -(-v),
                     lambda v: (v + 0.0) + 0.0, lambda v: v.abs() + 0.0, lambda v: 1 / (v + 0.0), lambda v: torch.relu(v) + 0.0, lambda v: torch.zeros(()) + v, lambda v: v * 0.0]
        for i, (right, y) in enumerate(zip(*results(functions, x))):
            self.same(right, y, i)

    def test_rows_that_a_mask_hides(self):
        torch.manual_seed(0)
        hidden = torch.ones(5, 7, dtype=torch.bool)
        hidden[1:] = torch.rand(4, 7) > 0.4
        added = torch.zeros(5, 7).masked_fill(hidden, -INFINITY)
        for element, bound in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
            q, k, v = torch.randn(1, 2, 5, 8).to(element), torch.randn(1, 2, 7, 8).to(element), torch.randn(1, 2, 7, 8).to(element)
            mask = added.to(element)
            scores = lambda q, k: q @ k.transpose(-1, -2) / math.sqrt(8)  # noqa: E731
            for functions in ([lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)], [lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)],
                              [lambda q, k, v: torch.softmax(scores(q, k) + mask, -1) @ v],
                              [lambda q, k, v: torch.softmax(scores(q, k).masked_fill(hidden, -INFINITY), -1) @ v],
                              [lambda q, k, v: torch.nan_to_num(torch.softmax(scores(q, k) + mask, -1)) @ v],
                              [lambda q, k, v: torch.softmax(scores(q, k) + mask, -1) @ v, lambda q, k, v: torch.softmax(scores(q, k) + mask, -1)]):
                for right, y in zip(*results(functions, q, k, v)):
                    self.assertTrue(torch.equal(right.isnan(), y.isnan()), (right[0, 0, 0], y[0, 0, 0]))
                    self.assertTrue(torch.allclose(right.float(), y.float(), rtol=0, atol=bound, equal_nan=True))

    def test_regions_of_autocast(self):
        class Regions(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

            def forward(self, x):
                with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                    y = self.linear(x)
                    with torch.autocast("cpu", enabled=False):
                        wide = self.linear(x)
                    product, sums = x @ y.transpose(-1, -2), torch.cat([y, x], -1)
                    rows = torch.softmax(y, -1), self.norm(y), y.sum(-1), y + x, y * 0.1
                return y, wide, product, sums, *rows, y * 2, self.linear(x)

        torch.manual_seed(0)
        module, x = Regions().eval(), torch.randn(2, 8, 8)
        for strict in (True, False):
            program = torch.export.export(module, (x,), strict=strict)
            for i, (right, y) in enumerate(zip(module(x), tenon.compile(program)(x))):
                self.assertEqual(right.dtype, y.dtype, (strict, i))
                self.assertTrue(torch.allclose(right.float(), y.float(), rtol=2e-2, atol=2e-2), (strict, i))

    def test_sign_and_integers_of_floats(self):
        x = torch.tensor([*SPECIAL[4:9], 200.0, -200.0, 300.0, 70000.0])
        functions = [torch.sign, lambda v: v[1:].to(torch.int8), lambda v: v[1:].to(torch.uint8), lambda v: v[1:].to(torch.int16)]
        for right, y in zip(*results(functions, x)):
            self.assertTrue(torch.equal(right, y), (right, y))

    def test_integers_round_down(self):
        every = torch.arange(-128, 128)
        a, b = (part.contiguous().to(torch.int8) for part in torch.broadcast_tensors(every[:, None], every[every != 0][None]))
        for element in (torch.int8, torch.int32, torch.int64):
            least, most = torch.iinfo(element).min, torch.iinfo(element).max
            ends = torch.tensor([least, least + 1, most, most - 1, most, least], dtype=element), torch.tensor([3, 3, -5, -100, -1, 7], dtype=element)
            for dividend, divisor in ((a.to(element), b.to(element)), ends):
                (right,), (y,) = results([lambda p, q: p // q], dividend, divisor)
                self.assertTrue(torch.equal(right, y), element)

    def test_floats_round_down(self):
        for step in (0.1, 0.2, 1 / 3):
            for element in (torch.float32, torch.float64):
                x = torch.arange(-60, 60).to(element) * step
                eager, compiled = results([lambda v: v // step, lambda v: (v // step).long()], x)
                for right, y in zip(eager, compiled):
                    self.assertTrue(torch.equal(right, y), (step, element))

    def test_samples_beyond_the_border(self):
        torch.manual_seed(0)
        image, grid = torch.randn(1, 2, 5, 6), torch.rand(1, 9, 9, 2) * 6 - 3
        grid[0, 0, :, 0] = grid[0, 1, :, 1] = torch.tensor([-1, 1, -3, 3, 0, -2, 2, -1.5, 1.5])
        ways = [(mode, padding, aligned) for mode in ("nearest", "bilinear", "bicubic") for padding in ("zeros", "border", "reflection") for aligned in (False, True)]
        functions = [lambda x, g, way=way: F.grid_sample(x, g, mode=way[0], padding_mode=way[1], align_corners=way[2]) for way in ways]
        for way, right, y in zip(ways, *results(functions, image, grid)):
            self.assertLess(float((right - y).abs().max()), 1e-4, way)


if __name__ == "__main__":
    unittest.main()
