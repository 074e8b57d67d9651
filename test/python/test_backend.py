"""torch.compile(backend="tenon"). Runs with a Python that has torch: see in_wheel.py."""

import contextlib
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import tenon
import torch
from tenon import passes
from tenon.torch import backend
from torch import nn


def small(seed=0, **sizes):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8), nn.LayerNorm(8)).eval()


class Cached(unittest.TestCase):
    """Each test has a cache of its own and begins without graphs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = self.folder.name
        torch._dynamo.reset()
        tenon.reset()

    def tearDown(self):
        os.environ["XDG_CACHE_HOME"] = self.before or ""
        self.folder.cleanup()

    def same(self, compiled, module, *inputs):
        with torch.no_grad():
            torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


class Compiling(Cached):
    def test_the_wheel_names_the_backend(self):
        with tempfile.TemporaryDirectory() as folder:  # entry points are found in the installed metadata
            code = "import torch; print('tenon' in torch._dynamo.list_backends())"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
        self.assertEqual(done.stdout.strip(), "True")

    def test_by_name(self):
        module, x = small(), torch.randn(4, 16)
        self.same(torch.compile(module, backend="tenon"), module, x)
        (graph,) = tenon.report()["graphs"]
        self.assertFalse(graph["from_cache"] or graph["error"] or graph["break"])

    def test_options(self):
        module, x = small(), torch.randn(4, 16)
        self.same(torch.compile(module, backend=backend, mode="max-autotune"), module, x)
        self.same(torch.compile(module, backend=backend, options={"target": "cpu:avx2", "cache": False}), module, x)
        half = torch.compile(module, backend=backend, options={"precision": "bf16"})
        with torch.no_grad():
            torch.testing.assert_close(half(x), module(x), rtol=0.1, atol=0.1)
        with self.assertRaisesRegex(Exception, "TN0105.*no option 'tarjet'"):
            torch.compile(module, backend=backend, options={"tarjet": "cpu"})(x)

    def test_passes(self):
        seen = []

        @passes.rewrite(tolerance=math.inf)
        def negate(graph):
            seen.append([node.op for node in graph.nodes])
            for match in graph.match("matmul(_, _)"):
                graph.replace(match.node.result, graph.create("neg", match.node.result))

        linear, x = nn.Linear(16, 4, bias=False).eval(), torch.randn(3, 16)
        compiled = torch.compile(linear, backend=backend, options={"passes": [negate]})
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), -linear(x), rtol=1e-4, atol=1e-5)
        self.assertIn("matmul", seen[0])

    def test_dynamic_shapes(self):
        module = small()
        compiled = torch.compile(module, backend=backend, dynamic=True)
        for batch in (3, 5, 9, 4):
            self.same(compiled, module, torch.randn(batch, 16))
        self.assertEqual(len(tenon.report()["graphs"]), 1)

    def test_dims_grow_beyond_the_range_of_an_engine(self):
        function = lambda a, b: torch.relu(a + 0.5 * b)
        compiled = torch.compile(function, backend=backend, dynamic=True)
        for count in (1000, 70000, 300000, 7):
            self.same(compiled, function, torch.randn(count), torch.randn(count))
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend)  # fixed at first, then dynamic
        for count in (100000, 120000, 130000, 1 << 20):
            self.same(compiled, function, torch.randn(count), torch.randn(count))

    def test_sizes_as_results(self):
        def function(x):
            return x.relu().reshape(-1), x.shape[0] * 2, x

        compiled = torch.compile(function, backend=backend, dynamic=True)
        for batch in (3, 6):
            x = torch.randn(batch, 4)
            self.same(compiled, function, x)
            self.assertIs(compiled(x)[2], x)

    def test_sums_of_sizes_and_constants(self):
        def function(x, y, z):
            total = x.shape[0] + y.shape[0] + z.shape[0]
            return torch.cat([x, y, z]).reshape(total, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.arange(total)

        compiled = torch.compile(function, backend=backend, dynamic=True)
        for sizes in ((2, 3, 5), (4, 7, 9)):
            self.same(compiled, function, *(torch.randn(size, 4) for size in sizes))

    def test_views_as_results(self):
        def function(x):
            y = x + 1
            return y, y.t(), x[1:], y[0]

        x = torch.randn(3, 4)
        self.same(torch.compile(function, backend=backend), function, x)
        results = torch.compile(function, backend=backend)(x)
        self.assertEqual(results[2].data_ptr(), x[1:].data_ptr())
        results[0][0, 0] = 7
        self.assertEqual((results[1][0, 0], results[3][0]), (7, 7))

    def test_views_of_results_that_lie_otherwise(self):
        """Bases that eager mode lays out by their operands, and views of them that only that layout allows."""

        def seen(base, look):
            return lambda x: ((y := base(x)), look(y), y + 1)

        image = lambda *dims: torch.randn(*dims).to(memory_format=torch.channels_last)  # noqa: E731
        flat = lambda y: y.permute(0, 2, 3, 1).view(-1, y.shape[1])  # noqa: E731
        conv = nn.Conv2d(4, 6, 3, padding=1).eval().requires_grad_(False)
        cases = [
            (seen(lambda x: x.t() + 1, lambda y: y.t().view(-1)), lambda n: torch.randn(n, 5)),
            (seen(lambda x: x.t() * 2, lambda y: y.t()[1:].view(-1)), lambda n: torch.randn(n + 1, 5)),
            (seen(lambda x: x.transpose(0, 2).exp(), lambda y: y.transpose(0, 2).reshape(-1, 6)), lambda n: torch.randn(n, 3, 4)),
            (seen(lambda x: x.permute(2, 0, 1).relu(), lambda y: y.permute(1, 2, 0).unflatten(2, (2, 2)).flatten(0, 1)), lambda n: torch.randn(n, 3, 4)),
            (seen(torch.relu, flat), lambda n: image(n, 4, 3, 5)),
            (seen(lambda x: x * x, lambda y: y.permute(0, 2, 3, 1).flatten(1)), lambda n: image(n, 4, 3, 5)),
            (seen(conv, flat), lambda n: image(n, 4, 3, 5)),
            (seen(lambda x: nn.functional.max_pool2d(x, 2), flat), lambda n: image(n, 4, 4, 6)),
        ]
        for number, (function, made) in enumerate(cases):
            for dynamic in (False, True):
                torch._dynamo.reset()
                compiled = torch.compile(function, backend="tenon", dynamic=dynamic)
                for size in (3, 6):
                    with self.subTest(number=number, dynamic=dynamic, size=size):
                        x = made(size)
                        results, expected = compiled(x), function(x)
                        for result, other in zip(results, expected):
                            torch.testing.assert_close(result, other, rtol=1e-4, atol=1e-4)
                        self.assertEqual(results[0].stride(), expected[0].stride())
                        results[0].fill_(7)  # which the view sees
                        self.assertTrue((results[1] == 7).all())

    def test_memory_that_a_graph_names(self):
        """Layouts and offsets of inputs are part of what a graph means, also where it comes from the disk."""
        cases = [
            (lambda x: torch.as_strided(x, (3, 4), (4, 1)) * 1.0, lambda: torch.arange(24.0).view(4, 6), lambda: torch.arange(24.0).view(6, 4).t()),
            (lambda x: (x * 2).as_strided((4, 16), (16, 1)) + 0, lambda: torch.arange(64.0).view(1, 4, 4, 4),
             lambda: torch.arange(64.0).view(1, 4, 4, 4).to(memory_format=torch.channels_last)),
            (lambda x: torch.as_strided(x, (2, 2), (2, 1)) * 1, lambda: torch.arange(12.0)[:6], lambda: torch.arange(12.0)[4:10]),
            (lambda x: torch.as_strided(x, (2, 2), (2, 1), 5) * 1, lambda: torch.arange(12.0), lambda: torch.arange(24.0)[3:15]),
            (lambda x: torch.as_strided(x, (2,), (1,), 4) * 1, lambda: torch.arange(12.0)[4:10], lambda: torch.arange(12.0)[2:8]),
        ]  # fmt: skip
        for number, (function, *made) in enumerate(cases):
            for begin in (made, made[::-1]):
                for make in begin:  # as processes would that share a cache
                    torch._dynamo.reset()
                    self.same(torch.compile(function, backend="tenon"), function, make())
                torch._dynamo.reset()
                compiled = torch.compile(function, backend="tenon")
                for make in begin:  # in one process, where dynamo does not compare offsets
                    with self.subTest(number=number), contextlib.suppress(tenon.UnsupportedError):
                        self.same(compiled, function, make())
        # What lies outside of the tensor's own elements is refused, and eager mode has it.
        function, x = lambda x: torch.as_strided(x, (2, 2), (2, 1), 0) * 1, torch.arange(12.0)[4:10]
        with self.assertRaisesRegex(Exception, "TN0301: as_strided reads elements of the storage"):
            torch.compile(function, backend="tenon")(x)
        torch._dynamo.reset()
        self.same(torch.compile(function, backend="tenon", options={"fallback": True}), function, x)

    def test_inputs_that_are_written(self):
        def function(cache, x):
            cache[1:3] = x
            cache.mul_(2)
            return cache.sum()

        x, expected, given = torch.randn(2, 4), torch.randn(4, 4), None
        given = expected.clone()
        result = torch.compile(function, backend=backend)(given, x)
        torch.testing.assert_close(result, function(expected, x))
        torch.testing.assert_close(given, expected)

    def test_buffers_that_are_written(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(2))

            def forward(self, x):
                self.count += x
                return self.count * 2

        module = Counter().eval()
        compiled = torch.compile(module, backend=backend)
        for step in range(1, 8):
            torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0 * step))

    def test_threads(self):
        module, x = small(), torch.randn(4, 16)
        compiled = torch.compile(module, backend=backend)
        with torch.no_grad():
            expected = compiled(x)
        results = []

        def work():
            with torch.no_grad():
                results.extend(compiled(x) for _ in range(30))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 120)
        self.assertTrue(all(torch.equal(result, expected) for result in results))


    def test_parts_of_arguments(self):
        """What looks at an argument is the argument's memory, also where a symbol says which part of it."""

        def part(x, n):
            return x + 1, x[:, : max(x.shape[1] - n, 2)]

        compiled = torch.compile(part, backend="tenon", dynamic=True)
        for rows, n in ((4, 3), (5, 6), (4, 1)):
            x = torch.randn(rows, 8)
            self.same(compiled, part, x, n)
            result = compiled(x, n)[1]
            result.zero_()
            self.assertTrue((x[:, : result.shape[1]] == 0).all())
        only = torch.compile(lambda x: x[:, :5], backend="tenon")
        self.same(only, lambda x: x[:, :5], torch.randn(3, 8))

    def test_expanded_results(self):
        def grown(x, n):
            y = x * 2
            return y, y.unsqueeze(0).expand(n, *x.shape), y.t()

        compiled = torch.compile(grown, backend="tenon", dynamic=True)
        for rows, n in ((4, 3), (5, 7)):
            self.same(compiled, grown, torch.randn(rows, 8), n)

    def test_sizes_that_no_dimension_has(self):
        """A number after a graph break decides a size: an engine for each, and the report says why."""

        def padded(x, n):
            y = x.relu()
            torch._dynamo.graph_break()
            return torch.cat([y, torch.zeros(n, 8) + y.sum(0)])

        compiled = torch.compile(padded, backend="tenon", dynamic=True)
        for rows, n in ((4, 3), (5, 6), (4, 3), (7, 2)):
            self.same(compiled, padded, torch.randn(rows, 8), n)
        reasons = [graph["specialized"] for graph in tenon.report()["graphs"]]
        self.assertIn("decides sizes", reasons[-1])
        self.assertIsNone(reasons[0])

    def test_operators_that_pytorch_decomposes(self):
        for function in (torch.nn.functional.logsigmoid, lambda x: torch.nansum(x, 1)):
            torch._dynamo.reset()
            self.same(torch.compile(function, backend="tenon"), function, torch.randn(4, 8))

    def test_strided_windows(self):
        for function in (lambda x: (x * 2).as_strided((3, 4), (2, 3)) + 1, lambda x: (x * 2).t().as_strided((3, 4), (2, 3), 1) + 1):
            for dynamic in (False, True):
                torch._dynamo.reset()
                self.same(torch.compile(function, backend="tenon", dynamic=dynamic), function, torch.randn(4, 8))


class Weights(Cached):
    def test_changes_are_seen(self):
        module, x = small(), torch.randn(4, 16)
        compiled = torch.compile(module, backend=backend)
        for _ in range(5):  # the later ones with weights as inputs
            self.same(compiled, module, x)
            with torch.no_grad():
                module[0].weight.mul_(1.5)
        self.same(compiled, module, x)
        module.load_state_dict(small(1).state_dict())
        self.same(compiled, module, x)

    def test_two_modules_of_one_class(self):
        first, second, x = small(0), small(1), torch.randn(4, 16)

        @torch.compile(backend=backend)
        def run(module, x):
            return module(x)

        for _ in range(2):
            for module in (first, second):
                self.same(lambda x, module=module: run(module, x), module, x)

    def test_as_inputs(self):
        module, x = small(), torch.randn(4, 16)
        compiled = torch.compile(module, backend=backend, options={"freeze": False})
        self.same(compiled, module, x)
        with torch.no_grad():
            module[0].weight.add_(1)
        self.same(compiled, module, x)
        self.assertEqual(tenon.report()["graphs"][0]["recompiled"], 0)


class Gradients(Cached):
    def test_none_are_given(self):
        module, x = small(), torch.randn(4, 16)
        y = torch.compile(module, backend=backend)(x)
        torch.testing.assert_close(y, module(x), rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(tenon.UnsupportedError, "TN0303"):
            y.sum().backward()

    def test_training_mode(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        with self.assertRaisesRegex(Exception, "TN0303"):
            torch.compile(module, backend=backend)(torch.randn(2, 4))
        norm = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        with self.assertRaisesRegex(Exception, "TN0303"):
            torch.compile(norm, backend=backend)(torch.randn(2, 4))


class Breaks(Cached):
    def test_are_reported(self):
        def function(x):
            y = torch.relu(x) * 2
            torch._dynamo.graph_break()
            return y.sum(-1)

        x = torch.randn(3, 4)
        self.same(torch.compile(function, backend=backend), function, x)
        (found,) = tenon.report()["breaks"]
        self.assertIn("graph_break", found["reason"])
        self.assertEqual(found["source"], f"{__file__}:{function.__code__.co_firstlineno + 2}")

    def test_what_tenon_lacks(self):
        def function(x):
            return torch.linalg.eigvals(x).real.sum()

        x = torch.randn(3, 3)
        with self.assertRaisesRegex(Exception, "TN0301"):
            torch.compile(function, backend=backend)(x)
        self.assertIn("TN0301", tenon.report()["graphs"][0]["error"])
        torch._dynamo.reset()
        tenon.reset()
        self.same(torch.compile(function, backend=backend, options={"fallback": True}), function, x)
        (graph,) = tenon.report()["graphs"]
        self.assertTrue(graph["fallback"] and "TN0301" in graph["error"])


class WarmStart(Cached):
    def test_a_second_process_compiles_nothing(self):
        code = """
import torch, tenon
from torch import nn
torch.manual_seed(SEED)
module = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 8)).eval()
compiled = torch.compile(module, backend="tenon", dynamic=True)
with torch.no_grad():
    for batch in (3, 5):
        x = torch.randn(batch, 16)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module[0].weight.add_(1)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
print([(graph["from_cache"], graph["recompiled"]) for graph in tenon.report()["graphs"]])
"""

        def run(seed):
            program = code.replace("SEED", str(seed))
            return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()

        self.assertEqual([run(0), run(0), run(1)], ["[(False, 1)]", "[(True, 1)]", "[(False, 1)]"])

    def test_a_damaged_entry_is_made_anew(self):
        module, x = small(), torch.randn(4, 16)
        self.same(torch.compile(module, backend=backend), module, x)
        (engine,) = pathlib.Path(self.folder.name).glob("tenon-torch/*/model.tenon")
        engine.unlink()
        engine.write_bytes(b"damaged")
        torch._dynamo.reset()
        self.same(torch.compile(module, backend=backend), module, x)
        self.assertFalse(tenon.report()["graphs"][-1]["from_cache"])


if __name__ == "__main__":
    unittest.main()
