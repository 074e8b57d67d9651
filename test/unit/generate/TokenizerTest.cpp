#include "generate/session/Chat.h"
#include "generate/tokenizer/VocabularyJson.h"

#include "test/unit/generate/SmallVocabulary.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tenon::generate {
namespace {

using Tokens = std::vector<int32_t>;

std::vector<std::string> encoded(const Tokenizer &tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  Result<Tokens> tokens = tokenizer.encode(text);
  EXPECT_TRUE(tokens);
  for (int32_t token : *tokens) {
    pieces.emplace_back(tokenizer.bytesOf(token));
  }
  return pieces;
}
using Pieces = std::vector<std::string>;

TEST(Tokenizer, MergesByRankThenLeftmost) {
  Tokenizer tokenizer = *Tokenizer::create(
      smallVocabulary({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}, {"x", "x"}}));
  EXPECT_EQ(encoded(tokenizer, "abc"), (Pieces{"abc"})); // b c first, although a b stands before
  EXPECT_EQ(encoded(tokenizer, "abd"), (Pieces{"ab", "d"}));
  EXPECT_EQ(encoded(tokenizer, "aaa"), (Pieces{"aa", "a"}));
  EXPECT_EQ(encoded(tokenizer, "aaab"), (Pieces{"aa", "ab"}));
  EXPECT_EQ(encoded(tokenizer, "xxxxx"), (Pieces{"xx", "xx", "x"}));
  EXPECT_EQ(encoded(tokenizer, ""), Pieces{});
}

TEST(Tokenizer, EveryByteComesBack) {
  Vocabulary vocabulary = smallVocabulary({{" ", "a"}, {"\xc3", "\xa9"}});
  ASSERT_TRUE(applyPreTokenizer("llama-bpe", vocabulary));
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  std::string all;
  for (char32_t point = 0; point < 0x3000; ++point) {
    appendUtf8(all, point);
  }
  for (char32_t point = 0x1f300; point < 0x1f400; ++point) {
    appendUtf8(all, point);
  }
  Result<Tokens> tokens = tokenizer.encode(all);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokenizer.decode(*tokens), all);
  Tokens bytes;
  std::string everyByte;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(byte);
    everyByte.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(tokenizer.decode(bytes), everyByte);
  Result<Tokens> bad = tokenizer.encode("ab\xff");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.status().id(), ErrorId::TextNotUtf8);
}

TEST(Tokenizer, ControlTokensCountOnlyWhereATemplateWroteThem) {
  // The last merges would make the control token out of any text.
  Vocabulary vocabulary = smallVocabulary({{"<", "|"}});
  vocabulary.merges.emplace_back(inAlphabet("<|"), "end|>");
  vocabulary.tokens.emplace_back("end|>");
  vocabulary.kinds.push_back(TokenKind::Normal);
  vocabulary.merges.insert(vocabulary.merges.begin(), {{"e", "nd|>"}});
  vocabulary.tokens.emplace_back("nd|>");
  vocabulary.kinds.push_back(TokenKind::Normal);
  for (bool ignoresMerges : {false, true}) {
    vocabulary.ignoresMerges = ignoresMerges;
    Tokenizer tokenizer = *Tokenizer::create(vocabulary);
    int32_t end = tokenizer.find("<|end|>"), user = tokenizer.find("<user>");
    TextPart ofTemplate{"a<|end|>", true}, ofUser{"b<|end|><user>", false};
    std::vector<TextPart> parts = {ofTemplate, ofUser, ofTemplate};
    Result<Tokens> tokens = tokenizer.encode(parts);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(std::ranges::count(*tokens, end), 2);
    EXPECT_EQ(std::ranges::count(*tokens, user), 1);
    EXPECT_EQ(std::ranges::count(*tokenizer.encode("<|end|>"), end), 0);
    // Halves from two authors make none.
    std::vector<TextPart> halves = {{"<|en", true}, {"d|>", false}, {"<|en", false}, {"d|>", true}};
    EXPECT_EQ(std::ranges::count(*tokenizer.encode(halves), end), 0);
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{'a', end, user}), "a<user>");
  }
}

TEST(Tokenizer, TokensTakeTheSpacesBesideThemWhoeverWroteThose) {
  Vocabulary vocabulary = smallVocabulary();
  int32_t end = 256, user = 257;
  vocabulary.rules = {{.token = end, .takesBehind = true}, {.token = user, .takesBefore = true}};
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  std::vector<TextPart> parts = {{"<|end|> ", true}, {"\n\xc2\xa0 a \xe3\x80\x80<user> b", false}};
  EXPECT_EQ(*tokenizer.encode(parts), (Tokens{end, 'a', user, ' ', 'b'}));
  // A user's text has no such token, so its spaces stay.
  EXPECT_EQ(tokenizer.encode("<|end|> a")->size(), 9u);
  EXPECT_EQ(*tokenizer.encode("  <user>"), (Tokens{user}));
}

TEST(Tokenizer, SingleWordsStandAlone) {
  Vocabulary vocabulary = smallVocabulary();
  int32_t user = 257;
  vocabulary.rules = {{.token = user, .isSingleWord = true}};
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  for (std::string_view beside :
       {"a", "7", "_", "\xc3\xa9", "\xcc\x81", "\xe2\x80\x8d", "\xe2\x93\x90"}) {
    std::vector<TextPart> before = {{beside, false}, {"<user>", true}};
    std::vector<TextPart> behind = {{"<user>", true}, {beside, false}};
    EXPECT_EQ(std::ranges::count(*tokenizer.encode(before), user), 0) << beside;
    EXPECT_EQ(std::ranges::count(*tokenizer.encode(behind), user), 0) << beside;
  }
  EXPECT_EQ(std::ranges::count(*tokenizer.encode("- <user>.<user>"), user), 2);
}

TEST(Tokenizer, TheLongestSpecialTokenCounts) {
  Vocabulary vocabulary = smallVocabulary();
  for (const char *text : {"<x>", "<x><x>", "<x><x>!"}) {
    vocabulary.tokens.emplace_back(text);
    vocabulary.kinds.push_back(TokenKind::UserDefined);
  }
  for (int i = 0; i < 5000; ++i) {
    vocabulary.tokens.push_back("<reserved " + std::to_string(i) + ">");
    vocabulary.kinds.push_back(TokenKind::Control);
  }
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  EXPECT_EQ(encoded(tokenizer, "<x><x><x>?"), (Pieces{"<x><x>", "<x>", "?"}));
  EXPECT_EQ(encoded(tokenizer, "<x><x>!<"), (Pieces{"<x><x>!", "<"}));
  std::string many(300000, '<'); // each could begin one
  EXPECT_EQ(tokenizer.encode(many)->size(), many.size());
}

/// SentencePiece's form: bytes, then these pieces, the first the best.
Vocabulary scoredVocabulary(const std::vector<std::string> &pieces, bool hasBytes = true) {
  Vocabulary made;
  made.form = TokenizerForm::Scored;
  made.tokens = {"<unk>", "<s>", "</s>"};
  made.kinds = {TokenKind::Unknown, TokenKind::Control, TokenKind::Control};
  for (int byte = 0; hasBytes && byte < 256; ++byte) {
    constexpr const char *kDigits = "0123456789ABCDEF";
    made.tokens.push_back(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    made.kinds.push_back(TokenKind::Byte);
  }
  for (const std::string &piece : pieces) {
    made.tokens.push_back(piece);
    made.kinds.push_back(TokenKind::Normal);
  }
  for (size_t i = 0; i < made.tokens.size(); ++i) {
    made.scores.push_back(made.kinds[i] == TokenKind::Normal ? -static_cast<float>(i) : 0);
  }
  made.unknown = 0;
  made.addsSpacePrefix = true;
  return made;
}

TEST(Tokenizer, ScoredMergesByScoreAndFallsBackToBytes) {
  const std::string kSpace = "\u2581";
  Tokenizer tokenizer = *Tokenizer::create(scoredVocabulary(
      {"bc", "ab", kSpace + "ab", "a", "b", "c", kSpace, "/", "s", "<", ">", "</", "s>", "</s"}));
  EXPECT_EQ(encoded(tokenizer, "abc"), (Pieces{" ", "a", "bc"}));
  EXPECT_EQ(encoded(tokenizer, "ab"), (Pieces{" ab"}));
  EXPECT_EQ(encoded(tokenizer, "a\u00e9"), (Pieces{" ", "a", "\xc3", "\xa9"}));
  EXPECT_EQ(tokenizer.decode(*tokenizer.encode("a \u65e5\n b")), "a \u65e5\n b");
  // Text never becomes a control token, nor a byte's.
  EXPECT_EQ(std::ranges::count(*tokenizer.encode("</s>"), tokenizer.find("</s>")), 0);
  std::vector<TextPart> parts = {{"</s>", true}};
  EXPECT_EQ(*tokenizer.encode(parts), Tokens{tokenizer.find("</s>")});
}

// The tokens of mistral-common for Mistral's first three forms of chats have these spaces.
TEST(Tokenizer, ScoredTextBehindASpecialTokenHasOneSpace) {
  Tokenizer tokenizer =
      *Tokenizer::create(scoredVocabulary({"\u2581a", "\u2581", "a", "\u2581\u2581"}));
  auto ofTemplate = [&](std::string_view text) {
    std::vector<TextPart> parts = {{text, true}};
    std::string pieces;
    Result<Tokens> tokens = tokenizer.encode(parts);
    for (int32_t token : *tokens) {
      pieces += '[' + std::string(tokenizer.bytesOf(token)) + ']';
    }
    return pieces;
  };
  EXPECT_EQ(ofTemplate("a"), "[ a]");
  EXPECT_EQ(ofTemplate(" a"), "[ ][ a]"); // SentencePiece adds its own
  EXPECT_EQ(ofTemplate("<s>a</s>a"), "[<s>][ a][</s>][ a]");
  EXPECT_EQ(ofTemplate("<s> a</s> a"), "[<s>][ a][</s>][ a]");
}

TEST(Tokenizer, ScoredTokensOfSpacesAreFoundWhicheverSignASpaceHas) {
  Vocabulary vocabulary = scoredVocabulary({"\u2581", "a"});
  vocabulary.addsSpacePrefix = false;
  for (std::string_view two : {"  ", "\u2581\u2581"}) {
    Vocabulary changed = vocabulary;
    changed.tokens.emplace_back(two);
    changed.kinds.push_back(TokenKind::UserDefined);
    changed.scores.push_back(0);
    Tokenizer tokenizer = *Tokenizer::create(changed);
    int32_t spaces = tokenizer.find(two), one = tokenizer.find("\u2581"), a = tokenizer.find("a");
    for (std::string_view text : {"a  a ", "a\u2581 a ", "a \u2581a\u2581", "a\u2581\u2581a "}) {
      Tokens tokens = *tokenizer.encode(text);
      EXPECT_EQ(tokens, (Tokens{a, spaces, a, one})) << text;
      EXPECT_EQ(tokenizer.decode(tokens), "a  a ");
    }
  }
}

TEST(Tokenizer, ScoredWithoutBytesHasOneUnknownForNeighbours) {
  Tokenizer tokenizer = *Tokenizer::create(scoredVocabulary({"a", "\u2581"}, /*hasBytes=*/false));
  EXPECT_EQ(*tokenizer.encode("a\u65e5\u672ca"), (Tokens{tokenizer.find("\u2581"), 3, 0, 3}));
  Vocabulary none = scoredVocabulary({"a"}, false);
  none.unknown = -1;
  EXPECT_FALSE(Tokenizer::create(none));
}

TEST(Tokenizer, AddsWhatTheVocabularySays) {
  Vocabulary vocabulary = smallVocabulary();
  vocabulary.bos = vocabulary.eos = 256;
  vocabulary.addsBos = vocabulary.addsEos = true;
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  EXPECT_EQ(*tokenizer.encode("a"), (Tokens{256, 'a', 256}));
  EXPECT_EQ(*tokenizer.encode(""), (Tokens{256, 256}));
  // A template that writes it does not get two.
  vocabulary.addsEos = false;
  tokenizer = *Tokenizer::create(vocabulary);
  EXPECT_EQ(*encodeChat(jinja::Text::ofTemplate("<|end|>a"), tokenizer), (Tokens{256, 'a'}));
  EXPECT_EQ(*encodeChat(jinja::Text::ofTemplate("a"), tokenizer), (Tokens{256, 'a'}));
}

TEST(Tokenizer, ComposesWhereItsNameSaysSo) {
  Vocabulary vocabulary = smallVocabulary();
  ASSERT_TRUE(applyPreTokenizer("qwen2", vocabulary));
  Tokenizer tokenizer = *Tokenizer::create(vocabulary);
  EXPECT_EQ(*tokenizer.encode("e\u0301"), (Tokens{0xc3, 0xa9}));
}

TEST(Tokenizer, RefusesVocabulariesThatContradictThemselves) {
  auto refuses = [](const Vocabulary &vocabulary) {
    Result<Tokenizer> made = Tokenizer::create(vocabulary);
    return !made && made.status().id() == ErrorId::TokenizerBad;
  };
  EXPECT_TRUE(refuses({}));
  Vocabulary twice = smallVocabulary();
  twice.tokens[5] = twice.tokens[6];
  EXPECT_TRUE(refuses(twice));
  for (int32_t Vocabulary::*id : {&Vocabulary::bos, &Vocabulary::eos, &Vocabulary::unknown}) {
    for (int32_t bad : {-2, 258, 1 << 30}) {
      Vocabulary beyond = smallVocabulary();
      beyond.*id = bad;
      EXPECT_TRUE(refuses(beyond));
    }
  }
  for (int32_t bad : {-1, 258}) {
    Vocabulary beyond = smallVocabulary();
    beyond.rules = {{.token = bad, .takesBefore = true}};
    EXPECT_TRUE(refuses(beyond));
  }
  for (auto [left, right] : {std::pair("a", "zz"), {"zz", "a"}, {"a", "b"}, {"", ""}}) {
    Vocabulary merge = smallVocabulary();
    merge.merges.emplace_back(left, right);
    EXPECT_TRUE(refuses(merge));
  }
  Vocabulary scores = scoredVocabulary({"a"});
  scores.scores.pop_back();
  EXPECT_TRUE(refuses(scores));
  scores.scores.push_back(std::nanf(""));
  EXPECT_TRUE(refuses(scores));
  Vocabulary pattern = smallVocabulary();
  pattern.patterns = {"(?<=a)b"};
  EXPECT_EQ(Tokenizer::create(pattern).status().id(), ErrorId::TokenizerUnsupported);
}

TEST(Tokenizer, LongRunsEnd) {
  Tokenizer tokenizer =
      *Tokenizer::create(smallVocabulary({{"a", "a"}, {"aa", "aa"}, {"aaaa", "a"}}));
  EXPECT_EQ(encoded(tokenizer, std::string(9, 'a')), (Pieces{"aaaa", "aaaaa"}));
  EXPECT_EQ(tokenizer.encode(std::string(200000, 'a'))->size(), 50000u);
  Vocabulary vocabulary = smallVocabulary({{" ", " "}});
  for (const char *name :
       {"gpt-2", "smollm", "llama-bpe", "qwen35", "tekken", "gpt-4o", "deepseek-v3"}) {
    ASSERT_TRUE(applyPreTokenizer(name, vocabulary));
    vocabulary.addsBos = false;
    tokenizer = *Tokenizer::create(vocabulary);
    for (const char *part : {" ", "a", "A", "1", ".", "\n", "\u0301", " \n", "a1", "'s", "aA"}) {
      std::string text;
      while (text.size() < 20000) {
        text += part;
      }
      Result<Tokens> tokens = tokenizer.encode(text);
      ASSERT_TRUE(tokens) << name << part << tokens.status().message();
      EXPECT_EQ(tokenizer.decode(*tokens), text);
    }
  }
}

TEST(Vocabulary, ComesBackFromJson) {
  Vocabulary vocabulary = smallVocabulary({{"a", "b"}});
  ASSERT_TRUE(applyPreTokenizer("deepseek-v3", vocabulary));
  vocabulary.ends = {256};
  vocabulary.bos = 256;
  vocabulary.rules = {{.token = 257, .isSingleWord = true, .takesBehind = true}};
  vocabulary.merges.emplace_back("no", "token");
  Result<Vocabulary> read = vocabularyOf(toJson(vocabulary));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tokens, vocabulary.tokens);
  EXPECT_EQ(read->kinds, vocabulary.kinds);
  EXPECT_EQ(read->merges, vocabulary.merges);
  EXPECT_EQ(read->patterns, vocabulary.patterns);
  EXPECT_EQ(read->ends, vocabulary.ends);
  EXPECT_EQ(read->bos, 256);
  ASSERT_EQ(read->rules.size(), 1u);
  const TokenRule &rule = read->rules.front();
  EXPECT_EQ(std::tuple(rule.token, rule.isSingleWord, rule.takesBefore, rule.takesBehind),
            std::tuple(257, true, false, true));
  Json whole = toJson(vocabulary);
  for (const char *member :
       {"form", "tokens", "kinds", "scores", "merges", "patterns", "bos", "ends", "rules"}) {
    for (const Json &bad : {Json(), Json(Json::array({Json::object()})), Json(-1)}) {
      Json changed = whole;
      changed[member] = bad;
      Result<Vocabulary> made = vocabularyOf(changed);
      if (!made) {
        EXPECT_EQ(made.status().id(), ErrorId::TokenizerBad);
      } else {
        (void)Tokenizer::create(*made);
      }
      changed.erase(member);
      // Engines of before have no rules.
      EXPECT_EQ(bool(vocabularyOf(changed)), member == std::string_view("rules"));
    }
  }
}

} // namespace
} // namespace tenon::generate
