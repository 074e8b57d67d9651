"""The graph of a model and of an engine in every form of `tenon inspect`, with names that try to be something else."""

import json
import re
import xml.etree.ElementTree as xml

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import CNN, ToolTest, tiny_model, unittest

HOSTILE = ["</script><script>window.broken = 1</script>", "\"'><img src=x onerror=alert(1)>&amp;", "a\x01b\x1b[31mred\x7f",
           "right\u202eleft\u2066\u200b", "]]>--><!--{{scripts}}{{graph}}", "new\nline\ttab\u2028end", "`${alert(1)}`\\"]


def hostile_model():
    """x [batch, 8] through one node for each of the names, which are also those of modules, weights, dims and ports."""
    nodes, weights = [], []
    last = "x" + HOSTILE[0]
    for i, name in enumerate(HOSTILE):
        weights.append(numpy_helper.from_array(np.full((8,), 0.5, np.float32), f"w{i}{name}"))
        result = f"v{i}{name}"
        nodes.append(helper.make_node(["Mul", "Add"][i % 2], [last, weights[-1].name], [result], name=f"/m{i % 3}{name}/{name}"))
        last = result
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch" + HOSTILE[1], 8]) for name in ("x" + HOSTILE[0], last)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def long_model(count):
    """A chain of `count` pairs of a Relu and an Add that reads what was before it, in modules of 10 within stages of 100."""
    nodes, last = [], "x"
    for i in range(count):
        path = f"/stage{i // 100}/block{i // 10}"
        nodes += [helper.make_node("Relu", [last], [f"r{i}"], name=f"{path}/relu{i}"),
                  helper.make_node("Add", [f"r{i}", last], [f"a{i}"], name=f"{path}/add{i}")]
        last = f"a{i}"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", last)]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Views(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(tiny_model(), cls.folder / "model.onnx")
        onnx.save(hostile_model(), cls.folder / "hostile.onnx")
        onnx.save(long_model(1000), cls.folder / "long.onnx")
        for name in ("model", "hostile"):
            cls.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx2")

    def inspect(self, name, form, *arguments):
        self.succeed("inspect", name, "--format", form, "-o", "out", *arguments)
        return (self.folder / "out").read_bytes()

    def graph(self, name, *arguments):
        return self.json("inspect", name, *arguments)["graph"]

    def test_facts_of_a_model(self):
        graph = self.graph("model.onnx")
        self.assertEqual("tenon.graph/1", graph["schema"])
        conv, relu, mean = graph["nodes"][:3]
        self.assertEqual(("conv", "/layer1/conv1/Conv", "layer1/conv1", ["Conv"]), (conv["op"], conv["name"], conv["module"], conv["from"]))
        # 4 x 6 x 6 results of 3 x 3 x 3 products and sums; read 3 x 8 x 8, a weight, written 4 x 6 x 6, of 4 bytes.
        self.assertEqual({"formula": "batch * 7776", "least": 7776, "typical": 7776, "most": 65536 * 7776}, conv["flops"])
        self.assertEqual(4 * (3 * 64 + 4 * 27 + 4 * 36), conv["bytes"]["least"])
        self.assertEqual([144, 144], [node["flops"]["least"] for node in (relu, mean)])
        self.assertEqual(conv["outputs"], relu["inputs"])
        value = graph["values"][conv["outputs"][0]]
        self.assertEqual(("f32", ["batch", "4", "6", "6"], 0), (value["dtype"], value["shape"], value["node"]))
        self.assertEqual((1, 432), (graph["totals"]["parameters"], graph["totals"]["parameter_bytes"]))
        fixed = self.graph("model.onnx", "--shape", "image:2x3x8x8")
        self.assertEqual(2 * 7776, fixed["nodes"][0]["flops"])

    def test_facts_of_an_engine(self):
        graph = self.graph("model.tenon")
        conv = next(node for node in graph["nodes"] if node["op"] == "conv")
        region = graph["regions"][conv["region"]]
        self.assertEqual("x86-64-v3", graph["level"])
        self.assertIn("/layer1/conv1/Conv", region["label"])
        self.assertTrue(region["instructions"][0]["kernel"])
        self.assertTrue(region["memory"] and region["reason"] and region["cost"]["us"])
        self.assertEqual(set(range(len(graph["regions"]))), {node["region"] for node in graph["nodes"] if "region" in node})

    def test_times(self):
        rows = [dict(row, time_us=2.5) for region in self.graph("model.tenon")["regions"] for row in region["instructions"]]
        (self.folder / "times.json").write_text(json.dumps({"regions": rows}))
        graph = self.graph("model.tenon", "--profile", "times.json")
        self.assertEqual(2.5 * len(rows), graph["totals"]["us"])
        self.assertIn("2.50 us", self.succeed("inspect", "model.tenon", "--profile", "times.json").stdout)
        measured = self.json("bench", "model.tenon", "--runs", 5, "--regions")
        self.assertEqual([row["instruction"] for row in measured["regions"]], sorted(row["instruction"] for row in measured["regions"]))
        self.assertLess(0, sum(row["time_us"] for row in measured["regions"]))
        (self.folder / "own.json").write_text(json.dumps(measured))
        own = self.graph("model.tenon", "--profile", "own.json")
        self.assertTrue(all("us" in region for region in own["regions"]))
        self.refuse(2, "TN0105", "inspect", "model.onnx", "--profile", "times.json")
        rows[0]["label"] = "another"
        for content, said in (({"regions": rows}, "belongs to another engine"), ([], "has no region times"), ({"regions": [1]}, "has no region times")):
            (self.folder / "no.json").write_text(json.dumps(content))
            self.assertIn(said, self.refuse(2, "TN0105", "inspect", "model.tenon", "--profile", "no.json").stderr)

    def test_variants(self):
        self.succeed("compile", CNN, "-o", "two.tenon", "--target", "cpu:avx2", "--target", "cuda:sm_90")
        self.assertEqual(["x86-64-v3", "sm_90"], [self.graph("two.tenon")["level"], self.graph("two.tenon", "--variant", "sm_90")["level"]])
        self.assertIn("it has x86-64-v3", self.refuse(2, "TN0105", "inspect", "two.tenon", "--isa", "sm_100").stderr)

    def test_outputs(self):
        self.assertEqual(self.succeed("inspect", "model.onnx", "--format", "svg").stdout.encode(), self.inspect("model.onnx", "svg"))
        self.assertEqual(self.json("inspect", "model.onnx"), json.loads(self.inspect("model.onnx", "json")))
        self.refuse(2, "TN0111", "inspect", "model.onnx", "-o", "model.onnx")

    def test_text_is_printable(self):
        for name in ("hostile.onnx", "hostile.tenon"):
            for form in ("text", "dot", "svg"):
                text = self.inspect(name, form).decode()
                self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", text), form)
                self.assertIn("a\\\\u0001b" if form == "dot" else "a\\u0001b", text)

    def test_text_of_every_verb_is_printable(self):
        """What a name brings steers no terminal, forges no line and breaks no JSON."""
        odd = hostile_model()
        odd.graph.node[2].op_type = "Mys\x1btery\nerror TN0301"
        onnx.save(odd, self.folder / "odd.onnx")
        for arguments in (["run", "hostile.tenon"], ["explain", "fusion", "hostile.tenon"], ["explain", "kernels", "hostile.tenon"],
                          ["explain", "memory", "hostile.tenon"], ["bench", "hostile.tenon", "--runs", 2], ["check", "odd.onnx"],
                          ["compile", "odd.onnx", "-o", "no.tenon"], ["inspect", "odd.onnx"], ["compare", "hostile.tenon", "hostile.onnx"]):
            for more in ([], ["--json"]):
                done = self.call(*arguments, *more)
                self.assertIsNone(re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr), (arguments, done.stdout, done.stderr))
                self.assertIsNone(re.search("^(line|error TN0301)", done.stdout + done.stderr.replace("error TN0301: ", ""), re.M), arguments)
                if more:
                    json.loads(done.stdout[:done.stdout.index("\n}\n") + 2])

    def test_svg(self):
        for name in ("hostile.onnx", "hostile.tenon", "model.tenon", CNN, "long.onnx"):
            tree = xml.fromstring(self.inspect(name, "svg"))
            tags = {element.tag.split("}")[1] for element in tree.iter()}
            self.assertEqual({"svg", "title", "style", "defs", "marker", "path", "g", "rect", "text", "tspan"}, tags)
            self.assertFalse([key for element in tree.iter() for key in element.attrib if key.startswith("on") or "href" in key])
        # Folded: a drawing of 2,000 boxes nobody can read.
        self.assertGreater(250, len(tree.findall("{*}g")))

    def test_boxes_tell_operators_apart(self):
        """What a node computes with its numbers, where it stands, and a color for its kind."""
        graph = self.graph(CNN)
        labels = {(node["where"], node["what"], node["family"]) for node in graph["nodes"]}
        self.assertLessEqual({("stem.0", "conv 3x3, 32", "product"), ("stem.2", "relu", "point"), ("pool", "max_pool 2x2", "row"),
                              ("", "reduce mean", "row"), ("", "add", "point")}, labels)
        drawing = self.inspect(CNN, "svg").decode()
        self.assertRegex(drawing, r'<rect class="product"[^>]*/><text[^>]*>stem.0 <tspan class="what">conv 3x3, 32</tspan>')

    def test_sizes_of_figures(self):
        """Counts and estimates are for the likely sizes, or those of --shape, and say so."""
        text = self.succeed("inspect", "model.tenon").stdout
        self.assertIn("are for batch=1; --shape", text)
        self.assertRegex(text, r"conv .* 7.78 k ")
        more = self.graph("model.tenon", "--shape", "image:4x3x8x8")
        self.assertEqual([("batch", 4)], [(symbol["name"], symbol["typical"]) for symbol in more["symbols"]])
        self.assertEqual(4 * 7776, next(node["flops"]["typical"] for node in more["nodes"] if node["op"] == "conv"))
        once = self.graph("model.tenon")["regions"]
        self.assertTrue(all(one["cost"]["us"] <= other["cost"]["us"] for one, other in zip(once, more["regions"])))
        self.assertIn("are for batch=1; --shape", self.succeed("inspect", "model.onnx").stdout)
        self.refuse(2, "TN0603", "inspect", "model.tenon", "--shape", "image:4x3x9x8")

    def test_variant_and_sizes_of_this_machine_or_the_profile(self):
        self.succeed("compile", "model.onnx", "-o", "levels.tenon")
        here = self.json("bench", "levels.tenon", "--runs", 2)["isa"]
        self.assertEqual(here, self.graph("levels.tenon")["level"])
        measured = self.json("bench", "levels.tenon", "--runs", 2, "--regions", "--isa", "avx2", "--shape", "image:3x3x8x8")
        (self.folder / "three.json").write_text(json.dumps(measured))
        graph = self.graph("levels.tenon", "--profile", "three.json")
        self.assertEqual(("x86-64-v3", 3), (graph["level"], graph["symbols"][0]["typical"]))
        self.refuse(2, "TN0105", "inspect", "levels.tenon", "--profile", "three.json", "--shape", "image:4x3x8x8")

    def test_html_is_whole_and_closed(self):
        page = self.inspect("hostile.tenon", "html").decode()
        self.assertEqual(2, page.count("</script>"))
        self.assertNotIn("<img", page)
        self.assertIn("default-src 'none'", page)
        self.assertIsNone(re.search(r'(src|href)\s*=\s*"', page))
        data = re.search(r'<script type="application/json" id="graph">(.*?)</script>', page, re.S).group(1)
        names = {node["name"] for node in json.loads(data)["nodes"]}
        self.assertIn(f"/m0{HOSTILE[0]}/{HOSTILE[0]}", names)

    def test_onnx_view(self):
        for name in ("model.onnx", "model.tenon", "hostile.onnx", "hostile.tenon", CNN, "long.onnx"):
            graph, view = self.graph(name), onnx.load_from_string(self.inspect(name, "onnx"))
            self.assertEqual([(node["op"], node["name"], "tenon") for node in graph["nodes"]],
                             [(node.op_type, node.name, node.domain) for node in view.graph.node if node.domain == "tenon"])
            self.assertEqual([[port["name"] for port in graph[key]] for key in ("inputs", "outputs")],
                             [[port.name for port in ports] for ports in (view.graph.input, view.graph.output)])
            made = {output: i for i, node in enumerate(view.graph.node) for output in node.output}
            edges = [[made.get(value, -1) for value in node.input] for node in view.graph.node]
            wanted = [[graph["values"][value].get("node", -1) if value >= 0 else -1 for value in node["inputs"]] for node in graph["nodes"]]
            self.assertEqual(wanted, edges[:len(wanted)])
            self.assertEqual(len(made), sum(len(node.output) for node in view.graph.node))

    def test_first_screen(self):
        """40 lines of text at most, with the totals and what to do next; all of it on demand, and in files."""
        text = self.succeed("inspect", "long.onnx").stdout
        self.assertLessEqual(text.count("\n"), 40)
        whole = self.succeed("inspect", "long.onnx", "--all").stdout
        self.assertEqual(whole, self.inspect("long.onnx", "text").decode())
        left_out = int(re.search(r"(?m)^    and (\d+) more lines$", text).group(1))
        self.assertEqual(whole.count("\n"), left_out + text[:text.index("\nnext  ")].count("\n") - 1)
        for part in ("  total: 2000 nodes", "next  tenon inspect long.onnx --all", "tenon check long.onnx"):
            self.assertIn(part, text)

    def test_ranges_of_weights(self):
        """The least and the largest element, as viewers of ONNX show them; text and engines do without."""
        arrays = {"f": np.array([-1.5, 0, 2.25], np.float32), "h": np.array([-3, 4, 1], np.float16), "nan": np.array([1, np.nan, 2], np.float32)}
        nodes = [helper.make_node("Cast", ["h"], ["hf"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "f"], ["a"]),
                 helper.make_node("Mul", ["a", "hf"], ["b"]), helper.make_node("Add", ["b", "nan"], ["y"])]
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 300]) for name in ("x", "y")]
        weights = [numpy_helper.from_array(np.resize(array, 300), name) for name, array in arrays.items()]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "ranges.onnx")
        self.assertEqual({"w": [0.1, 0.1]}, {value["name"]: [round(end, 6) for end in value["range"]]
                                             for value in self.graph("model.onnx")["values"] if "range" in value})
        ranges = {value["name"]: value.get("range") for value in self.graph("ranges.onnx")["values"] if value["kind"] == "parameter"}
        self.assertEqual({"f": [-1.5, 2.25], "h": [-3, 4], "nan": None}, ranges)

    def test_modules_of_torchs_exporter(self):
        """The exporter names nodes without their modules and says these in the nodes' metadata."""
        weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="node_linear"), helper.make_node("Relu", ["a"], ["y"], name="node_relu")]
        for node, scopes in zip(nodes, ("['', 'encoder', 'encoder.layer.0', 'linear']", "['', 'relu']")):
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.folder / "scopes.onnx")
        nodes = self.graph("scopes.onnx")["nodes"]
        self.assertEqual([("node_linear", "encoder/layer.0"), ("node_relu", "")], [(node["name"], node["module"]) for node in nodes])

    def test_gaps_are_drawn(self):
        onnx.save(tiny_model("Mystery"), self.folder / "odd.onnx")
        self.assertIn("Mystery", self.inspect("odd.onnx", "svg").decode())
        self.assertEqual("Mystery", self.graph("odd.onnx")["nodes"][-1]["op"])

    def test_groups(self):
        graph = self.graph("long.onnx")
        titles = [group["title"] for group in graph["groups"]]
        self.assertEqual((10, 100), (sum(title.startswith("stage") for title in titles), sum(title.startswith("block") for title in titles)))
        for i, group in enumerate(graph["groups"]):
            self.assertLess(group["parent"], i)
        self.assertEqual({"block"}, {titles[node["group"]][:5] for node in graph["nodes"]})


if __name__ == "__main__":
    unittest.main()
