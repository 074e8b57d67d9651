"""Tenon, without its cache."""

PACKAGE = "tenon"


def missing(device: str) -> str:
    return ""


def make(source, options):
    import tenon

    given = dict(threads=options.threads, cache=False)
    if source.kind == "onnx":
        target = _target(options.device)
        try:
            engine = tenon.compile(source.path, target=target, **given)
        except tenon.UnsupportedError:  # perhaps for free sizes only
            shapes = {name: value.shape for name, value in zip(source.names, source.inputs) if value.ndim}
            engine = tenon.compile(source.path, target=target, dynamic_shapes=shapes, **given)
        session, inputs = engine.session(threads=options.threads), list(source.inputs)
    else:
        from . import _torch

        module, inputs = _torch.prepare(source, options)
        model = source.path if source.kind == "pt2" else module
        target = _target(options.device)
        engine = tenon.compile(model, tuple(inputs) if source.kind == "module" else None, target=target, **given)
        session = engine.session(threads=options.threads)

    def run():
        outputs = session(*inputs)
        if options.device == "cuda" and source.kind != "onnx":
            import torch

            torch.cuda.synchronize()
        return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

    return run, {"tenon": tenon.__version__, "variant": engine.variant}


def _target(device: str):
    if device == "cpu":
        return None
    from tenon import _compile

    try:
        import torch
    except ImportError:
        return "cuda"
    return _compile.cuda_target(torch.cuda.get_device_capability())
