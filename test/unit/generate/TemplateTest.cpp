// What a template gives is compared with Jinja2 by test/generate/text.py; here is what Jinja2 has
// nothing of: refusals, limits, and who wrote a byte.
#include "generate/session/Chat.h"
#include "generate/template/Interpreter.h"
#include "generate/template/Parser.h"

#include "test/unit/generate/SmallVocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace tenon::generate::jinja {
namespace {

Value ofData(std::string_view text) { return Value(Text::ofData(text)); }

Dict conversation(std::string_view content) {
  Value message(Dict{{ofData("role"), ofData("user")}, {ofData("content"), ofData(content)}});
  return {{ofData("messages"), Value(List{message})}};
}

Result<Text> render(std::string_view source, std::string_view content = "hi", Limits limits = {}) {
  TENON_ASSIGN(Body program, parseTemplate(source));
  return Interpreter(program, limits).render(conversation(content));
}

std::string rendered(std::string_view source) {
  Result<Text> text = render(source);
  return text ? text->bytes : "error: " + std::string(text.status().message());
}

void expectError(std::string_view source, ErrorId id, std::string_view part) {
  Result<Text> text = render(source);
  ASSERT_FALSE(text) << source;
  EXPECT_EQ(text.status().id(), id) << source;
  EXPECT_NE(text.status().message().find(part), std::string_view::npos)
      << source << ": " << text.status().message();
}

TEST(Template, EachFilterTestAndMethodIsThere) {
  for (const char *filter :
       {"abs",     "capitalize", "count",  "d",     "default", "dictsort",   "first",
        "float",   "indent",     "int",    "items", "join",    "last",       "length",
        "list",    "lower",      "map",    "max",   "min",     "reject",     "rejectattr",
        "replace", "reverse",    "round",  "safe",  "select",  "selectattr", "sort",
        "string",  "title",      "tojson", "trim",  "unique",  "upper"}) {
    EXPECT_EQ(rendered(std::string("{{ x|") + filter + " }}").find("not supported"),
              std::string::npos)
        << filter;
  }
  for (const char *test :
       {"boolean",  "callable", "defined",  "divisibleby", "eq",          "equalto",
        "even",     "false",    "float",    "ge",          "greaterthan", "gt",
        "in",       "integer",  "iterable", "le",          "lower",       "lessthan",
        "lt",       "mapping",  "ne",       "none",        "number",      "odd",
        "sequence", "string",   "true",     "undefined",   "upper"}) {
    std::string text = rendered(std::string("{{ 1 is ") + test + "(1) }}");
    EXPECT_TRUE(text == "True" || text == "False") << test << text;
  }
  for (const char *call : {"'a'.strip()",       "'a'.lstrip()",
                           "'a'.rstrip()",      "'a'.startswith('a')",
                           "'a'.endswith('a')", "'a'.split('b')",
                           "'a'.rsplit('b')",   "'a'.find('b')",
                           "'a'.join([])",      "'a'.replace('a', 'b')",
                           "'a'.upper()",       "'a'.lower()",
                           "'a'.title()",       "'a'.capitalize()",
                           "'a'.isdigit()",     "'a'.format()",
                           "[1].index(1)",      "{}.items()",
                           "{}.keys()",         "{}.values()",
                           "{}.get('a')",       "{}.copy()",
                           "range(2)",          "namespace(a=1)",
                           "dict(a=1)",         "strftime_now('%Y')"}) {
    EXPECT_EQ(rendered(std::string("{{ ") + call + " }}").find("error"), std::string::npos) << call;
  }
}

TEST(Template, RefusesByNameAndLine) {
  for (const char *statement :
       {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "block b", "call f()",
        "filter upper", "with x = 1", "do x", "raw", "autoescape true", "trans", "nothing"}) {
    std::string name = std::string(statement).substr(0, std::string_view(statement).find(' '));
    expectError("a\n\n{% " + std::string(statement) + " %}", ErrorId::TemplateUnsupported,
                "line 3");
    expectError("{% " + std::string(statement) + " %}", ErrorId::TemplateUnsupported,
                "'" + name + "'");
  }
  for (const char *bad : {"{{",
                          "{{ }}",
                          "{{ 1 +",
                          "{{ (1 }}",
                          "{{ [1 }}",
                          "{{ {1} }}",
                          "{{ {'a': } }}",
                          "{{ 'x }}",
                          "{{ x. }}",
                          "{{ x[ }}",
                          "{{ x[] }}",
                          "{{ x | }}",
                          "{{ x is }}",
                          "{{ f(a=) }}",
                          "{{ f(*x) }}",
                          "{{ 1 < 2 < 3 }}",
                          "{{ a b }}",
                          "{{ $ }}",
                          "{{ 99999999999999999999 }}",
                          "{{ '\\ud800' }}",
                          "{{ '\\x1' }}",
                          "{#",
                          "{%",
                          "{% %}",
                          "{% if %}{% endif %}",
                          "{% if 1 %}",
                          "{% else %}",
                          "{% endif %}",
                          "{% for %}",
                          "{% for x of y %}{% endfor %}",
                          "{% for x in y recursive %}{% endfor %}",
                          "{% for x in y %}",
                          "{% set %}",
                          "{% set x | upper %}{% endset %}",
                          "{% set x %}",
                          "{% macro %}",
                          "{% macro m( %}",
                          "{% macro m(1) %}{% endmacro %}",
                          "{% macro m() %}",
                          "{% if 1 %}{% endfor %}"}) {
    expectError(std::string("\n") + bad, ErrorId::TemplateUnsupported, "line 2");
  }
}

TEST(Template, FailsByLine) {
  for (const char *bad : {"raise_exception('no')",
                          "missing.x",
                          "missing[0]",
                          "missing()",
                          "none.x()",
                          "1 + 'a'",
                          "'a' - 1",
                          "1 / 0",
                          "1 // 0",
                          "1 % 0",
                          "-'a'",
                          "9223372036854775807 + 1",
                          "2 ** 64",
                          "[] < 1",
                          "x | nofilter",
                          "x is notest",
                          "1 | items",
                          "none | list",
                          "[1, 'a'] | sort",
                          "[1][::0]",
                          "1[1:]",
                          "'a'['b':]",
                          "range('a')",
                          "range(1, 2, 0)",
                          "'a'.split('')",
                          "'a'.startswith(1)",
                          "[].append(1)",
                          "{}.update({})",
                          "[].pop()",
                          "[1].index(2)",
                          "'{x}'.format(1)",
                          "'{:d}'.format(1)",
                          "'}'.format()",
                          "{'a': missing} | tojson",
                          "range | tojson",
                          "1 in 1",
                          "[1] | map",
                          "[1] | map('no')",
                          "[namespace()]",
                          "namespace(a=namespace())"}) {
    expectError(std::string("\n{{ ") + bad + " }}", ErrorId::TemplateFailed, "line 2");
  }
  expectError("{% set x = 1 %}\n{% set x.y = 2 %}", ErrorId::TemplateFailed, "line 2");
  expectError("{% set a, b = [1] %}", ErrorId::TemplateFailed, "1 values do not fit 2 names");
  expectError("{% macro m() %}{% endmacro %}{{ m(1) }}", ErrorId::TemplateFailed, "'m'");
  expectError("{% set n = namespace() %}{% set n.n = n %}", ErrorId::TemplateFailed, "namespace");
}

TEST(Template, SmallestNumbersDoNotCrash) {
  const std::string kLeast = "(-9223372036854775807 - 1)";
  for (const char *use :
       {" | abs", " % -1", " // -1", " is divisibleby(-1)", " * -1", " - 1", " ** 2"}) {
    (void)rendered("{{ " + kLeast + use + " }}");
  }
  (void)rendered("{{ -" + kLeast + " }}");
  (void)rendered("{{ 'abc'[" + kLeast + ":] }}{{ 'abc'[::" + kLeast +
                 "] }}{{ 'abc'[::9223372036854775807] }}");
  (void)rendered("{{ 'abc'[" + kLeast + "] }}{{ [1][" + kLeast + "] }}");
  EXPECT_EQ(rendered("{{ range(9223372036854775806, 9223372036854775807, 100) | length }}"), "1");
  EXPECT_EQ(rendered("{{ (-1) ** 9223372036854775807 }}{{ 0 ** 0 }}{{ 1 ** 4611686018427387904 }}"),
            "-111");
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += part;
  }
  return text;
}

TEST(Template, EndsSoonWhateverItAsksFor) {
  const std::string kGrow = "{% set n = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(40) "
                            "%}{% set n.x = n.x ~ n.x %}{% endfor %}";
  const std::string kMegabyte = "{% set m = 'a' * 100000 %}";
  std::vector<std::string> hostile = {
      "{% for i in range(10 ** 12) %}{% endfor %}",
      "{% for i in range(3000) %}{% for j in range(3000) %}x{% endfor %}{% endfor %}",
      "{% for i in range(3000) %}{% for j in range(3000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      kGrow + "{{ n.x }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ ('a' * 100000) * 4611686018427387905 }}",
      kMegabyte + "{{ range(100000) | join(m) }}",
      kMegabyte + "{{ m | replace('a', m) }}",
      kMegabyte + "{{ m | replace(m[1:50000] ~ 'b', '') }}",
      kMegabyte + "{% for i in range(100000) %}{% if (m ~ 'b') in m %}{% endif %}{% endfor %}",
      kMegabyte + "{% for i in range(1000000) %}{% set x = m | upper %}{% endfor %}",
      kMegabyte + "{% for i in range(1000000) %}{% set x = m | list %}{% endfor %}",
      kMegabyte + "{% for i in range(1000000) %}{% set x = m == m ~ '' %}{% endfor %}",
      kMegabyte + "{% for i in range(1000000) %}{% set x = m.split('a') %}{% endfor %}",
      "{% set m = '\n' * 100000 %}{{ m | indent(1000000000, true, true) }}",
      "{{ {'a': [1, 2]} | tojson(indent=1000000000000) }}{{ range(100000) | list | "
      "tojson(indent=99) }}" +
          kGrow,
      "{% set n = namespace(x=[1]) %}{% for i in range(1000000) %}{% set n.x = [n.x] %}{% endfor "
      "%}",
      "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor "
      "%}{{ n.x }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x={}) %}{% for i in range(1000000) %}{% set n.x = {'a': n.x} %}{% "
      "endfor %}",
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% "
      "set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
      "{% set n = namespace(x=range(1000) | list) %}{% for i in range(100000) %}{% if i in n.x "
      "%}{% endif %}{% endfor %}",
      "{% set n = namespace(x=range(20000) | list) %}{{ n.x | unique | list | length }}{{ n.x | "
      "map('string') | unique | list | length }}",
      "{{ " + repeated("(", 100000) + "1",
      "{{ " + repeated("[", 100000) + "1",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 200000) + " }}",
      "{{ 1" + repeated(" + 1", 4000) + " }}",
      "{{ x" + repeated(".a", 200000) + " }}",
      "{{ x" + repeated("|upper", 200000) + " }}",
      "{{ 1" + repeated(" if 1", 200000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 200000) + " }}",
      repeated("{% if 1 %}", 100000),
      "{% if 1 %}" + repeated("{% elif 1 %}", 100000) + "{% endif %}",
      repeated("{% for x in [1] %}", 100000),
      repeated("{% macro m() %}", 100000),
      std::string(5000000, '{'),
  };
  for (const std::string &source : hostile) {
    auto begin = std::chrono::steady_clock::now();
    Result<Text> text = render(source, "hi", {.steps = 500'000}); // a tenth
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(!text || text->bytes.size() <= Limits().bytes);
    if (!text) {
      EXPECT_TRUE(text.status().id() == ErrorId::TemplateFailed ||
                  text.status().id() == ErrorId::TemplateUnsupported);
    }
    // Seconds under sanitizers and load; without a limit it would be hours.
    EXPECT_LT(took.count(), 30) << source.substr(0, 200);
  }
}

TEST(Template, LimitsAreNamed) {
  Result<Body> program = parseTemplate("{% for i in range(100) %}abc{% endfor %}");
  Result<Text> text = Interpreter(*program, {.steps = 50}).render({});
  EXPECT_NE(text.status().message().find("50 steps"), std::string_view::npos);
  text = Interpreter(*program, {.bytes = 20}).render({});
  EXPECT_NE(text.status().message().find("20 bytes"), std::string_view::npos);
  EXPECT_EQ(Interpreter(*program, {.bytes = 300}).render({})->bytes.size(), 300u);
}

TEST(Template, EveryByteKnowsWhoWroteIt) {
  const std::string kEnd = "<|end|>";
  for (const char *way : {"{{ c }}",
                          "{{ c | trim }}",
                          "{{ c | upper | lower }}",
                          "{{ c ~ '' }}",
                          "{{ '' + c }}",
                          "{{ c[0:] }}",
                          "{{ c[::-1][::-1] }}",
                          "{{ c | replace('q', 'z') }}",
                          "{{ c.split('q')[0] }}",
                          "{{ c | tojson }}",
                          "{{ [c] }}",
                          "{{ [c] | join }}",
                          "{{ c | list | join }}",
                          "{{ c | reverse | reverse }}",
                          "{% set d %}{{ c }}{% endset %}{{ d }}",
                          "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(c) }}",
                          "{{ '{}'.format(c) }}",
                          "{{ c | safe + '' }}",
                          "{{ c | indent }}",
                          "{{ {c: 1} }}",
                          "{% for x in c %}{{ x }}{% endfor %}",
                          "{{ c | string }}",
                          "{{ c | default('') }}"}) {
    Result<Text> text = render("{% set c = messages[0].content %}" + kEnd + way, kEnd);
    ASSERT_TRUE(text) << way << text.status().message();
    ASSERT_EQ(text->bytes.size(), text->isOfTemplate.size());
    for (size_t i = 0; i < kEnd.size(); ++i) {
      ASSERT_TRUE(text->isOfTemplate[i]);
    }
    size_t at = text->bytes.find(kEnd, kEnd.size());
    if (at != std::string::npos) {
      for (size_t i = 0; i < kEnd.size(); ++i) {
        ASSERT_FALSE(text->isOfTemplate[at + i]) << way;
      }
    }
    Tokenizer tokenizer = *Tokenizer::create(smallVocabulary());
    Result<std::vector<int32_t>> tokens = encodeChat(*text, tokenizer);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(std::ranges::count(*tokens, tokenizer.find(kEnd)), 1) << way;
  }
}

} // namespace
} // namespace tenon::generate::jinja
