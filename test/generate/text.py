"""Chat templates beside Jinja2, in the environment that transformers gives them: the bytes of own templates on conversations.

Where Jinja2 raises, ours must fail too.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import unittest

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

RENDER = sys.argv.pop(1)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


def user(text):
    return {"role": "user", "content": text}


def model(text, **more):
    return {"role": "assistant", "content": text, **more}


CALL = {"id": "call0", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2, "wind": 3.5, "exact": True}}}
RESULT = {"role": "tool", "content": '{"t": 20.5}', "tool_call_id": "call0", "name": "weather"}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a \"place\" <b>ü</b>",
                                          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "n": None}}}]
SYSTEM = {"role": "system", "content": " Be brief.\n"}
CONVERSATIONS = [
    ([user("Hello")], {}),
    ([SYSTEM, user("Hi there\n"), model("  Hello! "), user("日本 <|im_end|> {{ x }}")], {}),
    ([user("a"), model("b"), user("c"), model("d"), user("e")], {"enable_thinking": True}),
    ([user("Weather?")], {"tools": TOOLS}),
    ([SYSTEM, user("Weather?"), model(None, tool_calls=[CALL]), RESULT, user("thanks")], {"tools": TOOLS}),
    ([user([{"type": "text", "text": "one"}, {"type": "text", "text": "two & three"}])], {}),
    ([user("x"), model("<think>\nhm\n</think>\n\nanswer"), user("y")], {"enable_thinking": False}),
    ([user("x"), model("so", reasoning_content="because 'it' is \"so\""), user("Y y")], {"number": 7, "ratio": -2.5}),
    ([user("only")], {"add_generation_prompt": False}),
    ([SYSTEM], {"documents": [{"title": "T", "text": "b<o>dy", "id": 1}, {"title": "a", "text": "", "id": 10**15}]}),
    ([model("starts"), user(""), user("👩‍👩‍👧 naïve É\t|\\ ")], {"empty": [], "flag": False}),
    ([], {"nothing": None, "nested": {"b": [1, [2, {"c": 3}]], "a": "z"}}),
]

LOOP = "{% for m in messages %}"
TEMPLATES = [
    LOOP + "{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] | string) + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}" + LOOP + "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.content }}]{% endfor %}",
    LOOP + "\n    {%- if loop.first %}first {% endif -%}\n    {{- m.role }}:{{ loop.index }}/{{ loop.length }} {{ loop.revindex }} {{ loop.revindex0 }}\n    {%- if loop.last %} last{% endif %}\n{% endfor %}\n\n",
    "  {% if true %}\n  a\n  {% endif %}\n  b {% if false %}{% else %}c{% endif %}  \n\t{# note #}\nd\n{#- x -#}\ne\n",
    "{%+ if true %} kept {%+ endif %}\n{{- ' x ' -}}\n y",
    "a\r\nb\rc{{ '\\r\\n' }}\n\n",
    LOOP + "{{ m | tojson }}\n{% endfor %}{{ tools | tojson if tools is defined }}",
    "{{ (tools or []) | tojson(indent=4) }}|{{ nested | tojson(indent=2) }}|{{ messages | tojson(separators=(',', ':')) }}",
    "{{ nested | default({'z': 1, 'a': [true, none, 1.0]}) | tojson(sort_keys=true) }}{{ messages | tojson(ensure_ascii=true) }}",
    "{% set ns = namespace(count=0, found=false, name='') %}" + LOOP + "{% if m.role == 'user' %}{% set ns.count = ns.count + 1 %}{% set ns.name = ns.name ~ loop.index0 %}{% endif %}{% endfor %}{{ ns.count }} {{ ns.name }} {{ ns.found }}",
    "{% set x = 1 %}" + LOOP + "{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% if messages and messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% set rest = messages[1:] %}{% else %}{% set system = 'none' %}{% set rest = messages %}{% endif %}{{ system }}|{{ rest | length }}",
    "{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role[0] }}{{ m.role[-1] }}{{ m.role[1:3] }}{{ m.role[::-1] }}{{ m.role[::2] }} {% endfor %}",
    "{{ messages[-1].role if messages }}{{ messages[5].role if messages | length > 5 else 'few' }}{{ messages[99] is defined }}",
    "{% macro say(who, what='?', end='.') %}<{{ who }}>{{ what }}{{ end }}{% endmacro %}" + LOOP + "{{ say(m.role) }}{{ say(m.role, m.content) }}{{ say(what='w', who=m.role, end='') }}{% endfor %}",
    "{% macro down(n) %}{{ n }}{% if n > 0 %},{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    LOOP + "{% if m.role == 'assistant' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}{{ m.role }};{% endfor %}",
    "{% for k, v in (nested | default({'q': 1})).items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }}{{ loop.last }}{% else %}nobody{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if loop.nextitem is defined else '-' }} {% endfor %}",
    LOOP + "{% if m.content is string %}{{ m.content.strip() }}|{{ m.content.lstrip() }}|{{ m.content.rstrip('\\n !') }}|{{ m.content.split('\\n') }}|{{ m.content.split() }}{% elif m.content is mapping %}map{% elif m.content is iterable and m.content is not none %}{% for part in m.content %}{{ part.text }}{% endfor %}{% else %}none{% endif %}\n{% endfor %}",
    LOOP + "{% if m.content is string and '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}|{{ m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }}{% endif %}{% endfor %}",
    LOOP + "{{ m.reasoning_content | default('no', true) }}{{ m.get('tool_calls', []) | length }}{{ m.get('name') }}{{ 'tool_calls' in m }}{{ m.keys() | list }}{% endfor %}",
    LOOP + "{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}{% endfor %}",
    LOOP + "{% if m.tool_calls is defined and m.tool_calls %}{{ m.tool_calls | map(attribute='function') | map(attribute='name') | join(', ') }}{% endif %}{% endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | join('+') }}",
    "{{ none | selectattr('x') | list }}{{ [] | map('upper') | list }}{{ ['a', 'B'] | map('upper') | list }}{{ [0, 1, 2, none, ''] | select | list }}{{ [1, 2, 3] | reject('odd') | list }}",
    "{{ ['b', 'A', 'c'] | sort }}{{ [3, 1, 2] | sort(reverse=true) }}{{ ['b', 'a', 'B'] | unique | list }}{{ {'b': 1, 'a': 2} | dictsort }}{{ [3, 1] | min }}{{ [3, 1] | max }}",
    "{{ messages | map(attribute='role') | unique | list }}{{ messages | map(attribute='x', default='d') | list }}",
    "{{ messages | map(attribute='role') | list | first | default('-') }}{{ messages | map(attribute='role') | list | last | default('-') }}{{ [] | first is defined }}",
    "{{ 'A bC' | upper }}{{ 'A bC' | lower }}{{ 'a bC dE' | title }}{{ 'a bC' | capitalize }}{{ 'x y'.upper() }}{{ 'x y'.title() }}{{ 'aXa' | replace('a', 'b') }}{{ 'aaa'.replace('a', 'b', 2) }}",
    "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(1, blank=true) }}|{{ 'a\\nb' | indent(width='> ') }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abcabc'.find('c') }}{{ 'abc'.find('x') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ','.join(['a', 'b']) }}{{ '12'.isdigit() }}",
    "{{ 1 + 2 * 3 ** 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1.5 + 1 }} {{ 10 / 5 }} {{ -3 }} {{ 1 - -1 }} {{ 'ab' * 3 }}",
    "{{ 1 == 1.0 }}{{ '1' == 1 }}{{ none == false }}{{ [1, 2] == [1, 2] }}{{ {'a': 1} == {'a': 1} }}{{ 1 < 2 }}{{ 'a' < 'b' }}{{ 1 >= 1 }}{{ 2 != 3 }}{{ true + 1 }}",
    "{{ 1 in [1, 2] }}{{ 'a' in 'cat' }}{{ 'k' in {'k': 0} }}{{ 3 not in [1] }}{{ not true or true and not false }}{{ '' or 'x' }}{{ 'a' and 'b' }}{{ not [] }}",
    "{{ number | default(3) }}{{ ratio | default(0.5) }}{{ ratio | default(2.6) | round }}{{ ratio | default(2.6) | abs }}{{ '12' | int + 1 }}{{ 'x' | int }}{{ 3.9 | int }}{{ '1.5' | float }}{{ 5 | float }}",
    "{{ 1e3 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345.678 }} {{ 1e-5 }} {{ 1_000 }} {{ 1.5e300 * 1e10 }} {{ 100000000000000000000.0 }}",
    "{{ [1, 'a', \"it's\", none, true, 1.5, [], {}, (1,), (1, 2)] }} {{ {'a': [1], 2: 'b'} }} {{ 'q\"\\'q' }} {{ [\"b\\\\c\\n\\t\", 'é'] }} {{ () }}",
    "{{ x is defined }}{{ x is undefined }}{{ x is not defined }}{{ none is none }}{{ 1 is number }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is integer }}{{ true is boolean }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ 'a' is iterable }}{{ 3 is odd }}{{ 4 is even }}{{ 6 is divisibleby 3 }}",
    "{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 1 is lt 2 }}{{ 1 is ge 2 }}{{ 'a' is in ['a'] }}{{ 'ab' is lower }}{{ 'AB' is upper }}{{ false is false }}{{ 1 is true }}{{ range is callable }}{{ 1 is not eq 2 and true }}",
    "{% for i in range(3) %}{{ i }}{% endfor %}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}{{ range(4) | sum if false else '' }}",
    "{% set a, b = 1, 'two' %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c + d }}{% for x, y in [(1, 2), (3, 4)] %}{{ x * y }}{% endfor %}",
    "{% set text %}  a {{ messages | length }}\n  b{% endset %}[{{ text }}]{{ text | length }}",
    "{{ {'a': {'b': [10, 20]}}.a.b[1] }}{{ {'a': 1}['a'] }}{{ {'items': 1}['items'] }}{{ [1, 2].0 }}{{ 'héllo'[1] }}{{ 'héllo' | length }}{{ 'héllo' | reverse }}{{ [1, 2] | reverse | list }}",
    "{{ a if false }}{{ 'x' if true else 'y' if true else 'z' }}{{ (1 if false else 2) + 1 }}{{ undefinedname }}{{ messages[0].nothing }}",
    "{{ 'a' 'b' \"c\" }}{{ '\\u00e9\\x41\\t|' }}{{ '\\\\d' }}{{ '{{ not }}' }}{{ \"%}\" }}{{ '#}' }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] }}{{ 'x' + 'y' }}{{ [1] + [2] }}",
    "{{ '<b>' | safe }}{{ '<b>' | safe + '<c>' }}{{ 'a&' + ('<b>' | safe) }}{{ ('<' | safe) ~ '\"\\'' ~ 1 }}",
    "{{ '{} is {}'.format('a', 1) }}{{ '{0}{1}{0}'.format('x', 'y') }}{{ '{a}-{{}}'.format(a=2) }}",
    "{{ strftime_now('%Y') | length }}{{ strftime_now('%d %B') == strftime_now('%d %B') }}",
    "{{ dict(a=1, b='x') }}{{ namespace(a=1).a }}{% set ns = namespace() %}{% set ns.x = messages | length %}{{ ns.x }}",
    "{% for m in messages %}{% for c in m.role %}{{ c }}{{ loop.index if loop.last }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for m in messages %}{% set last = m %}{% endfor %}{{ last is defined }}{% if true %}{% set inner = 3 %}{% endif %}{{ inner }}",
    "{{ messages | length - 1 }}{{ (messages | length) // 2 }}{{ messages | count }}{{ -messages | length if false else 0 }}{{ 2 if messages | length is odd else 3 }}",
    "{% if not (messages | selectattr('role', '==', 'system') | list) %}no system{% endif %}{% if tools is defined and tools is iterable and (tools | length) > 0 %}{% for t in tools %}{{ t.function | tojson }}{{ t.function.parameters.properties.keys() | join }}{% endfor %}{% endif %}",
    "{% if documents %}{% for d in documents %}{{ d.title | upper }}: {{ d.text }} {{ d['id'] }}{{ d | items | list }}{% endfor %}{% else %}none{% endif %}",
    "{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>{%- elif enable_thinking is defined %}<think>{% else %}-{% endif %}",
    "{{ {'a': 1, 'b': none}.get('b', 5) }}{{ {'a': 1}.get('c', 5) }}{{ {'a': 1}.values() | list }}{{ {'a': 1}.copy() }}{{ {'a': 1} | length }}{{ [4, 5].index(5) }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].role.nothing.more }}",
    "{{ nothing.x if nothing is defined else 'd' }}",
    "{{ none + 1 }}",
    "{{ 'a' + 1 }}",
    "{{ messages | nofilter }}",
    "{{ 'x' is notest }}",
    "{{ 1 / 0 }}",
    "{{ unknown() }}",
    "{{ [1, 'a'] | sort }}",
    "{{ raise_exception('stop: ' + messages | length | string) }}",
    "{% set x = {} %}{% set x.y = 1 %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% include 'x' %}", "{% if %}{% endif %}", "{% for x in %}{% endfor %}", "{{ 1 +", "{% if true %}", "{{ (1 }}", "{% endfor %}", "{{ 'open }}", "{# open",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}|{{ m(1) }}|{{ m(a=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
]


class Templates(unittest.TestCase):
    def test_bytes_are_those_of_jinja2(self):
        cases, expected = [], []
        for template in TEMPLATES:
            for messages, more in CONVERSATIONS:
                context = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, **more}
                try:
                    text = environment().from_string(template).render(**context)
                except Exception as error:  # the sandbox raises what Python does
                    text = error
                cases.append({"template": template, "context": context})
                expected.append(text)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cases.json")
            with open(path, "w") as file:
                json.dump(cases, file)
            results = json.loads(subprocess.run([RENDER, path], check=True, capture_output=True, timeout=60).stdout)
        self.assertEqual(len(results), len(cases))
        for case, text, result in zip(cases, expected, results):
            with self.subTest(template=case["template"], messages=case["context"]["messages"]):
                if isinstance(text, str):
                    self.assertEqual(result.get("text"), text, result.get("error"))
                else:
                    self.assertIn("error", result, f"Jinja2 raises {text!r}")
        self.assertGreater(sum(isinstance(text, str) for text in expected), 600)


if __name__ == "__main__":
    unittest.main()
