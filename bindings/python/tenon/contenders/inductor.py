"""torch.compile with its own backend; on a GPU in CUDA graphs ("reduce-overhead"), as its documentation says for latency."""

from . import _torch

PACKAGE = "torch"
missing = _torch.missing


def make(source, options, mode=None):
    import torch

    module, inputs = _torch.prepare(source, options)
    mode = mode or ("reduce-overhead" if options.device == "cuda" else "default")
    run = _torch.runner(torch.compile(module, mode=mode), inputs, options.device)
    run()  # which compiles
    return run, {**_torch.versions(), "mode": mode}
