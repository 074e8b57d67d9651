"""Each example on a page of docs/errors is what Tenon prints: the commands of this table are run and compared.

With --write the examples are written into the pages. A page without a row says why no command provokes its error.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import pickle
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import language_files
from tool import CNN, SOURCE, TENON, damaged_program

PAGES = SOURCE / "docs/errors"
UNPROVOKED = "No command provokes this error"


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def build(*nodes, inputs=None, weights=(), outputs=None, opset=17, change=None, **more):
    """A model x [2, 3] → y, unless told otherwise; `change` damages it before it is written."""
    graph = helper.make_graph(list(nodes) or [helper.make_node("Relu", ["x"], ["y"], name="relu")], "g",
                              inputs or [value("x", [2, 3])], outputs or [value("y", None)], list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)
    if change:
        change(model)
    return model.SerializeToString()


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=op.lower(), **attributes)


def weight(**fields):
    """A model that adds the weight w, of 6 floats unless `fields` say otherwise."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    for key, content in fields.items():
        if key == "external":
            tensor.data_location = TensorProto.EXTERNAL
            for entry in content.items():
                tensor.external_data.add(key=entry[0], value=entry[1])
        elif key == "dims":
            tensor.dims[:] = content
        elif isinstance(content, list):
            getattr(tensor, key).extend(content)
        else:
            setattr(tensor, key, content)
    return build(node("Add", ["x", "w"], ["y"]), weights=[tensor])


def deep_model():
    graph = helper.make_graph([node("Identity", ["x"], ["z"])], "inner", [], [value("z", None)])
    for _ in range(30):
        graph = helper.make_graph([node("If", ["c"], ["z"], then_branch=graph, else_branch=graph.__class__())],
                                  "inner", [], [value("z", None)])
    return build(node("If", ["c"], ["y"], then_branch=graph, else_branch=graph.__class__()),
                 inputs=[value("c", [], TensorProto.BOOL)])


def crowded_model():
    one = node("Relu", ["x"], [""]).SerializeToString()
    graph = onnx.load_from_string(build()).graph.SerializeToString() + (b"\x0a" + bytes([len(one)]) + one) * 140000
    size, length = len(graph), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return b"\x08\x08\x3a" + length + bytes([size]) + graph


def recursive_model():
    function = helper.make_function("own", "again", ["a"], ["b"], [helper.make_node("again", ["a"], ["b"], domain="own")],
                                    [helper.make_opsetid("own", 1)])
    return build(helper.make_node("again", ["x"], ["y"], domain="own"), functions=[function],
                 change=lambda model: model.opset_import.add(domain="own", version=1))


def set_dims(model, dims):
    shape = model.graph.input[0].type.tensor_type.shape
    del shape.dim[:]
    for dim in dims:
        shape.dim.add(dim_value=dim)


def rename_weight(model):
    model.graph.initializer.add(data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(4))


def repeat_attribute(model):
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])


def flip(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1:]


def files(engine):
    """The files that the commands read, except for engines made of `engine`."""
    x23 = np.zeros((2, 3), np.float32)
    raw = {"raw_data": x23.tobytes()}
    two = [value("x", ["n", 3]), value("z", ["n", 3])]
    return {
        "model.onnx": weight(**raw),
        "strings.onnx": build(node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER"),
                              inputs=[value("x", [2], TensorProto.STRING)]),
        "notes.txt": b"a note on models\n", "bad.npz": b"PK no archive", "empty.onnx": b"",
        "cut.onnx": build()[:40], "varint.onnx": b"\x08" + b"\xff" * 11, "tag.onnx": b"\x08\x08\x00\x00",
        "group.onnx": b"\x08\x08\x0b", "wire.onnx": b"\x08\x08\x3d\x00\x00\x00\x00", "twice.onnx": b"\x08\x08\x08\x08",
        "deep.onnx": deep_model(), "crowded.onnx": crowded_model(),
        "opset0.onnx": build(opset=0), "opset99.onnx": build(opset=99), "unnamed.onnx": build(change=rename_weight),
        "same.onnx": build(node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])),
        "undefined.onnx": build(node("Add", ["x", "w"], ["y"])),
        "unsorted.onnx": build(node("Relu", ["a"], ["y"]), node("Abs", ["x"], ["a"])),
        "arity.onnx": build(node("Add", ["x"], ["y"])), "attribute.onnx": build(node("Transpose", ["x"], ["y"], perm=[0, 5])),
        "attributes.onnx": build(node("Softmax", ["x"], ["y"], axis=1), change=repeat_attribute),
        "domain.onnx": build(helper.make_node("Fast", ["x"], ["y"], name="fast", domain="my.ops")),
        "negative.onnx": build(change=lambda model: set_dims(model, [-2, 3])),
        "huge.onnx": build(change=lambda model: set_dims(model, [1 << 40, 1 << 40])),
        "rank.onnx": build(change=lambda model: set_dims(model, [1] * 40)),
        "short.onnx": weight(raw_data=bytes(8)), "type.onnx": weight(data_type=99, **raw),
        "both.onnx": weight(float_data=[0.0] * 6, **raw),
        "padding.onnx": weight(data_type=TensorProto.UINT4, dims=[3], raw_data=b"\x00\xf0"),
        "outside.onnx": weight(external={"location": "../w.bin"}), "folder.onnx": weight(external={"location": "folder"}),
        "missing.onnx": weight(external={"location": "w.bin"}),
        "beyond.onnx": weight(external={"location": "notes.txt", "offset": "4096"}),
        "key.onnx": weight(external={"location": "notes.txt", "colour": "blue"}),
        "memory.onnx": weight(external={"location": "*/_ORT_MEM_ADDR_/*"}),
        "recipe.onnx": weight(external={"location": "tenon-seeded", "scale": "large"}),
        "contradiction.onnx": build(node("MatMul", ["x", "x"], ["y"])), "recursive.onnx": recursive_model(),
        "two.onnx": build(node("Add", ["x", "z"], ["y"]), inputs=two),
        "sum.onnx": build(node("Add", ["x", "w"], ["y"]), inputs=[value("x", ["n"])],
                          weights=[numpy_helper.from_array(np.zeros(4, np.float32), "w")]),
        "best.onnx": build(node("TopK", ["x", "k"], ["y", "places"]),
                           inputs=[value("x", [2, 3]), value("k", [1], TensorProto.INT64)],
                           outputs=[value("y", [2, 2]), value("places", [2, 2], TensorProto.INT64)]),
        "wide.onnx": build(inputs=[value("x", ["n", 1000000])]),
        "phase.mlir": b"module attributes {} {}\n",
        "program.pt2": damaged_program("writes", lambda entries: entries.pop("writes/models/model.json")),
        "graph.pt2": damaged_program("writes", lambda entries: entries.update({"writes/models/model.json": b"{"})),
        "newer.pt2": damaged_program("writes", lambda entries: entries.update(
            {"writes/models/model.json": entries["writes/models/model.json"].replace(b'"major": 8', b'"major": 9')})),
        "weight.pt2": damaged_program("layers", lambda entries: entries.update({"layers/data/weights/weight_0": bytes(4)})),
        "cut.tflite": (SOURCE / "test/fuzz/corpus/tflite/stream.tflite").read_bytes()[:-40],
        "cut.gguf": language_files.llama()[:-4000], "old.gguf": language_files.llama(version=1),
        "tensor.gguf": language_files.llama(tensors={"blk.0.attn_k.weight": None}),
        "tokens.gguf": language_files.llama(keys={"tokenizer.ggml.tokens": ["a"] * 260}),
        "tiny.gguf": language_files.llama(), "large.gguf": language_files.llama(keys={"llama.context_length": 65536}), "plain.gguf": language_files.llama(template=None),
        "nan.gguf": language_files.llama(tensors={"output_norm.weight": np.full(language_files.WIDTH, np.nan, np.float32)}),
        "unique.json": b'{"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}\n',
        "tools.jinja": b"{{ bos_token }}\n{% include 'tools.jinja' %}\n",
        "system.jinja": b"{% if messages[0].role != 'system' %}\n{{ raise_exception('the first message must be of the system') }}\n{% endif %}\n",
        "cut.tenon": engine[:-100], "longer.tenon": engine + b"x", "newer.tenon": flip(engine, 9),
        "header.tenon": flip(engine, 70), "weights.tenon": flip(engine, len(engine) - 1000),
        "record.tenon": flip(engine, engine.index(b'"edges"')), "cnn.onnx": CNN.read_bytes(),
    }


# Functions of one signature, each in a library of its own: right, and wrong in one way each.
KERNELS = {
    "add": "for (long i = 0; i < n; ++i) c[i] = a[i] + b[i];", "wrong": "for (long i = 0; i < n; ++i) c[i] = a[i] - b[i];",
    "outside": "for (long i = 0; i <= n; ++i) c[i] = a[i] + b[i];", "partial": "for (long i = 1; i < n; ++i) c[i] = a[i] + b[i];",
    "crash": "*(volatile long *)8 = n;", "bare": "for (long i = 0; i < n; ++i) c[i] = a[i] + b[i];",
    "misspelt": "c[0] = a[0] + b[0];", "lacks": "c[0] = a[0] + b[0];",
}


def kernel_files(folder):
    """NAME.o and NAME.json of each, a model of one node that they compute, own.onnx, and their reference."""
    for name, body in KERNELS.items():
        (folder / f"{name}.c").write_text(f"void {name}(const float *a, const float *b, float *c, long n) {{ {body} }}\n")
        subprocess.run(["clang-22", "-O1", "-fPIC", "-c", f"{name}.c"], check=True, cwd=folder)
        entry = {"operator": "com.example::VectorAdd", "backend": "cpu", "symbol": "vector_add" if name == "lacks" else name,
                 "inputs": [{"name": each, "type": "f32", "shape": ["n"]} for each in "ab"], "outputs": [{"name": "c", "type": "f32", "shape": ["n"]}],
                 "arguments": ["a", "b", "c", "m" if name == "misspelt" else "n"], "reference": "add.onnx"}
        if name == "bare":
            del entry["reference"]
        (folder / f"{name}.json").write_text(json.dumps({"schema": "tenon.kernels/1", "kernels": [entry]}))
    ports = {"inputs": [value("a", ["n"]), value("b", ["n"])], "outputs": [value("c", ["n"])]}
    (folder / "add.onnx").write_bytes(build(node("Add", ["a", "b"], ["c"]), **ports))
    for name, dims in (("own", [4]), ("square", [2, 2])):
        (folder / f"{name}.onnx").write_bytes(build(helper.make_node("VectorAdd", ["x", "z"], ["y"], name="mine", domain="com.example"),
                                                    inputs=[value("x", dims), value("z", dims)], outputs=[value("y", dims)],
                                                    change=lambda model: model.opset_import.add(domain="com.example", version=1)))


# Of each error the command that provokes it, in the folder of these files.
EXAMPLES = {
    "TN0101": "tenon run resnet.tenon",
    "TN0103": "tenon run cnn.tenon -o missing/out.npz",
    "TN0104": "tenon inspect /dev/null",
    "TN0105": "tenon compile cnn.onnx --threads 0",
    "TN0106": "tenon run cnn.tenon --inputs notes.txt",
    "TN0107": "tenon run cnn.tenon --inputs cat.png",
    "TN0108": "tenon run cnn.tenon --inputs doubles.npy",
    "TN0111": "tenon compile cnn.onnx -o ./cnn.onnx",
    "TN0112": "tenon compile cnn.onnx -o folder",
    "TN0140": "tenon cache import cnn.onnx",
    "TN0141": "mkdir -m 700 s && flock s/lock tenon cache gc --store s",
    "TN0142": "tenon tune sum.onnx",
    "TN0113": "tenon accuracy cnn.tenon --data nhwc.npz",
    "TN0114": "tenon accuracy cnn.tenon --data nan.npz",
    "TN0115": "tenon accuracy cnn.tenon --data unlabelled.npz",
    "TN0130": "tenon prune sum.onnx --ratio 30%",
    "TN0131": "tenon prune cnn.onnx --ratio 100%",
    "TN0132": "tenon prune cnn.onnx --ratio 30% --importance scores --scores unlabelled.npz",
    "TN0134": "tenon prune program.pt2 --ratio 30%",
    "TN0117": "tenon quantize cnn.onnx --data unlabelled.npz --accuracy-drop 1% --state notes.txt",
    "TN0201": "tenon check empty.onnx", "TN0202": "tenon check cut.onnx", "TN0203": "tenon check varint.onnx",
    "TN0204": "tenon check tag.onnx", "TN0205": "tenon check group.onnx", "TN0206": "tenon check wire.onnx",
    "TN0207": "tenon check twice.onnx", "TN0208": "tenon check deep.onnx", "TN0209": "tenon check sparse.onnx",
    "TN0210": "tenon check crowded.onnx", "TN0211": "tenon compile notes.txt", "TN0212": "tenon check opset0.onnx",
    "TN0213": "tenon check opset99.onnx", "TN0214": "tenon check unnamed.onnx", "TN0215": "tenon check same.onnx",
    "TN0216": "tenon check undefined.onnx", "TN0217": "tenon check unsorted.onnx", "TN0218": "tenon check arity.onnx",
    "TN0219": "tenon check attribute.onnx", "TN0220": "tenon check attributes.onnx", "TN0221": "tenon check domain.onnx",
    "TN0222": "tenon check negative.onnx", "TN0223": "tenon check huge.onnx", "TN0224": "tenon check rank.onnx",
    "TN0225": "tenon check short.onnx", "TN0226": "tenon check type.onnx", "TN0227": "tenon check both.onnx",
    "TN0228": "tenon check padding.onnx", "TN0229": "tenon check outside.onnx", "TN0230": "tenon check folder.onnx",
    "TN0231": "tenon check missing.onnx", "TN0232": "tenon check beyond.onnx", "TN0233": "tenon check key.onnx",
    "TN0234": "tenon check memory.onnx", "TN0235": "tenon check recipe.onnx", "TN0236": "tenon check contradiction.onnx",
    "TN0237": "tenon check cnn.onnx --shape image:1x3x28x28", "TN0238": "tenon check recursive.onnx",
    "TN0252": "tenon check cut-folder", "TN0253": "tenon check hollow",
    "TN0301": "tenon check strings.onnx", "TN0302": "tenon check cnn.onnx --target cuda:sm_75",
    "TN0305": "tenon compile sum.onnx -o o.tenon --strict",
    "TN0304": "tenon compile cnn.onnx --plugin ./notes.txt", "TN0406": "tenon compile cnn.onnx -o o.tenon --plugin ./misspells.so",
    "TN0306": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library misspelt.o", "TN0307": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library lacks.o",
    "TN0308": "tenon compile square.onnx -o o.tenon --target cpu:avx2 --kernel-library add.o", "TN0309": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library bare.o",
    "TN0409": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library wrong.o", "TN0410": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library outside.o",
    "TN0411": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library partial.o", "TN0412": "tenon compile own.onnx -o o.tenon --target cpu:avx2 --kernel-library crash.o",
    "TN0404": "tenon compile phase.mlir -o o.tenon",
    "TN0239": "tenon check program.pt2", "TN0240": "tenon check graph.pt2", "TN0241": "tenon check newer.pt2",
    "TN0242": "tenon check weight.pt2", "TN0243": "tenon check cut.gguf", "TN0244": "tenon check old.gguf",
    "TN0245": "tenon check tensor.gguf",
    "TN0248": "printf 'caf\\351' | tenon tokenize tiny.gguf", "TN0249": "tenon check tokens.gguf",
    "TN0250": "tenon generate tiny.gguf hi --template tools.jinja --quiet",
    "TN0251": "tenon generate tiny.gguf hi --template system.jinja --quiet",
    "TN0256": "tenon generate tiny.gguf hi --schema unique.json --quiet", "TN0257": "tenon check cut.tflite",
    "TN0501": "tenon run cut.tenon", "TN0502": "tenon bench notes.txt", "TN0503": "tenon run newer.tenon",
    "TN0504": "tenon inspect longer.tenon", "TN0505": "tenon run header.tenon", "TN0516": "tenon check weights.tenon",
    "TN0518": "tenon run cnn.tenon --isa avx512", "TN0520": "tenon explain fusion record.tenon",
    "TN0601": "tenon run two.onnx --inputs x=x.npy", "TN0602": "tenon run cnn.tenon --inputs x.npy",
    "TN0603": "tenon run cnn.tenon --batch 100", "TN0604": "tenon run two.onnx --inputs x=x.npy --inputs z=z.npy",
    "TN0606": "tenon generate large.gguf hi --context 65536 --max-memory 1 --threads 1 --target cpu:avx2 --quiet",
    "TN0611": "tenon run best.onnx --inputs x=x.npy --inputs k=three.npy", "TN0612": "tenon run sum.onnx --batch 3",
    "TN0615": "tenon generate cnn.tenon hi --quiet", "TN0616": "tenon generate tiny.gguf 'How many days are there in a week?' --context 8 --quiet",
    "TN0617": "tenon generate nan.gguf hi --quiet", "TN0618": "tenon generate plain.gguf hi --system 'Be brief.' --quiet",
    "TN0721": "tenon compile cnn.onnx --target cuda:sm_90 --ptxas /bin/true",
    "TN0722": "tenon compile cnn.onnx -o gpu.tenon --target cuda:sm_90 --ptxas ./ptxas --no-cache",
    "TN0801": "tenon serve cnn.tenon --address 0.0.0.0", "TN0802": "tenon serve cnn.tenon --address host.example",
    "TN0803": "tenon serve cnn.tenon --token-file notes.txt", "TN0804": "tenon serve folder --port 0", "TN0831": "tenon serve cnn.tenon --tls-cert notes.txt --tls-key notes.txt",
    "TN1001": "tenon registry list --registry folder", "TN1003": "tenon registry show cnm --registry store",
    "TN1004": "tenon registry push ../cnn cnn.tenon --registry store",
    "TN1005": "tenon registry show broken:1 -o copy.txt --registry store",
    "TN1006": "tenon registry promote notes:2 live --expect 2 --registry store",
    "TN1007": "tenon registry promote cnn:1 production --registry store",
    "TN1009": "tenon registry gate cnn@production --rule 'top1 >= nan' --registry store",
    "TN1010": "tenon registry push cnn model.pkl --registry store",
    "TN1011": "tenon registry verify --registry altered", "TN1012": "tenon registry rollback notes@live --registry store",
    "TN1013": "tenon registry list --registry postgresql://127.0.0.1:1/models", "TN1014": "tenon registry list --registry guarded",
    "TN1015": "tenon verify signed.bin --trusted other.pem", "TN1016": "tenon verify changed.bin --trusted public.pem", "TN1017": "tenon sign signed.bin --key public.pem",
    "TN0901": "tenon run wide.onnx --shape x:[1..2000000000]x1000000 --batch 2000000000",
}


class Runs:
    """A folder with every file of the table."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = dict(os.environ, PATH=f"{TENON.parent}:/usr/bin:/bin",
                                XDG_CACHE_HOME=str(self.folder / "cache"))
        subprocess.run(["tenon", "compile", str(CNN), "-o", "cnn.tenon", "--target", "cpu:avx2", "--shape",
                        "image:[1..64]x1x28x28", "--quiet"], check=True, cwd=folder, env=self.environment)
        for name, content in files((self.folder / "cnn.tenon").read_bytes()).items():
            (self.folder / name).write_bytes(content)
        for folder in ("folder", "hollow", "cut-folder"):
            (self.folder / folder).mkdir()
        header = json.dumps({"lm_head.weight": {"dtype": "F32", "shape": [64, 16], "data_offsets": [0, 4096]}}).encode()
        (self.folder / "cut-folder/model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(856))
        for folder in ("hollow", "cut-folder"):
            (self.folder / folder / "config.json").write_text(json.dumps(
                {"model_type": "llama", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64,
                 "max_position_embeddings": 64, "rms_norm_eps": 1e-5}))
        with (self.folder / "sparse.onnx").open("wb") as sparse:
            sparse.write(b"\x08\x08")
            sparse.truncate(1 << 31)
        subprocess.run(["clang++-22", "-std=c++20", "-shared", "-fPIC", f"-I{SOURCE / 'include'}", SOURCE / "test/e2e/misspells.cpp",
                        "-o", self.folder / "misspells.so"], check=True)
        kernel_files(self.folder)
        (self.folder / "ptxas").write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'release 1.2, V1.2.3' && exit\n"
                                           "echo 'ptxas fatal: wrong target'; exit 1\n")
        (self.folder / "ptxas").chmod(0o755)
        from PIL import Image
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(self.folder / "cat.png")
        pictures = np.zeros((4, 1, 28, 28), np.float32)
        np.savez(self.folder / "unlabelled.npz", image=pictures)
        np.savez(self.folder / "nhwc.npz", image=pictures.transpose(0, 2, 3, 1))
        np.savez(self.folder / "nan.npz", image=pictures * np.nan)
        np.save(self.folder / "x.npy", np.zeros((2, 3), np.float32))
        np.save(self.folder / "three.npy", np.array([3]))
        np.save(self.folder / "z.npy", np.zeros((5, 3), np.float32))
        np.save(self.folder / "doubles.npy", np.zeros((1, 1, 28, 28)))

        self.fill_registries()
        signed = SOURCE / "test/data/signing"
        for name, source in (("signed.bin", "one.bin"), ("signed.bin.sig", "file-256.sig"), ("changed.bin.sig", "file-256.sig"), ("public.pem", "public-256.pem"), ("other.pem", "public-384.pem")):
            shutil.copy(signed / source, self.folder / name)
        (self.folder / "changed.bin").write_bytes(b"another model of one file\n")

    def fill_registries(self):
        """`store` has versions, an alias and a damaged file; somebody wrote to the database of `altered`."""
        def registry(*arguments, folder="store"):
            subprocess.run(["tenon", "registry", *arguments, "--registry", folder, "--quiet"], check=True, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL)
        registry("push", "cnn", "cnn.tenon")
        registry("gate", "cnn@production", "--rule", "top1 >= 85%")
        for text in ("first", "second"):
            (self.folder / "text.txt").write_text(text)
            registry("push", "notes", "text.txt")
            registry("push", "notes", "text.txt", folder="altered")
        registry("promote", "notes:1", "live")
        (self.folder / "text.txt").write_text("third")
        registry("push", "broken", "text.txt")
        registry("token", "add", "root", "--role", "admin", folder="guarded")
        blob = self.folder / "store/blobs" / hashlib.sha256(b"third").hexdigest()[:2] / hashlib.sha256(b"third").hexdigest()
        blob.chmod(0o644)
        blob.write_text("thirD")
        with contextlib.closing(sqlite3.connect(self.folder / "altered/registry.db")) as database:
            trigger = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'event_is_immutable'").fetchone()[0]
            database.executescript(f"DROP TRIGGER event_is_immutable; UPDATE event SET by = 'somebody else' WHERE id = 2; {trigger}")
        (self.folder / "model.pkl").write_bytes(pickle.dumps({"weights": [1.0]}))

    def example(self, command):
        """The command with what it prints, without the line that names the page."""
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment, timeout=60)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("  see: ")]
        return "\n".join([f"$ {command}", *lines])


def example_section(page):
    return re.search(r"## Example\n\n(.*?)\n\n(?=## )", page, re.S).group(1)


def without_sizes(example):
    """Bytes of engine files change with the compiler, what is said of them does not."""
    return re.sub(r"\d{6,} bytes", "N bytes", re.sub(r"states \d{6,}", "states N", example))


class Examples(unittest.TestCase):
    def test_pages_show_what_is_printed(self):
        pages = {path.stem: path.read_text() for path in PAGES.glob("TN*.md")}
        self.assertEqual(set(), EXAMPLES.keys() - pages.keys())
        silent = [code for code, page in pages.items()
                  if (code in EXAMPLES) == (UNPROVOKED in example_section(page))]
        self.assertEqual([], sorted(silent), "a page has a row here, or says why it has none")
        with tempfile.TemporaryDirectory() as folder:
            runs = Runs(folder)
            for code, command in EXAMPLES.items():
                example = runs.example(command)
                self.assertIn(f"error {code}: ", example)
                self.assertEqual(without_sizes(f"```\n{example}\n```"), without_sizes(example_section(pages[code])),
                                 "write it anew with error_examples.py --write")


def write():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for code, command in EXAMPLES.items():
            example = runs.example(command)
            if f"error {code}: " not in example:
                print(f"{code}: not provoked by\n{example}")
                continue
            path = PAGES / f"{code}.md"
            page = path.read_text()
            path.write_text(page.replace(example_section(page), f"```\n{example}\n```"))


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else unittest.main()
