"""JSON schemas as grammars beside jsonschema: `grammar.py PROGRAM`, the program made of grammar.cpp.

Texts of random walks under the masks are values of their schema; what is no value is refused; and masks are what each token does by itself.
"""

import datetime
import enum
import ipaddress
import json
import pathlib
import random
import re
import subprocess
import sys
import unittest
import uuid
from typing import Annotated, Literal, Union

import jsonschema
import models
import pydantic

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

KINDS = {"type": "object", "properties": {"kind": {"enum": ["a", "b", "c"]}, "n": {"type": "integer"}, "s": {"type": "string", "maxLength": 5}}, "required": ["kind"]}
COLORS = {"enum": ["red", "green", "blue", 1, None]}
#: Keywords that exclude, count, or hold where something else does.
CONDITIONS = [
    *({"type": kind, "not": {"type": "string"}} for kind in ("integer", "boolean", "array", "object")), {"not": {"type": ["object", "array", "number"]}}, {"type": ["number", "string"], "not": {"enum": [0, 5, "", "a", 1.5]}},
    {"type": "integer", "not": {"const": 0}, "minimum": -3, "maximum": 3}, {"type": "string", "not": {"pattern": "^a"}, "maxLength": 4}, {"type": "string", "not": {"minLength": 3}}, {"type": "boolean", "not": {"const": True}},
    {"type": "number", "not": {"minimum": 3, "maximum": 7}, "minimum": 0, "maximum": 10}, {"enum": ["a", "b", 1, True, None], "not": {"enum": ["b", 1]}}, {"type": "string", "not": {"anyOf": [{"const": "x"}, {"maxLength": 1}]}, "maxLength": 4},
    {**KINDS, "not": {"required": ["n", "s"]}}, {**KINDS, "not": {"properties": {"kind": {"const": "a"}}}}, {**KINDS, "not": {"required": ["kind"]}, "required": []}, {"type": "array", "items": COLORS, "maxItems": 3, "not": {"items": {"type": "string"}}},
    {"type": "array", "items": COLORS, "maxItems": 4, "not": {"contains": {"const": "red"}}}, {"type": "array", "items": COLORS, "maxItems": 4, "not": {"minItems": 2}}, {"type": "object", "additionalProperties": COLORS, "not": {"maxProperties": 0}},
    {"not": {"not": {"type": "boolean"}}}, {"$defs": {"c": {"const": 3}}, "type": "integer", "not": {"$ref": "#/$defs/c"}, "minimum": 2, "maximum": 5}, {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 5}, {"type": "integer", "minimum": 3, "maximum": 9}]},
    {"oneOf": [{"type": "string", "pattern": "^a", "maxLength": 3}, {"type": "string", "pattern": "b$", "maxLength": 3}]}, {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "number", "minimum": 2.5, "maximum": 9}]},
    {**KINDS, "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["n"]}, "else": {"required": ["s"]}}, {**KINDS, "if": {"required": ["n"]}, "then": {"properties": {"kind": {"const": "b"}}}}, {"if": {"type": "string"}, "then": {"maxLength": 3}, "else": {"type": "null"}},
    {**KINDS, "allOf": [{"if": {"properties": {"kind": {"const": k}}, "required": ["kind"]}, "then": {"properties": {"n": {"minimum": i, "maximum": i}}, "required": ["n"]}} for i, k in enumerate("abc")]},
    {"type": "object", "properties": {"c": {"enum": [f"c{i}" for i in range(20)]}, "code": {"type": "string"}}, "required": ["c"],
     "allOf": [{"if": {"properties": {"c": {"const": f"c{i}"}}, "required": ["c"]}, "then": {"properties": {"code": {"pattern": f"^[a-z]{{{i % 5 + 1}}}$"}}, "required": ["code"]}} for i in range(20)]},
    {"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 5}, "minimum": 0, "maximum": 30}, {**KINDS, "dependentRequired": {"n": ["s"]}}, {**KINDS, "dependentSchemas": {"n": {"properties": {"kind": {"const": "c"}}}, "s": {"required": ["n"]}}},
    {"type": "object", "additionalProperties": {"type": "integer"}, "dependentRequired": {"a": ["b", "c"]}, "required": ["a"]}, {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "contains": {"minimum": 8}, "maxItems": 5},
    {"type": "array", "items": COLORS, "contains": {"type": "string"}, "minContains": 2, "maxContains": 3, "maxItems": 6}, {"type": "array", "items": COLORS, "contains": {"const": 1}, "minItems": 3, "maxItems": 4}, {"type": "array", "items": COLORS, "contains": {"const": 1}, "minContains": 0, "maxContains": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": COLORS, "contains": {"const": "red"}, "maxItems": 4}, {"type": "array", "items": COLORS, "uniqueItems": True}, {"type": "array", "items": COLORS, "uniqueItems": True, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": {"enum": list("abcdefghij")}, "uniqueItems": True, "minItems": 3, "maxItems": 8}, {"type": "array", "items": {"anyOf": [{"const": 1}, {"type": "boolean"}]}, "uniqueItems": True}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 1},
    {**KINDS, "minProperties": 2}, {**KINDS, "maxProperties": 2}, {**KINDS, "minProperties": 2, "maxProperties": 2, "additionalProperties": {"type": "null"}}, {**KINDS, "required": [], "maxProperties": 1, "additionalProperties": COLORS}, {**KINDS, "minProperties": 4, "additionalProperties": {"type": "null"}},
    {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d)[A-Za-z\\d]{4,8}$"}, {"type": "string", "pattern": "^(?!foo)(?!.*bar$)[a-z]{3,6}$"}, {"type": "integer", "format": "int32"}, {"type": "string", "format": "no-such", "pattern": "^[ab]{2}$"}, {"type": "string", "format": "time", "pattern": "^(0\\d|1[0-2]):[0-5]\\d$"},
    {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"},  # decimals of pydantic
]  # fmt: skip


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = pydantic.Field(ge=0, le=9)


class Dog(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    kind: Literal["dog"]
    name: str = pydantic.Field(pattern=r"^[A-Z][a-z]{1,8}$")


class Tree(pydantic.BaseModel):
    """What pydantic writes for the types that programs have."""

    color: Color
    colors: set[Color]
    pet: Union[Cat, Dog] = pydantic.Field(discriminator="kind")
    either: Union[Cat, Dog, None] = None
    rates: dict[str, float] = {}
    codes: dict[Annotated[str, pydantic.Field(pattern=r"^[a-z]{2}$")], int] = pydantic.Field(default={}, min_length=1)
    pair: tuple[int, str]
    day: datetime.date
    moment: datetime.datetime
    clock: datetime.time
    length: datetime.timedelta
    key: uuid.UUID
    key4: pydantic.UUID4
    host: ipaddress.IPv4Address
    network: ipaddress.IPv4Network
    link: pydantic.AnyUrl
    secret: pydantic.SecretStr
    data: pydantic.Base64Bytes
    small: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=8)]
    path: pathlib.Path
    children: list["Tree"] = pydantic.Field(default=[], max_length=1)


#: As zod 4 writes schemas: a date-time, an email, a discriminated union, a record of an enum, an integer, base64.
ZOD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False, "required": ["at", "mail", "shape", "scores", "count", "blob", "clock"],
    "properties": {
        "at": {"type": "string", "format": "date-time", "pattern": "^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48])-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:02)-(?:0[1-9]|1\\d|2[0-8])))T(?:(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?(?:Z))$"},
        "mail": {"type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"},
        "shape": {"oneOf": [{"type": "object", "properties": {"kind": {"type": "string", "const": k}, "size": {"type": "number", "exclusiveMinimum": 0}}, "required": ["kind", "size"], "additionalProperties": False} for k in ("circle", "square")]},
        "scores": {"type": "object", "propertyNames": {"type": "string", "enum": ["x", "y"]}, "additionalProperties": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}, "required": ["x", "y"]},
        "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}, "blob": {"type": "string", "format": "base64", "contentEncoding": "base64", "pattern": "^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"},
        "clock": {"type": "string", "format": "time", "pattern": "^(?:(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?)$"},
    },
}  # fmt: skip


def random_conditions(chance):
    """Keywords that exclude, count or depend, of values that are few."""
    values = ["a", "b", "", 0, 1, 2, 1.5, True, False, None]

    def few():
        return chance.sample(values, chance.randint(1, 4))

    def scalar():
        return chance.choice([{"enum": few()}, {"const": chance.choice(values)}, {"type": chance.choice(["integer", "string", "boolean", "null", "number"])}, {"type": "integer", "minimum": chance.randint(-2, 2), "maximum": chance.randint(2, 4)}, {"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^[ab]"}])

    def about(names):
        return chance.choice([{"required": chance.sample(names, chance.randint(1, 2))}, {"properties": {chance.choice(names): scalar()}}, {"properties": {chance.choice(names): scalar()}, "required": [chance.choice(names)]}, {"minProperties": chance.randint(1, 2)}, {"maxProperties": chance.randint(1, 3)}])

    def condition(part):
        kind = chance.randrange(4)
        if kind == 0:
            return {"not": part()}
        if kind == 1:
            return {"if": part(), **{name: part() for name in ("then", "else") if chance.random() < 0.7}}
        return {chance.choice(["anyOf", "oneOf"]): [part() for _ in range(chance.randint(1, 3))]} if kind == 2 else {"not": {"anyOf": [part(), part()]}}

    kind = chance.randrange(3)
    if kind == 0:
        return {"type": chance.sample(["integer", "string", "boolean", "null"], 3), **condition(scalar)}
    if kind == 1:
        names = ["a", "b", "c"]
        base = {"type": "object", "properties": {name: scalar() for name in names}, "required": chance.sample(names, chance.randint(0, 1))}
        return {**base, **condition(lambda: about(names)), **chance.choice([{}, {"dependentRequired": {chance.choice(names): chance.sample(names, 1)}}, {"minProperties": chance.randint(0, 2)}, {"additionalProperties": {"type": "null"}}])}
    item = lambda: chance.choice([{"contains": scalar(), **chance.choice([{}, {"minContains": 2}, {"maxContains": 1}])}, {"items": scalar()}, {"minItems": chance.randint(0, 2)}, {"maxItems": chance.randint(1, 3)}])
    return {"type": "array", "items": {"enum": few()}, "maxItems": 4, **chance.choice([{}, {"uniqueItems": True}, {"contains": scalar()}]), **({} if chance.random() < 0.5 else condition(item))}


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

    def test_conditions(self):
        finished, _, refused = self.check_walks(CONDITIONS, 12)
        self.assertGreater(finished, 0.95 * 12 * len(CONDITIONS))
        self.assertGreater(refused, 300)

    def test_random_conditions(self):
        """Of schemas with `not`, `if`, `contains` and counts, what is held is what jsonschema holds; some have no value, and few are refused otherwise."""
        chance = random.Random(5)
        schemas = [random_conditions(chance) for _ in range(400)]
        held, others = [], []
        for schema, result in zip(schemas, run([{"schema": schema} for schema in schemas]), strict=True):
            if "refused" not in result:
                held.append(schema)
            elif "no value" not in result["refused"]:
                others.append(result["refused"])
            else:
                values = [None, True, False, 0, 1, 2, 3, "", "a", "b", "ab", {}, [], *({"a": a, "b": b} for a in (0, "a", None) for b in (1, "b", True)), *([a, b] for a in (0, 1, "a") for b in (2, "b", None))]
                self.assertFalse([value for value in values if is_valid(schema, value) and not isinstance(value, (dict, list))], schema)
        self.assertLess(len(others), 60, others)
        self.assertGreater(len(held), 250)
        finished, _, refused = self.check_walks(held, 5)
        self.assertGreater(finished, 4 * len(held))
        self.assertGreater(refused, 500)

    def test_programs(self):
        """Schemas that pydantic and zod write: answers are objects of the class, and texts of the patterns."""
        [trees, zods] = run([{"schema": schema, "walks": 40, "seed": 2, "masks": True} for schema in (Tree.model_json_schema(), ZOD)])
        for result in (trees, zods):
            self.assertNotIn("refused", result)
            self.assertEqual(0, result["wrong"])
        texts = [walk["text"] for walk in trees["walks"] if "error" not in walk]
        self.assertGreater(len(texts), 30)
        for text in texts:
            Tree.model_validate_json(text)
        for walk in zods["walks"]:
            if "error" not in walk:
                self.assertTrue(jsonschema.Draft202012Validator(ZOD).is_valid(json.loads(walk["text"])), walk)

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
            "'#/properties/a/not/format'": {"properties": {"a": {"not": {"format": "date"}}}}, "'#/items/uniqueItems'": {"items": {"uniqueItems": True}}, "'#/not/multipleOf'": {"not": {"multipleOf": 3}},
            "'#/unevaluatedProperties'": {"unevaluatedProperties": False}, "'#/$dynamicRef'": {"$dynamicRef": "#a"}, "'#/zzz'": {"zzz": 1}, "'#/if/propertyNames'": {"if": {"propertyNames": {}}, "then": {}},
            "several 'contains'": {"allOf": [{"contains": {}}, {"contains": {"type": "null"}}]}, "'#/dependentRequired/a/required' must be a list": {"dependentRequired": {"a": 1}}, "excludes an object": {"not": {"const": {}}},
            "'#/format' is 'regex'": {"type": "string", "format": "regex"}, "'#/multipleOf'": {"multipleOf": 0.01}, "'#/type'": {"type": "text"}, "'#/$ref'": {"$ref": "http://a/b"},
            "lookahead": {"pattern": "a(?!b)"}, "lookahead before": {"pattern": "^(?=a)a|b"}, "'\\b'": {"pattern": "\\bx"}, "'\\1'": {"pattern": "(a)\\1"}, "'[' without": {"pattern": "[a"}, "repetition of nothing": {"pattern": "*a"},
            "which may both hold": {"oneOf": [{"format": "date"}, {"format": "time"}]}, "for up to 64 items": {"uniqueItems": True, "items": {"enum": list(range(65))}},
            "counts properties": {"type": "object", "minProperties": 2}, "must be a schema": {"properties": {"a": 1}}, "list of names": {"required": "a"}, "must be a count": {"maxLength": -1},
            "no value that ends": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no value": {"type": "string", "enum": [1, 2]},
            "no value that": {"type": "integer", "minimum": 5, "maximum": 4}, "itself without an end": {"allOf": [{"$ref": "#"}]}, "'#/not' refers to itself": {"not": {"$ref": "#"}},
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

    def test_hostile_answers(self):
        """What holding a whole answer may take is bounded, where each of its masks is in its bound too."""
        many = {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 900}
        nested = {"$defs": {"n": {"anyOf": [{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/n"}}, {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/n"}}}]}}, "$ref": "#/$defs/n"}
        nested["$defs"]["n"]["anyOf"].append({"type": "array", "minItems": 200, "items": {"type": "integer"}})
        answers = [result["answer"] for result in run([{"schema": schema, "answer": 3000} for schema in (many, nested, SCHEMAS[0])])]
        self.assertIn("TN0625: holding the answer to its format takes too long", answers[0]["error"])
        self.assertGreater(answers[0]["tokens"], 100)
        for answer in answers:
            self.assertLess(answer["seconds"], 3 * (0.5 + 0.0005 * answer["tokens"]), answer)

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
