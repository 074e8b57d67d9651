"""PyTorch as it is."""

from . import _torch

PACKAGE = "torch"
missing = _torch.missing


def make(source, options):
    module, inputs = _torch.prepare(source, options)
    return _torch.runner(module, inputs, options.device), _torch.versions()
