"""Manners of the command line: files known by content, slips of the hand, numbers in plain words, help that works.

Each table is run whole: a verb or an option that is new belongs into it.
"""

import gzip
import re
import shlex
import subprocess
import unittest
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import language_files
from tool import CNN, TENON, ToolTest, tiny_model

# Verbs with what they take first, and what comes before it.
TAKES = [(["inspect"], "either"), (["check"], "either"), (["run"], "either"), (["bench"], "either"),
         (["compile"], "model"), (["explain", "fusion"], "engine")]
NOT_WHOLE = ["abc", "1e9", "1.5", "-1", "0x10", " 1", "99999999999999999999999", "nan"]
# Numeric options: verb, option, the range that the help shows, values that are wrong.
NUMBERS = [
    ("compile", "--threads", "1..1024", NOT_WHOLE + ["0", "1025"]),
    ("run", "--threads", "1..1024", NOT_WHOLE + ["0", "1025"]),
    ("bench", "--threads", "1..1024", NOT_WHOLE + ["0", "1025"]),
    ("run", "--batch", "1..2147483647", NOT_WHOLE + ["0", "2147483648"]),
    ("bench", "--batch", "1..2147483647", ["0", "abc"]),
    ("run", "--seed", "0..18446744073709551615", NOT_WHOLE + ["18446744073709551616"]),
    ("bench", "--seed", "0..18446744073709551615", ["-1"]),
    ("bench", "--runs", "1..10000000", NOT_WHOLE + ["0", "10000001"]),
    ("bench", "--seconds", "0.001s..86400s", ["abc", "0", "-1", "nan", "inf", "1e9", "1h", "2000m"]),
    ("run", "--budget", "0s..86400s", ["abc", "-1s", "nan", "inf", "1e9", "5h"]),
    ("bench", "--budget", "0s..86400s", ["abc"]),
    ("run", "--mean", "-1000000..1000000", ["a,b", "1,", "1,,2", "inf", "nan"]),
    ("run", "--std", "1e-06..1000000", ["0", "-1", "0.5,0", "nan"]),
    ("bench", "--mean", "-1000000..1000000", ["nan"]),
    ("bench", "--std", "1e-06..1000000", ["0"]),
]
# Values with numbers in them that are checked by hand.
OTHER_NUMBERS = [
    (["compile", "model.onnx", "--shape", "image:1x3x8xoops"], "'oops' is not a dimension"),
    (["compile", "model.onnx", "--shape", "image:-1x3x8x8"], "'-1' is not a dimension"),
    (["compile", "model.onnx", "--shape", "image:[5..2]x3x8x8"], "'[5..2]' is not a dimension"),
    (["compile", "model.onnx", "--shape", "image:1e9x3x8x8"], "'1e9' is not a dimension"),
    (["check", "model.onnx", "--shape", "image:99999999999999999999x3x8x8"], "is not a dimension"),
    (["inspect", "model.onnx", "--shape", "image:1x3x8x8", "--shape", "image:2x3x8x8"], "already a --shape"),
    (["run", "model.tenon", "--fill", "image:1..0"], "not a range"),
    (["run", "model.tenon", "--fill", "image:0..1e300"], "cannot hold these values"),
    (["run", "model.tenon", "--shape", "image:nanx3x8x8"], "'nan' is not a dimension"),
]
# What is written, and what was meant.
SLIPS = [
    (["complie", "model.onnx"], "compile"), (["RUN", "model.tenon"], "run"), (["inspekt"], "inspect"),
    (["compile", "model.onnx", "--ouptut", "x"], "--output"), (["run", "model.tenon", "--input", "x.npz"], "--inputs"),
    (["--verison"], "--version"), (["bench", "model.tenon", "--thread=2"], "--threads"),
    (["compile", "model.onnx", "--precision", "fp61"], "fp16"), (["run", "model.onnx", "--precision", "BF16"], "bf16"),
    (["compile", "model.onnx", "--allow", "tf23"], "tf32"), (["compile", "model.onnx", "--stop-after", "optimise"], "optimize"),
    (["compile", "model.onnx", "--target", "cpu:avx51"], "cpu:avx512"),
    (["check", "model.onnx", "--target", "cudo:sm_90"], "cuda:sm_90"), (["run", "model.onnx", "--target", "cpy"], "cpu"),
    (["run", "model.tenon", "--isa", "avx521"], "avx512"), (["bench", "model.tenon", "--variant", "sm90"], "sm_90"),
    (["inspect", "model.onnx", "--format", "jsno"], "json"), (["doctor", "--progress", "jsn"], "json"),
    (["run", "model.tenon", "--layout", "nhcw"], "nchw"), (["explain", "fuson", "model.tenon"], "fusion"),
    (["explain", "fusion", "model.tenon", "/layer1/conv1/Conf"], "/layer1/conv1/Conv"),
    (["compile", "model.onnx", "--shape", "imgae:1x3x8x8"], "image"),
    (["run", "model.tenon", "--shape", "imgae:1x3x8x8"], "image"), (["run", "model.tenon", "--fill", "imag:0..1"], "image"),
    (["run", "model.tenon", "--inputs", "imagee=x.npy"], "image"), (["run", "model.tenon", "--inputs", "wrong.npz"], "image"),
    (["compile", "model.onnx", "--state", "imag=features"], "image"),
    (["compile", "model.onnx", "--state", "image=feature"], "features"),
    (["help", "TN030l"], "TN0301"), (["help", "compil"], "compile"),
]


class Manners(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(tiny_model(), cls.folder / "model.onnx")
        cls.succeed("compile", "model.onnx", "-o", "model.tenon", "--target", "cpu")
        for name in ("old.tenon", "new.tenon", "an engine.onnx"):
            (cls.folder / name).write_bytes((cls.folder / "model.tenon").read_bytes())
        (cls.folder / "a model.tenon").write_bytes((cls.folder / "model.onnx").read_bytes())
        image = np.ones((1, 3, 8, 8), np.float32)
        np.savez(cls.folder / "x.npz", image=image)
        np.savez(cls.folder / "wrong.npz", imge=image)
        np.save(cls.folder / "x.npy", image)
        Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(cls.folder / "cat.png")


class Files(Manners):
    """Each verb with each wrong kind of file; the suffix lies throughout."""

    def write_all(self):
        """Files of every kind that is no model and no engine, with what they are called in messages."""
        (self.folder / "text.onnx").write_text("this is not a model\n")
        (self.folder / "page.onnx").write_text("<!DOCTYPE html><html>404</html>")
        (self.folder / "lfs.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        (self.folder / "packed.onnx").write_bytes(gzip.compress(b"model"))
        (self.folder / "elf.onnx").write_bytes(TENON.read_bytes()[:1000])
        with zipfile.ZipFile(self.folder / "torch.onnx", "w") as archive:
            archive.writestr("model/data.pkl", b"\x80\x02")
        (self.folder / "weights.onnx").write_bytes((20).to_bytes(8, "little") + b'{"__metadata__":{}}  ' + bytes(64))
        for kind, name in (("PNG", "cat.png"), ("zip", "x.npz"), ("npy", "x.npy")):
            (self.folder / f"{kind}.onnx").write_bytes((self.folder / name).read_bytes())
        return {"text.onnx": "text", "page.onnx": "web page", "lfs.onnx": "git lfs pull", "packed.onnx": "gzip",
                "elf.onnx": "ELF", "torch.onnx": "PyTorch", "weights.onnx": "safetensors", "PNG.onnx": "PNG picture",
                "zip.onnx": "zip archive", "npy.onnx": "npy file"}

    def test_other_files_are_refused_by_what_they_are(self):
        for name, what in self.write_all().items():
            for verb, takes in TAKES:
                for path in (name, name.replace(".onnx", ".tenon")):
                    if path != name:
                        (self.folder / path).write_bytes((self.folder / name).read_bytes())
                    done = self.call(*verb, path)
                    self.assertEqual(5, done.returncode, (verb, path, done.stderr))
                    self.assertIn(f"'{path}' is not", done.stderr)
                    self.assertIn(what, done.stderr)
                    if takes != "engine" and path == name:
                        self.assertIn("error TN0211: ", done.stderr)

    def test_the_other_kind_is_named(self):
        self.assertIn("it is an ONNX model", self.refuse(5, "TN0502", "explain", "fusion", "model.onnx").stderr)
        self.assertIn("it is a Tenon engine", self.refuse(5, "TN0211", "compile", "model.tenon").stderr)

    def test_suffixes_do_not_matter(self):
        for verb in ("inspect", "check", "run"):
            self.assertEqual(self.json(verb, "model.tenon").keys(), self.json(verb, "an engine.onnx").keys())
            self.assertEqual(self.json(verb, "model.onnx").keys(), self.json(verb, "a model.tenon").keys())
        self.succeed("compile", "a model.tenon", "-o", "o.tenon", "--target", "cpu:avx2")
        for name, lie in (("x.npz", "x.npy.dat"), ("x.npy", "x.png.npz"), ("cat.png", "cat.npy")):
            (self.folder / lie).write_bytes((self.folder / name).read_bytes())
            self.succeed("run", "model.tenon", "--inputs", lie, "--resize", "--mean", "0", "--std", "1", "--layout", "nchw")

    def test_inputs_are_known_by_content(self):
        (self.folder / "note.npy").write_text("numbers")
        for path, what in (("note.npy", "text"), ("model.onnx", "ONNX model"), ("model.tenon", "Tenon engine")):
            self.assertIn(what, self.refuse(5, "TN0106", "run", "model.tenon", "--inputs", path).stderr)

    def test_standard_input(self):
        """As a pipe and as a file."""
        model, image = ((self.folder / name).read_bytes() for name in ("model.onnx", "x.npy"))
        def piped(data, *arguments):
            done = subprocess.run([TENON, *map(str, arguments)], input=data, capture_output=True, cwd=self.folder, env=self.environment)
            self.assertEqual(0, done.returncode, done.stderr.decode())
            return done.stdout

        expected = self.succeed("run", "model.tenon", "--inputs", "image=x.npy").stdout
        self.assertEqual(expected, piped(image, "run", "model.tenon", "--inputs", "image=-").decode())
        self.assertEqual(expected, piped(image, "run", "model.tenon", "--inputs=image=-").decode())
        self.assertEqual(expected, piped(model, "run", "-", "--inputs", "image=x.npy").decode())
        piped(model, "compile", "-", "-o", "piped.tenon")
        self.assertIn(b"image", piped((self.folder / "piped.tenon").read_bytes(), "inspect", "-"))
        with open(self.folder / "model.onnx") as file:
            done = subprocess.run([TENON, "check", "-"], stdin=file, capture_output=True, text=True, env=self.environment)
        self.assertEqual(0, done.returncode, done.stderr)
        done = subprocess.run([TENON, "compile", "-"], input="x", capture_output=True, text=True, cwd=self.folder, env=self.environment)
        self.assertIn("'/dev/stdin' is ", done.stderr)

    def test_unsupported_models_are_shown(self):
        onnx.save(tiny_model("Mystery"), self.folder / "odd.onnx")
        text = self.succeed("inspect", "odd.onnx").stdout
        for part in ("opset   ai.onnx 17", "input   image  float [batch, 3, 8, 8]", "output  features", "1 Mystery",
                     "weights 1 in 432 B", "1 gaps", "odd: "):
            self.assertIn(part, text)
        report = self.json("inspect", "odd.onnx")
        self.assertEqual((False, {"ai.onnx": 17}, ["Mystery"]),
                         (report["supported"], report["opsets"], [gap["op"] for gap in report["missing"]]))
        self.assertEqual([[-1], [0], [1], [2]], [node["reads"] for node in report["nodes"]])
        self.assertTrue(self.json("inspect", "model.onnx")["supported"])
        self.assertIn("n2 -> n3", self.succeed("inspect", "odd.onnx", "--format", "dot").stdout)


class Words(Manners):
    def test_numbers(self):
        for verb, option, allowed, values in NUMBERS:
            self.assertIn(f"{option} {allowed}", re.sub(r"\s+", " ", self.succeed(verb, "--help").stdout))
            for value in values:
                done = self.call(verb, "model.onnx" if verb == "compile" else "model.tenon", f"{option}={value}")
                self.assertEqual(2, done.returncode, (verb, option, value, done.stderr))
                self.assertIn(f"error TN0105: {option} {value}: give ", done.stderr)
                self.assertIn(allowed.split("..")[0].rstrip("s"), done.stderr)
                self.assertLess(len(done.stderr), 300)
        for arguments, message in OTHER_NUMBERS:
            self.assertIn(message, self.refuse(2, "TN0105", *arguments).stderr)
        # Also as words of their own.
        self.assertIn("--runs -1: give a whole number", self.refuse(2, "TN0105", "bench", "model.tenon", "--runs", "-1").stderr)

    def test_slips(self):
        for arguments, meant in SLIPS:
            done = self.call(*arguments)
            self.assertIn(done.returncode, (2, 3), (arguments, done.stderr))
            self.assertIn(f"did you mean '{meant}'?", done.stderr, arguments)
        for arguments, message in ((["explain", "fusions", "x"], "TN0105: TOPIC: give one of fusion, "), (["compile", "x", "-o", ""], "TN0105: --output: give "),
                                   (["compile", "x", "--allow", "tf31"], "TN0105: --allow: give one of tf32, tanh-gelu, int8-activations, not 'tf31'; did you")):
            self.assertIn(message, self.call(*arguments).stderr)
        for arguments in (["tune"], ["xyzzy"], ["run", "model.tenon", "--xyzzy"], ["compile", "model.onnx", "--target", "xyzzy"],
                          ["run", "model.tenon", "--shape", "xyzzy:1"], ["help", "xyzzy"]):
            self.assertNotIn("did you mean", self.call(*arguments).stderr)

    def test_one_name_for_a_level(self):
        levels = self.levels_of("model.tenon")
        self.assertIn("x86-64-v3", levels)
        for name in [*levels, "avx2", "cpu:avx2"]:
            run = self.json("run", "model.tenon", "--isa", name)
            self.assertEqual({"avx2": "x86-64-v3"}.get(name.removeprefix("cpu:"), name), run["isa"])
            level = name.removeprefix("cpu:")
            self.succeed("check", "model.onnx", "--target", f"cpu:{level}")
        self.refuse(2, "TN0518", "bench", "model.tenon", "--variant", "sm_90")

    def test_dims_have_the_names_of_the_model(self):
        def value(name, dims, dtype=TensorProto.FLOAT):
            return helper.make_tensor_value_info(name, dtype, dims)

        pads = numpy_helper.from_array(np.array([0, 0, 0, 1], np.int64), "pads")
        graph = helper.make_graph(
            [helper.make_node("Pad", ["x", "pads"], ["p"], name="pad"),
             helper.make_node("MaxPool", ["m"], ["y"], name="pool", kernel_shape=[2, 1], strides=[2, 1])],
            "g", [value("x", ["rows", "columns"]), value("m", ["rows", 1, "columns", 4])],
            [value("p", None), value("y", None)], [pads])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "dims.onnx")
        wanted = "f32 [rows, 1, floor(columns / 2), 4]"
        self.assertIn(wanted, self.succeed("inspect", "dims.onnx").stdout)
        self.succeed("compile", "dims.onnx", "-o", "dims.tenon", "--target", "cpu:avx2")
        texts = [self.succeed("inspect", "dims.tenon").stdout]
        texts += [self.succeed("explain", topic, "dims.tenon").stdout for topic in ("fusion", "memory", "placement")]
        self.assertIn(wanted, texts[0])
        self.assertIn("(over rows * floor(columns / 2))", texts[3])
        for text in texts:
            self.assertNotRegex(text, r"\bs[0-9]\b|floordiv|ceildiv|k_[0-9a-f]{8,}")

    def save(self, name, op, **inputs):
        """A model of one operator over inputs of these dims."""
        values = [helper.make_tensor_value_info(one, TensorProto.FLOAT, dims) for one, dims in inputs.items()]
        names = [*inputs] + ([*inputs][-1:] if op == "InstanceNormalization" else [])
        graph = helper.make_graph([helper.make_node(op, names, ["y"], name="node")], "g", values,
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / name)
        return name

    def test_gaps_name_dims(self):
        for model, words in ((self.save("sum.onnx", "MatMul", x=["rows", "inner"], z=["other", "columns"]),
                              ("inner", "other")),):
            done = self.call("check", model)
            text = done.stdout
            for word in words if done.returncode == 3 else ():
                self.assertIn(word, text)
            self.assertNotRegex(text, r"\bs[0-9]\b")

    def test_advice_is_not_what_was_done(self):
        model = self.save("norm.onnx", "InstanceNormalization", x=[1, "channels", 4], z=["channels"])
        done = self.call("check", model)
        self.assertIn("workaround: declare it with --shape", done.stdout)
        self.assertIn("--shape 'x:1x?x4' --shape 'z:?'", done.stderr)  # what the user completes
        text = self.call("check", model, "--shape", "x:1x[2..4]x4").stdout
        self.assertIn("workaround: give one size instead of a range with --shape", text)
        self.assertEqual(0, self.call("check", model, "--shape", "x:1x3x4").returncode)


class Help(Manners):
    def test_verbs_and_pages(self):
        self.assertEqual(self.succeed("compile", "--help").stdout, self.succeed("help", "compile").stdout)
        self.assertEqual(self.succeed("--help").stdout, self.succeed("help").stdout)
        self.assertEqual("bench", self.json("help", "bench")["verb"])

    def test_examples_work(self):
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 4])
        table = numpy_helper.from_array(np.ones((100, 4), np.float32), "table")
        graph = helper.make_graph([helper.make_node("Gather", ["table", "input_ids"], ["y"])], "g", [ids], [out], [table])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "bert.onnx")
        pictures = np.random.default_rng(0).standard_normal((5, 3, 8, 8)).astype(np.float32)
        np.savez(self.folder / "test.npz", image=pictures, labels=np.arange(5) % 4)
        np.savez(self.folder / "calib.npz", image=pictures)
        (self.folder / "folder").mkdir()
        (self.folder / "folder/weights.bin").write_bytes(b"weights")
        for command in ("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out chain.pem -subj /CN=Team", "ec -in key.pem -pubout -out public.pem"):
            subprocess.run(["openssl", *command.split()], check=True, capture_output=True, cwd=self.folder)
        for name in ("model", "small", "large"):
            (self.folder / f"{name}.gguf").write_bytes(language_files.llama())
        (self.folder / "text.txt").write_text("Some words, and some more of them.")
        environment = dict(self.environment, PATH=f"{TENON.parent}:/usr/bin:/bin")
        for verb in re.findall(r"^  (\w+)  ", self.succeed("--help").stdout.split("Subcommands:")[1], re.M):
            examples = self.succeed(verb, "--help").stdout.split("Example:\n")[1].strip().splitlines()
            for line in examples:
                self.assertEqual("tenon", shlex.split(line)[0])
                line += " --seconds 0.1" if verb in ("bench", "accuracy") else ""
                # A server has no end of its own; test/serving runs them.
                line += " --routes" if verb == "serve" else ""
                # Its only convolution is the first and the last layer, which the first guess leaves.
                line += " --narrow /layer1/conv1/Conv" if verb == "quantize" else ""
                # All channels of model.onnx are those of its outputs, which stay.
                line = line.replace("model.onnx", shlex.quote(str(CNN))) if verb == "prune" else line
                # Kernels to choose from, of sizes that are fixed, on a machine that runs other tests.
                if verb == "tune":
                    model = shlex.quote(str(CNN))
                    line = re.sub(r"bert.onnx --shape input_ids:1x128|model.onnx", f"{model} --shape image:1x1x28x28", line).replace("model.tenon", "tuned.tenon")
                    line = re.sub(r"--time \w+", "--time 1s --allow-noise", line)
                done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, cwd=self.folder,
                                      env=environment, timeout=60)
                # Nothing is wrong with these models, which is what `debug` says with 1.
                self.assertEqual(1 if verb == "debug" else 0, done.returncode, (line, done.stderr))
                self.assertTrue(done.stdout or done.stderr or ">" in line, line)


if __name__ == "__main__":
    unittest.main()
