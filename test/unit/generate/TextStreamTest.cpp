#include "generate/text/TextStream.h"

#include "test/unit/generate/SmallVocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace tenon::generate {
namespace {

/// A tokenizer whose tokens are these texts.
Tokenizer tokenizerOf(const std::vector<std::string> &pieces) {
  Vocabulary made;
  for (const std::string &piece : pieces) {
    made.tokens.push_back(inAlphabet(piece));
  }
  return *Tokenizer::create(std::move(made));
}

/// What a text with these stops is: up to where the first of them that becomes whole begins.
std::string expected(const std::string &text, const std::vector<std::string> &stops) {
  std::optional<std::pair<size_t, size_t>> first;
  for (const std::string &stop : stops) {
    if (size_t at = text.find(stop); at != text.npos) {
      std::pair<size_t, size_t> found(at + stop.size(), at);
      first = first ? std::min(*first, found) : found;
    }
  }
  return wellFormed(text.substr(0, first ? first->second : text.size()));
}

/// Every way to cut a text in three, one and as many tokens as it has bytes.
void checkCuts(const std::string &text, const std::vector<std::string> &stops) {
  std::vector<std::vector<std::string>> cuts(1);
  for (char c : text) {
    cuts[0].emplace_back(1, c);
  }
  for (size_t a = 1; a < text.size(); ++a) {
    for (size_t b = a + 1; b < text.size(); ++b) {
      cuts.push_back({text.substr(0, a), text.substr(a, b - a), text.substr(b)});
    }
  }
  for (const std::vector<std::string> &parts : cuts) {
    std::vector<std::string> pieces = parts;
    std::ranges::sort(pieces);
    pieces.erase(std::ranges::unique(pieces).begin(), pieces.end());
    Tokenizer tokenizer = tokenizerOf(pieces);
    TextStream stream(tokenizer, stops);
    std::string result;
    for (const std::string &part : parts) {
      std::string more = stream.add(tokenizer.find(inAlphabet(part)));
      ASSERT_TRUE(decodeUtf8(more)) << "whole code points only";
      result += more;
    }
    bool stopped = stream.isStopped();
    result += stream.finish();
    ASSERT_EQ(result, expected(text, stops)) << parts[0];
    ASSERT_EQ(stopped,
              std::ranges::any_of(stops, [&](auto &s) { return text.find(s) != text.npos; }));
  }
}

TEST(TextStream, IsTheWholeTextForEveryCut) {
  checkCuts("one STOP two", {"STOP"});
  checkCuts("aaab aab", {"aab"});
  checkCuts("abcabcabd tail", {"abcabd"});
  checkCuts("no stop here", {"STOP", "here!"});
  checkCuts("x\n\nUser: y", {"\n\nUser:", "\nUser"});
  checkCuts("abcdef", {"bcdx", "cd", "bcde"});
  checkCuts("ab", {"abc", "b"});
  checkCuts("caf\u00e9 \u65e5\u672c \U0001f642 end", {"\u672c", "end"});
  checkCuts("bad \xff\xe2\x82 bytes \xf0\x9f", {"bytes!"});
  checkCuts("<|im_end|>", {"<|im_end|>"});
}

TEST(TextStream, LeavesControlTokensAndEmptyStopsOut) {
  Tokenizer tokenizer = *Tokenizer::create(smallVocabulary());
  TextStream stream(tokenizer, {""});
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(tokenizer.find("<|end|>")), "");
  EXPECT_EQ(stream.add(tokenizer.find("<user>")), "<user>");
  EXPECT_EQ(stream.add(-1), "");
  EXPECT_EQ(stream.add(1 << 20), "");
  EXPECT_FALSE(stream.isStopped());
}

TEST(TextStream, HoldsNothingBackThatIsCertain) {
  Tokenizer tokenizer = *Tokenizer::create(smallVocabulary());
  TextStream stream(tokenizer, {"ab!"});
  EXPECT_EQ(stream.add('a'), "");
  EXPECT_EQ(stream.add('c'), "ac");
  EXPECT_EQ(stream.add('a'), "");
  EXPECT_EQ(stream.add('b'), "");
  EXPECT_EQ(stream.finish(), "ab");
}

} // namespace
} // namespace tenon::generate
