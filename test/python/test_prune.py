"""tenon.prune with a module of PyTorch: exported, pruned, and the recipe carried out on the module, which then equals the narrower ONNX model as Tenon
runs it. Runs in the environment of in_wheel.py with torch. Nothing here depends on how long something takes."""

import copy
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
from torch import nn

import tenon
from tenon._heads import HeadAttention

FREE = {"ratio": 0.5, "multiple": 1, "timing": False}


class Convs(nn.Module):
    """Groups, a depthwise convolution, norms of both kinds and a shared convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.deep, self.groups = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 32, 1, groups=8)
        self.grouped = nn.GroupNorm(8, 32)
        self.twice, self.head = nn.Conv2d(32, 32, 1), nn.Linear(32, 10)

    def forward(self, x):
        x = self.grouped(self.groups(self.deep(self.norm(self.first(x)).relu())))
        return self.head(self.twice(self.twice(x.relu()).relu()).mean((2, 3)))


class Tied(nn.Module):
    """Two layers with one parameter."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 8)
        self.c.weight = self.b.weight

    def forward(self, x):
        return self.d(self.c(self.b(self.a(x).relu()).relu()).relu())


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.up, self.down = nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(self.up(x).relu())


class Normed(nn.Module):
    """Weights that weight_norm computes, in its old and its new form, and an LSTM."""

    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 32, 3, padding=1))
        self.b = torch.nn.utils.weight_norm(nn.Conv1d(32, 32, 1, groups=4))
        self.lstm, self.out = nn.LSTM(32, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.lstm(self.b(self.a(x).relu()).relu().transpose(1, 2))[0])


class OtherKeys(nn.Module):
    """An attention that takes its biases of one tensor apart."""

    def __init__(self):
        super().__init__()
        self.keys, self.attention, self.out = nn.Linear(32, 24), nn.MultiheadAttention(32, 4, kdim=24, vdim=24, batch_first=True), nn.Linear(32, 8)

    def forward(self, x):
        y = self.keys(x)
        return self.out(x + self.attention(x, y, y, need_weights=False)[0])


class Widths(nn.Module):
    """Code with a width as a number, and code that takes it of a tensor, which differ in a file of a free batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 1), nn.Linear(16 * 16, 4)

    def forward(self, x):
        x = self.a(x).relu()
        x = self.b(x.view(x.shape[0], x.shape[1], -1).view(x.shape[0], -1, 4, 4)).relu()
        return self.out(x.view(-1, 16 * 16))


class OwnHeads(nn.Module):
    """An attention whose number of heads is nowhere but in its code."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x).view(2, 6, 4, 8).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = (q @ k.transpose(2, 3) * 8**-0.5).softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(2, 6, 32))


class WithFfn(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.up, self.down = OwnHeads(), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(self.up(self.inner(x)).relu())


class Prune(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        torch.manual_seed(3)

    def prune(self, module, x, differ=True, **options):
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if differ and tensor.is_floating_point() and tensor.dim() == 1:  # fresh ones are equal, which hides what is exchanged
                nn.init.uniform_(tensor, 0.5, 1.5)
        tenon.prune.export(module, x, self.folder / "model.onnx", input_names=["x"], dynamic_axes={"x": {0: "n"}})
        return tenon.prune.prune(self.folder / "model.onnx", self.folder / "narrow.onnx", recipe=self.folder / "r.json", **FREE, **options)

    def pruned(self, module, *shape, **options):
        """The module, cut, which gives what the narrower model gives."""
        x = torch.randn(*shape)
        self.prune(module, x, **options)
        parameters = sum(tensor.numel() for tensor in module.parameters())
        tenon.prune.apply(module, self.folder / "r.json")
        self.assertLess(sum(tensor.numel() for tensor in module.parameters()), parameters)
        expected = tenon.compile(self.folder / "narrow.onnx")(x.numpy())
        expected = expected if isinstance(expected, np.ndarray) else next(iter(expected.values()))
        np.testing.assert_allclose(module(x).detach().numpy(), expected, atol=2e-4 * float(np.abs(expected).max()))
        return module

    def test_import(self):
        subprocess.run([sys.executable, "-c", "import tenon; tenon.prune.export"], check=True)

    def test_convolutions(self):
        module = self.pruned(Convs(), 2, 3, 12, 12)
        sizes = (module.first.out_channels, module.deep.groups, module.groups.groups, module.grouped.num_groups, module.twice.in_channels)
        self.assertEqual((16, 16, 4, 4, 16), sizes)

    def test_tied_parameter(self):
        module = self.pruned(Tied(), 4, 8)
        self.assertIs(module.b.weight, module.c.weight)
        self.assertEqual((8, 8), tuple(module.c.weight.shape))

    def test_equal_parameters(self):
        """The exporter stores equal ones once; of fresh layers biases and norms are."""
        module = nn.Sequential(nn.Conv2d(3, 32, 1), nn.BatchNorm2d(32), nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 4, 1))
        nn.init.zeros_(module[0].bias), nn.init.zeros_(module[2].bias)
        self.pruned(module, 2, 3, 6, 6, differ=False)
        self.assertEqual((16, 16), (module[1].num_features, module[3].num_features))

    def test_computed_weights(self):
        module = self.pruned(Normed(), 2, 4, 10)
        self.assertEqual((16, 16, 16), (module.a.out_channels, module.b.in_channels, module.lstm.input_size))
        self.assertEqual(2, self.pruned(OtherKeys(), 2, 6, 32).attention.num_heads)

    def test_other_values(self):
        """Of a module that was trained on, or another one, it says so and changes nothing."""
        module, x = Tied(), torch.randn(4, 8)
        self.prune(module, x)
        with torch.no_grad():
            module.a.bias += 1
        with self.assertRaisesRegex(tenon.UsageError, "'a.bias' of the module has other values"):
            tenon.prune.apply(module, self.folder / "r.json")
        self.assertEqual(16, module.a.out_features)

    def test_widths_in_code(self):
        module = Widths()
        self.prune(module, torch.randn(2, 3, 4, 4))
        with self.assertWarnsRegex(UserWarning, r"Widths: Reshape '.*' has \[-1, 256\], now \[-1, 128\]") as caught:
            tenon.prune.apply(module, self.folder / "r.json")
        self.assertEqual(1, len([each for each in caught.warnings if "width" in str(each.message)]))

    def test_attention(self):
        self.assertEqual(2, self.pruned(Attending(), 2, 6, 32).attention.num_heads)

    def test_what_cannot_lose_heads(self):
        """The error comes before anything is changed; with its heads kept the rest can go."""
        x = torch.randn(2, 6, 32)
        for module in (WithFfn(), Attending()):
            with self.subTest(type(module).__name__):
                self.prune(module, x)
                before = copy.deepcopy(module.state_dict())
                if isinstance(module, Attending):
                    module.attention.add_zero_attn = True
                with self.assertRaises(tenon.UsageError):
                    tenon.prune.apply(module, self.folder / "r.json")
                self.assertTrue(all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items()))
        module = WithFfn()
        self.prune(module, x, keep=["/inner/q/MatMul"])
        self.assertEqual(32, tenon.prune.apply(module, self.folder / "r.json").up.out_features)

    def test_masks(self):
        """As in torch.nn.MultiheadAttention, of which it has all heads here."""
        L, x, hidden = 5, torch.randn(3, 5, 16), torch.rand(3, 5) < 0.3
        causal, added = torch.ones(L, L, dtype=torch.bool).triu(1), torch.randn(3 * 4, L, L)
        padding = torch.zeros(3, L).masked_fill(hidden, -1e4)
        for is_first in (True, False):
            own = nn.MultiheadAttention(16, 4, batch_first=is_first).eval()
            reference = copy.deepcopy(own)
            HeadAttention.take(own)
            y = x if is_first else x.transpose(0, 1)
            for mask in (None, causal, added, torch.randn(L, L)):
                for key_mask in (None, hidden, padding):
                    options = {"attn_mask": mask, "key_padding_mask": key_mask, "need_weights": False}
                    expected = reference(y, y, y, **options)[0]
                    torch.testing.assert_close(own(y, y, y, **options)[0], expected, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(own(x[0], x[0], x[0], attn_mask=causal)[0], reference(x[0], x[0], x[0], attn_mask=causal)[0])
        with self.assertRaises(tenon.UsageError):
            own(x, x, x, attn_mask=added[:9])
        own = nn.MultiheadAttention(16, 4, kdim=8, vdim=12, batch_first=True).eval()
        reference = copy.deepcopy(own)
        HeadAttention.take(own)
        self.assertEqual(4, own.num_heads)
        torch.testing.assert_close(own(x, x[..., :8], x[..., :12])[0], reference(x, x[..., :8], x[..., :12])[0])

    def test_dropout(self):
        own = nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True)
        HeadAttention.take(own)
        x = torch.randn(2, 5, 16)
        self.assertFalse(torch.equal(own(x, x, x)[0], own(x, x, x)[0]))
        own.eval()
        self.assertTrue(torch.equal(own(x, x, x)[0], own(x, x, x)[0]))

    def test_latency_is_in_seconds(self):
        for given, expected in ((0.004, "--latency=4.000000000ms"), ("4ms", "--latency=4ms")):
            with mock.patch("tenon.prune.verb") as verb:
                tenon.prune.prune("model.onnx", latency=given)
            self.assertIn(expected, verb.call_args.args)

    def test_scores(self):
        """tenon.prune.taylor writes what --scores reads: what the loss does not need goes first."""
        module = Tied()
        module.c.weight = nn.Parameter(module.c.weight.detach().clone())
        with torch.no_grad():
            module.d.weight[:, ::2] = 0
            module.c.bias.fill_(1)  # no channel is zero for all inputs
        data = [(torch.randn(64, 8), torch.randint(0, 8, (64,))) for _ in range(3)]
        tenon.prune.taylor(module, data, path=self.folder / "s.npz")
        kept = module.d.weight.detach()[:, 1::2].clone()
        tenon.prune.export(module, torch.randn(4, 8), self.folder / "model.onnx")
        tenon.prune.prune(self.folder / "model.onnx", self.folder / "narrow.onnx", recipe=self.folder / "r.json", importance="scores",
                          scores=self.folder / "s.npz", **FREE)  # fmt: skip
        tenon.prune.apply(module, self.folder / "r.json")
        self.assertTrue(torch.equal(module.d.weight.detach(), kept))


if __name__ == "__main__":
    unittest.main()
