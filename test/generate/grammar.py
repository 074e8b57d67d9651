"""JSON schemas as grammars beside jsonschema: `grammar.py PROGRAM`, the program made of grammar.cpp.

Texts of random walks under the masks are values of their schema; what is no value is refused; and masks are what each token does by itself.
"""

import datetime
import ipaddress
import json
import random
import re
import subprocess
import sys
import unittest
import uuid

import jsonschema
import models

PROGRAM = sys.argv[-1]
ALPHABET = models.alphabet()
WORDS = [b'": "', b'", "', b'"}', b"}, {", b'":', b' "', b'\n  "', b"null", b"true", b"false", b"12", b"000", b"hello", b" world", b"name", b'"a"', b"\\n", b"\\u00",
         b"\xc3\xa9", b"\xf0\x9f", b"\x98\x80", b'{"', b"[{", b"}]", b'""', b'": [', b"-0", b"0.5", b"e+", b"2024-", b"aaaa", b"    ", b"],", b"},\n"]  # fmt: skip


def vocabulary(words=WORDS):
    """Of all bytes, these words, and a token that ends a text."""
    tokens = [*ALPHABET, *("".join(ALPHABET[byte] for byte in word) for word in words), "<end>"]
    flags = ("composes", "ignores_merges", "adds_space_prefix", "prefixes_once", "adds_bos", "adds_eos")
    return {"form": "byte_level", "tokens": tokens, "kinds": "1" * (len(tokens) - 1) + "3", "scores": [], "merges": [], "patterns": [], **dict.fromkeys(flags, False),
            "prefixes_all": True, "takes_given_space": True, "bos": -1, "eos": len(tokens) - 1, "unknown": -1, "ends": [len(tokens) - 1]}  # fmt: skip


def run(tests, words=WORDS):
    lines = "".join(json.dumps(line) + "\n" for line in (vocabulary(words), *tests))
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


FORMATS = {
    "date": lambda text: datetime.date.fromisoformat(text),
    "time": lambda text: datetime.time.fromisoformat(text.replace("Z", "+00:00")),
    "date-time": lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")),
    "duration": lambda text: re.fullmatch(r"P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)", text).group(),
    "uuid": lambda text: uuid.UUID(text),
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", text).group(),
    "hostname": lambda text: re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*", text).group(),
    "ipv4": lambda text: ipaddress.IPv4Address(text),
    "ipv6": lambda text: ipaddress.IPv6Address(text),
    "uri": lambda text: re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#]+([/?#]\S*)?", text).group(),
}
CHECKER = jsonschema.FormatChecker(formats=())
for name, check in FORMATS.items():
    CHECKER.checks(name, raises=(ValueError, AttributeError))(lambda text, check=check: not isinstance(text, str) or bool(check(text)))


def is_valid(schema, value):
    return jsonschema.Draft202012Validator(schema, format_checker=CHECKER).is_valid(value)


NODE = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}
SCHEMAS = [
    {}, True, {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "array"}, {"type": ["boolean", "null", "string"]},
    {"type": "number", "minimum": 0, "maximum": 1}, {"type": "number", "exclusiveMinimum": -12.5, "maximum": 3.25}, {"type": "number", "exclusiveMaximum": -0.05},
    {"type": "integer", "multipleOf": 7, "minimum": -100, "maximum": 1234}, {"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 1}, {"type": "number", "multipleOf": 3},
    {"enum": ["a", "b", 1, None, {"x": [1, 2], "y": {}}, []]}, {"const": 'é\n"\\'}, {"enum": [1, "1", 2.5, True], "type": ["integer", "boolean"]},
    {"type": "string", "pattern": "^[a-c]+\\d{2,3}$"}, {"type": "string", "pattern": "^(?:foo|ba[rz]*)?$", "minLength": 2, "maxLength": 5}, {"type": "string", "pattern": '^[^a-y]{0,3}"?$'},
    {"type": "string", "minLength": 3, "maxLength": 6}, {"type": "string", "maxLength": 0}, {"type": "string", "minLength": 40},
    {"type": "array", "items": {"type": "integer", "maximum": 5, "minimum": 0}, "minItems": 2, "maxItems": 4}, {"type": "array", "maxItems": 0},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 1},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "items": {"enum": [0]}, "minItems": 4, "maxItems": 6},
    {"type": "object"}, {"type": "object", "properties": {}}, {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3, "minProperties": 1},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, 'c"é': {"type": "boolean"}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "patternProperties": {"^x[a-f]?$": {"type": "integer"}, "^[a-z]y?$": {"minimum": 5}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": {"type": "null"}}, {"type": "object", "required": ["z"], "additionalProperties": {"const": 1}},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, {"properties": {"a": {"maximum": 9}, "b": {"type": "null"}}, "required": ["b"]}]},
    {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"], "anyOf": [{"properties": {"x": {"type": "null"}}, "required": ["x"]}, {"properties": {"y": {"const": 2}}}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": "x"}, "v": {"type": "integer"}}, "required": ["k", "v"]}, {"type": "object", "properties": {"k": {"const": "y"}}, "required": ["k"]}]},
    {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "boolean"}, {"type": "array", "items": {"type": "null"}}]},
    {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}}, "required": ["children"]},
    *({"type": "string", "format": name} for name in FORMATS), {"type": "string", "format": "date", "pattern": "^19"},
]  # fmt: skip


def random_schema(chance, depth=3):
    """What schemas of programs are made of."""

    def inner():
        return random_schema(chance, depth - 1)

    def string():
        kind = chance.randrange(5)
        if kind == 0:
            least = chance.randint(0, 4)
            return {"type": "string", "minLength": least, "maxLength": least + chance.randint(0, 5)}
        if kind == 1:
            return {"type": "string", "pattern": chance.choice(["^[a-z]{1,4}$", "^(ab|cd)*$", "^\\d+(\\.\\d)?$", '^["\\\\/x]{1,3}$', "^[^\\n]{0,5}$"])}
        return {"type": "string", "format": chance.choice(list(FORMATS))} if kind == 2 else {"type": "string", "maxLength": 12}

    def number():
        bounds = sorted(chance.choice([chance.randint(-300, 300), chance.randint(-9, 9), round(chance.uniform(-5, 5), 2)]) for _ in range(2))
        given = {"type": chance.choice(["integer", "number"])}
        if chance.random() < 0.7 and (given["type"] == "number" or int(bounds[0]) < int(bounds[1])):
            given |= {"minimum": bounds[0], "maximum": bounds[1] + 1}
        return given

    def listed():
        return {"enum": chance.sample(["a", "bb", "c\n", 1, 2, -3.5, True, None, ["x"], {"y": 1}], chance.randint(1, 4))}

    def array():
        least = chance.randint(0, 2)
        given = {"type": "array", "items": inner(), "minItems": least, "maxItems": least + chance.randint(0, 3)}
        return given | ({"prefixItems": [inner()]} if chance.random() < 0.3 else {})

    def objects():
        names = chance.sample(["a", "b", "name", "é", 'q"', "long name"], chance.randint(0, 4))
        given = {"type": "object", "properties": {name: inner() for name in names}, "required": [name for name in names if chance.random() < 0.5]}
        return given | chance.choice([{}, {"additionalProperties": False}, {"additionalProperties": number()}])

    def either():
        return {"anyOf": [inner() for _ in range(chance.randint(1, 3))]}

    leaves = [string, number, listed, lambda: {"type": chance.choice(["boolean", "null", ["null", "boolean"]])}]
    return chance.choice(leaves if depth == 0 else [*leaves, array, objects, objects, either])()


def mutated(chance, value):
    """The value with one thing changed."""
    others = [None, True, -1, 0, 7, 1000, 0.5, "", "a", "zzzzzzzzzzzzzz", "2024-02-31", [], [1, 2, 3, 4, 5, 6], {}, {"zz": 1}]
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        kind = chance.randrange(4)
        if kind == 0:
            return {key: each for key, each in value.items() if key != name}
        return {**value, "extra": 1} if kind == 1 else {**value, name: mutated(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        kind = chance.randrange(4)
        return [*value[:at], *value[at + 1 :]] if kind == 0 else [*value, value[at]] if kind == 1 else [*value[:at], mutated(chance, value[at]), *value[at + 1 :]]
    return chance.choice(others)


def is_exact(value):
    """Whether a writer of JSON writes the value as a grammar does."""
    if isinstance(value, dict):
        return all(is_exact(key) and is_exact(each) for key, each in value.items())
    return all(map(is_exact, value)) if isinstance(value, list) else not isinstance(value, float)


class Grammars(unittest.TestCase):
    def check_walks(self, schemas, walks):
        """Walks are values, masks are exact, values of a writer of JSON are texts too, and what jsonschema refuses is none."""
        results = run([{"schema": schema, "walks": walks, "seed": seed, "masks": True} for seed, schema in enumerate(schemas)])
        finished, checked, again = 0, 0, []
        chance = random.Random(3)
        for schema, result in zip(schemas, results, strict=True):
            self.assertNotIn("refused", result, schema)
            self.assertEqual(0, result["wrong"], schema)
            checked += result["checked"]
            texts, wanted = [], []
            for walk in result["walks"]:
                self.assertIn(walk.get("error", "unfinished"), "unfinished", (schema, walk))
                if "error" in walk:
                    continue
                finished += 1
                value = json.loads(walk["text"])
                self.assertTrue(is_valid(schema, value), (schema, walk["text"]))
                if is_exact(value):
                    texts.append(json.dumps(value, ensure_ascii=False))
                    wanted.append(True)
                other = mutated(chance, value)
                if not is_valid(schema, other):
                    texts += [json.dumps(other, ensure_ascii=False), walk["text"] + "}", walk["text"][:-1] + "\x01"]
                    wanted += [False] * 3
            again.append((schema, texts, wanted))
        for (schema, texts, wanted), result in zip(again, run([{"schema": schema, "texts": texts} for schema, texts, _ in again]), strict=True):
            for text, want, got in zip(texts, wanted, result["accepts"], strict=True):
                self.assertEqual(want, got, (schema, text))
        refused = sum(wanted.count(False) for _, _, wanted in again)
        return finished, checked, refused

    def test_schemas(self):
        finished, checked, refused = self.check_walks(SCHEMAS, 8)
        self.assertGreater(finished, 0.9 * 8 * len(SCHEMAS))
        self.assertGreater(checked, 100_000)
        self.assertGreater(refused, 500)

    def test_random_schemas(self):
        chance = random.Random(11)
        schemas = [random_schema(chance) for _ in range(150)]
        finished, _, refused = self.check_walks(schemas, 5)
        self.assertGreater(finished, 700)
        self.assertGreater(refused, 600)

    def test_planted(self):
        """A mask with one token too many or too few is found, and so are values of another schema."""
        [faulty] = run([{"schema": {"type": "string"}, "walks": 20, "masks": True, "fault": True}])
        self.assertGreater(faulty["wrong"], 0)
        [any_value] = run([{"schema": {}, "walks": 40}])
        found = [is_valid(NODE, json.loads(walk["text"])) for walk in any_value["walks"] if "error" not in walk]
        self.assertIn(False, found)

    def test_refused(self):
        """What is not held is named by its place."""
        refused = {
            "'#/properties/a/not'": {"properties": {"a": {"not": {}}}}, "'#/items/uniqueItems'": {"items": {"uniqueItems": True}}, "'#/if'": {"if": {}}, "'#/then'": {"then": {}},
            "'#/dependentRequired'": {"dependentRequired": {}}, "'#/unevaluatedProperties'": {"unevaluatedProperties": False}, "'#/contains'": {"contains": {}}, "'#/zzz'": {"zzz": 1},
            "'#/format' is 'iri'": {"type": "string", "format": "iri"}, "'#/multipleOf'": {"multipleOf": 0.01}, "'#/type'": {"type": "text"}, "'#/$ref'": {"$ref": "http://a/b"},
            "lookahead": {"pattern": "a(?!b)"}, "'\\b'": {"pattern": "\\bx"}, "'\\1'": {"pattern": "(a)\\1"}, "'[' without": {"pattern": "[a"}, "repetition of nothing": {"pattern": "*a"},
            "which may both hold": {"oneOf": [{"type": "integer"}, {"type": "number"}]}, "and 2, which": {"oneOf": [{"type": "null"}, {"type": "string"}, {"pattern": "a"}]},
            "counts properties": {"type": "object", "minProperties": 2}, "must be a schema": {"properties": {"a": 1}}, "list of names": {"required": "a"}, "must be a count": {"maxLength": -1},
            "no value that ends": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no value": {"type": "string", "enum": [1, 2]},
            "no value that": {"type": "integer", "minimum": 5, "maximum": 4}, "itself without an end": {"allOf": [{"$ref": "#"}]},
        }  # fmt: skip
        for (what, schema), result in zip(refused.items(), run([{"schema": schema} for schema in refused.values()]), strict=True):
            self.assertIn("TN0256", result.get("refused", "accepted"), schema)
            self.assertIn(what, result["refused"])

    def test_hostile(self):
        """Schemas that would need endless states: refused, or held within bounds, in a bounded time."""
        deep = {"type": "integer"}
        for _ in range(60):
            deep = {"type": "array", "items": deep, "minItems": 1, "maxItems": 1}
        doubled = {"$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}, {"$ref": f"#/$defs/{i + 1}"}]} for i in range(40)} | {"40": {}}, "$ref": "#/$defs/0"}
        crossed = {"allOf": [{"anyOf": [{"properties": {f"{i}{j}": {}}} for j in range(8)]} for i in range(12)]}
        hostile = [
            {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, deep, doubled, crossed, {"type": "string", "pattern": "(a|b)*a(a|b){20}"}, {"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"}, {"type": "string", "pattern": "(" * 200 + ")" * 200},
            {"type": "string", "pattern": "^x{9999}{9999}$"}, {"enum": ["x" * 10**6]}, {"enum": [f"{i:06}" for i in range(50_000)]}, {"type": "string", "minLength": 10**9, "maxLength": 10**9},
            {"type": "array", "maxItems": 10**9, "items": {"type": "string", "maxLength": 10**8}}, {"type": "number", "minimum": -1e308, "maximum": 1e308}, {"type": "integer", "multipleOf": 9973},
            {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(2000)}}, {"anyOf": [{"type": "string", "pattern": f"^.*{i}.*$"} for i in range(300)]},
            {"type": "object", "patternProperties": {f"^{i}": {} for i in range(10)}}, {"type": "string", "format": "uri", "maxLength": 10**5},
        ]  # fmt: skip
        results = run([{"schema": schema, "walks": 1, "seed": 5} for schema in hostile])
        for schema, result in zip(hostile, results, strict=True):
            shown = json.dumps(schema)[:100]
            self.assertLess(result["seconds"], 5, shown)
            if "refused" in result:
                self.assertIn("TN0256", result["refused"], shown)
                continue
            self.assertLess(result["counts"]["bytes"], 200 << 20, shown)
            for walk in result["walks"]:
                self.assertTrue("error" not in walk or walk["error"] == "unfinished" or "TN0625" in walk["error"], (shown, walk))
        self.assertGreater(sum("refused" in result for result in results), 5)

    def test_cost(self):
        """With 128,000 tokens, a mask that is not there yet looks at part of them, and one that is at none."""
        chance = random.Random(1)
        letters = "etaoinshrdlucmfwypvbgkqjxz"
        words = sorted({(chance.choice(["", " "]) + "".join(chance.choice(letters[: chance.randint(5, 26)]) for _ in range(chance.randint(2, 9)))).encode() for _ in range(150_000)})
        words += [(chance.choice(['"', "\n", "}", ",", ":", "\\", "]"]) + "".join(chance.choice('"{}[],: \nabc') for _ in range(chance.randint(1, 4)))).encode() for _ in range(8000)]
        words = list(dict.fromkeys(word for word in words if len(word) > 1))
        self.assertGreater(len(words), 110_000)
        schema = {"type": "object", "properties": {f"property_{i}": {"type": "string", "maxLength": 500} for i in range(4)}, "required": [f"property_{i}" for i in range(4)]}
        [result] = run([{"schema": schema, "walks": 20, "seed": 2}], words)
        counts = result["counts"]
        self.assertLess(counts["made"], counts["masks"] / 4)
        self.assertLess(counts["walked"] / counts["masks"], 1000, counts)
        self.assertLess(counts["steps"] / counts["masks"], 500, counts)
        self.assertLess(counts["bytes"], 16 << 20, counts)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:-1])
