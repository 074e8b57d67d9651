// Kinds are one character a token and merges pairs of token numbers: the file of a large vocabulary
// is read at every start.
#include "generate/tokenizer/VocabularyJson.h"

#include <nlohmann/json.hpp>

#include <string_view>
#include <unordered_map>

namespace tenon::generate {
namespace {

constexpr char kFirstKind = '0';

/// The members beside tokens, kinds, scores and merges.
template <typename Target, typename Visit> void visit(Target &vocabulary, const Visit &member) {
  member("patterns", vocabulary.patterns);
  member("composes", vocabulary.composes);
  member("ignores_merges", vocabulary.ignoresMerges);
  member("adds_space_prefix", vocabulary.addsSpacePrefix);
  member("prefixes_all", vocabulary.prefixesAll);
  member("prefixes_once", vocabulary.prefixesOnce);
  member("takes_given_space", vocabulary.takesGivenSpace);
  member("adds_bos", vocabulary.addsBos);
  member("adds_eos", vocabulary.addsEos);
  member("bos", vocabulary.bos);
  member("eos", vocabulary.eos);
  member("unknown", vocabulary.unknown);
  member("ends", vocabulary.ends);
}

Status bad() {
  return Status::error(ErrorId::TokenizerBad, "the engine's record 'tokenizer' is not a vocabulary",
                       "compile the model again");
}

} // namespace

Json toJson(const Vocabulary &vocabulary) {
  Json value = {{"form", vocabulary.form == TokenizerForm::ByteLevel ? "byte_level" : "scored"}};
  visit(vocabulary, [&](const char *name, const auto &member) { value[name] = member; });
  value["tokens"] = vocabulary.tokens;
  std::string kinds;
  for (TokenKind kind : vocabulary.kinds) {
    kinds.push_back(static_cast<char>(kFirstKind + static_cast<int>(kind)));
  }
  value["kinds"] = std::move(kinds);
  value["scores"] = vocabulary.scores;
  for (const TokenRule &rule : vocabulary.rules) {
    value["rules"].push_back({rule.token, rule.isSingleWord, rule.takesBefore, rule.takesBehind});
  }
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    numbers.emplace(vocabulary.tokens[i], i);
  }
  Json &merges = value["merges"] = Json::array();
  for (const auto &[left, right] : vocabulary.merges) {
    for (const std::string &part : {left, right}) {
      auto found = numbers.find(part);
      // A merge of what is no token is the tokenizer's to refuse.
      merges.push_back(found == numbers.end() ? Json(part) : Json(found->second));
    }
  }
  return value;
}

Result<Vocabulary> vocabularyOf(const Json &value) {
  Vocabulary vocabulary;
  try {
    vocabulary.form = value.at("form").get_ref<const std::string &>() == "scored"
                          ? TokenizerForm::Scored
                          : TokenizerForm::ByteLevel;
    visit(vocabulary, [&](const char *name, auto &member) { value.at(name).get_to(member); });
    value.at("tokens").get_to(vocabulary.tokens);
    for (char kind : value.at("kinds").get_ref<const std::string &>()) {
      vocabulary.kinds.push_back(static_cast<TokenKind>(kind - kFirstKind));
    }
    value.at("scores").get_to(vocabulary.scores);
    const Json none = Json::array(), &rules = value.contains("rules") ? value.at("rules") : none;
    for (const Json &rule : rules) {
      vocabulary.rules.push_back({rule.at(0).get<int32_t>(), rule.at(1).get<bool>(),
                                  rule.at(2).get<bool>(), rule.at(3).get<bool>()});
    }
    const Json &merges = value.at("merges");
    auto text = [&](size_t index) {
      const Json &part = merges.at(index);
      return part.is_number() ? vocabulary.tokens.at(part.get<size_t>()) : part.get<std::string>();
    };
    vocabulary.merges.reserve(merges.size() / 2);
    for (size_t i = 0; i + 1 < merges.size(); i += 2) {
      vocabulary.merges.emplace_back(text(i), text(i + 1));
    }
  } catch (const std::exception &) {
    return bad();
  }
  return vocabulary;
}

} // namespace tenon::generate
