"""Operators of ai.onnx.ml against ONNX Runtime: ensembles of trees and linear models in the forms of their scores and labels, and
features of numbers. A model has many nodes; it is compiled once with a free number of rows."""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import ToolTest

RANDOM = np.random.default_rng(4)
FEATURES = 5
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def trees(count, depth, modes, missing=False):
    """Random trees as lists of nodes, and (tree, node) of their leaves. Split values are multiples of 1/4, as features are."""
    lists = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                                 "missing_value_tracks_true")}
    leaves = []

    def grow(tree, numbers, level):
        own = next(numbers)
        at = len(lists["treeids"])
        for values in lists.values():
            values.append(0)
        lists["treeids"][at], lists["nodeids"][at], lists["values"][at] = tree, own, 0.0
        if level == depth or (level > 1 and RANDOM.random() < 0.3):
            lists["modes"][at] = "LEAF"
            leaves.append((tree, own))
            return own
        lists["modes"][at] = str(RANDOM.choice(modes))
        lists["values"][at] = float(RANDOM.integers(-4, 5)) / 4
        lists["featureids"][at] = int(RANDOM.integers(FEATURES))
        lists["missing_value_tracks_true"][at] = int(missing and RANDOM.random() < 0.5)
        lists["truenodeids"][at] = grow(tree, numbers, level + 1)
        lists["falsenodeids"][at] = grow(tree, numbers, level + 1)
        return own

    for tree in range(count):
        grow(tree, itertools.count(), 0)
    return {"nodes_" + key: values for key, values in lists.items()}, leaves


def weights(kind, leaves, targets, low=-1.0):
    """One to each leaf and target that there is a number of."""
    entries = [(tree, node, target) for tree, node in leaves for target in targets]
    lists = dict(zip(("treeids", "nodeids", "ids"), map(list, zip(*entries))))
    lists["weights"] = [float(v) for v in RANDOM.uniform(low, 1.0, len(entries))]
    return {f"{kind}_{key}": values for key, values in lists.items()}


class MachineLearning(ToolTest):
    def agree(self, nodes, outputs, feeds, inputs=None, version=3, tolerances=None):
        inputs = inputs or [helper.make_tensor_value_info("x", T.FLOAT, ["rows", FEATURES])]
        results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
        model = helper.make_model(helper.make_graph(nodes, "g", inputs, results), opset_imports=opsets, ir_version=9)
        onnx.save(model, self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for feed in feeds:
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
            found = np.load(self.folder / "out.npz")
            for (name, _), wanted in zip(outputs, session.run(None, feed)):
                with self.subTest(output=name):
                    self.assertEqual((wanted.shape, wanted.dtype), (found[name].shape, found[name].dtype))
                    tolerance = (tolerances or {}).get(name, 1e-5)
                    np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)

    def rows(self, kind=np.float32):
        return [{"x": (RANDOM.integers(-5, 6, (n, FEATURES)) / 4).astype(kind)} for n in (1, 7, 100)]

    def node(self, op, outputs, inputs=("x",), **attributes):
        return helper.make_node(op, list(inputs), list(outputs), name=outputs[0], domain="ai.onnx.ml", **attributes)

    def test_regressors(self):
        nodes, outputs = [], []
        for number, (aggregate, modes, missing) in enumerate((("SUM", MODES[:1], False), ("AVERAGE", MODES, True), ("MIN", MODES[:2], False),
                                                              ("MAX", MODES[2:4], True))):
            for targets in (1, 3):
                lists, leaves = trees(4, 5, modes, missing)
                name = f"{aggregate.lower()}_{targets}"
                transform = {} if targets == 1 else {"post_transform": ["SOFTMAX", "NONE", "LOGISTIC", "SOFTMAX_ZERO"][number]}
                nodes.append(self.node("TreeEnsembleRegressor", [name], n_targets=targets, aggregate_function=aggregate,
                                       base_values=[0.1 * (t + 1) for t in range(targets)], **lists, **transform,
                                       **weights("target", leaves, range(targets))))
                outputs.append((name, T.FLOAT))
        feeds = self.rows()
        feeds[-1]["x"][::3, ::2] = np.nan
        self.agree(nodes, outputs, feeds)

    def test_regressors_of_doubles(self):
        lists, leaves = trees(3, 4, MODES[:1])
        values = weights("target", leaves, [0])
        for part, given in (("nodes_values", lists), ("target_weights", values)):
            given[part + "_as_tensor"] = numpy_helper.from_array(np.array(given.pop(part)), part)
        node = self.node("TreeEnsembleRegressor", ["y"], n_targets=1, **lists, **values)
        self.agree([node], [("y", T.FLOAT)], self.rows(np.float64), [helper.make_tensor_value_info("x", T.DOUBLE, ["rows", FEATURES])])

    def test_classifiers(self):
        nodes, outputs = [], []
        for number, (classes, ids, low, transform) in enumerate(((3, range(3), -1, "SOFTMAX"), (4, range(4), 0, "NONE"), (3, range(3), -1, "LOGISTIC"),
                                                                 (3, range(3), -1, "SOFTMAX_ZERO"), (2, [0], 0, "NONE"), (2, [0], -1, "LOGISTIC"),
                                                                 (2, [0], -1, "NONE"), (2, [0], 0, "LOGISTIC"), (2, [0], -1, "SOFTMAX"))):
            lists, leaves = trees(3, 4, MODES[:1])
            names = [f"label{number}", f"scores{number}"]
            base = {} if number % 2 == 0 else {"base_values": [0.05] * len(ids)}
            nodes.append(self.node("TreeEnsembleClassifier", names, classlabels_int64s=list(range(10, 10 + classes)), post_transform=transform,
                                   **base, **lists, **weights("class", leaves, ids, low)))
            outputs += [(names[0], T.INT64), (names[1], T.FLOAT)]
        self.agree(nodes, outputs, self.rows())

    def test_what_is_no_tree_is_refused(self):
        lists, leaves = trees(2, 3, MODES[:1])
        values = weights("target", leaves, [0])
        branch = lists["nodes_modes"].index("BRANCH_LEQ")

        def changed(key, at, value):
            return {**lists, key: [value if i == at else v for i, v in enumerate(lists[key])]}

        x, y = helper.make_tensor_value_info("x", T.FLOAT, ["rows", FEATURES]), helper.make_tensor_value_info("y", T.FLOAT, None)
        for wrong in (changed("nodes_truenodeids", branch, lists["nodes_nodeids"][branch]), changed("nodes_featureids", branch, FEATURES),
                      changed("nodes_falsenodeids", branch, 1000), changed("nodes_modes", branch, "BRANCH"),
                      {**lists, "nodes_values": [0.0]}):
            graph = helper.make_graph([self.node("TreeEnsembleRegressor", ["y"], n_targets=1, **wrong, **values)], "g", [x], [y])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
            onnx.save(model, self.folder / "wrong.onnx")
            self.refuse(5, "TN0219", "check", "wrong.onnx")

    def test_ensembles_of_version_5(self):
        def tensor(name, values, kind=np.float32):
            return numpy_helper.from_array(np.array(values, kind), name)

        node = self.node("TreeEnsemble", ["y"], n_targets=2, aggregate_function=1, post_transform=0, tree_roots=[0, 2],
                         nodes_featureids=[0, 1, 2, 3], nodes_modes=tensor("modes", [0, 4, 6, 3], np.uint8),
                         nodes_splits=tensor("splits", [0.25, -0.5, 0, 0.75]), membership_values=tensor("members", [0, -1, 1, np.nan]),
                         nodes_truenodeids=[1, 0, 3, 3], nodes_trueleafs=[0, 1, 0, 1], nodes_falsenodeids=[2, 1, 4, 5], nodes_falseleafs=[1, 1, 1, 1],
                         leaf_targetids=[0, 1, 0, 1, 0, 1], leaf_weights=tensor("weights", [0.5, 1.5, -2.0, 3.0, 0.25, 7.0]))
        feeds = self.rows()
        for feed in feeds:
            feed["x"][:, 2] = np.rint(feed["x"][:, 2])  # ONNX Runtime has sets of whole numbers
        self.agree([node], [("y", T.FLOAT)], feeds, version=5)

    def test_linear_models(self):
        def numbers(count):
            return [float(v) for v in RANDOM.standard_normal(count)]

        nodes = [self.node("LinearRegressor", ["one"], coefficients=numbers(FEATURES), intercepts=[0.5]),
                 self.node("LinearRegressor", ["several"], coefficients=numbers(3 * FEATURES), targets=3)]
        outputs = [("one", T.FLOAT), ("several", T.FLOAT)]
        for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
            for classes in (2, 3):
                names = [f"label_{transform}{classes}", f"scores_{transform}{classes}"]
                nodes.append(self.node("LinearClassifier", names, classlabels_ints=list(range(5, 5 + classes)), post_transform=transform,
                                       coefficients=numbers(classes * FEATURES), intercepts=numbers(classes)))
                outputs += [(names[0], T.INT64), (names[1], T.FLOAT)]
        self.agree(nodes, outputs, self.rows())

    def test_features(self):
        nodes = [self.node("Normalizer", [f"norm{norm}"], norm=norm) for norm in ("MAX", "L1", "L2")]
        outputs = [(node.output[0], T.FLOAT) for node in nodes]
        more = [("imputed", T.FLOAT, "Imputer", ["x"], dict(imputed_value_floats=[7.0], replaced_value_float=0.25)),
                ("imputed_columns", T.FLOAT, "Imputer", ["x"], dict(imputed_value_floats=[float(i) for i in range(FEATURES)], replaced_value_float=0.5)),
                ("imputed_integers", T.INT64, "Imputer", ["k"], dict(imputed_value_int64s=[9], replaced_value_int64=2)),
                ("encoded", T.FLOAT, "LabelEncoder", ["k"], dict(keys_int64s=[1, 3, 2], values_floats=[0.5, 1.5, 2.5], default_float=-3.0)),
                ("encoded_back", T.INT64, "LabelEncoder", ["x"], dict(keys_floats=[0.25, -0.5], values_int64s=[11, 12])),
                ("hot", T.FLOAT, "OneHotEncoder", ["k"], dict(cats_int64s=[3, 0, 2])),
                ("joined", T.FLOAT, "FeatureVectorizer", ["x", "f"], dict(inputdimensions=[FEATURES, 2]))]
        for name, kind, op, inputs, attributes in more:
            nodes.append(self.node(op, [name], inputs, **attributes))
            outputs.append((name, kind))
        feeds = [{**feed, "k": RANDOM.integers(0, 5, (len(feed["x"]), 2)),
                  "f": RANDOM.random((len(feed["x"]), 2)).astype(np.float32)} for feed in self.rows()]
        inputs = [helper.make_tensor_value_info("x", T.FLOAT, ["rows", FEATURES]), helper.make_tensor_value_info("k", T.INT64, ["rows", 2]),
                  helper.make_tensor_value_info("f", T.FLOAT, ["rows", 2])]
        self.agree(nodes, outputs, feeds, inputs)

    def test_support_vectors(self):
        def drawn(*dims):
            return [float(x) for x in RANDOM.standard_normal(int(np.prod(dims)))]

        nodes, outputs = [], []
        for number, (kernel, classes, transform, probable) in enumerate((
                ("RBF", 2, "NONE", False), ("RBF", 2, "LOGISTIC", False), ("LINEAR", 2, "SOFTMAX", False), ("POLY", 2, "SOFTMAX_ZERO", False),
                ("RBF", 2, "NONE", True), ("SIGMOID", 3, "NONE", False), ("RBF", 4, "SOFTMAX", False), ("RBF", 4, "NONE", True), ("LINEAR", 3, "LOGISTIC", True))):
            counts = [int(n) for n in RANDOM.integers(1, 4, classes)]
            pairs, names = classes * (classes - 1) // 2, [f"svm_label{number}", f"svm_scores{number}"]
            more = {"prob_a": [-abs(x) for x in drawn(pairs)], "prob_b": drawn(pairs)} if probable else {}
            nodes.append(self.node("SVMClassifier", names, classlabels_ints=list(range(7, 7 + classes)), coefficients=drawn(classes - 1, sum(counts)),
                                   kernel_params=[0.3, 0.2, 3.0], kernel_type=kernel, post_transform=transform, rho=drawn(pairs),
                                   support_vectors=drawn(sum(counts), FEATURES), vectors_per_class=counts, **more))
            outputs += [(names[0], T.INT64), (names[1], T.FLOAT)]
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            for one_class in (0, 1):
                name = f"{kernel}{one_class}"
                nodes.append(self.node("SVMRegressor", [name], coefficients=drawn(6), kernel_params=[0.3, 0.2, 2.0], kernel_type=kernel, n_supports=6,
                                       one_class=one_class, rho=drawn(1), support_vectors=drawn(6, FEATURES)))
                outputs.append((name, T.FLOAT))
        nodes.append(self.node("SVMRegressor", ["linear"], coefficients=drawn(FEATURES), kernel_params=[0.0, 0.0, 0.0], kernel_type="LINEAR", rho=drawn(1)))
        outputs.append(("linear", T.FLOAT))
        # ONNX Runtime's probabilities are those of an iteration that ends within 0.005.
        self.agree(nodes, outputs, self.rows(), version=1, tolerances={"svm_scores4": 3e-3, "svm_scores7": 3e-3, "svm_scores8": 3e-3})

    def test_a_map_is_refused_with_the_option_of_its_exporter(self):
        linear = self.node("LinearClassifier", ["label", "scores"], classlabels_ints=[0, 1], coefficients=[1.0] * 2 * FEATURES, intercepts=[0.0, 0.0])
        maps = self.node("ZipMap", ["maps"], ["scores"], classlabels_int64s=[0, 1])
        kind = helper.make_sequence_type_proto(helper.make_map_type_proto(T.INT64, helper.make_tensor_type_proto(T.FLOAT, None)))
        outputs = [helper.make_tensor_value_info("label", T.INT64, None), helper.make_value_info("maps", kind)]
        graph = helper.make_graph([linear, maps], "g", [helper.make_tensor_value_info("x", T.FLOAT, ["rows", FEATURES])], outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), self.folder / "maps.onnx")
        self.assertIn("'zipmap': False", self.call("check", "maps.onnx").stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
