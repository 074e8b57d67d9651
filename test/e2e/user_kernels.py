"""Kernels of the user's as users meet them: a function in C with its description computes an operator of a model, and each fault that the check
of kernels is there for is found, one planted fault for each detector.
"""

import json
import shutil
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper
from tool import ToolTest

COMPILER = shutil.which("cc") or shutil.which("clang-22")
LOOP = "for (int64_t i = 0; i < n; ++i) c[i] = a[i] + alpha * b[i];"
ENTRY = {"operator": "com.example::VectorAdd", "backend": "cpu", "symbol": "vector_add",
         "inputs": [{"name": "a", "type": "f32", "shape": ["n"]}, {"name": "b", "type": "f32", "shape": ["n"]}],
         "outputs": [{"name": "c", "type": "f32", "shape": ["n"]}],
         "attributes": {"alpha": {"type": "f32", "default": 1.0}}, "arguments": ["a", "b", "c", "n", "alpha"],
         "reference": "reference.onnx", "tolerance": 1e-6}


def port(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes, inputs, outputs, domains=("",)):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, 1 if domain else 18) for domain in domains], ir_version=9)


def custom(dim, dtype=TensorProto.FLOAT, **attributes):
    """relu(x) and y through VectorAdd, then a sigmoid."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]),
             helper.make_node("VectorAdd", ["r", "y"], ["s"], name="mine", domain="com.example", **attributes),
             helper.make_node("Sigmoid", ["s"], ["z"], name="after")]
    return model(nodes, [port("x", [dim], dtype), port("y", [dim], dtype)], [port("z", [dim], dtype)], ("", "com.example"))


@unittest.skipUnless(COMPILER, "this machine has no C compiler")
class UserKernels(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scaled = [helper.make_node("Mul", ["b", "alpha"], ["t"]), helper.make_node("Add", ["a", "t"], ["c"])]
        onnx.save(model(scaled, [port("a", ["n"]), port("b", ["n"]), port("alpha", [])], [port("c", ["n"])]), cls.folder / "reference.onnx")
        onnx.save(custom(100, alpha=2.0), cls.folder / "fixed.onnx")
        onnx.save(custom("n", alpha=2.0), cls.folder / "free.onnx")

    def library(self, name, body=LOOP, parameters="const float *a, const float *b, float *c, int64_t n, float alpha", before="", shared=None, **changes):
        """NAME.o, or with flags for `shared` NAME.so, and its description; the path of the library."""
        source = f"#include <stdint.h>\n{before}\nvoid vector_add({parameters}) {{ {body} }}\n"
        (self.folder / f"{name}.c").write_text(source)
        made = f"{name}.o" if shared is None else f"{name}.so"
        kind = ["-c"] if shared is None else ["-shared", *shared]
        subprocess.run([COMPILER, "-O2", "-fPIC", *kind, f"{name}.c", "-o", made], check=True, cwd=self.folder)
        entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
        (self.folder / f"{name}.json").write_text(json.dumps({"schema": "tenon.kernels/1", "kernels": [entry]}))
        return made

    def compile(self, library, name="fixed", *more):
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--kernel-library", library, "--target", "cpu:avx2", *more)
        return f"{name}.tenon"

    def refused(self, exit_code, error, library, *more, of="fixed"):
        return self.refuse(exit_code, error, "compile", f"{of}.onnx", "-o", "refused.tenon", "--kernel-library", library, *(more or ("--target", "cpu:avx2"))).stderr

    def kernels(self, engine):
        return self.succeed("explain", "kernels", engine, "mine").stdout

    def check_run(self, engine, n):
        rng = np.random.default_rng(n)
        x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
        np.savez(self.folder / "in.npz", x=x, y=y)
        self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz")
        z = np.load(self.folder / "out.npz")["z"]
        np.testing.assert_allclose(z, 1 / (1 + np.exp(-(np.maximum(x, 0) + np.float32(2) * y))), rtol=1e-5, atol=1e-6)

    def test_a_kernel_computes_its_node(self):
        engine = self.compile(self.library("add"))
        self.check_run(engine, 100)
        self.assertRegex(self.kernels(engine), r"chosen +\S+ us  user_kernel: vector_add of add.o, checked beside reference.onnx at 1 set of sizes; the time is measured")

    def test_sizes_may_be_free_and_the_grid_shared(self):
        loop = LOOP.replace("int64_t i = 0; i < n", "int64_t i = begin * 16; i < (end * 16 < n ? end * 16 : n)")
        library = self.library("grid", loop, "const float *a, const float *b, float *c, int64_t n, float alpha, int64_t begin, int64_t end",
                               arguments=["a", "b", "c", "n", "alpha", "begin", "end"], grid=["ceil(n / 16)"])
        engine = self.compile(library, "free")
        for n in (1, 16, 1000):
            self.check_run(engine, n)
        self.assertIn("at 4 sets of sizes", self.kernels(engine))

    def test_a_value_may_be_read_twice_and_a_result_by_nobody(self):
        library = self.library("pair", LOOP + " for (int64_t i = 0; i < n; ++i) d[i] = -c[i];",
                               "const float *a, const float *b, float *c, float *d, int64_t n, float alpha",
                               outputs=[{"name": each, "type": "f32", "shape": ["n"]} for each in "cd"],
                               arguments=["a", "b", "c", "d", "n", "alpha"], reference="pair.onnx")
        reference = onnx.load(self.folder / "reference.onnx")
        reference.graph.node.append(helper.make_node("Neg", ["c"], ["d"]))
        reference.graph.output.append(port("d", ["n"]))
        onnx.save(reference, self.folder / "pair.onnx")
        node = helper.make_node("VectorAdd", ["x", "x"], ["", "z"], name="mine", domain="com.example", alpha=0.5)
        onnx.save(model([node], [port("x", ["n"])], [port("z", ["n"])], ("", "com.example")), self.folder / "twice.onnx")
        engine = self.compile(library, "twice")
        x = np.arange(7, dtype=np.float32)
        np.savez(self.folder / "in.npz", x=x)
        self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz")
        np.testing.assert_array_equal(np.load(self.folder / "out.npz")["z"], -1.5 * x)

    def test_several_outputs_types_and_scratch(self):
        for dtype, name, c in ((TensorProto.INT32, "i32", "int32_t"), (TensorProto.INT64, "i64", "int64_t"), (TensorProto.FLOAT16, "f16", "uint16_t"),
                               (TensorProto.UINT8, "u8", "uint8_t")):
            nodes = [helper.make_node("Split", ["x"], ["r", "s"], axis=1, num_outputs=2), helper.make_node("Identity", ["r"], ["p"]), helper.make_node("Identity", ["s"], ["q"])]
            ports = [port("x", ["m", 6], dtype)], [port("p", ["m", 3], dtype), port("q", ["m", 3], dtype)]
            onnx.save(model(nodes, *ports), self.folder / "halves.onnx")
            halves = helper.make_node("Halves", ["x"], ["p", "q"], name="halves", domain="com.example")
            onnx.save(model([halves], *ports, ("", "com.example")), self.folder / f"halves_{name}.onnx")
            body = ("for (int64_t i = 0; i < m * k; ++i) { s[i] = x[i]; } "
                    "for (int64_t i = 0; i < m; ++i) for (int64_t j = 0; j < h; ++j) { p[i * h + j] = s[i * k + j]; q[i * h + j] = s[i * k + h + j]; }")
            library = self.library(f"halves_{name}", body, f"const {c} *x, {c} *p, {c} *q, {c} *s, int64_t m, int64_t k, int64_t h",
                                   operator="com.example::Halves", inputs=[{"name": "x", "type": name, "shape": ["m", "k"]}],
                                   outputs=[{"name": each, "type": name, "shape": ["m", "floor(k / 2)"]} for each in "pq"],
                                   attributes=None, arguments=["x", "p", "q", "scratch", "m", "k", "floor(k / 2)"], scratch_bytes="8 * m * k",
                                   reference="halves.onnx", tolerance=0)
            engine = self.compile(library, f"halves_{name}")
            x = np.arange(30).reshape(5, 6).astype(helper.tensor_dtype_to_np_dtype(dtype))
            np.savez(self.folder / "in.npz", x=x)
            self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz")
            out = np.load(self.folder / "out.npz")
            np.testing.assert_array_equal(out["p"], x[:, :3])
            np.testing.assert_array_equal(out["q"], x[:, 3:])

    def test_attributes_that_are_lists(self):
        elements = [helper.make_node("Gather", [values, index], [name]) for values, index, name in
                    (("weights", "first", "w0"), ("weights", "second", "w1"), ("shifts", "second", "s1"))]
        formula = [helper.make_node("Mul", ["a", "w0"], ["p"]), helper.make_node("Mul", ["b", "w1"], ["q"]), helper.make_node("Cast", ["s1"], ["s"], to=TensorProto.FLOAT),
                   helper.make_node("Add", ["p", "q"], ["t"]), helper.make_node("Add", ["t", "s"], ["c"])]
        ports = [port("a", ["n"]), port("b", ["n"]), port("weights", [2]), port("shifts", [3], TensorProto.INT64)]
        reference = model([*elements, *formula], ports, [port("c", ["n"])])
        reference.graph.initializer.extend(helper.make_tensor(name, TensorProto.INT64, [], [value]) for name, value in (("first", 0), ("second", 1)))
        onnx.save(reference, self.folder / "lists.onnx")
        changes = {"attributes": {"weights": {"type": "f32", "count": 2}, "shifts": {"type": "i64", "count": 3, "default": [0, 7, 0]}}, "reference": "lists.onnx",
                   "arguments": ["a", "b", "c", "n", "weights[1]", "weights[0]", "shifts[1]"]}
        parameters = "const float *a, const float *b, float *c, int64_t n, float w1, float w0, int64_t s1"
        library = self.library("lists", "for (int64_t i = 0; i < n; ++i) c[i] = a[i] * w0 + b[i] * w1 + s1;", parameters, **changes)
        onnx.save(custom(100, weights=[2.0, -0.5]), self.folder / "weighted.onnx")
        engine = self.compile(library, "weighted")
        x, y = (np.linspace(first, 1, 100, dtype=np.float32) for first in (-1, -9))
        np.savez(self.folder / "in.npz", x=x, y=y)
        self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz")
        np.testing.assert_allclose(np.load(self.folder / "out.npz")["z"], 1 / (1 + np.exp(-(2 * np.maximum(x, 0) - 0.5 * y + 7))), rtol=1e-5)
        onnx.save(custom(100, weights=[2.0]), self.folder / "short.onnx")
        self.assertIn("attribute 'weights' has 1 elements in the node and 2 in the kernel", self.refused(3, "TN0308", library, of="short"))
        changes["arguments"][4] = "weights[2]"
        self.assertIn("'weights[2]' is not an expression", self.refused(5, "TN0306", self.library("lists", **changes)))

    def test_sizes_may_have_a_range(self):
        library = self.library("ranged", sizes={"n": [4, 300]})
        engine = self.compile(library, "free")
        self.check_run(engine, 300)
        self.assertIn("at 4 sets of sizes", self.kernels(engine))
        np.savez(self.folder / "in.npz", x=np.ones(301, np.float32), y=np.ones(301, np.float32))
        self.assertIn("301", self.refuse(2, "TN0612", "run", engine, "--inputs", "in.npz").stderr)
        self.assertIn("'n' is 100, the kernel takes 1 to 99", self.refused(3, "TN0308", self.library("ranged", sizes={"n": [1, 99]})))
        for sizes, what in (({"n": [3, 2]}, "sizes.n: is not a list"), ({"m": [1, 2]}, "'m' is not a dim of an input")):
            self.assertIn(what, self.refused(5, "TN0306", self.library("ranged", sizes=sizes)))

    def test_a_function_may_be_the_reference(self):
        plain = "void plain(const float *a, const float *b, float *c, int64_t n, float alpha) { for (int64_t i = 0; i < n; ++i) c[i] = alpha * b[i] + a[i]; }"
        changes = {"before": plain, "reference": {"symbol": "plain"}}
        engine = self.compile(self.library("both", **changes), "free")
        self.assertIn("checked beside plain of both.o at 4 sets of sizes", self.kernels(engine))
        self.check_run(engine, 300)
        self.assertIn("output 'c': 1 elements differ; first at [99]", self.refused(1, "TN0409", self.library("both", LOOP + " c[n - 1] += 1;", **changes)))
        self.assertIn("both.o: it has no function 'plane'", self.refused(3, "TN0307", self.library("both", **{**changes, "reference": {"symbol": "plane"}})))
        outside = {**changes, "before": plain.replace("i < n", "i <= n")}
        self.assertIn("its reference, plain of both.o: it reads or writes 0 bytes behind the end of", self.refused(1, "TN0410", self.library("both", **outside)))

    def test_rows_meet_unless_the_description_says_otherwise(self):
        reduced = [helper.make_node("ReduceMax", ["x", "last"], ["y"], keepdims=1)]
        last = helper.make_tensor("last", TensorProto.INT64, [1], [1])
        ports = [port("x", ["n", 5])], [port("y", ["n", 1])]
        reference = model(reduced, *ports)
        reference.graph.initializer.append(last)
        onnx.save(reference, self.folder / "largest.onnx")
        node = helper.make_node("Largest", ["x"], ["y"], name="mine", domain="com.example")
        onnx.save(model([node], *ports, ("", "com.example")), self.folder / "rows.onnx")
        body = "for (int64_t i = 0; i < n; ++i) { float m = x[i * k]; for (int64_t j = 1; j < k; ++j) m = x[i * k + j] > m ? x[i * k + j] : m; y[i] = m; }"
        changes = {"operator": "com.example::Largest", "inputs": [{"name": "x", "type": "f32", "shape": ["n", "k"]}],
                   "outputs": [{"name": "y", "type": "f32", "shape": ["n", 1]}], "attributes": None, "arguments": ["x", "y", "n", "k"],
                   "reference": "largest.onnx", "parameters": "const float *x, float *y, int64_t n, int64_t k"}
        engine = self.compile(self.library("meets", body, **changes), "rows")
        self.assertIn("kernel of the user's, whose description does not name", self.succeed("inspect", engine).stdout)
        engine = self.compile(self.library("apart", body, rows="n", **changes), "rows")
        self.assertIn("rows    y: independent", self.succeed("inspect", engine).stdout)
        claims = self.library("claims", body + " for (int64_t i = 1; i < n; ++i) y[i] += 1e-7f * y[0];", rows="n", **changes)
        self.assertRegex(self.refused(1, "TN0409", claims, of="rows"), "row [0-9]+ of output 'y' depends on other rows")
        self.assertIn("'k' is not a size that is the first dim", self.refused(5, "TN0306", self.library("claims", body, rows="k", **changes), of="rows"))

    def test_a_shared_object_that_needs_nothing_is_a_library(self):
        table = "static const float kTable[4] = {1, 2, 3, 4}; __attribute__((noinline)) static float entry(int64_t i) { return kTable[i & 3]; }"
        body = LOOP + " for (int64_t i = 0; i < n; ++i) c[i] = c[i] * entry(i) / kTable[i & 3];"
        self.check_run(self.compile(self.library("alone", body, before=table, shared=["-nostdlib"])), 100)
        self.assertIn("needs another library", self.refused(3, "TN0307", self.library("linked", shared=["-Wl,--no-as-needed", "-lm"])))
        keeps = self.library("keeps", LOOP + " c[0] += 0 * ++calls;", before="static int calls;", shared=["-nostdlib"])
        self.assertIn("keeps variables in .bss", self.refused(3, "TN0307", keeps))

    #--- What the check of kernels finds ---#

    def test_a_wrong_result_is_found(self):
        said = self.refused(1, "TN0409", self.library("wrong", LOOP + " c[n - 1] += 1;"))
        self.assertRegex(said, r"node 'mine' \(com.example::VectorAdd, kernel 'vector_add'\): output 'c': 1 elements differ; first at \[99\]")

    def test_accesses_outside_of_buffers_are_found(self):
        for body, what in (("c[n] = 1;", "reads or writes 0 bytes behind the end of 'c'"),
                           ("c[-1] = 1;", "bytes before the start of 'c'"),
                           ("c[0] += 0 * *(volatile const float *)(b + n);", "reads or writes 0 bytes behind the end of 'b'"),
                           ("c[0] += 0 * *(volatile const float *)(b - 1);", "reads or writes 4 bytes before the start of 'b'"),
                           ("((float *)a)[0] = 1;", "an element of 'a', which it must not write")):
            self.assertIn(what, self.refused(1, "TN0410", self.library("outside", f"{LOOP} {body}")))

    def test_an_element_that_is_not_written_is_found(self):
        said = self.refused(1, "TN0411", self.library("short", LOOP.replace("i < n", "i < n - 1")))
        self.assertIn("the kernel does not write element [99] of output 'c'", said)

    def test_runs_that_differ_are_found(self):
        self.assertIn("two runs differ in element [0] of output 'c'", self.refused(1, "TN0409", self.library("adds", LOOP.replace("c[i] =", "c[i] +="))))

    def test_a_crash_and_an_endless_kernel_are_found(self):
        said = self.refused(1, "TN0412", self.library("crash", "*(volatile int *)8 = 1;"))
        self.assertIn('it ends with the signal "Segmentation fault"', said)
        endless = "for (;;) { sleep_call(); }"
        pause = "static void sleep_call(void) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(34L) : \"rcx\", \"r11\", \"memory\"); }"
        if COMPILER and __import__("platform").machine() == "x86_64":
            done = self.call("compile", "fixed.onnx", "-o", "refused.tenon", "--kernel-library", self.library("endless", endless, before=pause))
            self.assertIn("error TN0412: node 'mine' (com.example::VectorAdd, kernel 'vector_add'): it does not end within 10 s", done.stderr)

    def test_a_kernel_without_reference_is_taken_on_request(self):
        library = self.library("bare", reference=None)
        self.assertIn("it has no reference to be checked beside", self.refused(1, "TN0309", library))
        engine = self.compile(library, "fixed", "--unchecked-kernels")
        self.check_run(engine, 100)
        self.assertIn("results not checked (--unchecked-kernels)", self.kernels(engine))

    #--- What is wrong before anything runs ---#

    def test_libraries_and_descriptions_that_do_not_fit_are_refused(self):
        self.assertIn("it has no function 'missing'; its functions are: vector_add", self.refused(3, "TN0307", self.library("lacks", symbol="missing")))
        calls = "float expf(float);"
        self.assertIn("it calls 'expf'", self.refused(3, "TN0307", self.library("calls", LOOP.replace("a[i]", "expf(a[i])"), before=calls)))
        first, second = (self.library(name, operator=f"com.example::{name}") for name in ("first", "second"))
        self.assertIn("second.o: 'vector_add' is defined in first.o too", self.refused(3, "TN0307", first, "--kernel-library", second, "--target", "cpu:avx2"))
        (self.folder / "lacks.o").write_text("no object")
        self.assertIn("lacks.o: it is not an ELF object file", self.refused(3, "TN0307", "lacks.o"))
        for change, what in (({"symbol": None}, "bad.json.kernels[0].symbol: is missing"), ({"colour": "blue"}, "bad.json.kernels[0].colour: is not a key"),
                             ({"arguments": ["a", "d"]}, "bad.json.kernels[0].arguments: 'd' is not an expression"),
                             ({"backend": "tpu"}, "kernels[0].backend"), ({"grid": ["n"]}, "kernels[0].grid")):
            self.assertIn(what, self.refused(5, "TN0306", self.library("bad", **change)))
        (self.folder / "bad.json").write_text("{")
        self.refused(5, "TN0306", "bad.o")
        onnx.save(custom(100, TensorProto.DOUBLE), self.folder / "doubles.onnx")
        self.assertIn("input 'a' is f64 in the node and f32 in the kernel", self.refused(3, "TN0308", self.library("add"), of="doubles"))
        onnx.save(custom(100, beta=1.0), self.folder / "beta.onnx")
        self.assertIn("attribute 'beta'", self.refused(3, "TN0308", "add.o", of="beta"))
        self.assertIn("include none for GPUs", self.refused(3, "TN0308", "add.o", "--target", "cuda:sm_90"))

    def test_a_node_without_kernel_is_told_of_them(self):
        self.assertIn("give a kernel for it (--kernel-library)", self.call("check", "fixed.onnx").stdout)
        library = self.library("add")
        checked = self.json("check", "fixed.onnx", "--kernel-library", library)
        self.assertEqual([{"operator": "com.example::VectorAdd", "backend": "cpu", "symbol": "vector_add", "library": "add.o"}], checked["kernels"])
        self.assertIn("com.example::VectorAdd on cpu: the kernel vector_add of add.o", self.succeed("check", "fixed.onnx", "--kernel-library", library).stdout)

    def test_the_reference_stands_for_the_kernel_in_comparisons(self):
        library = self.library("add")
        self.compile(library)
        self.assertIn("within the tolerance", self.succeed("compare", "fixed.tenon", "fixed.onnx", "--kernel-library", library).stdout)
        found = self.call("debug", "bisect", "fixed.onnx", "--kernel-library", library, "--target", "cpu:avx2")
        self.assertIn("compiled and in the reference it gives the same results", found.stdout)

    def test_other_precisions_keep_the_types_of_the_description(self):
        library = self.library("add")
        engine = self.compile(library, "fixed", "--precision", "bf16")
        self.assertIn("own-kernel", self.succeed("explain", "precision", engine, "mine").stdout)
        self.succeed("compare", engine, "fixed.onnx", "--kernel-library", library, "--atol", "0.01")
        self.compile(library, "free", "--verify")

    def test_boards_and_ranks_have_no_kernels_of_the_users(self):
        library = self.library("add")
        self.assertIn("--kernel-library is for engines", self.refused(2, "TN0105", library, "--target", "c"))
        self.assertIn("--guard cannot check", self.refused(2, "TN0105", library, "--guard"))
        self.assertIn("kernels of the user's run on one rank", self.refused(2, "TN0105", library, "--tp", "2"))


if __name__ == "__main__":
    unittest.main()
