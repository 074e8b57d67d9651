"""The tool from the outside: every verb on the committed CNN, its flags, what it prints and how it exits.

Relies on onnxruntime as the peer for numbers and on onnx for models that are wrong on purpose.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest
import unittest.mock

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tool import CNN, TENON, ToolTest

VERBS = ["doctor", "inspect", "check", "compile", "quantize", "run", "bench", "compare", "explain", "debug", "help"]


def pictures(count):
    return np.random.default_rng(count).random((count, 1, 28, 28), dtype=np.float32)


def peer(images):
    session = onnxruntime.InferenceSession(str(CNN), providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"image": images})[0]


class Usage(ToolTest):
    own_cache = True

    def test_every_verb_has_help_with_an_example(self):
        for verb in VERBS:
            text = self.succeed(verb, "--help").stdout
            self.assertIn(f"Example:\ntenon {verb}", text)
            for flag in ("--json", "--quiet", "--progress"):
                self.assertIn(flag, text)
        listing = self.succeed("--help").stdout
        for verb in VERBS:
            self.assertIn(verb, listing)

    def test_wrong_usage(self):
        for arguments in ([], ["frobnicate"], ["compile"], ["run", "x", "--threads", "many"],
                          ["explain", "colours", "x.tenon"], ["bench", "x", "--batch", "0"]):
            done = self.call(*arguments)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn("error TN0105: ", done.stderr)

    def test_help_prints_pages(self):
        self.assertTrue(self.succeed("help", "TN0301").stdout.startswith("# TN0301: "))
        self.assertEqual("TN0502", self.json("help", "tn0502")["code"])
        self.refuse(2, "TN0105", "help", "TN9999")

    def test_help_is_data(self):
        said = self.json("help")
        verbs = {verb["verb"]: verb for verb in said["verbs"]}
        self.assertEqual(("tenon.help/1", self.succeed("help").stdout), (said["schema"], said["page"]))
        self.assertEqual(set(), set(VERBS) - verbs.keys())
        for verb in verbs.values():
            one = self.json("help", verb["verb"])
            self.assertEqual((verb, self.succeed(verb["verb"], "--help").stdout), ({key: one[key] for key in verb}, one["page"]))
            self.assertTrue(verb["summary"] and verb["examples"], verb["verb"])
            self.assertTrue((pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / re.search(r"^Page: (docs/\S+)$", one["page"], re.M)[1]).exists(), verb["verb"])
            # All that the page has, and nothing more; what is hidden there is hidden here.
            page = re.findall(r"^  (-[^ =]*)", one["page"], re.M)
            self.assertEqual(page, [",".join(flag["names"]) for flag in verb["flags"]])
            for flag in verb["flags"]:
                self.assertIn(flag["default"], [None, *(flag["choices"] or [flag["default"]])], (verb["verb"], flag["names"]))
        flags = {flag["names"][-1]: flag for flag in verbs["compile"]["flags"]}
        self.assertEqual({"names": ["--precision"], "value": "keep|fp16|bf16|fp8", "required": False, "repeatable": False, "choices": ["keep", "fp16", "bf16", "fp8"], "default": "keep"},
                         {key: value for key, value in flags["--precision"].items() if key != "help"})
        self.assertEqual((["-o", "--output"], "TEXT", None), tuple(flags["--output"][key] for key in ("names", "value", "default")))
        self.assertEqual((True, [], "cpu"), tuple(flags["--target"][key] for key in ("repeatable", "choices", "default")))
        self.assertEqual((None, False), (flags["--verify"]["value"], flags["--shape"]["required"]))
        self.assertEqual([("MODEL", True)], [(each["name"], each["required"]) for each in verbs["compile"]["arguments"]])
        self.assertEqual("2s", next(flag["default"] for flag in verbs["bench"]["flags"] if "--seconds" in flag["names"]))
        # The parts of a verb.
        push = next(part for part in verbs["registry"]["verbs"] if part["verb"] == "registry push")
        self.assertEqual(push, {key: value for key, value in self.json("help", "registry", "push").items() if key in push})
        self.assertEqual(["NAME", "FILE"], [each["name"] for each in push["arguments"]])
        self.refuse(2, "TN0105", "help", "registry", "sing")

    def completed(self, *lines):
        """What bash offers for the last word of each line, in one process of it."""
        script = self.succeed("help", "--completion", "bash").stdout
        ask = 'ask() { COMP_WORDS=(tenon "$@"); COMP_CWORD=$#; _tenon; printf "%s " "${COMPREPLY[@]}"; echo; }\n'
        text = script + ask + "".join(f"ask {shlex.join(line)}\n" for line in lines)
        done = subprocess.run(["bash"], input=text, capture_output=True, text=True, check=True)
        self.assertEqual("", done.stderr)
        return [answer.split() for answer in done.stdout.splitlines()]

    def test_completion(self):
        verbs = {verb["verb"]: verb for verb in self.json("help")["verbs"]}
        wanted = {("",): [*verbs], ("com",): ["compile", "compare"], ("explain", "fu"): ["fusion"], ("explain", "fusion", ""): [],  # a file
                  ("registry", ""): [part["verb"].split()[1] for part in verbs["registry"]["verbs"]], ("registry", "push", "--me"): ["--meta"]}  # fmt: skip
        for name, verb in verbs.items():
            long = [each for flag in verb["flags"] for each in flag["names"] if each.startswith("--")]
            wanted.update({(name, "--"): long, (name, "x", "--"): long})
            wanted.update({(name, "x", flag["names"][-1], ""): flag["choices"] for flag in verb["flags"]})
        self.assertEqual(wanted, dict(zip(wanted, self.completed(*wanted))))
        zsh, fish = (self.succeed("help", "--completion", shell).stdout for shell in ("zsh", "fish"))
        self.assertIn("bashcompinit\n_tenon() {", zsh)
        self.assertIn("complete -c tenon -n '__fish_seen_subcommand_from bench' -l layout -x -a 'nchw nhwc' -d '", fish)
        self.assertIn("complete -c tenon -n '__fish_seen_subcommand_from registry; and __fish_seen_subcommand_from push' -l meta -r -d '", fish)
        for shell, script in (("zsh", zsh), ("fish", fish)):
            if path := shutil.which(shell):
                subprocess.run([path, "-n", "/dev/stdin"], input=script, text=True, check=True)
        self.assertEqual("zsh", self.json("help", "--completion", "zsh")["completion"])
        self.refuse(2, "TN0105", "help", "--completion", "csh")

    def test_doctor(self):
        report = self.json("doctor")
        usable = [level["level"] for level in report["levels"] if level["usable"]]
        self.assertEqual(usable[-1], report["will_use"])
        self.assertIn(report["will_use"], self.succeed("doctor").stdout)
        self.assertNotEqual(bool(report["gpu"]["devices"]), bool(report["gpu"]["problem"]))
        self.assertEqual({"cuBLASLt", "cuDNN"}, {library["name"] for library in report["libraries"]})

    def test_doctor_says_where_the_driver_keeps_gpu_code(self):
        def cache(**variables):
            with unittest.mock.patch.dict(self.environment, variables):
                return self.json("doctor")["gpu"]["code_cache"]

        self.assertEqual({"folder": f"{self.folder}/kept", "problem": ""}, cache(CUDA_CACHE_PATH=f"{self.folder}/kept"))
        self.assertEqual(f"{self.folder}/.nv/ComputeCache", cache(CUDA_CACHE_PATH="", HOME=str(self.folder))["folder"])
        self.assertEqual("CUDA_CACHE_DISABLE is 1", cache(CUDA_CACHE_DISABLE="1")["problem"])
        self.assertEqual(f"{CNN}/kept cannot be written", cache(CUDA_CACHE_PATH=f"{CNN}/kept")["problem"])
        self.assertIn("neither", cache(CUDA_CACHE_PATH="", HOME="")["problem"])


class Models(ToolTest):
    own_cache = True

    def save(self, name, nodes, inputs, outputs):
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        path = self.folder / name
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
        return path

    def test_check_reports_every_gap_at_once(self):
        x = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
        y = helper.make_tensor_value_info("y", TensorProto.STRING, [2])
        z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])
        w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2])
        path = self.save("gaps.onnx", [
            helper.make_node("StringNormalizer", ["x"], ["y"], name="clean", case_change_action="LOWER"),
            helper.make_node("Mystery", ["w"], ["z"], name="odd")], [x, w], [y, z])
        done = self.refuse(3, "TN0301", "check", path)
        self.assertIn("StringNormalizer", done.stdout)
        self.assertIn("'odd'", done.stdout)
        self.assertIn("opset 17", done.stdout)
        self.assertIn("why: ", done.stdout)
        self.assertEqual(3, self.call("compile", path, "-o", "gaps.tenon").returncode)
        self.assertFalse((self.folder / "gaps.tenon").exists())

    def test_check_accepts(self):
        self.assertEqual([], self.json("check", CNN)["gaps"])
        self.assertIn("everything is supported", self.succeed("check", CNN).stdout)

    def test_slow_regions_are_named(self):
        self.assertEqual([], self.json("check", CNN)["slow"])
        # Products of 64-bit floats are loops over the depth of each element on CPUs.
        x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [256, 256])
        y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [256, 256])
        weight = numpy_helper.from_array(np.ones((256, 256)), "w")
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="far")], "g", [x], [y], [weight])
        path = self.folder / "slow.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
        report = self.json("check", path)["slow"]
        self.assertEqual(["far"], [one["region"] for one in report])
        self.assertIn("gemm_packed refused", report[0]["why"])
        self.assertIn("slow on", self.succeed("check", path).stdout)
        self.succeed("compile", path, "-o", "slow.tenon", "--target", "cpu:avx2")
        self.assertEqual("far", self.json("inspect", "slow.tenon")["slow"][0]["region"])
        self.assertIn("slow    far", self.succeed("inspect", "slow.tenon").stdout)

    def test_bad_files(self):
        (self.folder / "text.onnx").write_text("this is not a model")
        self.assertEqual(5, self.call("check", "text.onnx").returncode)
        (self.folder / "empty.onnx").write_bytes(b"")
        self.refuse(5, "TN0201", "compile", "empty.onnx")
        (self.folder / "cut.onnx").write_bytes(CNN.read_bytes()[:5000])
        self.assertEqual(5, self.call("compile", "cut.onnx").returncode)
        self.refuse(2, "TN0101", "check", "missing.onnx")
        for target in ("cuda:", "cuda:sm_75", "cuda:avx2", "cpu,sm_75"):
            self.refuse(3, "TN0302", "check", CNN, "--target", target)
        self.refuse(2, "TN0105", "compile", CNN, "--shape", "image:oops")
        self.refuse(2, "TN0237", "compile", CNN, "--shape", "nothing:1x1x28x28")

    def test_inspect(self):
        text = self.succeed("inspect", CNN).stdout
        self.assertIn("image  f32 [batch, 1, 28, 28]", text)
        self.assertIn("4 conv", text)
        report = self.json("inspect", CNN)
        self.assertEqual("logits", report["outputs"][0]["name"])
        self.assertEqual(sum(report["operations"].values()), len(report["nodes"]))
        dot = self.succeed("inspect", CNN, "--format", "dot").stdout
        self.assertEqual(dot.count("{"), dot.count("}"))
        self.assertIn("i0 -> n0", dot)


class Engines(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.engine = cls.folder / "cnn.tenon"
        cls.report = cls.json("compile", CNN, "-o", cls.engine, "--shape", "image:[1..64]x1x28x28")

    def test_compile_report(self):
        for key in ("engine", "compile_s", "engine_bytes", "weights_bytes", "regions", "unique_regions",
                    "arena_bytes", "arena_lower_bound_bytes"):
            self.assertIn(key, self.report)
        self.assertEqual(self.engine.stat().st_size, self.report["engine_bytes"])
        self.assertLessEqual(self.report["arena_bytes"], 1.05 * self.report["arena_lower_bound_bytes"])

    def test_equal_compiles_give_equal_bytes(self):
        for name, threads in (("one.tenon", 1), ("two.tenon", 2)):
            self.succeed("compile", CNN, "-o", name, "--no-cache", "--threads", threads, "--shape",
                         "image:[1..64]x1x28x28")
        one = (self.folder / "one.tenon").read_bytes()
        self.assertEqual(one, (self.folder / "two.tenon").read_bytes())
        self.assertEqual(one, self.engine.read_bytes())

    def test_cache(self):
        again = self.json("compile", CNN, "-o", "again.tenon", "--shape", "image:[1..64]x1x28x28")
        self.assertTrue(again["from_cache"])
        self.assertEqual(self.engine.read_bytes(), (self.folder / "again.tenon").read_bytes())

    def test_progress_lines(self):
        done = self.succeed("compile", CNN, "-o", "progress.tenon", "--no-cache", "--progress", "json")
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertIn("codegen", {line["phase"] for line in lines})
        self.assertTrue(all(0 <= line["fraction"] <= 1 for line in lines))
        quiet = self.succeed("compile", CNN, "-o", "progress.tenon", "--quiet")
        self.assertEqual(("", ""), (quiet.stdout, quiet.stderr))

    def test_run_on_every_kind_of_input_and_level(self):
        images = pictures(3)
        np.savez(self.folder / "x.npz", image=images)
        np.savez_compressed(self.folder / "packed.npz", image=images)
        np.save(self.folder / "x.npy", images)
        want = peer(images)
        levels = self.levels_of(self.engine)
        for given in ("x.npz", "packed.npz", "x.npy", "image=x.npy"):
            for isa in levels:
                self.succeed("run", self.engine, "--inputs", given, "-o", "out.npz", "--isa", isa)
                got = np.load(self.folder / "out.npz")["logits"]
                self.assertLessEqual(np.abs(got - want).max(), 1e-4 * np.abs(want).max(), (given, isa))
        self.succeed("run", "--inputs", "x.npy", self.engine, "-o", "out.npy", "--threads", 1)
        self.assertEqual((3, 10), np.load(self.folder / "out.npy").shape)

    def test_run_on_a_picture(self):
        gray = (pictures(1)[0, 0] * 255).astype(np.uint8)
        Image.fromarray(gray).save(self.folder / "picture.png")
        Image.fromarray(gray).resize((56, 56)).save(self.folder / "large.png")
        self.refuse(2, "TN0107", "run", self.engine, "--inputs", "large.png")
        self.succeed("run", self.engine, "--inputs", "large.png", "--resize")
        # The model carries its preprocessing; flags go over it.
        for flags, images in (([], gray / 255), (["--mean", "0.5", "--std", "0.25"], (gray / 255 - 0.5) / 0.25)):
            self.succeed("run", self.engine, "--inputs", "picture.png", *flags, "-o", "out.npz")
            got = np.load(self.folder / "out.npz")["logits"]
            want = peer(images.astype(np.float32)[None, None])
            self.assertLessEqual(np.abs(got - want).max(), 1e-4 * np.abs(want).max())
        top = self.json("run", self.engine, "--inputs", "picture.png")["outputs"][0]["top"][0]
        self.assertEqual(peer((gray / 255).astype(np.float32)[None, None]).argmax(), top["index"])
        self.assertIn(top["class"], ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                                     "Sneaker", "Bag", "Ankle boot"])

    def test_a_picture_for_a_model_that_does_not_say_how(self):
        model = onnx.load(str(CNN))
        del model.metadata_props[:]
        onnx.save(model, str(self.folder / "silent.onnx"))
        Image.fromarray((pictures(1)[0, 0] * 255).astype(np.uint8)).save(self.folder / "one.png")
        self.refuse(2, "TN0107", "run", "silent.onnx", "--inputs", "one.png")
        self.succeed("run", "silent.onnx", "--inputs", "one.png", "--mean", "0", "--std", "1", "--layout", "nchw")

    def test_run_seeded_shows_the_outputs(self):
        text = self.succeed("run", self.engine).stdout
        self.assertRegex(text, r"logits  f32 1x10  range -?[\d.e+-]+ \.\. -?[\d.e+-]+")
        self.assertIn("top:", text)
        report = self.json("run", self.engine, "--batch", 5)
        self.assertEqual([5, 10], report["outputs"][0]["dims"])
        self.assertEqual(self.json("run", self.engine)["outputs"], self.json("run", self.engine)["outputs"])
        self.assertNotEqual(self.json("run", self.engine)["outputs"],
                            self.json("run", self.engine, "--seed", 7)["outputs"])

    def test_run_compiles_a_model_first(self):
        self.assertEqual(self.json("run", self.engine)["outputs"], self.json("run", CNN)["outputs"])
        self.assertEqual([], list((self.folder / "cache/tenon").glob("run*")))
        (self.folder / "text.onnx").write_text("no model")
        self.assertEqual(5, self.call("run", "text.onnx").returncode)

    def test_run_refuses_wrong_inputs(self):
        np.savez(self.folder / "double.npz", image=pictures(1).astype(np.float64))
        self.refuse(2, "TN0108", "run", self.engine, "--inputs", "double.npz")
        np.savez(self.folder / "name.npz", picture=pictures(1))
        self.refuse(2, "TN0601", "run", self.engine, "--inputs", "name.npz")
        np.save(self.folder / "rank.npy", pictures(1)[0])
        self.refuse(2, "TN0602", "run", self.engine, "--inputs", "rank.npy")
        np.save(self.folder / "many.npy", pictures(65))
        self.refuse(2, "TN0603", "run", self.engine, "--inputs", "many.npy")
        (self.folder / "bad.npz").write_bytes(b"PK no zip")
        self.refuse(5, "TN0106", "run", self.engine, "--inputs", "bad.npz")
        self.refuse(2, "TN0101", "run", self.engine, "--inputs", "gone.npy")
        self.refuse(2, "TN0518", "run", self.engine, "--variant", "sse2")
        self.refuse(6, "TN0103", "run", self.engine, "-o", "no/such/folder/out.npz")

    def test_bench(self):
        report = self.json("bench", self.engine, "--runs", 20, "--threads", 1, "--batch", 2)
        self.assertEqual({"min", "median", "p90", "p99"}, set(report["latency_ms"]))
        ordered = [report["latency_ms"][key] for key in ("min", "median", "p90", "p99")]
        self.assertEqual(sorted(ordered), ordered)
        self.assertEqual((1, 2, 20), (report["threads"], report["batch"], report["runs"]))
        self.assertGreaterEqual(report["first_result_ms"], report["load_ms"])
        for key in ("throughput_per_s", "peak_rss_mib", "isa"):
            self.assertIn(key, report)
        text = self.succeed("bench", self.engine, "--runs", 3).stdout
        self.assertIn("throughput", text)
        both = self.json("bench", self.engine, "--ab", self.engine, "--runs", 100, "--threads", 1)
        low, high = both["ab"]["interval_95"]
        self.assertLess(low, 1.5)
        self.assertGreater(high, 0.67)
        self.assertEqual(not low <= 1 <= high, both["ab"]["differs"])
        both = self.succeed("bench", self.engine, "--ab", self.engine, "--runs", 3).stdout
        self.assertEqual(2, both.count("throughput"))
        self.assertRegex(both, r"takes [\d.]+ x the time of .*, (no difference beyond noise|a difference)\n$")

    def test_engine_for_cpu_and_gpu(self):
        self.succeed("compile", CNN, "-o", "both.tenon", "--target", "cpu:avx2,cuda:sm_80", "--target", "cuda:sm_90",
                     "--precision", "fp16", "--quiet")
        variants = {one["level"]: one for one in self.json("check", "both.tenon")["variants"]}
        self.assertEqual(["x86-64-v3", "sm_80", "sm_90"], list(variants))
        for flag in ("--cold", "--probes"):
            self.refuse(2, "TN0105", "bench", "both.tenon", "--variant", "x86-64-v3", flag)
        if variants["sm_90"]["runs_here"]:
            self.assertEqual("sm_90", self.json("run", "both.tenon")["isa"])
            self.assertGreater(self.json("bench", "both.tenon", "--runs", 20, "--regions")["gpu"]["time_ms"]["min"], 0)
        else:
            self.refuse(4, "TN0702", "run", "both.tenon", "--variant", "sm_90")
            self.assertEqual("x86-64-v3", self.json("run", "both.tenon")["isa"])

    def test_machine_code_beside_ptx(self):
        ptxas = self.folder / "ptxas"
        ptxas.write_text("#!/bin/sh\n"
                         'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 1.2, V1.2.3"; exit; fi\n'
                         'grep -q "^.target sm_80" "$2" || { echo "ptxas fatal: wrong target"; exit 1; }\n'
                         "printf '\\177ELF\\002' > \"$4\"; head -c 13 /dev/zero >> \"$4\"; printf '\\276' >> \"$4\"\n"
                         'head -c 100 /dev/zero >> "$4"\n')
        ptxas.chmod(0o755)
        engine = self.folder / "cubin.tenon"
        self.succeed("compile", CNN, "-o", engine, "--target", "cuda:sm_80", "--ptxas", ptxas)
        self.assertIn("by ptxas 1.2.3", self.succeed("inspect", engine).stdout)
        report = self.json("inspect", engine)
        self.assertEqual((119, "ptxas 1.2.3"), (report["variants"][0]["cubin_bytes"], report["variants"][0]["cubin_by"]))
        self.assertEqual("ptxas 1.2.3", json.loads(report["options"])["cubin"])
        self.refuse(2, "TN0105", "compile", CNN, "-o", engine, "--cubin")
        done = self.call("compile", CNN, "-o", engine, "--target", "cuda:sm_80", "--ptxas", "/bin/true", "--no-cache")
        self.assertIn("'/bin/true' is not ptxas", done.stderr)
        self.assertIn("--ptxas", done.stderr)
        done = self.call("compile", CNN, "-o", engine, "--target", "cuda:sm_90", "--ptxas", ptxas, "--no-cache")
        self.assertIn("ptxas 1.2.3 rejects the PTX for sm_90: ptxas fatal: wrong target", done.stderr)

    def test_explain(self):
        regions = self.json("explain", "fusion", self.engine)["regions"]
        self.assertEqual(self.report["regions"], len(regions))
        node = regions[0]["nodes"][0]
        self.assertIn(node, self.succeed("explain", "fusion", self.engine, node).stdout)
        self.assertLess(len(self.json("explain", "fusion", self.engine, node)["regions"]), len(regions))
        self.assertIn("arena", self.succeed("explain", "memory", self.engine).stdout)
        self.assertIn("launch", self.succeed("explain", "placement", self.engine).stdout)
        self.refuse(2, "TN0105", "explain", "fusion", self.engine, "no such node")
        self.assertIn("winograd", self.succeed("explain", "precision", self.engine).stdout)
        direct = self.folder / "direct.tenon"
        self.succeed("compile", CNN, "-o", direct, "--quiet", "--disable-family", "conv_winograd2", "--disable-family", "conv_winograd4")
        kept = self.json("explain", "precision", direct)
        self.assertEqual(("keep", []), (kept["precision"], kept["approximated"]))
        self.assertEqual({"f32"}, {product["computes"] for product in kept["products"]})
        self.assertNotIn("winograd", self.succeed("explain", "precision", direct).stdout)

    def test_precision(self):
        numbers = {}
        for precision in ("keep", "fp16", "bf16"):
            self.succeed("compile", CNN, "-o", f"{precision}.tenon", "--target", "cpu:avx2", "--precision", precision,
                         "--verify", "--quiet")
            self.succeed("run", f"{precision}.tenon", "-o", f"{precision}.npz", "--quiet")
            with np.load(self.folder / f"{precision}.npz") as outputs:
                numbers[precision] = outputs[outputs.files[0]].astype(np.float64)
        largest = abs(numbers["keep"]).max()
        for precision, rounding in (("fp16", 2 ** -11), ("bf16", 2 ** -8)):
            error = abs(numbers[precision] - numbers["keep"]).max() / largest
            self.assertLess(0, error)
            self.assertLess(error, 4 * rounding, precision)  # 15 operations, whose roundings add up as a random walk
            record = self.json("explain", "precision", f"{precision}.tenon")
            self.assertEqual((precision, 15), (record["precision"], record["narrow_operations"]))
            self.assertIn("0 operations stay in fp32", self.succeed("explain", "precision", f"{precision}.tenon").stdout)

    def test_inspect_and_check(self):
        report = self.json("inspect", self.engine)
        self.assertEqual(["x86-64-v3", "avx512", "avx512-vnni-bf16"], [one["level"] for one in report["variants"]])
        self.assertEqual([{"name": "batch", "min": 1, "max": 64}], report["symbols"])
        self.assertIn("variant avx512", self.succeed("inspect", self.engine).stdout)
        self.assertIn("-> out0", self.succeed("inspect", self.engine, "--format", "dot").stdout)
        self.assertIn("every byte is as it was written", self.succeed("check", self.engine).stdout)

    def test_damaged_engines(self):
        whole = self.engine.read_bytes()
        (self.folder / "cut.tenon").write_bytes(whole[:-100])
        self.refuse(5, "TN0501", "run", "cut.tenon")
        (self.folder / "more.tenon").write_bytes(whole + b"x")
        self.refuse(5, "TN0504", "inspect", "more.tenon")
        (self.folder / "text.tenon").write_text("x" * 1000)
        self.refuse(5, "TN0502", "bench", "text.tenon")
        flipped = bytearray(whole)
        flipped[-1000] ^= 1
        (self.folder / "weights.tenon").write_bytes(flipped)
        for verb in ("check", "run", "bench"):
            self.refuse(5, "TN0516", verb, "weights.tenon")
        self.succeed("run", "weights.tenon", "--no-verify-weights")

    def test_interrupted_compile_leaves_nothing_under_the_name(self):
        output = self.folder / "stopped.tenon"
        with subprocess.Popen([str(TENON), "compile", str(CNN), "-o", str(output), "--no-cache", "--verify"],
                              env=self.environment, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.15)
            process.send_signal(signal.SIGINT)
            code = process.wait()
        if code == 0:
            self.skipTest("it ended before the signal")
        self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
