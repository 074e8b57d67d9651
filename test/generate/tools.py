"""Calls of tools as chat templates write them: `tools.py PROGRAM`, the program made of tools.cpp. Formats are found by the templates alone."""

import json
import subprocess
import sys
import unittest

import grammar

PROGRAM = sys.argv.pop()
CONTROL = ["<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOLS]", "[/TOOLS]", "<|eot|>", "<|head|>", "<|/head|>", "</s>", "<s>", "<call>", "</call>", "<sep>", "<calls>", "</calls>"]

# The forms that models' templates have, in templates of our own.
TAGGED = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}{{- '<|im_start|>' + message.role }}{%- if message.content %}{{- '\n' + message.content }}{%- endif %}{%- for call in message.tool_calls %}{%- if call.function is defined %}{%- set call = call.function %}{%- endif %}{{- '\n<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}{{- call.arguments | tojson }}{{- '}\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
BARE = """{%- if not tools is defined %}{%- set tools = none %}{%- endif %}{%- if tools is not none %}<|head|>system<|/head|>

{% for tool in tools %}{{ tool | tojson(indent=4) }}
{% endfor %}<|eot|>{% endif %}{%- for message in messages %}{%- if 'tool_calls' in message %}{%- if not message.tool_calls | length == 1 %}{{ raise_exception("one call only") }}{%- endif %}{%- set call = message.tool_calls[0].function %}{{- '<|head|>assistant<|/head|>\n\n' }}{{- '{"name": "' + call.name + '", ' }}{{- '"parameters": ' }}{{- call.arguments | tojson }}{{- '}<|eot|>' }}{%- else %}{{- '<|head|>' + message.role + '<|/head|>\n\n' + message.content + '<|eot|>' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|head|>assistant<|/head|>\n\n' }}{%- endif %}"""
LISTED = """{{ bos_token }}{%- for message in messages %}{%- if message.role == "user" %}{%- if tools %}[TOOLS] {{ tools | tojson }}[/TOOLS]{%- endif %}[INST] {{ message.content }}[/INST]{%- elif message.tool_calls is defined and message.tool_calls is not none %}[TOOL_CALLS] [{%- for call in message.tool_calls %}{%- set out = call.function | tojson %}{{- out[:-1] }}{%- if not call.id is defined or call.id | length != 9 %}{{- raise_exception("ids have 9 signs") }}{%- endif %}{{- ', "id": "' + call.id + '"}' }}{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}{%- endfor %}{%- else %} {{ message.content }}{{ eos_token }}{%- endif %}{%- endfor %}"""
FENCED = """{% for message in messages %}{% if tools and loop.first %}{{ tools | tojson }}
{% endif %}{% if message.tool_calls %}A:{% for call in message.tool_calls %}{% if loop.first %}<calls>{% endif %}<call>function<sep>{{ call.function.name }}
```json
{{ call.function.arguments }}
```</call>{% endfor %}</calls></s>{% else %}{{ message.role }}: {{ message.content }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"""
# Shows tools and says how to call them, but writes no calls.
SAID = """{% for tool in tools %}{{ tool | tojson }}{% endfor %}Answer <tool_call>{"name": ..., "arguments": ...}</tool_call>{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"

ADD = {"name": "add", "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": False}}
SAY = {"name": "say", "parameters": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 9}}, "required": ["text"]}}
TOOLS = [{"type": "function", "function": function} for function in (ADD, SAY)]
BOTH = [("add", '{"a": 1, "b": 2}'), ("say", '{"text": "}\\"{"}')]

# By template: what opens a call, and two calls as it writes them; one, where it writes one only.
FORMS = {
    "tagged": (TAGGED, "<tool_call>", "".join(f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n' for name, arguments in BOTH)[:-1]),
    "bare": (BARE, "", '{"name": "add", "parameters": {"a": 1, "b": 2}}'),
    "listed": (LISTED, "[TOOL_CALLS]", "[TOOL_CALLS] [" + ", ".join(f'{{"name": "{name}", "arguments": {arguments}, "id": "abcdefghi"}}' for name, arguments in BOTH) + "]"),
    "fenced": (FENCED, "<calls>", "<calls>" + "".join(f"<call>function<sep>{name}\n```json\n{arguments}\n```</call>" for name, arguments in BOTH) + "</calls>"),
    "said": (SAID, "<tool_call>", "".join(f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n' for name, arguments in BOTH)[:-1]),
}  # fmt: skip


def run(tests):
    vocabulary = grammar.vocabulary()
    known = vocabulary["tokens"] = vocabulary["tokens"][:-1] + CONTROL
    vocabulary["kinds"] = "1" * (len(known) - len(CONTROL)) + "3" * len(CONTROL)
    vocabulary |= {"bos": known.index("<s>"), "eos": known.index("</s>"), "ends": [known.index(name) for name in ("<|im_end|>", "<|eot|>", "</s>")]}
    lines = "".join(json.dumps(line) + "\n" for line in (vocabulary, *tests))
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


class Tools(unittest.TestCase):
    def parsed(self, template, *texts, **options):
        """What all cuts of each text give alike: content, names and arguments."""
        [result] = run([{"template": template, "names": ["add", "say"], "texts": texts, **options}])
        found = []
        for cuts in result["parsed"]:
            each = [(cut["content"], [(call["name"], call["arguments"]) for call in cut["calls"]]) for cut in cuts]
            self.assertEqual([each[0]] * 4, each)
            self.assertTrue(all(len(call["id"]) == 9 for cut in cuts for call in cut["calls"]))
            # Arguments are handed out as they come.
            if each[0][1]:
                self.assertGreater(cuts[1]["parts"], 10)
            found.append(each[0])
        return found

    def test_forms(self):
        for name, (template, opener, text) in FORMS.items():
            with self.subTest(name):
                [result] = run([{"template": template, "names": []}])
                self.assertEqual((opener, name == "fenced", name != "said"), (result["opener"], result["asText"], result["shows"]))
                [(content, calls)] = self.parsed(template, text)
                self.assertEqual(("", BOTH[:1] if name == "bare" else BOTH), (content, calls))

    def test_text_beside(self):
        """Text before calls stays; what is no call of a tool is text, whatever it looks like."""
        for name, (template, opener, text) in FORMS.items():
            with self.subTest(name):
                none = ["", "hello", "a < b [ {", '{"x": 1}', opener + "nothing", text.replace("add", "other").replace("say", "other"), opener[:5], text[: len(opener) + 4]]
                for wanted, (content, calls) in zip(none, self.parsed(template, *none), strict=True):
                    self.assertEqual((wanted, []), (content, calls))
                if opener:
                    [(content, calls)] = self.parsed(template, "Well.\n" + text)
                    self.assertEqual(("Well.", BOTH), (content, calls))
                [(content, calls)] = self.parsed(template, text, one=True)
                self.assertEqual(("", BOTH[:1]), (content, calls))

    def test_other_orders(self):
        """Models write keys and blanks as they like."""
        texts = ['<tool_call>{"arguments":{"a": 1, "b": 2},"name":"add"}</tool_call>', '<tool_call>\n\n{ "name" : "add" , "x": [{"name": "say"}], "arguments": {"a": 1, "b": 2} }\n</tool_call>',
                 '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}</tool_call>']  # fmt: skip
        for content, calls in self.parsed(TAGGED, texts[1]):
            self.assertEqual(("", BOTH[:1]), (content, calls))
        for text in (texts[0], texts[2]):  # whose arguments come at once
            [result] = run([{"template": TAGGED, "names": ["add", "say"], "texts": [text]}])
            for cut in result["parsed"][0]:
                self.assertEqual(("", BOTH[:1]), (cut["content"], [(call["name"], call["arguments"]) for call in cut["calls"]]))

    def test_held(self):
        """Answers that must call are calls with arguments of their schemas; those that may are text, where a call of a strict tool is held."""
        for name, (template, opener, text) in FORMS.items():
            with self.subTest(name):
                wrong = [text.replace('"b": 2', '"b": "x"'), text.replace('"b": 2', '"b": 2, "c": 3'), text.replace("add", "other"), text[:-1]]
                must, may, mixed = run([
                    {"template": template, "names": ["add", "say"], "tools": TOOLS, "must": True, "checks": [text, "hello", *wrong], "walks": 12},
                    {"template": template, "names": ["add", "say"], "tools": TOOLS, "checks": ["hello", text, *wrong]},
                    {"template": template, "names": ["add", "say"], "tools": TOOLS, "content": {"const": 7}, "walks": 30},
                ])  # fmt: skip
                self.assertEqual([True] + [False] * 5, must["checks"])
                self.assertEqual([True, True] + [False] * 4, may["checks"])
                names = set()
                for walk in must["walks"]:
                    self.assertTrue(walk["whole"])
                    self.assertEqual("", walk["parsed"]["content"])
                    self.assertGreater(len(walk["parsed"]["calls"]), 0)
                    for call in walk["parsed"]["calls"]:
                        schema = next(tool["function"]["parameters"] for tool in TOOLS if tool["function"]["name"] == call["name"])
                        self.assertTrue(grammar.is_valid(schema, json.loads(call["arguments"])), call)
                        names.add(call["name"])
                self.assertEqual({"add", "say"}, names)
                contents = {walk["parsed"]["content"].strip() for walk in mixed["walks"]}
                self.assertEqual({"", "7"}, contents)

    def test_refused(self):
        [plain] = run([{"template": PLAIN, "names": []}])
        self.assertIn("TN0626", plain["refused"])
        [other] = run([{"template": TAGGED.replace("call.arguments | tojson", "call.arguments.items() | list"), "names": []}])
        self.assertIn("without JSON", other["refused"])
        strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"unevaluatedItems": False}}}
        loose = {"type": "function", "function": {"name": "f", "parameters": {"unevaluatedItems": False}}}
        ones = run([{"template": TAGGED, "names": ["f"], "tools": [tool], "walks": 3, "must": True} for tool in (strict, loose)])
        self.assertIn("TN0256", ones[0]["walks"])
        self.assertEqual([True] * 3, [walk["whole"] for walk in ones[1]["walks"]])


if __name__ == "__main__":
    unittest.main()
