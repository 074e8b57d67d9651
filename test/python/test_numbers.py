"""Numbers at the ends of their types: digits of small results, squares of narrow floats, zeros with signs, quotients that round down.

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
         "sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh, "erf": torch.erf, "sinh": torch.sinh, "asinh": torch.asinh, "atanh": torch.atanh, "atan": torch.atan}

NORMS = {"normalize": lambda x, y: F.normalize(x, dim=-1), "norm": lambda x, y: x.norm(dim=-1), "norm 3": lambda x, y: torch.linalg.vector_norm(x, 3, dim=-1),
         "cosine": F.cosine_similarity, "distance": F.pairwise_distance, "std": lambda x, y: x.std(-1), "hypot": torch.hypot,
         "logsumexp": lambda x, y: torch.logsumexp(x, -1), "sum": lambda x, y: x.sum(-1), "mean": lambda x, y: x.mean(-1)}

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
        ways = [(mode, padding, aligned) for mode in ("bilinear", "bicubic") for padding in ("zeros", "border", "reflection") for aligned in (False, True)]
        functions = [lambda x, g, way=way: F.grid_sample(x, g, mode=way[0], padding_mode=way[1], align_corners=way[2]) for way in ways]
        for way, right, y in zip(ways, *results(functions, image, grid)):
            self.assertLess(float((right - y).abs().max()), 1e-4, way)


if __name__ == "__main__":
    unittest.main()
