// The reader of JSON at its limits, strictly and not, and the writer.

#include "support/json/StrictJson.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>

namespace tenon {
namespace {

using Kind = JsonFault::Kind;

constexpr JsonLimits kLimits = {.maxDepth = 3, .maxValues = 8, .listKey = "data"};

std::string times(size_t count, std::string_view text) {
  std::string result;
  for (size_t i = 0; i < count; ++i) {
    result += text;
  }
  return result;
}

/// "JSON" of the value and of the lists behind it, or what is wrong with the text.
std::string outcomeOf(std::string_view text, const JsonLimits &limits) {
  Json value;
  std::vector<NumberList> lists;
  std::optional<JsonFault> fault =
      parseStrict(text, limits, value, limits.listKey.empty() ? nullptr : &lists);
  if (fault) {
    return fault->text;
  }
  std::string result = dumpJson(value);
  for (const NumberList &list : lists) {
    result += " " + std::to_string(list.size());
  }
  return result;
}

TEST(StrictJson, TakesAndRefuses) {
  JsonLimits object = kLimits, plain = kLimits;
  object.isObject = true;
  object.acceptsByteOrderMark = false;
  plain.listKey = {};
  struct Row {
    std::string text;
    std::string outcome;
    JsonLimits limits = kLimits;
  };
  const Row rows[] = {
      {R"({"b":1,"a":[true,null,-2.5,"x"],"c":{}})", R"({"b":1,"a":[true,null,-2.5,"x"],"c":{}})"},
      {" 7 ", "7"},
      {"[]", "[]"},
      {"", "byte 1: unexpected end of input; expected '[', '{', or a literal"},
      {"{", "byte 2: unexpected end of input; expected string literal"},
      {"[1,]", "byte 4: unexpected ']'; expected '[', '{', or a literal"},
      {"{} x", "byte 4: invalid literal"},
      {"[NaN]", "NaN or an infinite value outside 'data'"},
      {"[1e999]", "byte 6: number overflow parsing '1e999'"},
      {"[\"\xff\"]", "byte 3: invalid string: ill-formed UTF-8 byte"},
      {R"(["\ud800"])", "byte 9: invalid string: surrogate U+D800..U+DBFF must be followed by "
                        "U+DC00..U+DFFF"},
      // The last level may hold values, as the others do.
      {R"([[[1]]])", "[[[1]]]"},
      {R"({"a":{"a":{"a":1}}})", R"({"a":{"a":{"a":1}}})"},
      {"[[[[]]]]", "values nested too deeply"},
      {R"([[{"a":{}}]])", "values nested too deeply"},
      {times(100'000, "["), "values nested too deeply"},
      {times(100'000, R"({"a":)"), "values nested too deeply"},
      {"[[],[],[],[],[],[],[]]", "[[],[],[],[],[],[],[]]"},
      {"[1,2,3,4,5,6,7,8]", "too many values"},
      {"[[],[],[],[],[],[],[],[]]", "too many values"},
      {R"({"a":1,"b":2,"a":3})", "key 'a' occurs twice"},
      {R"([{"a":{"b":1},"a":[]}])", "key 'a' occurs twice"},
      {R"({"a":{"a":1},"b":{"a":2}})", R"({"a":{"a":1},"b":{"a":2}})"},
      {R"({"\u0061":1,"a":2})", "key 'a' occurs twice"},
      {"\xef\xbb\xbf[1]", "[1]"},
      {"\xef\xbb\xbf{}", "byte 0: a byte order mark", object},
      {"{}", "{}", object},
      {"[]", "the value is not an object", object},
      {"7", "the value is not an object", object},
      // Lists: numbers do not count as values, nor their nesting as depth.
      {R"({"data":[[1,2,3,4,5],[6,7,8,9,-1]]})", R"({"data":0} 10)"},
      {R"([{"data":[]},{"data":[true,1.5]}])", R"([{"data":0},{"data":1}] 0 2)"},
      {R"({"data":[[[]]]})", R"({"data":0} 0)"},
      {R"({"data":[[[[]]]]})", "arrays nested too deeply"},
      {R"({"data":1})", "'data' is not an array"},
      {R"({"data":{}})", "'data' contains something that is not a number"},
      {R"({"data":["1"]})", "'data' contains something that is not a number"},
      {R"({"data":[null]})", "'data' contains something that is not a number"},
      {R"({"data":[{"data":[]}]})", "'data' contains something that is not a number"},
      {R"({"data":[],"data":[]})", "key 'data' occurs twice"},
      {"{" + times(9, R"("data":[],)"), "too many values"},
      {R"({"data":{"x":[1]}})", R"({"data":{"x":[1]}})", plain},
  };
  for (const Row &row : rows) {
    EXPECT_EQ(row.outcome, outcomeOf(row.text, row.limits)) << row.text.substr(0, 80);
  }
}

TEST(StrictJson, KindsOfNumbersAndFaults) {
  Json value;
  std::vector<NumberList> lists;
  ASSERT_FALSE(
      parseStrict(R"({"data":[1,-1,1.5,false,18446744073709551616]})", kLimits, value, &lists));
  using List = NumberList::Kind;
  EXPECT_EQ((std::vector{List::Unsigned, List::Signed, List::Float, List::Bool, List::Float}),
            lists.at(0).kinds);
  EXPECT_EQ(UINT64_MAX, lists[0].values[1]);
  const std::pair<const char *, Kind> rows[] = {{"", Kind::Syntax},
                                                {"[[[[]]]]", Kind::Depth},
                                                {"[1,2,3,4,5,6,7,8]", Kind::Values},
                                                {R"({"a":1,"a":1})", Kind::EqualKeys},
                                                {R"({"data":7})", Kind::NoNumbers}};
  for (const auto &[text, kind] : rows) {
    EXPECT_EQ(kind, parseStrict(text, kLimits, value, &lists)->kind) << text;
  }
  // Words in lists alone, and texts that have them.
  ASSERT_FALSE(parseStrict(R"({"a":"NaN,[NaN","data":[NaN,[-Inf, Infinity ],0.0]})", kLimits, value,
                           &lists));
  std::vector<double> words;
  for (uint64_t bits : lists.back().values) {
    words.push_back(std::bit_cast<double>(bits));
  }
  EXPECT_TRUE(std::isnan(words.at(0)));
  EXPECT_EQ((std::vector<double>{-INFINITY, INFINITY, 0}),
            std::vector<double>(words.begin() + 1, words.end()));
  for (std::string text : {R"({"data":[nan]})", R"({"data":[NaN5]})", R"({"data":[1NaN]})",
                           R"({"data":[-NaN]})", R"({"data":[NaN)", R"({"a":[NaN]})", "[NaN]"}) {
    EXPECT_EQ(Kind::Syntax, parseStrict(text, kLimits, value, &lists)->kind) << text;
  }
  EXPECT_EQ(Kind::Syntax, parseStrict(R"({"data":[NaN]})", kLimits, value)->kind);
  // Lists are only where they are asked for.
  JsonLimits within = kLimits;
  within.listParent = "in";
  lists.clear();
  ASSERT_FALSE(
      parseStrict(R"({"data":"x","p":{"data":1},"in":[{"data":[1]}]})", within, value, &lists));
  EXPECT_EQ(1u, lists.size());
  EXPECT_EQ(Kind::NoObject, parseStrict("[]", {.maxDepth = 1, .isObject = true}, value)->kind);
}

TEST(Json, ReadsAsTheLibraryDoes) {
  for (std::string text :
       {R"({"b":1,"a":2,"b":3,"c":4,"b":5,"a":[]})", R"([{"a":{"a":1,"a":2}},[[]],-0.0,1e-7])",
        R"({"":{},"x":[[],{},""]})", "3", "\xef\xbb\xbf[1]"}) {
    EXPECT_EQ(Json::parse(text), parseJson(text)) << text;
    EXPECT_EQ(Json::parse(text).dump(), dumpJson(parseJson(text)));
    for (size_t length = 0; length < text.size(); ++length) {
      std::string begin = text.substr(0, length);
      EXPECT_EQ(Json::parse(begin, nullptr, false).is_discarded(), parseJson(begin).is_discarded())
          << begin;
    }
  }
  std::string deep = times(100'000, "[") + times(100'000, "]");
  EXPECT_TRUE(parseJson(deep).is_array());
}

/// Compared one by one, they would take longer than any test may.
TEST(Json, ManyKeys) {
  constexpr int kKeys = 500'000;
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) {
    text += "\"" + std::to_string(i) + "\":[1],";
  }
  text.back() = '}';
  EXPECT_EQ(static_cast<size_t>(kKeys), parseJson(text).size());
  Json value;
  text.back() = ',';
  EXPECT_EQ("key '77' occurs twice", parseStrict(text + "\"77\":1}", {.maxDepth = 2}, value)->text);
}

TEST(Json, Writes) {
  Json value = {{"b", "\xc3\xa9\xff<"}, {"a", {1, 2.5}}};
  EXPECT_EQ("{\"b\":\"\xc3\xa9\xef\xbf\xbd<\",\"a\":[1,2.5]}", dumpJson(value));
  EXPECT_EQ("{\n \"b\": \"\xc3\xa9\xef\xbf\xbd<\",\n \"a\": [\n  1,\n  2.5\n ]\n}",
            dumpJson(value, 1));
  EXPECT_EQ(R"({"b":"\u00e9\ufffd<","a":[1,2.5]})", dumpAscii(value));
  EXPECT_EQ(std::nullopt, dumpUtf8(value));
  EXPECT_EQ("\"\xc3\xa9\"", dumpUtf8("\xc3\xa9"));
}

} // namespace
} // namespace tenon
