"""Guards of an export: a size for which the program was not traced is refused by its guard's text, or gives what eager PyTorch gives.

Modules branch on conditions of their sizes that are drawn; both doors take the export. Run by in_wheel.py with a Python that has torch.
"""

import io
import logging
import math
import random
import unittest
import warnings

import torch
from torch.export import Dim

import tenon

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

SIZES = range(2, 12)
COUNT, SEED = 20, 20261127


def drawn_number(rng, depth=2):
    """An integer, as Python over the sizes a and b."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(["a", "b", "a", "b", str(rng.randint(1, 9))])
    one, two = drawn_number(rng, depth - 1), drawn_number(rng, depth - 1)
    number = rng.randint(2, 5)
    return rng.choice([f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} // {number})", f"({one} % {number})", f"min({one}, {two})",
                       f"max({one}, {two})", f"(-({one}))", f"({one}) ** 2", f"int({one} * {rng.choice([0.5, 0.25, 1.5])})", f"math.ceil({one} / {number})"])  # fmt: skip


def drawn_condition(rng, depth=1):
    if depth and rng.random() < 0.35:
        return f"({drawn_condition(rng, 0)}) {rng.choice('&|')} ({drawn_condition(rng, 0)})"
    if rng.random() < 0.2:
        return rng.choice([f"a / b {rng.choice('<>')} {rng.choice([0.5, 1.5, 0.75])}", f"a * 0.3 {rng.choice('<>')} {rng.randint(1, 3)}", f"b ** 0.5 > {rng.randint(1, 3)}",
                           f"2 ** a < {rng.choice([100, 700])}", f"int(b * 0.7) == {rng.randint(1, 5)}"])  # fmt: skip
    return f"{drawn_number(rng)} {rng.choice(['==', '!=', '<', '<=', '>', '>='])} {drawn_number(rng)}"


class Branch(torch.nn.Module):
    def __init__(self, condition, body=None):
        super().__init__()
        self.condition = eval(f"lambda a, b: {condition}", {"math": math})
        self.body = body or (lambda x: x * 2)

    def forward(self, x):
        return self.body(x) if self.condition(x.shape[0], x.shape[1]) else x * -1


def exported(module, sizes):
    return torch.export.export(module, (torch.ones(sizes),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})


def file_of(program):
    data = io.BytesIO()
    torch.export.save(program, data)
    return data.getvalue()


class Guards(unittest.TestCase):
    def outcomes(self, module, engine, what, sizes=SIZES):
        """{sizes: the text of the refusal, or nothing}; what is not refused is what eager gives."""
        refusals = {}
        for a in sizes:
            for b in sizes:
                x = torch.arange(1.0, a * b + 1).reshape(a, b)
                try:
                    result = engine(x)
                except tenon.Error as error:
                    self.assertRegex(str(error), "TN0612: the model was exported for sizes with|TN0603", f"{what} at {a}x{b}")
                    refusals[a, b] = str(error)
                    continue
                self.assertTrue(torch.equal(module(x), result), f"{what} at {a}x{b}: eager has {tuple(module(x).shape)}, the engine {tuple(result.shape)}")
                refusals[a, b] = ""
        return refusals

    def test_drawn_branches(self):
        rng = random.Random(SEED)
        compiled = 0
        while compiled < COUNT:
            condition = drawn_condition(rng)
            module, sizes = Branch(condition).eval(), (rng.choice(SIZES), rng.choice(SIZES))
            try:
                program = exported(module, sizes)
            except Exception:  # PyTorch cannot trace every condition
                continue
            wanted = bool(module.condition(*sizes))
            compiled += 1
            with self.subTest(condition=condition, sizes=sizes):
                refusals = self.outcomes(module, tenon.compile(file_of(program) if compiled % 2 else program), f"{condition} traced at {sizes}")
                self.assertEqual("", refusals[sizes], condition)  # those of the trace run
                taken = [at for at, refusal in refusals.items() if not refusal and bool(module.condition(*at)) != wanted]
                self.assertEqual([], taken, condition)

    def test_what_tracing_takes_for_granted_refuses_nothing(self):
        """torch.export says of a slice, a view or a window that it is not whole, of one element or the like: eager takes these sizes too."""
        window = torch.ones(1, 1, 3)
        bodies = {"slice": (lambda x: x[:, :5] * 2, range(5, 9)), "end": (lambda x: x[:, -4:] * 2, range(4, 9)), "halves": (lambda x: x.view(x.shape[0], 2, -1) * 2, range(2, 9, 2)),
                  "window": (lambda x: torch.nn.functional.conv1d(x[:, None], window, stride=2), range(3, 9)), "rows": (lambda x: x.reshape(-1, 4) * 2, range(4, 13, 4))}  # fmt: skip
        for name, (body, lengths) in bodies.items():
            with self.subTest(name):
                module = Branch("a > 0", body).eval()
                engine = tenon.compile(exported(module, (2, max(lengths))))
                for length in lengths:
                    for count in (2, 3):
                        x = torch.arange(1.0, count * length + 1).reshape(count, length)
                        self.assertTrue(torch.equal(module(x), engine(x)), (name, count, length))

    def test_the_door_of_modules(self):
        module = Branch("b % 2 == 0").eval()
        engine = tenon.compile(module, (torch.ones(2, 6),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
        refusals = self.outcomes(module, engine, "even")
        self.assertEqual({bool(b % 2) for _, b in refusals}, {bool(refusals[2, 3]), bool(refusals[2, 4])})
        self.assertIn("(L['x'].size()[1] % 2) == 0", refusals[2, 3])


if __name__ == "__main__":
    unittest.main()
