"""torch tensors of a GPU through the package and through torch.compile; skipped without one. Runs with a Python that has torch: see in_wheel.py."""

import unittest

import tenon
import torch
from tenon.torch import backend
from test_backend import Cached, small
from test_torch import net


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class Modules(unittest.TestCase):
    def test_tensors_of_another_stream(self):
        module, inputs = net()
        module, inputs = module.cuda(), tuple(t.cuda() for t in inputs)
        engine = tenon.compile(module, inputs)
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            x = torch.randn(2, 3, 8, 8, device="cuda")
            result, expected = engine(x, inputs[1]), module(x, inputs[1])
        stream.synchronize()
        self.assertEqual(result.device, x.device)
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-3)


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class Backend(Cached):
    def test_outputs_stay_on_the_device(self):
        module, x = small().cuda(), torch.randn(4, 16, device="cuda")
        compiled = torch.compile(module, backend=backend)
        with torch.no_grad():
            result = compiled(x)
            self.assertEqual(result.device, x.device)
            torch.testing.assert_close(result, module(x), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    unittest.main()
