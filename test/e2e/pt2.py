"""Programs of torch.export compile and compute what eager PyTorch did (test/data/pt2); damaged ones are refused."""

import json
import pathlib
import subprocess
import tempfile
import unittest
import zipfile

import numpy as np

from tool import SOURCE, TENON, damaged_program

DATA = SOURCE / "test/data/pt2"
PROGRAMS = sorted(path.stem for path in DATA.glob("*.pt2"))


def tool(*arguments):
    return subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True)


def model_of(entries):
    return next(name for name in entries if name.endswith("models/model.json"))


def with_json(edit):
    def change(entries):
        name = model_of(entries)
        description = json.loads(entries[name])
        edit(description)
        entries[name] = json.dumps(description).encode()
    return change


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def check(self, name):
        data = np.load(DATA / f"{name}.npz")
        engine, outputs = self.path / "e.tenon", self.path / "out.npz"
        facts = json.loads(tool("inspect", DATA / f"{name}.pt2", "--json").stdout)
        facts = facts.get("data", facts)
        ports = [port["name"] for port in facts["inputs"] if not port["name"].endswith(".state")]
        np.savez(self.path / "in.npz", **{port: data[f"in{i}"] for i, port in enumerate(ports)})
        done = tool("compile", DATA / f"{name}.pt2", "-o", engine, "--no-cache", "--verify", "--quiet")
        self.assertEqual(0, done.returncode, done.stderr)
        done = tool("run", engine, "--inputs", self.path / "in.npz", "-o", outputs, "--quiet")
        self.assertEqual(0, done.returncode, done.stderr)
        results = list(np.load(outputs).values())
        wanted = [data[key] for key in data.files if key.startswith("out")]
        self.assertEqual(len(wanted), len(results))
        for i, (result, want) in enumerate(zip(results, wanted)):
            with self.subTest(program=name, output=i):
                self.assertEqual((want.dtype, want.shape), (result.dtype, result.shape))
                tolerance = 1e-2 if want.dtype == np.float16 else 2e-5
                np.testing.assert_allclose(result, want, rtol=tolerance, atol=tolerance)

    def test_relations_are_checked(self):
        engine = self.path / "e.tenon"
        self.assertEqual(0, tool("compile", DATA / "relations.pt2", "-o", engine, "--quiet").returncode)
        zeros = np.zeros
        np.savez(self.path / "in.npz", x=zeros((5, 3), "f4"), y=zeros((9, 3), "f4"))
        done = tool("run", engine, "--inputs", self.path / "in.npz")
        self.assertRegex(done.stderr, "TN06(03|04|12)")

    def test_one_row_of_an_automatic_dim(self):
        """torch.export writes a range from 2 for what Dim.AUTO leaves open."""
        data, engine, outputs = np.load(DATA / "modes.npz"), self.path / "e.tenon", self.path / "out.npz"
        self.assertEqual(0, tool("compile", DATA / "modes.pt2", "-o", engine, "--quiet").returncode)
        for rows, length in ((1, 6), (1, 1), (2, 1)):
            np.savez(self.path / "in.npz", x=data["in0"][:rows, :length])
            done = tool("run", engine, "--inputs", self.path / "in.npz", "-o", outputs, "--quiet")
            self.assertEqual(0, done.returncode, done.stderr)
            results = list(np.load(outputs).values())
            for i in (0, 1, 2):  # of which each position is by itself
                np.testing.assert_allclose(results[i], data[f"out{i}"][:rows, :length], rtol=2e-5, atol=2e-5)

    def test_a_dim_that_squeeze_keeps_is_not_one(self):
        """Eager PyTorch would remove it, and the program was exported with it."""
        engine = self.path / "e.tenon"
        self.assertEqual(0, tool("compile", DATA / "squeezed.pt2", "-o", engine, "--quiet").returncode)
        for shapes, code in ((("x:2x1x5x1", "y:2x3"), None), (("x:1x1x5x1", "y:2x3"), "TN0603"), (("x:2x1x1x1", "y:2x3"), "TN0603"),
                             (("x:2x1x5x1", "y:2x1"), "TN0603")):  # fmt: skip
            with self.subTest(shapes=shapes):
                done = tool("run", engine, "--shape", shapes[0], "--shape", shapes[1])
                self.assertEqual(bool(code), done.returncode != 0, done.stderr)
                self.assertIn(code or "", done.stderr)

    def test_a_range_that_a_dim_asked_for_stays(self):
        def bound(description):
            for bounds in description["range_constraints"].values():
                self.assertEqual(2, bounds["min_val"])
                bounds["max_val"] = 64

        program, engine = self.path / "p.pt2", self.path / "e.tenon"
        program.write_bytes(damaged_program("shared", with_json(bound)))
        self.assertEqual(0, tool("compile", program, "-o", engine, "--quiet").returncode)
        done = tool("run", engine, "--shape", "long:6x1x4")
        self.assertIn("TN0603", done.stderr)

    GUARDED = {  # of sizes n and m of the input x: what the engine needs, what it says is not checked, and sizes with what is said of each
        "even": (["(L['x'].size()[1] % 2) == 0"], {}, {"2x4": "", "2x5": "with (L['x'].size()[1] % 2) == 0, but"}),
        "two": (["L['x'].size()[0]*L['x'].size()[1] < 20", "L['x'].size()[0] != L['x'].size()[1]"], {}, {"3x4": "", "4x5": "< 20, but", "3x3": "!= L['x']"}),
        "or": (["L['x'].size()[0] > 9 or not (L['x'].size()[1] <= 3)"], {}, {"2x4": "", "10x1": "", "2x3": "or not"}),
        "real": (["math.trunc(0.5*torch.sym_float(L['x'].size()[1])) == 3"], {}, {"2x6": "", "2x7": "", "2x8": "TN0603"}),
        "strict": (["max(L['flat_args'][0].size()[0], 4) < L['flat_args'][0].size()[1]"], {}, {"2x5": "", "5x5": "flat_args"}),
        "implied": (["L['x'].size()[0] == L['x'].size()[0]", "L['x'].size()[0] >= 0"], {}, {"1x1": ""}),
        "unread": ([], {"L['x'].size()[0] ~ 3": "'~ 3' is not understood", "L['x'].stride()[0] == 3": "it asks for '.stride()[0]' of an input", "": "it breaks off",
                        "L['z'].size()[0] == 1": "is not a dimension of an input", "math.cos(L['x'].size()[0]) < 1": "'math.cos' is not known", "(" * 9999: "nested too deeply",
                        "math.sqrt(L['x'].size()[0] * L['x'].size()[1]) < 4": "no constraint of an engine can say it"}, {"2x3": ""}),
    }  # fmt: skip

    def test_guards(self):
        program, engine = self.path / "p.pt2", self.path / "e.tenon"
        for name, (needs, unchecked, runs) in self.GUARDED.items():
            with self.subTest(name):
                program.write_bytes(damaged_program("modes", with_json(lambda root: root.update(guards_code=[*needs, *unchecked]))))
                self.assertEqual(0, tool("compile", program, "-o", engine, "--quiet").returncode)
                check = tool("check", program).stdout
                for facts in (json.loads(tool(verb, path, "--json").stdout) for verb, path in (("check", program), ("inspect", program), ("inspect", engine))):
                    listed = [entry for entry in facts.get("data", facts)["constraints"] if entry.get("guard")]
                    self.assertEqual([] if name == "implied" else needs, [entry["needs"] for entry in listed if not entry["unchecked"]])
                    said = [entry for entry in listed if entry["unchecked"]]
                    self.assertEqual(len(unchecked), len(said))
                    for entry, (text, why) in zip(said, unchecked.items()):
                        self.assertEqual(text[:400], entry["needs"][:400])
                        self.assertIn(why, entry["unchecked"])
                        self.assertIn(why, check)
                if name == "even":
                    for is_again in (False, True):
                        facts = json.loads(tool("compile", program, "-o", engine, "--json").stdout)
                        self.assertIn({"node": "", "needs": needs[0]}, facts["narrowed"])
                        self.assertTrue(facts["from_cache"] or not is_again)
                    self.assertIn(f"a guard of the export needs that {needs[0]}", tool("compile", program, "-o", engine, "--strict").stderr)
                    self.assertEqual(0, tool("compile", program, "-o", engine, "--quiet").returncode)
                for sizes, refusal in runs.items():
                    done = tool("run", engine, "--shape", f"x:{sizes}x8")
                    self.assertEqual(bool(refusal), done.returncode != 0, done.stderr)
                    self.assertRegex(done.stderr, "TN0612|TN0603" if refusal else "^")
                    self.assertIn(refusal, done.stderr)

    def test_sizes_that_a_guard_excludes(self):
        program = self.path / "p.pt2"
        program.write_bytes(damaged_program("modes", with_json(lambda root: root.update(guards_code=["(L['x'].size()[1] % 2) == 0"]))))
        self.assertEqual(0, tool("compile", program, "-o", self.path / "e.tenon", "--shape", "x:2x6x8", "--quiet").returncode)
        done = tool("compile", program, "-o", self.path / "e.tenon", "--shape", "x:2x5x8", "--quiet")
        self.assertIn("TN0237", done.stderr)
        self.assertIn("the program was exported for sizes with (L['x'].size()[1] % 2) == 0", done.stderr)

    def test_taps(self):
        model, engine, outputs = DATA / "writes.pt2", self.path / "e.tenon", self.path / "out.npz"
        done = tool("compile", model, "-o", engine, "--quiet", "--tap", "clone", "--tap", "select_2")
        self.assertEqual(0, done.returncode, done.stderr)
        data = np.load(DATA / "writes.npz")
        np.savez(self.path / "in.npz", x=data["in0"])
        self.assertEqual(0, tool("run", engine, "--inputs", self.path / "in.npz", "-o", outputs, "--quiet").returncode)
        results = np.load(outputs)
        self.assertEqual(["output0", "output1", "output2", "clone", "select_2"], results.files)
        np.testing.assert_array_equal(data["in0"], results["clone"])  # as it was before the writes
        self.assertEqual((2,), results["select_2"].shape)
        done = tool("compile", model, "-o", engine, "--tap", "clon")
        self.assertEqual(2, done.returncode)
        self.assertRegex(done.stderr, "TN0105[^$]*did you mean 'clone'")

    def test_layers(self):
        for name in ("writes", "layers", "state"):
            model = DATA / f"{name}.pt2"
            done = tool("compare", f"compiled:{model}", model, "--layers", "--json")
            self.assertEqual(0, done.returncode, done.stderr)
            report = json.loads(done.stdout)
            report = report.get("data", report)
            self.assertIsNone(report["first_beyond"])
            self.assertEqual([], report["only_in_a"] + report["only_in_b"])
        self.assertIn("aten.", report["layers"][0]["node"])

    def test_reduce_says_what_it_takes(self):
        done = tool("debug", "reduce", DATA / "layers.pt2", "-o", self.path / "small.onnx")
        self.assertEqual(2, done.returncode)
        self.assertIn("TN0105", done.stderr)

    def refused(self, data, code):
        path = self.path / "bad.pt2"
        path.write_bytes(data)
        done = tool("check", path)
        self.assertIn(f"error {code}", done.stderr)
        self.assertIn(done.returncode, (3, 5), done.stderr)

    def test_damaged_archives(self):
        whole = (DATA / "writes.pt2").read_bytes()
        for length in (10, len(whole) // 2, len(whole) - 5):
            self.refused(whole[:length], "TN0239")
        entry = zipfile.ZipFile(DATA / "writes.pt2").infolist()[0]
        flipped = bytearray(whole)
        flipped[entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2] ^= 0x10
        self.refused(bytes(flipped), "TN0239")
        self.refused(damaged_program("writes", lambda entries: entries.pop(model_of(entries))), "TN02")

    def test_damaged_graphs(self):
        def node(edit):
            return with_json(lambda root: edit(root["graph_module"]["graph"]["nodes"][0]))

        cases = {
            "no JSON": lambda entries: entries.update({model_of(entries): b"{\"graph_module\": ["}),
            "deep": lambda entries: entries.update({model_of(entries): b"[" * 200000}),
            "no graph": with_json(lambda root: root["graph_module"].pop("graph")),
            "no list": with_json(lambda root: root["graph_module"]["graph"].update(nodes={})),
            "name": node(lambda first: first["inputs"][0]["arg"].update(as_tensor={"name": "gone"})),
            "kind": node(lambda first: first.update(inputs=[{"name": "self", "arg": {"as_tensor": 3}, "kind": 1}])),
            "two kinds": node(lambda first: first["inputs"][0]["arg"].update(as_int=3)),
            "guards": with_json(lambda root: root.update(guards_code={"a": 1})),
            "guard": with_json(lambda root: root.update(guards_code=[3])),
            "large": with_json(lambda root: root["range_constraints"].update(s0={"min_val": 1 << 70, "max_val": 2})),
        }
        for title, change in cases.items():
            with self.subTest(title):
                self.refused(damaged_program("writes", change), "TN0240")

    def test_complex_numbers_that_are_gaps(self):
        def complex_output(root):
            graph = root["graph_module"]["graph"]
            name = next(name for name, meta in graph["tensor_values"].items() if meta["dtype"] == 10)
            spec = root["graph_module"]["signature"]["output_specs"][0]["user_output"]
            for output in (graph["outputs"][0], spec["arg"]):
                output["as_tensor"]["name"] = name

        def other_operator(root):
            node = next(node for node in root["graph_module"]["graph"]["nodes"] if node["target"].endswith("aten.abs.default"))
            node["target"] = "torch.ops.aten.sqrt.default"

        for edit, what in ((complex_output, "complex outputs"), (other_operator, "not supported for complex numbers")):
            with self.subTest(what):
                path = self.path / "complex.pt2"
                path.write_bytes(damaged_program("rotations", with_json(edit)))
                done = tool("compile", path, "-o", self.path / "e.tenon", "--quiet")
                self.assertIn("error TN0301", done.stderr)
                self.assertIn(what, done.stderr)

    def test_other_versions(self):
        self.refused(damaged_program("writes", with_json(lambda root: root["schema_version"].update(major=9))), "TN0241")

    def test_damaged_weights(self):
        def shorter(entries):
            name = next(entry for entry in entries if "/data/weights/weight_" in entry and len(entries[entry]) > 64)
            entries[name] = entries[name][:-4]

        def pickled(entries):
            name = next(entry for entry in entries if entry.endswith("weights_config.json"))
            config = json.loads(entries[name])
            next(iter(config["config"].values()))["use_pickle"] = True
            entries[name] = json.dumps(config).encode()

        self.refused(damaged_program("layers", shorter), "TN0242")
        self.refused(damaged_program("layers", pickled), "TN0301")


for program in PROGRAMS:
    setattr(Programs, f"test_{program}", lambda self, program=program: self.check(program))


if __name__ == "__main__":
    unittest.main()
