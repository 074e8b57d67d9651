#include "generate/tokenizer/Pattern.h"

#include "generate/tokenizer/Tokenizer.h"

#include <gtest/gtest.h>

namespace tenon::generate {
namespace {

std::string matched(std::u32string_view text, std::string_view pattern) {
  Result<Pattern> parsed = Pattern::parse(pattern);
  EXPECT_TRUE(parsed) << pattern;
  uint64_t steps = Pattern::stepsFor(text.size());
  Result<size_t> end = parsed->match(text, 0, steps);
  EXPECT_TRUE(end);
  return *end == Pattern::kNone ? "none" : std::to_string(*end);
}

TEST(Pattern, MatchesAsPerlDoes) {
  EXPECT_EQ(matched(U"aab", "a+b"), "3");
  EXPECT_EQ(matched(U"aaa", "a{2}"), "2");
  EXPECT_EQ(matched(U"aaaa", "a{1,3}"), "3");
  EXPECT_EQ(matched(U"ab", "a|ab"), "1");
  EXPECT_EQ(matched(U"aaa", "a*a"), "3");
  EXPECT_EQ(matched(U"aaa", "a*+a"), "none");
  EXPECT_EQ(matched(U"   x", R"(\s+(?!\S)|\s+)"), "2");
  EXPECT_EQ(matched(U"ab", "a(?=b)"), "1");
  EXPECT_EQ(matched(U"'S", "(?i:'s)"), "2");
  EXPECT_EQ(matched(U"'\u017f", "(?i:'s)"), "2");
  EXPECT_EQ(matched(U"\u00e9\u65e5", R"(\p{L}+)"), "2");
  EXPECT_EQ(matched(U"\u0661\u00b2", R"(\p{N}+)"), "2");
  EXPECT_EQ(matched(U"\u0661\u00b2", R"(\d+)"), "1");
  EXPECT_EQ(matched(U"A", R"(\p{Ll})"), "none");
  EXPECT_EQ(matched(U"A", R"(\P{Ll})"), "1");
  EXPECT_EQ(matched(U"-]", R"([^\s\p{L}\-]+)"), "none");
  EXPECT_EQ(matched(U"]-a", R"([\]\-a-c]+)"), "3");
  EXPECT_EQ(matched(U"\n", "."), "none");
  EXPECT_EQ(matched(U"x", "[^\\S\\d]"), "none");
}

TEST(Pattern, NamesWhatItDoesNotRead) {
  for (const char *bad : {"(",
                          ")",
                          "[",
                          "[a",
                          "a**?",
                          "a+?",
                          "*",
                          "+a",
                          "^a",
                          "a$",
                          "(?<=a)b",
                          "(?P<n>a)",
                          "\\",
                          "\\b",
                          "\\p{Han}",
                          "\\pL",
                          "\\p{",
                          "a{2",
                          "a{3,2}",
                          "a{9999}",
                          "a{,2}",
                          "[b-a]",
                          "[[:alpha:]]",
                          "[a&&b]",
                          "[a-\\d]",
                          "\xff",
                          "((a{100}){100}){100}",
                          "a{2}{2}{2}{2}{2}{2}{2}"}) {
    Result<Pattern> parsed = Pattern::parse(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_TRUE(parsed.status().id() == ErrorId::TokenizerUnsupported ||
                parsed.status().id() == ErrorId::TextNotUtf8)
        << bad;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) {
    deep += "(";
  }
  EXPECT_FALSE(Pattern::parse(deep));
  std::string stacked = "a";
  for (int i = 0; i < 100000; ++i) {
    stacked += "++";
  }
  EXPECT_FALSE(Pattern::parse(stacked));
}

TEST(Pattern, EndsWhereItTakesTooManySteps) {
  std::u32string text(5000, U'a');
  for (const char *slow : {"(a*)*b", "(a|a)*b", "(a+)+b", "(?:(?=a*)a)*b", "(a*)*"}) {
    Result<Pattern> parsed = Pattern::parse(slow);
    ASSERT_TRUE(parsed) << slow;
    uint64_t steps = Pattern::stepsFor(text.size());
    Result<size_t> end = parsed->match(text, 0, steps);
    ASSERT_FALSE(end) << slow;
    EXPECT_EQ(end.status().id(), ErrorId::TokenizerLimit);
  }
  // Matches share the steps of their text.
  uint64_t steps = 100;
  Result<Pattern> run = Pattern::parse("a+b");
  EXPECT_TRUE(run->match(U"aaaaac", 0, steps));
  EXPECT_TRUE(run->match(U"aaaaac", 1, steps));
  EXPECT_FALSE(run->match(text, 0, steps));
}

TEST(Pattern, ThoseOfPreTokenizersAreRead) {
  for (const char *known :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o", "deepseek-v3"}) {
    Vocabulary vocabulary;
    ASSERT_TRUE(applyPreTokenizer(known, vocabulary)) << known;
    for (const std::string &pattern : vocabulary.patterns) {
      EXPECT_TRUE(Pattern::parse(pattern)) << pattern;
    }
  }
  Vocabulary vocabulary;
  for (const char *unknown : {"", "default", "GPT-2", "gpt-2 ", "llama"}) {
    EXPECT_FALSE(applyPreTokenizer(unknown, vocabulary));
  }
}

} // namespace
} // namespace tenon::generate
