"""`tenon accuracy`: metrics are those that numpy computes of ONNX Runtime's outputs, a worse model is shown to be worse and an equal one not,
and each fault of the data is said before work.
"""

import json
import pathlib
import struct
import sys
import unittest
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tool import SOURCE, ToolTest

FAST = ("--target", "cpu:avx2", "--seconds", "0.02")
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
CLASSES, FEATURES, SAMPLES = 10, 8, 400


def save(path, nodes, inputs, outputs, weights, properties=None):
    """`inputs` and `outputs`: name → (type, dims)."""
    def ports(table):
        return [helper.make_tensor_value_info(name, *port) for name, port in table.items()]
    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), [numpy_helper.from_array(v, n) for n, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, properties or {})
    onnx.save(model, path)


def linear(path, weight, batch="batch", properties=None):
    save(path, [helper.make_node("MatMul", ["x", "w"], ["logits"])], {"x": (F32, [batch, weight.shape[0]])},
         {"logits": (F32, [batch, weight.shape[1]])}, {"w": weight.astype(np.float32)}, properties)


def png(pixels):
    """A picture [height, width, channels] of bytes."""
    height, width, channels = pixels.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def ppm(pixels):
    return b"P6\n# by hand\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


class AccuracyTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(3)
        cls.weight = random.standard_normal((FEATURES, CLASSES))
        cls.x = random.standard_normal((SAMPLES, FEATURES)).astype(np.float32)
        scores = cls.x @ cls.weight
        cls.y = (scores + 1.5 * random.standard_normal(scores.shape)).argmax(1)
        linear(cls.folder / "m.onnx", cls.weight)
        linear(cls.folder / "same.onnx", cls.weight * 1.5)
        linear(cls.folder / "worse.onnx", cls.weight + random.standard_normal(cls.weight.shape))
        np.savez(cls.folder / "test.npz", x=cls.x, labels=cls.y)

    def outputs(self, model, **inputs):
        return onnxruntime.InferenceSession(str(self.folder / model)).run(None, inputs)

    def rows(self, *arguments):
        """The rows of the first metric, by model."""
        result = self.json("accuracy", *arguments, *FAST)
        return [row for row in result["metrics"][0]["models"]], result


class Classes(AccuracyTest):
    def test_values(self):
        scores = self.outputs("m.onnx", x=self.x)[0]
        order = np.argsort(-scores, 1)
        f1 = []
        for number in range(CLASSES):
            right = np.sum((order[:, 0] == number) & (self.y == number))
            f1.append(2 * right / (np.sum(order[:, 0] == number) + np.sum(self.y == number)))
        expected = {"top1": np.mean(order[:, 0] == self.y), "top3": np.mean((order[:, :3] == self.y[:, None]).any(1)), "f1": np.mean(f1)}
        _, result = self.rows("m.onnx", "--data", "test.npz", *(f"--metric={name}" for name in expected))
        self.assertEqual(SAMPLES, result["samples"])
        for metric in result["metrics"]:
            row = metric["models"][0]
            self.assertAlmostEqual(expected[metric["metric"]], row["value"], 9, metric["metric"])
            low, high = row["interval_95"]
            self.assertTrue(low < row["value"] < high)
            if metric["metric"] == "top1":
                width = 2 * 1.96 * np.sqrt(row["value"] * (1 - row["value"]) / SAMPLES)
                self.assertAlmostEqual(1, (high - low) / width, delta=0.05)
        cost = result["models"][0]
        self.assertEqual((self.folder / "m.onnx").stat().st_size, cost["file_bytes"])
        self.assertGreater(cost["latency_ms"]["median"], 0)
        self.assertGreater(cost["peak_memory_bytes"], 100_000)

    def test_a_worse_model_is_shown_and_an_equal_one_not(self):
        (first, same, worse), result = self.rows("m.onnx", "same.onnx", "worse.onnx", "--data", "test.npz")
        self.assertEqual(first["value"], same["value"])
        self.assertFalse(same["difference"]["differs"])
        self.assertTrue(worse["difference"]["differs"])
        self.assertLess(worse["difference"]["interval_95"][1], 0)
        self.assertAlmostEqual(worse["value"] - first["value"], worse["difference"]["value"])
        self.assertIn("latency_ratio", result["models"][2])
        text = self.succeed("accuracy", "m.onnx", "same.onnx", "worse.onnx", "--data", "test.npz", *FAST).stdout
        self.assertIn("no difference shown", text)
        self.assertRegex(text, r"worse\.onnx .* worse\n")

    def test_engines_and_batches(self):
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        linear(self.folder / "three.onnx", self.weight, batch=3)
        linear(self.folder / "one.onnx", self.weight, batch=1)
        rows, result = self.rows("m.tenon", "three.onnx", "one.onnx", "--data", "test.npz", "--batch", "7")
        self.assertEqual(1, len({row["value"] for row in rows}))
        self.assertEqual(result["models"][0]["file_bytes"], result["models"][0]["engine_bytes"])

    def test_a_label_for_each_place(self):
        """Classes second, as segmentation has them, and last, as taggers do; what is labelled -100 does not count."""
        random = np.random.default_rng(5)
        pictures = random.standard_normal((20, 2, 4, 5)).astype(np.float32)
        kernel = random.standard_normal((3, 2, 1, 1)).astype(np.float32)
        labels = random.integers(0, 3, (20, 4, 5))
        labels[:, 0, :2] = -100
        save(self.folder / "map.onnx", [helper.make_node("Conv", ["x", "k"], ["y"])], {"x": (F32, ["b", 2, 4, 5])},
             {"y": (F32, ["b", 3, 4, 5])}, {"k": kernel})
        save(self.folder / "tags.onnx", [helper.make_node("Conv", ["x", "k"], ["c"]), helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1])],
             {"x": (F32, ["b", 2, 4, 5])}, {"y": (F32, ["b", 4, 5, 3])}, {"k": kernel})
        save(self.folder / "chosen.onnx", [helper.make_node("Conv", ["x", "k"], ["c"]), helper.make_node("ArgMax", ["c"], ["y"], axis=1, keepdims=0)],
             {"x": (F32, ["b", 2, 4, 5])}, {"y": (I64, ["b", 4, 5])}, {"k": kernel})
        np.savez_compressed(self.folder / "map.npz", x=pictures, y=labels)
        chosen = np.einsum("ncij,oc->noij", pictures, kernel[:, :, 0, 0]).argmax(1)
        expected = np.mean((chosen == labels)[labels >= 0])
        rows, _ = self.rows("map.onnx", "tags.onnx", "chosen.onnx", "--data", "map.npz")
        for row in rows:
            self.assertAlmostEqual(expected, row["value"], 9, row["model"])

    def test_columns_of_ones(self):
        np.savez(self.folder / "onehot.npz", x=self.x, labels=np.eye(CLASSES)[self.y])
        rows, _ = self.rows("m.onnx", "--data", "onehot.npz")
        self.assertEqual(self.rows("m.onnx", "--data", "test.npz")[0][0]["value"], rows[0]["value"])

    def test_outputs_that_are_not_finite(self):
        save(self.folder / "nan.onnx", [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Log", ["p"], ["logits"])],
             {"x": (F32, ["b", FEATURES])}, {"logits": (F32, ["b", CLASSES])}, {"w": self.weight.astype(np.float32)})
        done = self.succeed("accuracy", "nan.onnx", "--data", "test.npz", *FAST)
        self.assertIn("are not finite", done.stderr)
        np.savez(self.folder / "numbers.npz", x=self.x, targets=self.x @ self.weight)
        for metric in ("mse", "relative", "top1"):
            data = "test.npz" if metric == "top1" else "numbers.npz"
            flags = ("--data", data, "--metric", metric, "--reference", "m.onnx")
            for models, verdict in ((("m.onnx", "nan.onnx"), "worse"), (("nan.onnx", "worse.onnx"), "better")):
                with self.subTest(metric=metric, models=models):
                    (_, other), _ = self.rows(*models, *flags)
                    self.assertIs(True, other["difference"]["differs"])
                    self.assertRegex(self.succeed("accuracy", *models, *flags, *FAST).stdout, rf"{models[1]} .* {verdict}\n")
        (_, other), _ = self.rows("nan.onnx", "nan.onnx", "--data", "numbers.npz", "--metric", "mse")
        self.assertIsNone(other["difference"]["differs"])


class OtherMetrics(AccuracyTest):
    def test_distances(self):
        a, b = self.outputs("m.onnx", x=self.x)[0].astype(float), self.outputs("worse.onnx", x=self.x)[0].astype(float)
        cosine = np.mean(np.sum(a * b, 1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))
        relative = np.mean(np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1))
        np.savez(self.folder / "plain.npz", data=self.x)
        _, result = self.rows("worse.onnx", "--data", "plain.npz", "--reference", "m.onnx", "--metric", "cosine", "--metric", "relative")
        for metric, expected in zip(result["metrics"], (cosine, relative)):
            self.assertAlmostEqual(expected, metric["models"][0]["value"], 5)
        rows, _ = self.rows("m.onnx", "worse.onnx", "--data", "plain.npz", "--metric", "cosine")
        self.assertAlmostEqual(1, rows[0]["value"], 6)
        self.assertAlmostEqual(cosine, rows[1]["value"], 5)

    def test_regression(self):
        truth = self.outputs("m.onnx", x=self.x)[0] + 0.5
        np.savez(self.folder / "numbers.npz", x=self.x, targets=truth.astype(np.float64))
        _, result = self.rows("m.onnx", "worse.onnx", "--data", "numbers.npz", "--metric", "mse", "--metric", "mae")
        for metric, expected in zip(result["metrics"], (0.25, 0.5)):
            self.assertAlmostEqual(expected, metric["models"][0]["value"], 5)
            self.assertEqual("lower", metric["better"])
            self.assertTrue(metric["models"][1]["difference"]["differs"])

    def test_perplexity(self):
        random = np.random.default_rng(9)
        table = (3 * random.standard_normal((12, 12))).astype(np.float32)
        save(self.folder / "lm.onnx", [helper.make_node("Gather", ["table", "input_ids"], ["logits"])],
             {"input_ids": (I64, ["b", "s"])}, {"logits": (F32, ["b", "s", 12])}, {"table": table})
        ids = random.integers(0, 12, (30, 9))
        surprise = np.log(np.exp(table).sum(1, keepdims=True)) - table  # of token j behind token i
        moved = np.exp(surprise[ids[:, :-1], ids[:, 1:]].mean())
        repeated = np.where(random.random(ids.shape) < 0.2, -100, ids)
        counted = repeated[:, 1:] >= 0
        other = random.integers(0, 12, ids.shape)
        cases = {"next token": ({}, moved), "as Hugging Face": ({"labels": repeated}, np.exp(surprise[ids[:, :-1], ids[:, 1:]][counted].mean())),
                 "in place": ({"labels": other}, np.exp(surprise[ids, other].mean()))}
        for name, (more, expected) in cases.items():
            with self.subTest(labels=name):
                np.savez(self.folder / "text.npz", input_ids=ids, **more)
                rows, _ = self.rows("lm.onnx", "--data", "text.npz", "--metric", "perplexity")
                self.assertAlmostEqual(1, rows[0]["value"] / expected, 5)

    def test_which_integers_are_the_tokens(self):
        """Of several inputs that fit the one that exporters call so, wherever it stands; else none is guessed."""
        random = np.random.default_rng(9)
        table = (3 * random.standard_normal((12, 12))).astype(np.float32)
        tokens, positions = random.integers(0, 12, (30, 9)), np.tile(np.arange(9), (30, 1))
        surprise = np.log(np.exp(table).sum(1, keepdims=True)) - table
        expected = np.exp(surprise[tokens[:, :-1], tokens[:, 1:]].mean())

        def case(other, name, values, **labels):
            nodes = [helper.make_node("Mul", [other, "zero"], ["nothing"]), helper.make_node("Add", [name, "nothing"], ["ids"]),
                     helper.make_node("Gather", ["table", "ids"], ["logits"])]
            save(self.folder / "two.onnx", nodes, {other: (I64, ["b", "s"]), name: (I64, ["b", "s"])}, {"logits": (F32, ["b", "s", 12])},
                 {"table": table, "zero": np.array(0)})
            np.savez(self.folder / "two.npz", **{other: values, name: tokens}, **labels)
            return ("two.onnx", "--data", "two.npz", "--metric", "perplexity")

        for other, name, values, labels in (("position_ids", "input_ids", positions, {}), ("input_ids", "decoder_input_ids", positions, {}),
                                            ("mask", "words", np.ones_like(tokens), {}), ("position_ids", "words", positions, {"labels": tokens})):
            with self.subTest(inputs=(other, name)):
                self.assertAlmostEqual(1, self.rows(*case(other, name, values, **labels))[0][0]["value"] / expected, 5)
        done = self.refuse(5, "TN0115", "accuracy", *case("position_ids", "words", positions), *FAST)
        self.assertIn("'position_ids' and 'words' could both be", done.stderr)

    def test_a_program(self):
        pathlib.Path(self.folder / "score.py").write_text(
            "import sys, numpy\ndata = numpy.load(sys.argv[-1])\nprint('some text')\nprint((data['logits'].argmax(1) == data['labels']).mean())\n")
        rows, _ = self.rows("m.onnx", "--data", "test.npz", "--metric", f"cmd:{sys.executable} score.py")
        self.assertAlmostEqual(self.rows("m.onnx", "--data", "test.npz")[0][0]["value"], rows[0]["value"], 9)
        self.assertIsNone(rows[0]["interval_95"])
        for program, part in (("echo 1; false", "ended with exit code 1"), ("echo nothing", "is not a number"), ("true", "is not a number"),
                              ("kill -9 $$;", "ended by a signal")):
            with self.subTest(program=program):
                done = self.refuse(5, "TN0115", "accuracy", "m.onnx", "--data", "test.npz", "--metric", f"cmd:{program}", *FAST)
                self.assertIn(part, done.stderr)

    def test_programs_of_torch(self):
        """Each sample is a whole input; the first of several outputs is scored."""
        program = SOURCE / "test/data/pt2/layers.pt2"
        inputs = {}
        for entry in self.json("inspect", program)["inputs"]:
            dims = entry["type"][entry["type"].index("[") + 1:-1].split(", ")
            inputs[entry["name"]] = np.random.default_rng(1).standard_normal((3, *map(int, dims))).astype(np.float32)
        np.savez(self.folder / "layers.npz", **inputs)
        rows, _ = self.rows(program, program, "--data", "layers.npz", "--metric", "relative")
        self.assertEqual([0, 0], [row["value"] for row in rows])


class Forms(AccuracyTest):
    def test_lines(self):
        """Samples of several lengths, as text has them."""
        random = np.random.default_rng(2)
        table = random.standard_normal((20, 4)).astype(np.float32)
        save(self.folder / "text.onnx", [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("ReduceMean", ["e"], ["y"], axes=[1], keepdims=0)],
             {"ids": (I64, ["b", "s"])}, {"y": (F32, ["b", 4])}, {"table": table})
        samples = [random.integers(0, 20, random.integers(1, 6)) for _ in range(60)]
        labels = random.integers(0, 4, 60)
        (self.folder / "text.jsonl").write_text("".join(
            json.dumps({"ids": ids.tolist(), "label": int(label)}) + "\n" for ids, label in zip(samples, labels)))
        rows, _ = self.rows("text.onnx", "--data", "text.jsonl")
        self.assertAlmostEqual(np.mean([table[ids].mean(0).argmax() == label for ids, label in zip(samples, labels)]), rows[0]["value"], 9)

    def test_pictures(self):
        random = np.random.default_rng(4)
        kernel = random.standard_normal((3, 3, 1, 1)).astype(np.float32)
        nodes = [helper.make_node("Conv", ["image", "k"], ["c"]), helper.make_node("GlobalMaxPool", ["c"], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
        save(self.folder / "image.onnx", nodes, {"image": (F32, ["b", 3, 6, 6])}, {"y": (F32, ["b", 3])}, {"k": kernel})
        mean, deviation = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
        folder = self.folder / "pictures"
        right, sums, peaks = [], [], 0
        for number, name in enumerate(("ant", "bee", "cat")):
            (folder / name).mkdir(parents=True)
            for i in range(6):
                pixels = random.integers(0, 256, (8, 10, 3), np.uint8)
                (folder / name / f"{i}.{'png' if i % 2 else 'ppm'}").write_bytes(png(pixels) if i % 2 else ppm(pixels))
                values = (pixels[1:7, 2:8] / 255 - mean) / deviation
                scores = (values @ kernel[:, :, 0, 0].T).max((0, 1))
                right.append(scores.argmax() == number)
                sums.append(scores.sum())
                peaks += values.max((0, 1)).sum()
        self.refuse(5, "TN0113", "accuracy", "image.onnx", "--data", "pictures", *FAST)
        settings = {"crop": 6, "mean": mean, "std": deviation, "layout": "nchw"}
        (folder / "preprocessing.json").write_text(json.dumps(settings))
        program = "import sys, numpy; print(numpy.load(sys.argv[1])['y'].astype(float).sum())"
        _, result = self.rows("image.onnx", "--data", "pictures", "--metric", "top1", "--metric", f"cmd:{sys.executable} -c \"{program}\"")
        self.assertAlmostEqual(np.mean(right), result["metrics"][0]["models"][0]["value"], 9)
        self.assertAlmostEqual(sum(sums), result["metrics"][1]["models"][0]["value"], 3)
        save(self.folder / "whole.onnx", [helper.make_node("ReduceMax", ["image"], ["y"], axes=[1, 2], keepdims=0)], {"image": (F32, [3, 6, 6])}, {"y": (F32, [3])}, {})
        highest = "import sys, numpy; y = numpy.load(sys.argv[1])['y']; print(y.astype(float).sum() if y.shape == (18, 3) else y.shape)"
        rows, _ = self.rows("whole.onnx", "--data", "pictures", "--metric", f'cmd:{sys.executable} -c "{highest}"')
        self.assertAlmostEqual(peaks, rows[0]["value"], 3)
        (folder / "preprocessing.json").write_text(json.dumps({**settings, "meen": [0]}))
        self.assertIn("did you mean 'mean'", self.refuse(5, "TN0113", "accuracy", "image.onnx", "--data", "pictures", *FAST).stderr)
        (folder / "preprocessing.json").write_text(json.dumps({**settings, "crop": 12}))
        self.refuse(2, "TN0107", "accuracy", "image.onnx", "--data", "pictures", *FAST)
        (folder / "preprocessing.json").write_text(json.dumps(settings))
        (folder / "cat" / "0.ppm").write_bytes((folder / "cat" / "0.ppm").read_bytes()[:-1])
        self.refuse(5, "TN0106", "accuracy", "image.onnx", "--data", "pictures", *FAST)


    def test_resizing_is_that_of_pillow(self):
        """Smaller and larger, upright and across, and what a crop leaves over uneven: to one level of 255."""
        from PIL import Image
        random = np.random.default_rng(6)
        coarse = np.kron(random.integers(20, 236, (30, 41, 3)), np.ones((10, 10, 1), int))
        pixels = (coarse + random.integers(-20, 20, coarse.shape)).astype(np.uint8)
        (self.folder / "sizes").mkdir()
        wanted = []
        for number, picture in enumerate((pixels, pixels.transpose(1, 0, 2), pixels[:77, :92], pixels[:20, :31])):
            image = Image.fromarray(picture)
            image.save(self.folder / f"sizes/{number}.png")
            scale = 63 / min(image.size)
            image = image.resize([int(side * scale + 1e-9) for side in image.size], Image.BILINEAR)
            left, top = (round((side - 56) / 2) for side in image.size)
            wanted.append(np.array(image)[top:top + 56, left:left + 56].transpose(2, 0, 1) / 255)
        np.save(self.folder / "wanted.npy", wanted)
        (self.folder / "sizes/preprocessing.json").write_text(json.dumps({"size": 63, "crop": 56, "mean": [0], "std": [1], "layout": "nchw"}))
        save(self.folder / "same_picture.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": (F32, ["b", 3, "h", "w"])},
             {"y": (F32, ["b", 3, "h", "w"])}, {})
        program = "import sys, numpy; print(float(abs(numpy.load(sys.argv[1])['y'] - numpy.load('wanted.npy')).max()) * 255)"
        rows, _ = self.rows("same_picture.onnx", "--data", "sizes", "--metric", f'cmd:{sys.executable} -c "{program}"')
        self.assertLess(rows[0]["value"], 1.01)


class Faults(AccuracyTest):
    def save(self, **arrays):
        np.savez(self.folder / "bad.npz", **arrays)

    def test_each_is_said(self):
        nan = self.x.copy()
        nan[17, 3] = np.nan
        cases = [("TN0113", 5, "empty", dict(x=self.x[:0])), ("TN0113", 5, "has no array for the input 'x'", dict(a=self.x, b=self.x)),
                 ("TN0113", 5, "samples of 7", dict(x=self.x[:, :7], y=self.y)), ("TN0113", 5, "a label for each sample", dict(x=self.x, y=self.y[:5])),
                 ("TN0108", 2, "numpy.float32", dict(x=self.x.astype(np.float64), y=self.y)), ("TN0114", 5, "in sample 17, element 3", dict(x=nan, y=self.y)),
                 ("TN0115", 5, "needs labels", dict(x=self.x)), ("TN0115", 5, "labels count from 0 to 9", dict(x=self.x, y=self.y + 1)),
                 ("TN0115", 5, "is not a class number", dict(x=self.x, y=self.y + 0.5)), ("TN0113", 5, "complex64", dict(x=self.x, y=self.y.astype("c8"))),
                 ("TN0106", 5, "'<U5'", dict(x=self.x, y=np.array(["class"] * SAMPLES)))]
        for error, exit_code, part, arrays in cases:
            with self.subTest(part=part):
                self.save(**arrays)
                self.assertIn(part, self.refuse(exit_code, error, "accuracy", "m.onnx", "--data", "bad.npz", *FAST).stderr)

    def test_what_is_only_odd(self):
        for part, arrays in (("everywhere", dict(x=self.x * 0 + 2, y=self.y)), ("every label is 4", dict(x=self.x, y=self.y * 0 + 4)),
                             ("'more' is not used", dict(x=self.x, y=self.y, more=np.array(["text"] * SAMPLES)))):
            with self.subTest(part=part):
                self.save(**arrays)
                self.assertIn(part, self.succeed("accuracy", "m.onnx", "--data", "bad.npz", *FAST).stderr)

    def test_data_of_the_calibration(self):
        """Known by the samples, whatever file they are in."""
        np.savez(self.folder / "first.npz", x=self.x[:200], y=self.y[:200])
        fingerprint = self.json("accuracy", "m.onnx", "--data", "first.npz", *FAST)["fingerprint"]
        linear(self.folder / "calibrated.onnx", self.weight, properties={"tenon.calibration_data": fingerprint})
        np.savez_compressed(self.folder / "half.npz", x=self.x[100:300], y=self.y[100:300])
        np.savez(self.folder / "last.npz", x=self.x[200:], y=self.y[200:])
        for name, share in (("test", 1), ("half", 0.5), ("last", 0)):
            with self.subTest(data=name):
                done = self.succeed("accuracy", "calibrated.onnx", "--data", f"{name}.npz", "--json", *FAST)
                self.assertAlmostEqual(share, json.loads(done.stdout)["models"][0]["calibration_share"], delta=0.03)
                self.assertEqual(share > 0, "was calibrated on data" in done.stderr)

    def test_lines(self):
        good = json.dumps({"x": self.x[0].tolist(), "label": 1})
        for error, exit_code, part, line in (("TN0113", 5, "line 2 is not a JSON object", "[1, 2]"), ("TN0113", 5, "line 2 is not a JSON object", '{"x": NaN}'),
                                             ("TN0113", 5, "line 2: 'x' has samples of 2", '{"x": [1, 2], "label": 1}'), ("TN0113", 5, "has no 'x'", '{"label": 1}'),
                                             ("TN0113", 5, "its lists differ", '{"x": [[1], [2, 3]], "label": 1}'),
                                             ("TN0113", 5, "its lists differ", '{"x": ' + "[" * 5000 + "]" * 5000 + "}"),
                                             ("TN0113", 5, "some samples have no label", json.dumps({"x": self.x[0].tolist()}))):
            with self.subTest(line=line[:40]):
                (self.folder / "bad.jsonl").write_text(f"{good}\n{line}\n")
                self.assertIn(part, self.refuse(exit_code, error, "accuracy", "m.onnx", "--data", "bad.jsonl", *FAST).stderr)
        (self.folder / "bad.jsonl").write_text("\n")
        self.refuse(5, "TN0113", "accuracy", "m.onnx", "--data", "bad.jsonl", *FAST)

    def test_labels_that_are_no_numbers(self):
        truth = np.zeros((SAMPLES, CLASSES), np.float32)
        truth[3, 2] = np.nan
        self.save(x=self.x, y=truth)
        self.assertIn("of sample 3", self.refuse(5, "TN0115", "accuracy", "m.onnx", "--data", "bad.npz", "--metric", "mse", *FAST).stderr)

    def test_arguments(self):
        self.assertIn("did you mean 'top1'", self.refuse(2, "TN0105", "accuracy", "m.onnx", "--data", "test.npz", "--metric", "topl", *FAST).stderr)
        self.refuse(2, "TN0105", "accuracy", "m.onnx", "--data", "test.npz", "--output", "logit", *FAST)
        (self.folder / "broken.onnx").write_bytes(b"\x08\x08\xff")  # which is never read
        self.assertIn("none.npz", self.refuse(2, "TN0101", "accuracy", "broken.onnx", "--data", "none.npz", *FAST).stderr)
        self.refuse(5, "TN0113", "accuracy", "m.onnx", "--data", "m.onnx", *FAST)
        self.refuse(5, "TN0115", "accuracy", "m.onnx", "--data", "test.npz", "--metric", "cosine", *FAST)


if __name__ == "__main__":
    unittest.main()
