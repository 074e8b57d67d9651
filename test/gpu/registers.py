"""The registers that the cost model estimates, held against ptxas over the generated kernels of the zoo and of rows of all
widths; and regions whose neighbours the estimate keeps apart. Without ptxas only the records are looked at.
"""

import re
import shutil
import subprocess
import sys
import unittest

from ptx import MODELS, PTXAS, SOURCE
from tool import TENON, ToolTest

sys.path.append(str(SOURCE / "scripts"))

import gpu_cases  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto  # noqa: E402

# Of the kernels that the model knows: what ptxas loads ahead if it likes is in the factor.
FACTOR, FREE = 1.6, 16


def mixture(count, dims, dtype=TensorProto.FLOAT, reduces=True):
    """A sum of inputs, or its softmax, weighs each of them: all are alive until the sum (the reduction) is done."""
    names = [f"x{i}" for i in range(count)]
    steps = [("Add", [f"s{i - 1}" if i > 1 else "x0", f"x{i}"], f"s{i}", {}) for i in range(1, count)]
    steps += [("Softmax", [f"s{count - 1}"], "n", {"axis": -1})] if reduces else []
    steps += [("Mul", [name, "n" if reduces else f"s{count - 1}"], "y" + name[1:], {}) for name in names]
    model = gpu_cases.kernel("mixture", names, dims, steps, dtype=dtype)
    shape = model.graph.output[0].type
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name="y" + name[1:], type=shape) for name in names)
    return model


def mixture_as_one(count, tensor):
    """The same with softmax, as the text of one region."""
    both = f"({tensor}, {tensor}) -> {tensor}"
    lines = [f"%s{i} = tn.add %{f's{i - 1}' if i > 1 else 'x0'}, %x{i} : {both}" for i in range(1, count)]
    lines += [f"%n = tn.softmax %s{count - 1} {{axis = 1 : i64}} : {tensor}"]
    lines += [f"%y{i} = tn.mul %x{i}, %n : {both}" for i in range(count)]
    arguments = ", ".join(f"%x{i}: {tensor}" for i in range(count))
    types = ", ".join([tensor] * count)
    results = ", ".join(f"%y{i}" for i in range(count))
    body = "\n".join([*lines, f"return {results} : {types}"])
    return f'func.func @kernel({arguments}) -> ({types}) attributes {{tn.strategy = "rows"}} {{\n{body}\n}}'


def far(estimate, taken):
    """What is wrong with an estimate."""
    low, high = sorted((estimate, taken))
    return high > low * FACTOR and high > low + FREE


def reported(text, arch):
    """Registers and bytes of spills by kernel, as ptxas has them."""
    done = subprocess.run([PTXAS, "-v", f"-arch={arch}", "-", "-o", "/dev/null"], input=text, text=True, capture_output=True,
                          timeout=120, check=True)
    kernels = re.split(r"Compiling entry function ", done.stdout + done.stderr)[1:]
    return {kernel.split(maxsplit=1)[0].strip("'"):
            (int(re.search(r"Used (\d+) registers", kernel)[1]), int(re.search(r"(\d+) bytes spill stores", kernel)[1]))
            for kernel in kernels}


class Registers(ToolTest):
    def regions(self, model, *flags, arch="sm_90"):
        """Regions with an estimate, each with the kernels of its launches."""
        engine = self.folder / "model.tenon"
        shutil.rmtree(self.folder / "phases", ignore_errors=True)
        self.succeed("compile", model, "--target", "cuda:" + arch, "-o", engine, "--dump-phases", self.folder / "phases",
                     "--quiet", *flags)
        self.record = self.json("explain", "fusion", engine)
        kernels = {}
        for row in self.json("explain", "placement", engine)["instructions"]:
            label = re.sub(r"\+ \d+ more$", "", row["label"])
            kernels.setdefault((row["strategy"], label), set()).update([row["kernel"]] if "kernel" in row else [])
        found = []
        for region in self.record["regions"]:
            if region["cost"]["registers"] > 0 and region["strategy"] in ("elementwise", "rows"):
                names = set().union(*(names for (strategy, label), names in kernels.items()
                                      if strategy == region["strategy"] and region["label"].startswith(label)))
                found.append((region, names))
        return found

    def assembled(self, arch):
        text = (self.folder / "phases" / f"4-codegen-{arch}.ptx").read_bytes().rstrip(b"\0").decode()
        return reported(text, arch)

    def hold(self, model, *flags, arch="sm_90"):
        regions = self.regions(model, *flags, arch=arch)
        if not PTXAS:
            return []
        taken = self.assembled(arch)
        rows = [(region["cost"]["registers"], max(taken[name][0] for name in names), region["label"])
                for region, names in regions if names]
        self.assertEqual([], [row for row in rows if far(row[0], row[1])])
        return rows

    def saved(self, model):
        onnx.save(model, str(self.folder / "kernel.onnx"))
        return self.folder / "kernel.onnx"

    def test_zoo(self):
        for name, model in MODELS.items():
            for flags in (("--precision", "fp16"), *([()] if name in ("bert_base.dynamo", "vit_b16.dynamo") else [])):
                with self.subTest(name, flags=flags):
                    rows = self.hold(model, *flags)
                    self.assertTrue(rows or not PTXAS)

    def test_rows_of_all_widths(self):
        for name, case in gpu_cases.all_cases().items():
            if name.startswith(("softmax", "layer_norm", "rms_norm", "add_norm", "chain", "vector_add", "pointwise")):
                with self.subTest(name):
                    self.hold(self.saved(case.model()))

    def test_rows_of_several_tensors(self):
        """In registers and by way of shared memory."""
        for count, dims, dtype in ((4, [65536, 512], TensorProto.FLOAT), (8, [16384, 1024], TensorProto.FLOAT16),
                                   (12, [16384, 4096], TensorProto.FLOAT16), (16, [512, 1024], TensorProto.FLOAT)):
            with self.subTest(f"{count} of {dims}"):
                self.hold(self.saved(mixture(count, dims, dtype)))

    def test_registers_part_rows(self):
        """16 values of 16 elements each do not fit: what weighs the last inputs runs by itself, and nothing spills."""
        rows = self.hold(self.saved(mixture(16, [65536, 512])))
        self.assertEqual({"registers"}, {edge["rule"] for edge in self.record["edges"]})
        for edge in self.record["edges"]:
            fused, apart = edge["fused"], edge["apart"]
            self.assertGreater(fused["registers"], 255)
            self.assertLess(apart["us"], fused["us"])
            self.assertGreater(fused["lost_us"], 0)
            self.assertRegex(edge["decided"], rf"{fused['registers']} registers a thread and {fused['occupancy']}% occupancy")
        text = self.succeed("explain", "fusion", self.folder / "model.tenon", "--all").stdout
        self.assertIn("decided by " + self.record["edges"][0]["decided"], text)
        if PTXAS:
            self.assertEqual({0}, {spilled for _, spilled in self.assembled("sm_90").values()})
            self.assertGreater(max(taken for _, taken, _ in rows), 200)

    def test_many_tensors_fit(self):
        """32 halves weighed by their sum stay one kernel: a thread takes fewer elements of each."""
        rows = self.hold(self.saved(mixture(32, [8 << 20], TensorProto.FLOAT16, reduces=False)))
        self.assertEqual([], self.record["edges"])
        if PTXAS:
            self.assertEqual(1, len(rows))
            self.assertEqual({0}, {spilled for _, spilled in self.assembled("sm_90").values()})

    def test_faster_library_calls_stay_whole(self):
        self.regions(MODELS["bert_base.dynamo"], "--precision", "fp16", "--shape", "input_ids:32x128")
        edges = [edge for edge in self.record["edges"] if edge["rule"] == "takes-longer"]
        self.assertGreaterEqual(len(edges), 12)
        for edge in edges:
            self.assertLess(edge["apart"]["us"], edge["fused"]["us"], edge)
            self.assertIn(f"{edge['fused']['us']:.2f} us as one, {edge['apart']['us']:.2f} us apart, by the fastest kernels", edge["decided"])

    def test_planted_estimates_are_found(self):
        self.assertTrue(far(40, 80) and far(80, 40) and far(255, 150))
        self.assertFalse(far(40, 60) or far(8, 24) or far(120, 190))


@unittest.skipUnless(PTXAS, "ptxas is not here: that one kernel would spill was not seen")
class Assembled(ToolTest):
    def test_as_one_they_would_spill(self):
        text = self.folder / "region.mlir"
        text.write_text(mixture_as_one(16, "tensor<65536x512xf32>"))
        done = subprocess.run([str(TENON.parents[1] / "tools/tenon-opt/tenon-opt"), "--ptx=sm_90", str(text)],
                              capture_output=True, text=True, timeout=120, check=True)
        self.assertGreater(reported(done.stdout, "sm_90")["kernel"][1], 1000)


if __name__ == "__main__":
    unittest.main()
