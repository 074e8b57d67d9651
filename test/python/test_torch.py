"""torch tensors and modules through the package. Runs with a Python that has torch: see in_wheel.py."""

import os
import pathlib
import threading
import unittest

import tenon
import torch
from torch import nn

MODELS = pathlib.Path(os.environ["TENON_MODELS"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x, scale):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3))) * scale


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 3, 8, 8), torch.tensor(2.0))


class Modules(unittest.TestCase):
    def test_module(self):
        module, inputs = net()
        engine = tenon.compile(module, inputs)
        with torch.no_grad():
            torch.testing.assert_close(engine(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)
        self.assertEqual([port.name for port in engine.inputs], ["x", "scale"])

    def test_keyword_inputs_and_dynamic_shapes(self):
        module, (x, scale) = net()
        batch = torch.export.Dim("batch", min=1, max=16)
        engine = tenon.compile(module, {"x": x, "scale": scale}, dynamic_shapes={"x": {0: batch}, "scale": {}})
        for size in (1, 3, 16):
            x = torch.randn(size, 3, 8, 8)
            with torch.no_grad():
                torch.testing.assert_close(engine(scale=scale, x=x), module(x, scale), rtol=1e-4, atol=1e-5)
        with self.assertRaises(tenon.UsageError) as caught:
            engine(torch.randn(17, 3, 8, 8), scale)
        self.assertEqual(caught.exception.id, "TN0603")

    def test_exported_program(self):
        module, inputs = net()
        program = torch.export.export(module, inputs)
        self.assertEqual(tenon.check(program)["gaps"], [])
        with torch.no_grad():
            torch.testing.assert_close(tenon.compile(program)(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)

    def test_an_input_that_requires_grad_is_refused(self):
        module, (x, scale) = net()
        engine = tenon.compile(module, (x, scale))
        x.requires_grad_()
        for call in (engine, engine.run):
            with self.assertRaises(tenon.UnsupportedError) as caught:
                call(x, scale)
            self.assertEqual(caught.exception.id, "TN0303")
            self.assertIn("'x' requires grad", str(caught.exception))
        with torch.no_grad():
            expected = module(x, scale)
            torch.testing.assert_close(engine(x, scale), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(engine(x.detach(), scale), expected, rtol=1e-4, atol=1e-5)

    def test_training_is_refused(self):
        module, inputs = net()
        with self.assertRaises(tenon.UnsupportedError) as caught:
            tenon.compile(module.train(), inputs)
        self.assertEqual(caught.exception.id, "TN0303")
        with self.assertRaises(tenon.UsageError):
            tenon.compile(module.eval())


class Tensors(unittest.TestCase):
    def test_contiguous_tensors_are_not_copied(self):
        engine = tenon.compile(MODELS / "linear.onnx")
        x = torch.randn(4, 8)
        y = engine(x)
        self.assertIsInstance(y, torch.Tensor)
        session = engine._session()
        self.assertEqual((session._in_slots[0].data, session._out_slots[0].data), (x.data_ptr(), y.data_ptr()))
        torch.testing.assert_close(engine(x.t().contiguous().t()), y)
        torch.testing.assert_close(torch.from_numpy(engine(x.numpy())), y)

    def test_mixed_with_numpy(self):
        engine = tenon.compile(MODELS / "two.onnx")
        a, b = torch.ones(2, 3), torch.ones(2, 3).numpy()
        self.assertTrue(all(isinstance(y, torch.Tensor) for y in engine(b, a)))

    def test_wrong_type(self):
        with self.assertRaises(tenon.UsageError) as caught:
            tenon.compile(MODELS / "linear.onnx")(torch.ones(2, 8, dtype=torch.float64))
        self.assertEqual(caught.exception.id, "TN0108")

    def test_types_that_numpy_lacks(self):
        class Half(nn.Module):
            def forward(self, x):
                return x * 2

        x = torch.randn(3, dtype=torch.bfloat16)
        torch.testing.assert_close(tenon.compile(Half().eval(), (x,))(x), x * 2)

    def test_threads(self):
        module, inputs = net()
        engine = tenon.compile(module, inputs, threads=1)
        with torch.no_grad():
            expected = module(*inputs)
        results = []
        threads = [threading.Thread(target=lambda: results.extend(engine(*inputs) for _ in range(50))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 200)
        for result in results:
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Sizes(unittest.TestCase):
    def test_what_a_squeeze_may_remove(self):
        """Every form of squeeze at sizes where the dim is 1 and where it is not: right, or refused with the node."""
        wide = torch.randn(4, 6, 1, 8)
        forms = [
            lambda x: x.squeeze(0) * 2, lambda x: x.squeeze((0, 2)) * 2, lambda x: torch.squeeze(x, -4) * 2, lambda x: x.squeeze() * 2,
            lambda x: x[:, 1:].squeeze(1) * 2, lambda x: x[:, ::2].squeeze(1) * 2, lambda x: (x + x.squeeze(2)[0]).squeeze(0),
        ]  # fmt: skip
        for number, function in enumerate(forms):
            auto = torch.export.Dim.AUTO
            engine = tenon.compile(Function(function).eval(), (wide,), dynamic_shapes=({0: auto, 1: auto},), target="cpu:avx2")
            answered = 0
            for rows in (1, 2, 3):
                for columns in (2, 3, 5):
                    x = torch.randn(rows, columns, 1, 8)
                    with self.subTest(number=number, rows=rows, columns=columns):
                        try:
                            result = engine(x)
                        except tenon.Error as error:
                            self.assertIn(error.id, ("TN0612", "TN0603"))
                            self.assertIn(1, (rows, columns - 1, (columns + 1) // 2))
                            continue
                        answered += 1
                        self.assertEqual(result.shape, function(x).shape)
                        torch.testing.assert_close(result, function(x))
            self.assertGreater(answered, 0)


if __name__ == "__main__":
    unittest.main()
