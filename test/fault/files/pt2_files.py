"""Bad archives of torch.export: each class is one fault in an archive that is right but for it."""

import io
import json
import pathlib
import struct
import zipfile
import zlib

from common import Classes, flip, put

pt2 = Classes("pt2")
DATA = pathlib.Path(__file__).resolve().parents[2] / "data/pt2"
ARCHIVE, GRAPH, VERSION, WEIGHT, GAPS = "TN0239", "TN0240", "TN0241", "TN0242", "TN0301"
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
MODEL, WEIGHTS, CONSTANTS = "p/models/model.json", "p/data/weights/model_weights_config.json", "p/data/constants/model_constants_config.json"


def entries_of(name):
    """The entries of a program of test/data, in a folder 'p'."""
    source = zipfile.ZipFile(DATA / f"{name}.pt2")
    return {"p/" + entry.split("/", 1)[1]: source.read(entry) for entry in source.namelist()}


def zipped(entries, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def good(rng):
    return zipped(entries_of(rng.choice(["writes", "layers", "branches", "relations", "state"])))


def program(name, change, entry=MODEL):
    """The archive with its description changed by change(root), or replaced by what it returns."""
    entries = entries_of(name)
    root = json.loads(entries[entry])
    changed = change(root)
    entries[entry] = changed if isinstance(changed, bytes) else json.dumps(root).encode()
    return zipped(entries)


def text_of(name, change):
    entries = entries_of(name)
    entries[MODEL] = change(entries[MODEL])
    return zipped(entries)


def graph_of(root):
    return root["graph_module"]["graph"]


def at(content, signature, number=0):
    """Where the header of that number begins."""
    place = -1
    for _ in range(number + 1):
        found = content.find(signature, place + 1)
        place = found if found >= 0 else place
    return place


add = pt2.add

# The archive
add("archive cut off", ARCHIVE, 48)(lambda rng, n: (lambda x: x[:rng.randrange(4, len(x) - 1)])(good(rng)))
add("archive cut off in its directory", ARCHIVE)(lambda rng, n: (lambda x: x[:rng.randrange(at(x, CENTRAL), len(x) - 1)])(good(rng)))
add("archive is a beginning and noise", ARCHIVE)(lambda rng, n: LOCAL + rng.randbytes(1 << n))
add("archive without entries", ARCHIVE, 1)(lambda rng, n: LOCAL + END + bytes(18))
add("archive of something else", ARCHIVE)(
    lambda rng, n: zipped([{"word/document.xml": b"<a/>"}, {"p/data.pkl": b"\x80\x02."}, {"p/version": b"1"}][n % 3]))
add("entry missing", (ARCHIVE, WEIGHT, GRAPH), 3)(
    lambda rng, n: zipped({k: v for k, v in entries_of("layers").items() if k != [MODEL, WEIGHTS, "p/data/weights/weight_3"][n]}))
add("entry twice", ARCHIVE)(lambda rng, n: (lambda e: zipped({**e, "q" + rng.choice(sorted(e))[1:]: b"x"}))(entries_of("writes")))
add("entry named outside of the archive", ARCHIVE)(
    lambda rng, n: zipped({**entries_of("writes"), ["../p/x", "p/../../x", "/etc/passwd", "p/..", "C:\\x", "p\\..\\x"][n % 6]: b"x"}))
add("checksum of an entry", ARCHIVE)(lambda rng, n: (lambda x: flip(rng, x, at(x, CENTRAL, 5) + 16, at(x, CENTRAL, 5) + 20))(zipped(entries_of("writes"))))
add("data of an entry flipped", ARCHIVE, 24)(
    lambda rng, n: (lambda x, e: flip(rng, x, x.index(e[MODEL]), x.index(e[MODEL]) + len(e[MODEL])))(zipped(entries_of("writes")), entries_of("writes")))
for title, place, layout in (("packed size", 20, "<I"), ("size", 24, "<I"), ("offset", 42, "<I")):
    add(f"{title} of an entry", ARCHIVE)(
        lambda rng, n, place=place, layout=layout: (lambda x: put(x, at(x, CENTRAL, 5) + place, layout, [0, 1, 1 << 20, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF][n % 6] + (n if n < 3 else 0)))(
            zipped(entries_of("writes"))))
add("length of a name", ARCHIVE)(lambda rng, n: (lambda x: put(x, at(x, CENTRAL, n % 8) + 28, "<H", 60000 + n))(good(rng)))
add("number of entries", ARCHIVE)(lambda rng, n: (lambda x: put(x, at(x, END) + 8, "<HH", 1000 + n, 1000 + n))(good(rng)))
add("place of the directory", ARCHIVE)(lambda rng, n: (lambda x: put(x, at(x, END) + 16, "<I", rng.randrange(1 << 32)))(good(rng)))
add("entry encrypted", ARCHIVE)(lambda rng, n: (lambda x: put(x, at(x, CENTRAL, 5) + 8, "<H", 1))(zipped(entries_of("writes"))))
add("entry packed in an unknown way", ARCHIVE)(
    lambda rng, n: (lambda x: put(x, at(x, CENTRAL, 5) + 10, "<H", [1, 6, 9, 12, 14, 93, 95, 97, 98, 99, 20, 65535][n]))(zipped(entries_of("writes"))))
add("entries packed by bzip2 or lzma", ARCHIVE, 2)(lambda rng, n: zipped(entries_of("writes"), [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][n]))
add("deflated data is noise", ARCHIVE)(
    lambda rng, n: (lambda x: put(x, at(x, LOCAL, 5) + 60, "<8s", rng.randbytes(8)))(zipped(entries_of("writes"), zipfile.ZIP_DEFLATED)))


def bomb(rng, n):
    """Much more than it looks: a description or a weight that unpacks to a hundred or a thousand times its size."""
    entries = entries_of("layers")
    name = [MODEL, "p/data/weights/weight_3", WEIGHTS, "p/more"][n % 4]
    entries[name] = [b"[" + b"0," * (1 << 23), bytes(48 << 20), b" " * (64 << 20), bytes(200 << 20)][n % 3 if name != "p/more" else 3]
    entries[name] = entries[name] if name != "p/more" else entries[name][:1 << 20]
    if name == "p/more":  # read under another name than its own
        config = json.loads(entries[WEIGHTS])
        next(iter(config["config"].values()))["path_name"] = "../../more"
        entries[WEIGHTS] = json.dumps(config).encode()
    return zipped(entries, zipfile.ZIP_DEFLATED)


add("bomb", (ARCHIVE, GRAPH, WEIGHT), 4)(bomb)


def nested(rng, n):
    """Many entries of the directory that share one piece of deflated data."""
    data = zlib.compress(bytes(8 << 20), 9)[2:-4]
    crc = zlib.crc32(bytes(8 << 20))
    local = LOCAL + struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, crc, len(data), 8 << 20, 1, 0) + b"a"
    base = zipped(entries_of("layers"))
    place = at(base, CENTRAL)
    body = base[:place] + local + data
    end = struct.unpack_from("<HHHHIIH", base, at(base, END) + 4)
    central = base[place:at(base, END)]
    config = json.loads(entries_of("layers")[WEIGHTS])
    names = [f"p/data/weights/bomb_{i}" for i in range(60)]
    for value, name in zip(config["config"].values(), names):
        value["path_name"] = name.rsplit("/", 1)[1]
    more = b"".join(CENTRAL + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 8, 0, 0, crc, len(data), 8 << 20, len(name), 0, 0, 0, 0, 0, place) + name.encode()
                    for name in names)  # fmt: skip
    count = end[2] + len(names)
    text = json.dumps(config).encode()
    old = entries_of("layers")[WEIGHTS]
    text = text.ljust(len(old))[:max(len(old), len(text))]
    whole = body + central + more + END + struct.pack("<HHHHIIH", 0, 0, count, count, len(central) + len(more), len(body), 0)
    return whole if len(text) != len(old) else whole.replace(old, text, 1)


add("entries that overlap", ARCHIVE, 2)(nested)


def zip64(rng, n):
    """A record of 64 bits that says something else than is there."""
    content = zipped(entries_of("writes"))
    end = at(content, END)
    count, size, place = struct.unpack_from("<HII", content, end + 10)
    lies = [(1 << 62, place), (count, 1 << 62), (count, (1 << 64) - 1), (count + 1, place), (1 << 40, 0), (count, end)]
    count64, place64 = lies[n % 6]
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count64, count64, size, place64)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, end if n < 6 else rng.randrange(1 << 63), 1)
    return content[:end] + record + locator + content[end:]


add("64-bit record that lies", ARCHIVE)(zip64)
add("64-bit field that lies", ARCHIVE)(
    lambda rng, n: (lambda x, i: put(x, at(x, CENTRAL, i) + [20, 24, 42][n % 3], "<I", 0xFFFFFFFF))(zipped(entries_of("writes")), 5))

# JSON
add("description is no JSON", GRAPH, 24)(
    lambda rng, n: text_of("writes", lambda t: [b"", b"{", t[:rng.randrange(1, len(t) - 2)], t + b"}", b"null", b"[]", b"3", b'"x"', rng.randbytes(100), t.replace(b'"nodes"', b"nodes"),
                                                t.replace(b":", b"=", 1), b"\xef\xbb\xbf"][n % 12]))
add("description nested deeply", GRAPH)(lambda rng, n: text_of("writes", lambda t: [b"[" * (1 << n + 6), b'{"a":' * (1 << n + 6), b'{"graph_module":' + b"[" * 100000 + b"]" * 100000 + b"}"][n % 3]))
add("text that is not UTF-8", GRAPH)(
    lambda rng, n: text_of("writes", lambda t: t.replace(b'"torch.ops.aten', b'"' + [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80"][n % 5] + b"torch.ops.aten", 1)))
add("lone surrogate", GRAPH)(lambda rng, n: text_of("writes", lambda t: t.replace(b'"torch.ops.aten', [b'"\\ud800', b'"\\udc00x', b'"\\ud800\\u0041'][n % 3] + b"torch.ops.aten", 1)))
add("control character in a text", GRAPH)(lambda rng, n: text_of("writes", lambda t: t.replace(b'"torch.ops.aten', b'"' + bytes([n + 1]) + b"torch.ops.aten", 1)))
add("NaN and Infinity outside of texts", GRAPH)(lambda rng, n: text_of("writes", lambda t: t.replace(b'"as_int": ', b'"as_int": ' + [b"NaN", b"Infinity", b"-Infinity", b"nan"][n % 4] + b", \"x\": ", 1)))
add("huge number", GRAPH)(
    lambda rng, n: program("writes", lambda r: graph_of(r)["tensor_values"]["x"]["sizes"].__setitem__(0, {"as_int": [1 << 63, 1 << 64, 10**30, 1.5, -(1 << 64), 1e300][n % 6]})))
add("number of a thousand digits", GRAPH, 3)(lambda rng, n: text_of("writes", lambda t: t.replace(b'"as_int": ', b'"as_int": ' + b"9" * (1000 * 10**n) + b', "y": ', 1)))
add("key twice", GRAPH)(
    lambda rng, n: text_of("writes", lambda t: t.replace([b'"nodes": [', b'"target": ', b'"schema_version": {', b'"sizes": ['][n % 4],
                                                         [b'"nodes": [], "nodes": [', b'"target": "a", "target": ', b'"schema_version": {"major": 8}, "schema_version": {', b'"sizes": [], "sizes": ['][n % 4], 1)))

FIELDS = ["target", "inputs", "outputs", "name", "arg", "as_tensor", "nodes", "graph", "signature", "input_specs", "output_specs", "sizes", "dtype", "layout",
          "strides", "tensor_values", "sym_int_values", "range_constraints", "schema_version", "graph_module"]  # fmt: skip


def everywhere(value, field, found):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == field:
            found.append((value, key))
        everywhere(inner, field, found)
    return found


def mistyped(rng, n):
    field = FIELDS[n % len(FIELDS)]

    def change(root):
        holder, key = rng.choice(everywhere(root, field, []))
        old = holder[key]
        holder[key] = rng.choice([x for x in (3, "x", [], {}, [[]], {"a": 1}, True, None, -1, 1.5) if type(x) is not type(old)])

    return program(rng.choice(["writes", "layers", "relations"]), change)


def absent(rng, n):
    def change(root):
        holder, key = rng.choice(everywhere(root, FIELDS[n % len(FIELDS)], []))
        del holder[key]

    return program(rng.choice(["writes", "layers", "relations"]), change)


# A name that is gone or a list that is empty may also leave a program that is another one, which is then right or has gaps.
add("field of another type", (GRAPH, WEIGHT, VERSION, GAPS, "ok"), 80)(mistyped)
add("field that is missing", (GRAPH, WEIGHT, VERSION, GAPS, "ok"), 60)(absent)

# The graph
first = lambda root: next(node for node in graph_of(root)["nodes"] if any("as_tensor" in i["arg"] for i in node["inputs"]))
result_of = lambda node: next(iter(everywhere(node["outputs"], "name", [])))[0]["name"]
operand = lambda root: next(i for i in first(root)["inputs"] if "as_tensor" in i["arg"])
NAMES = ["gone", "", "x" * 65536, "../x", "\u0000", "X"]
add("operand that nothing defines", GRAPH)(lambda rng, n: program("writes", lambda r: operand(r).update(arg={"as_tensor": {"name": NAMES[n % 6]}})))
add("operand of itself or of a later node", GRAPH)(
    lambda rng, n: program("writes", lambda r: operand(r).update(arg={"as_tensor": {"name": [result_of(first(r)), result_of(graph_of(r)["nodes"][-1])][n % 2]}})))
add("nodes backwards", GRAPH, 3)(lambda rng, n: program(["writes", "layers", "relations"][n], lambda r: graph_of(r)["nodes"].reverse()))
add("unknown kind of argument", (GRAPH, GAPS))(lambda rng, n: program("writes", lambda r: operand(r).update(arg={["as_tensor2", "as_script", ""][n % 3]: 3})))
add("two kinds of an argument", GRAPH)(lambda rng, n: program("writes", lambda r: operand(r)["arg"].update(as_int=n)))
add("unknown operator", GAPS)(lambda rng, n: program("writes", lambda r: first(r).update(target=["torch.ops.aten.gone.default", "", "os.system", "torch.ops.x" * 6000, "builtins.eval", "aten"][n % 6])))
add("operator of another one's arguments", (GRAPH, GAPS))(
    lambda rng, n: program("layers", lambda r: first(r).update(target=["torch.ops.aten.conv2d.default", "torch.ops.aten.index_put.default", "torch.ops.higher_order.cond", "torch.ops.aten.cat.default",
                                                                       "torch.ops.aten.scaled_dot_product_attention.default", "_operator.getitem"][n % 6])))
add("results that are missing", (GRAPH, GAPS))(lambda rng, n: program(["writes", "layers"][n % 2], lambda r: first(r).update(outputs=[])))
add("outputs that are missing", (GRAPH, GAPS))(lambda rng, n: program("writes", lambda r: r["graph_module"]["signature"].update(output_specs=[])))
add("output that nothing defines", GRAPH)(
    lambda rng, n: program("layers", lambda r: r["graph_module"]["signature"]["output_specs"][n % 5]["user_output"].update(arg={"as_tensor": {"name": NAMES[n % 6]}})))
add("input that the graph does not have", (GRAPH, WEIGHT, GAPS))(
    lambda rng, n: program("layers", lambda r: r["graph_module"]["signature"]["input_specs"].pop(rng.randrange(len(r["graph_module"]["signature"]["input_specs"])))))


def cyclic(rng, n):
    """A branch that reads its own node, or holds itself many times."""
    def change(root):
        node = next(node for node in graph_of(root)["nodes"] if "cond" in node["target"])
        inner = next(i for i in node["inputs"] if "as_graph" in i["arg"])["arg"]["as_graph"]["graph"]
        if n % 2:
            inner["outputs"] = [{"as_tensor": {"name": node["outputs"][0].get("as_tensors", [node["outputs"][0].get("as_tensor")])[0]["name"]}}]
            return
        deep = json.loads(json.dumps(node))
        for _ in range(40 + n):
            copied = json.loads(json.dumps(node))
            graph = next(i for i in copied["inputs"] if "as_graph" in i["arg"])["arg"]["as_graph"]["graph"]
            graph["nodes"] = [deep]
            deep = copied
        graph_of(root)["nodes"] = [deep]

    return program("branches", change)


add("graph within graphs that contradicts them", GRAPH, 8)(cyclic)

meta = lambda root, n: list(graph_of(root)["tensor_values"].values())[n % len(graph_of(root)["tensor_values"])]
meta_x = lambda root: graph_of(root)["tensor_values"]["x"]
int_size = lambda value: {"as_int": value}
add("negative size of an input", GRAPH)(lambda rng, n: program("layers", lambda r: meta_x(r).update(sizes=[int_size(-1 - n)] * 3)))
add("sizes whose product overflows", (GRAPH, "TN0223", GAPS))(lambda rng, n: program("layers", lambda r: meta_x(r).update(sizes=[int_size((1 << 62) - n)] * 3)))
add("rank of an input", (GRAPH, "TN0224", GAPS))(lambda rng, n: program("layers", lambda r: meta_x(r).update(sizes=[int_size(1)] * (33 + 500 * n), strides=[int_size(1)] * (33 + 500 * n))))
add("unknown type of elements", (GRAPH, GAPS))(lambda rng, n: program("layers", lambda r: meta_x(r).update(dtype=[0, 9, 10, 11, 99, -1, 1 << 40, 22, 30, 44, 100, 255][n])))
add("unknown layout", (GRAPH, GAPS))(lambda rng, n: program("layers", lambda r: meta_x(r).update(layout=[0, 1, 2, 3, 99, -1][n % 6])))
SIZES = ["s0 + ", "(" * 5000, "s0" + " * s0" * 40, "undefined", "s0 // 0", "-s0", "2 ** s0", "exec('x')", "", "s0 % 0", "9" * 400, "Max(" * 300]
add("size that is no expression", (GRAPH, GAPS))(lambda rng, n: program("relations", lambda r: meta_x(r)["sizes"].__setitem__(0, {"as_expr": {"expr_str": SIZES[n], "hint": None}})))
add("range that is none", GRAPH)(
    lambda rng, n: program("relations", lambda r: [v.update(min_val=[9, 5, (1 << 63) - 1][n % 3], max_val=[3, -5, 0][n % 3]) for v in r["range_constraints"].values()] and None))
add("other version of the schema", VERSION)(lambda rng, n: program("writes", lambda r: r["schema_version"].update(major=[0, 7, 9, -1, 1 << 40, 100][n % 6])))
add("version that is no number", GRAPH)(lambda rng, n: program("writes", lambda r: r["schema_version"].update(major=["8", None, [], 8.5, True, {}][n % 6])))
NUMBERS = [-1, 0, 1 << 31, (1 << 63) - 1, -(1 << 63), 1000]


def number(rng, n):
    """An integer argument of some node becomes another: strides, axes, groups, sizes."""
    def change(root):
        places = [p for node in graph_of(root)["nodes"] for p in everywhere(node["inputs"], "as_int", []) + everywhere(node["inputs"], "as_ints", [])]
        holder, key = rng.choice(places)
        holder[key] = [rng.choice(NUMBERS) for _ in holder[key]] if isinstance(holder[key], list) else rng.choice(NUMBERS)

    return program(rng.choice(["layers", "images", "products", "indices", "writes", "types"]), change)


# Some of these numbers are right: an axis of -1, a limit that is larger than it need be.
add("number of an operator", (GRAPH, GAPS, "TN0236", "TN0223", "ok"), 150)(number)



def resized(rng, n):
    """A list of an operator becomes longer, shorter or empty."""
    def change(root):
        fields = ["as_ints", "as_tensors", "as_floats", "as_sym_ints", "as_bools"]
        places = [p for node in graph_of(root)["nodes"] for field in fields for p in everywhere([node["inputs"], node["outputs"]], field, [])]
        holder, key = rng.choice(places)
        holder[key] = rng.choice([[], holder[key][:-1], holder[key][:1], holder[key] + holder[key][:1], holder[key] * 40])

    return program(rng.choice(["layers", "images", "products", "indices", "writes", "relations", "branches", "shared"]), change)


# One element stands for several in some places, and a longer list of results is another program.
add("list of another length", (GRAPH, GAPS, "TN0223", "ok"), 200)(resized)

# Weights
weight = lambda change: (lambda rng, n: program("layers", lambda r: change(r["config"]["lstm.weight_ih_l0"], rng, n), WEIGHTS))
tensor = lambda change: weight(lambda w, rng, n: change(w["tensor_meta"], n))
add("storage of a weight shortened", WEIGHT)(lambda rng, n: (lambda e: zipped({**e, "p/data/weights/weight_0": e["p/data/weights/weight_0"][:[0, 1, 100, 191][n % 4]]}))(entries_of("layers")))
add("offset of a weight beyond its storage", (WEIGHT, GRAPH))(tensor(lambda m, n: m.update(storage_offset=int_size([1, 48, 1 << 31, (1 << 63) - 1, -1, -(1 << 63)][n % 6]))))
add("stride of a weight beyond its storage", (WEIGHT, GRAPH))(tensor(lambda m, n: m.update(strides=[int_size([4, 1 << 31, (1 << 62), (1 << 63) - 1, -3, -(1 << 62)][n % 6]), int_size(1)])))
add("shape of a weight beyond its storage", (WEIGHT, GRAPH, "TN0223", GAPS))(tensor(lambda m, n: m.update(sizes=[int_size([17, 1 << 31, 1 << 62, (1 << 63) - 1][n % 4]), int_size(3 + n // 4)])))
add("huge weight by strides of 0", (WEIGHT, GRAPH, "TN0223", GAPS))(tensor(lambda m, n: m.update(sizes=[int_size(1 << (20 + n)), int_size(1 << 10)], strides=[int_size(0), int_size(0)])))
add("negative shape of a weight", (WEIGHT, GRAPH))(tensor(lambda m, n: m.update(sizes=[int_size(-1 - n), int_size(3)])))
add("rank of a weight", (WEIGHT, GRAPH))(tensor(lambda m, n: m.update(strides=m["strides"][:n % 2])))
add("symbolic shape of a weight", (WEIGHT, GRAPH))(tensor(lambda m, n: m.update(sizes=[{"as_expr": {"expr_str": "s0", "hint": None}}, int_size(3)])))
add("unknown type of a weight", (WEIGHT, GRAPH, GAPS))(tensor(lambda m, n: m.update(dtype=[0, 9, 10, 11, 99, -1, 1 << 40, 22, 30, 44, 100, 255][n])))
add("file of a weight that is not there", ARCHIVE)(
    weight(lambda w, rng, n: w.update(path_name=["gone", "../../../etc/passwd", "/etc/passwd", "", "weight_0/", "weight_99"][n % 6])))
add("pickled weight", (GAPS, WEIGHT))(weight(lambda w, rng, n: w.update(use_pickle=True)))


def unlisted(rng, n):
    def change(root):
        weights = root["config"]
        value = weights.pop("lstm.weight_ih_l0")
        weights.update({"x": value} if n == 1 else {})
        weights.clear() if n == 2 else None

    return program("layers", change, WEIGHTS)


add("weights that are not listed", (WEIGHT, ARCHIVE), 3)(unlisted)
add("list of weights that is none", (GRAPH, WEIGHT), 6)(lambda rng, n: program("layers", lambda r: [b"", b"[]", b"{}", b"null", b'{"config": 3}', b'{"config": {"a": 3}}'][n], WEIGHTS))
add("byte order", ARCHIVE, 3)(lambda rng, n: (lambda e: zipped({**e, "p/byteorder": [b"big", b"", b"\xff" * 100][n]}))(entries_of("layers")))
