"""What the end-to-end tests share: calling the tool in a folder of its own and a cache of the run, and the committed CNN."""

import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import zipfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
CNN = SOURCE / "models/fashion_cnn.onnx"


def peer_int8():
    """Bounds of signed weights for which ONNX Runtime is a truth: on x86 without VNNI it adds products of u8 and s8 in pairs of 16 bits, which
    saturate from 8 bits on."""
    processor = pathlib.Path("/proc/cpuinfo").read_text()
    return (-64, 64) if "avx2" in processor and "vnni" not in processor else (-128, 128)


PEER_INT8 = peer_int8()


def tiny_model(domain_op=None):
    """image [batch, 3, 8, 8] through a convolution and a mean to features [batch, 4, 1, 1]; compiles in a moment.

    With `domain_op`, an operator of that name follows, which Tenon does not have.
    """
    weight = numpy_helper.from_array(np.full((4, 3, 3, 3), 0.1, np.float32), "w")
    nodes = [helper.make_node("Conv", ["image", "w"], ["c"], name="/layer1/conv1/Conv"),
             helper.make_node("Relu", ["c"], ["r"], name="/layer1/relu/Relu"),
             helper.make_node("GlobalAveragePool", ["r"], ["features" if not domain_op else "p"], name="/pool")]
    if domain_op:
        nodes.append(helper.make_node(domain_op, ["p"], ["features"], name="odd"))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 8, 8])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 4, 1, 1])
    graph = helper.make_graph(nodes, "g", [image], [features], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def damaged_program(name, change):
    """The archive NAME.pt2 of test/data/pt2 with `change` applied to its entries, a dict of bytes by name."""
    source = zipfile.ZipFile(SOURCE / f"test/data/pt2/{name}.pt2")
    entries = {entry: source.read(entry) for entry in source.namelist()}
    change(entries)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)
    return out.getvalue()


class ToolTest(unittest.TestCase):
    """Each test class works in a temporary folder, `self.folder`.

    The tool's compile cache is that of the run of ctest (`TENON_TEST_CACHE`, emptied by the test cache_folder), so that what one class compiled the next need not. A class that
    tests the cache, or tunes, has its own in `self.folder`; so has every class where the script is run by hand.
    """

    own_cache = False

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        shared = "" if cls.own_cache else os.environ.get("TENON_TEST_CACHE", "")
        cls.environment = dict(os.environ, XDG_CACHE_HOME=shared or str(cls.folder / "cache"))

    @classmethod
    def call(cls, *arguments, timeout=300):
        return subprocess.run([str(TENON), *map(str, arguments)], capture_output=True, text=True, cwd=cls.folder,
                              env=cls.environment, timeout=timeout)

    @classmethod
    def succeed(cls, *arguments):
        done = cls.call(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"tenon {' '.join(map(str, arguments))} exited with {done.returncode}:\n{done.stderr}")
        return done

    @classmethod
    def levels_of(cls, engine):
        """The levels of an engine that this machine runs, the best last."""
        built = {variant["level"] for variant in cls.json("inspect", engine)["variants"]}
        return [level["level"] for level in cls.json("doctor")["levels"] if level["usable"] and level["level"] in built]

    @classmethod
    def json(cls, *arguments):
        return json.loads(cls.succeed(*arguments, "--json").stdout)

    def refuse(self, exit_code, error, *arguments):
        """The call fails with this exit code and error, names the error's page, and says the same as JSON."""
        done = self.call(*arguments)
        self.assertEqual(exit_code, done.returncode, done.stderr)
        self.assertIn(f"error {error}: ", done.stderr)
        self.assertIn(f"tenon help {error}", done.stderr)
        report = last_json(self.call(*arguments, "--json").stdout)
        self.assertEqual((error, exit_code), (report["code"], report["exit"]))
        return done


def last_json(text):
    """The last of several JSON objects printed one after the other."""
    decoder, last = json.JSONDecoder(), None
    while text.strip():
        last, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
    return last
